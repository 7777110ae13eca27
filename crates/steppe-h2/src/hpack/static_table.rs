//! The static table (RFC 7541 appendix A).
//!
//! Entries with a name stand together, so the encoder looks up a name alone: among those of its length, of which there
//! are six at most.

/// RFC 7541 appendix A: name and value of each entry, the one with index 1 first.
#[rustfmt::skip]
const ENTRIES: [(&[u8], &[u8]); LEN] = [
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),
];

/// Entries in it.
pub(super) const LEN: usize = 61;

/// Different names, of 3 to 27 bytes.
const NAMES: usize = 52;
const NAME_BYTES_MAX: usize = 27;

static TABLE: [(&[u8], &[u8]); LEN] = ENTRIES;
static BY_LENGTH: ByLength = ByLength::of_entries();

/// Names in the order of their lengths, as the index of the first entry that has it.
struct ByLength {
    indices: [u8; NAMES],
    /// By length: the place of the first name that is as long or longer.
    starts: [u8; NAME_BYTES_MAX + 2],
}

#[expect(clippy::cast_possible_truncation, reason = "there are 61 entries")]
impl ByLength {
    const fn of_entries() -> Self {
        let mut all = Self {
            indices: [0; NAMES],
            starts: [0; NAME_BYTES_MAX + 2],
        };
        let (mut place, mut length) = (0, 0);
        while length <= NAME_BYTES_MAX {
            let mut at = 0;
            while at < LEN {
                if ENTRIES[at].0.len() == length && begins_name(at) {
                    all.indices[place] = at as u8 + 1;
                    place += 1;
                }
                at += 1;
            }
            length += 1;
            all.starts[length] = place as u8;
        }
        assert!(place == NAMES, "every name has its place");
        all
    }
}

const fn begins_name(at: usize) -> bool {
    at == 0 || !is_same(ENTRIES[at].0, ENTRIES[at - 1].0)
}

/// `==`, which the compiler can't work out yet.
const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Name and value of the entry with an index.
pub(super) fn entry(index: usize) -> Option<(&'static [u8], &'static [u8])> {
    TABLE.get(index.checked_sub(1)?).copied()
}

/// The index of the first entry with a name.
pub(super) fn find_name(name: &[u8]) -> Option<usize> {
    let start = *BY_LENGTH.starts.get(name.len())?;
    let end = *BY_LENGTH.starts.get(name.len() + 1)?;
    let indices = &BY_LENGTH.indices[usize::from(start)..usize::from(end)];
    let mut indices = indices.iter().map(|index| usize::from(*index));
    indices.find(|index| has_name(*index, name))
}

/// The index of the entry with a value, among those with the name of the first one.
pub(super) fn find_value(first: usize, value: &[u8]) -> Option<usize> {
    let (name, _) = entry(first)?;
    let mut indices = (first..).take_while(|index| has_name(*index, name));
    indices.find(|index| entry(*index).is_some_and(|(_, of)| of == value))
}

fn has_name(index: usize, name: &[u8]) -> bool {
    entry(index).is_some_and(|(of, _)| of == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_found_by_its_name_and_value() {
        for index in 1..=61 {
            let (name, value) = entry(index).expect("an entry");
            let first = find_name(name).expect("a name");
            assert!(first <= index);
            assert_eq!(entry(first).expect("an entry").0, name);
            assert_eq!(find_value(first, value), Some(index));
        }
    }

    #[test]
    fn no_other_entry_is_found() {
        assert_eq!((entry(0), entry(62)), (None, None));
        for name in [
            &b""[..],
            b"x",
            b"te",
            b"cookie2",
            b"accepT",
            &[b'a'; 27],
            &[b'a'; 28],
        ] {
            assert_eq!(find_name(name), None);
        }
        assert_eq!(find_value(2, b"PUT"), None);
        // The value of another name, which stands behind those of this one.
        assert_eq!(find_value(2, b"/"), None);
        assert_eq!(find_value(31, b"text/html"), None);
    }
}
