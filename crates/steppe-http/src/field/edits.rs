//! Sets of field names to find in heads, and prepared field lines to add to them.
//!
//! Invariant: a head is scanned once for all names of a set, and lines are added in one piece,
//! however many
//! there are. Both are prepared when a configuration is read; with a head in hand neither
//! allocates.

use steppe_mem::OverBudget;

use super::FieldBlock;
use super::alias::is_alias;
use super::line::{Field, Span};
use super::strip::compare;

/// Names of fields, found in any case.
#[derive(Debug, Default)]
pub(crate) struct NameSet {
    /// The [`mark`] of each: most names that are not among them are told by theirs alone.
    marks: [u64; MARK_WORDS],
    /// Sorted by [`compare`].
    names: Box<[Box<[u8]>]>,
}

/// Bits of a set's filter: fifty names set one in twenty.
const MARK_BITS: u32 = 10;
const MARK_WORDS: usize = (1 << MARK_BITS) / 64;

impl<'a> FromIterator<&'a str> for NameSet {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        let names = names.into_iter().map(|name| name.as_bytes().into());
        let mut names: Vec<Box<[u8]>> = names.collect();
        names.sort_unstable_by(|left, right| compare(left, right));
        let mut marks = [0; MARK_WORDS];
        for name in &names {
            let (word, bit) = mark(name);
            marks[word] |= bit;
        }
        Self {
            marks,
            names: names.into(),
        }
    }
}

impl NameSet {
    fn has(&self, name: &[u8]) -> bool {
        let (word, bit) = mark(name);
        let find = || self.names.binary_search_by(|known| compare(known, name));
        self.marks[word] & bit != 0 && find().is_ok()
    }

    fn has_field(&self, field: &Field, bytes: &[u8]) -> bool {
        let name = field.name.of(bytes);
        let is_aliased = || self.names.iter().any(|known| is_alias(name, known));
        self.has(name) || (field.has_underscore && is_aliased())
    }
}

/// The filter bit of a name: a hash of its length and of three of its bytes, in lower case.
fn mark(name: &[u8]) -> (usize, u64) {
    let lower = |at: usize| name.get(at).map_or(0, |&byte| u32::from(byte | 0x20));
    let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
    let last = name.len().saturating_sub(1);
    let looks = lower(0) | lower(name.len() / 2) << 8 | lower(last) << 16 | length << 24;
    // Fibonacci hashing: the high bits depend on all.
    let mark = looks.wrapping_mul(0x9e37_79b1) >> (u32::BITS - MARK_BITS);
    ((mark / 64) as usize, 1 << (mark % 64))
}

/// Field lines that are added as they are.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// As lines of HTTP/1, so that they can go out in one piece.
    text: Box<[u8]>,
    /// Where they lie in `text`.
    fields: Box<[Field]>,
}

impl<'a> FromIterator<(&'a str, &'a str)> for Lines {
    /// Builds lines from valid names and values (RFC 9110 §5.1, §5.5).
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(lines: I) -> Self {
        let (mut text, mut fields) = (Vec::new(), Vec::new());
        for (name, value) in lines {
            let start = text.len();
            for piece in [name, ": ", value, "\r\n"] {
                text.extend_from_slice(piece.as_bytes());
            }
            let name = Span::new(start, start + name.len());
            let value = Span::new(name.end() + 2, name.end() + 2 + value.len());
            fields.push(Field::new(&text, name, value));
        }
        Self {
            text: text.into(),
            fields: fields.into(),
        }
    }
}

impl FieldBlock {
    /// Removes lines named `name`, or an [alias](is_alias) of it that a peer sent, unless `keep`
    /// holds for the value.
    pub(crate) fn retain_named(&mut self, name: &[u8], keep: impl Fn(&[u8]) -> bool) {
        let bytes = self.bytes.filled();
        self.fields.retain(|field| {
            let line = field.name.of(bytes);
            let is_aliased = || field.has_underscore && is_alias(line, name);
            let is_named = line.eq_ignore_ascii_case(name) || is_aliased();
            !is_named || keep(field.value.of(bytes))
        });
    }

    /// True if more than one line is named `name`.
    pub(crate) fn has_several(&self, name: &[u8]) -> bool {
        self.values_named(name).nth(1).is_some()
    }

