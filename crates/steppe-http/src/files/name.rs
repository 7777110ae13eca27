//! From the path of a request to the name of a file.
//!
//! Invariant: a name has neither empty segments nor dot segments, no NUL, no byte of an escape
//! that would be a `/`, and does not begin with one. Names with a dot in front are nobody's
//! business, but for `.well-known` (RFC 8615).

use std::ffi::CStr;

use steppe_net::limits::PATH_BYTES_MAX;

/// Room for a name and its end.
pub(super) type Room = [u8; PATH_BYTES_MAX];

/// The name of `path` below the folder, which begins after so many slashes; `index` follows it.
/// `None`: there can be no such file.
pub(super) fn of<'a>(
    path: &[u8],
    slashes: usize,
    index: &[u8],
    room: &'a mut Room,
) -> Option<&'a CStr> {
    let rest = below(path, slashes)?;
    let mut name = Name { room, at: 0 };
    let mut segments = rest.split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        if segment.is_empty() && is_last {
            break;
        }
        name.put_segment(segment)?;
        if !is_last {
            name.put(b'/')?;
        }
    }
    index.iter().try_for_each(|&byte| name.put(byte))?;
    if name.at == 0 {
        name.put(b'.')?;
    }
    name.put(0)?;
    let end = name.at;
    CStr::from_bytes_with_nul(&room[..end]).ok()
}

/// What follows so many slashes.
fn below(path: &[u8], slashes: usize) -> Option<&[u8]> {
    let mut rest = path;
    for _ in 0..slashes {
        let at = rest.iter().position(|&byte| byte == b'/')?;
        rest = &rest[at + 1..];
    }
    Some(rest)
}

struct Name<'a> {
    room: &'a mut Room,
    at: usize,
}

impl Name<'_> {
    fn put(&mut self, byte: u8) -> Option<()> {
        *self.room.get_mut(self.at)? = byte;
        self.at += 1;
        Some(())
    }

    fn put_segment(&mut self, segment: &[u8]) -> Option<()> {
        let start = self.at;
        let mut bytes = segment.iter();
        while let Some(&byte) = bytes.next() {
            let byte = match byte {
                b'%' => hex(*bytes.next()?)? << 4 | hex(*bytes.next()?)?,
                byte => byte,
            };
            if matches!(byte, 0 | b'/') {
                return None;
            }
            self.put(byte)?;
        }
        let name = &self.room[start..self.at];
        let is_shown = !name.starts_with(b".") || (start == 0 && name == b".well-known");
        (!name.is_empty() && is_shown).then_some(())
    }
}

fn hex(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str, slashes: usize, index: &str) -> Option<Vec<u8>> {
        let mut room = [0; PATH_BYTES_MAX];
        let name = of(path.as_bytes(), slashes, index.as_bytes(), &mut room)?;
        Some(name.to_bytes().to_vec())
    }

    #[test]
    fn paths_become_names() {
        for (path, slashes, index, name) in [
            ("/", 1, "", "."),
            ("/", 1, "index.html", "index.html"),
            ("/a/b.css", 1, "", "a/b.css"),
            ("/a/b.css", 2, "", "b.css"),
            ("/a/b/", 2, "index.html", "b/index.html"),
            ("/a%20b/%C3%A9", 1, "", "a b/\u{e9}"),
            ("/a;b/c...", 1, "", "a;b/c..."),
            ("/.well-known/x", 1, "", ".well-known/x"),
        ] {
            let named = named(path, slashes, index);
            assert_eq!(named.as_deref(), Some(name.as_bytes()), "{path}");
        }
    }

    #[test]
    fn what_can_be_no_name_is_none() {
        let long = format!("/{}", "x".repeat(PATH_BYTES_MAX));
        for path in [
            "/a//b",
            "/../etc",
            "/a/..",
            "/a/%2e%2e/b",
            "/./a",
            "/.git/config",
            "/a/.env",
            "/a/.well-known/x",
            "/a%2fb",
            "/a%00",
            "/a%",
            "/a%4",
            "/a%zz",
            &long,
        ] {
            assert_eq!(named(path, 1, ""), None, "{path}");
        }
    }
}