    /// Removes `Authorization` lines of other schemes. `scheme` ends in its space; case is ignored.
    pub(crate) fn keep_scheme(&mut self, scheme: &[u8]) {
        let bytes = self.bytes.filled();
        let is_of_scheme = |value: &[u8]| {
            let start = value.get(..scheme.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        };
        self.fields.retain(|field| {
            let name = field.name.of(bytes);
            !name.eq_ignore_ascii_case(b"authorization") || is_of_scheme(field.value.of(bytes))
        });
    }

    /// True when any line has one of these names, or an [alias](is_alias) of one.
    pub(crate) fn has_any(&self, names: &NameSet) -> bool {
        let bytes = self.bytes.filled();
        self.fields
            .iter()
            .any(|field| names.has_field(field, bytes))
    }

    /// Takes out every line that has one of these names, or an [alias](is_alias) of one.
    pub(crate) fn remove_all(&mut self, names: &NameSet) {
        let bytes = self.bytes.filled();
        self.fields.retain(|field| !names.has_field(field, bytes));
    }

    /// Adds lines at the end.
    ///
    /// # Errors
    /// [`OverBudget`] where they need more room than the budget has.
    pub(crate) fn append_all(&mut self, lines: &Lines) -> Result<(), OverBudget> {
        let by = self.put(&lines.text)?.start;
        let moved = lines.fields.iter().map(|&field| Field {
            name: field.name.moved(by),
            value: field.value.moved(by),
            ..field
        });
        self.fields.try_extend(moved, self.bytes.lease())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::FieldId;
    use crate::field::testing::fields;

    #[test]
    fn a_name_is_found_in_any_case_and_no_other_one() {
        let names: Vec<_> = (0..200).map(|at| format!("x-field-{at}")).collect();
        let set: NameSet = names.iter().map(String::as_str).collect();
        for name in &names {
            assert!(set.has(name.as_bytes()), "{name}");
            assert!(set.has(name.to_uppercase().as_bytes()), "{name}");
        }
        for other in [
            "",
            "x",
            "x-field-",
            "x-field-200",
            "y-field-1",
            "x-field-01",
            "x-field-1x",
        ] {
            assert!(!set.has(other.as_bytes()), "{other}");
        }
        assert!(!NameSet::default().has(b"") && !NameSet::default().has(b"x-field-1"));
        // `@` and a backquote differ by the bit that tells cases of letters apart, and are no letters.
        let set: NameSet = ["a`"].into_iter().collect();
        assert!(set.has(b"A`") && !set.has(b"a@"));
        let long = "x".repeat(300);
        let set: NameSet = [long.as_str()].into_iter().collect();
        assert!(set.has(long.to_uppercase().as_bytes()) && !set.has(&long.as_bytes()[1..]));
    }

    #[test]
    fn lines_of_names_go_and_the_others_keep_their_order() {
        let lines = [
            ("X-A", "1"),
            ("b", "2"),
            ("x-a", "3"),
            ("C", "4"),
            ("X-D", "5"),
        ];
        let mut block = fields(&lines);
        let names: NameSet = ["x-d", "x-a"].into_iter().collect();
        assert!(block.has_any(&names));
        block.remove_all(&names);
        let left = block.iter().map(|(_, name, _)| name);
        assert_eq!(left.collect::<Vec<_>>(), [b"b", b"C"]);
        assert!(!block.has_any(&names));
    }

    #[test]
    fn aliases_that_a_peer_sent_go_with_a_name() {
        let received = |lines: &[&str]| {
            let mut block = fields(&[]);
            for name in lines {
                block.append_received(name.as_bytes(), b"1").expect("room");
            }
            block
        };
        let lines = [
            "x-user",
            "X_User",
            "x_user_id",
            "xuser",
            "x-_user",
            "X-Role",
        ];
        let left = |block: &FieldBlock| {
            let names = block.iter().map(|(_, name, _)| name);
            let names = names.map(|name| String::from_utf8_lossy(name).into_owned());
            names.collect::<Vec<_>>().join(" ")
        };
        let mut block = received(&lines);
        block.remove(b"X-USER");
        assert_eq!(left(&block), "x_user_id xuser x-_user X-Role");
        block.set(b"x-user", b"ann").expect("room");
        assert_eq!(left(&block), "x_user_id xuser x-_user X-Role x-user");
        let mut block = received(&lines);
        let names: NameSet = ["x-other", "x-user"].into_iter().collect();
        block.remove_all(&names);
        assert_eq!(left(&block), "x_user_id xuser x-_user X-Role");
        assert!(!block.has_any(&names));
        assert!(received(&["X_User"]).has_any(&names));
        // A configuration's own names have no aliases.
        let mut block = fields(&[("x_user", "ann")]);
        block.set(b"x-user", b"bob").expect("room");
        assert_eq!(left(&block), "x_user x-user");
    }

    #[test]
    fn lines_of_one_name_are_kept_by_their_values() {
        let mut block = fields(&[("x-token", "good"), ("X-Other", "bad")]);
        for (name, value) in [("X_Token", "bad"), ("x-token", "bad"), ("X_Token", "good")] {
            block
                .append_received(name.as_bytes(), value.as_bytes())
                .expect("room");
        }
        block.retain_named(b"X-Token", |value| value == b"good");
        let left: Vec<_> = block.iter().map(|(_, name, _)| name).collect();
        assert_eq!(left, [&b"x-token"[..], b"X-Other", b"X_Token"]);
    }

    #[test]
    fn one_scheme_is_kept() {
        let mut block = fields(&[
            ("authorization", "Basic YTpi"),
            ("x-a", "Basic YTpi"),
            ("Authorization", "bearer x"),
            ("authorization", "Bearer"),
        ]);
        assert!(block.has_several(b"authorization") && !block.has_several(b"x-a"));
        block.keep_scheme(b"bearer ");
        let values: Vec<_> = block.iter().map(|(_, _, value)| value).collect();
        assert_eq!(values, [&b"Basic YTpi"[..], b"bearer x"]);
    }

    #[test]
    fn lines_are_added_as_one_by_one() {
        let lines = [
            ("x-a", "1"),
            ("host", "a.test"),
            ("x-empty", ""),
            ("x-a", "2"),
        ];
        let came = [("B", "0"), ("x-a", "0")];
        let mut together = fields(&came);
        together
            .append_all(&lines.into_iter().collect())
            .expect("room");
        let mut one_by_one = fields(&came);
        for (name, value) in lines {
            let added = one_by_one.append(name.as_bytes(), value.as_bytes());
            added.expect("room");
        }
        assert_eq!(together.bytes(), one_by_one.bytes());
        let parts = |block: &FieldBlock| {
            let parts = block.fields().iter().map(|field| (field.id, field.spans()));
            parts.collect::<Vec<_>>()
        };
        assert_eq!(parts(&together), parts(&one_by_one));
        assert!(together.has(FieldId::Host));
        // None is nothing.
        let bytes = together.bytes().len();
        together.append_all(&Lines::default()).expect("room");
        assert_eq!(together.bytes().len(), bytes);
    }
}
