//! The secondary key of a stored response: the fields of the request that the response's `Vary` nominates.
//! Spec: RFC 9111 §4.1.

use std::cell::RefCell;

use crate::field::{FieldBlock, elements, is_token};

thread_local! {
    static VALUE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Names in `Vary` that are looked at; a response that names more is not stored.
const VARY_NAMES_MAX: usize = 16;

/// The fields that select one of the stored responses of a key, with their values: a later request selects the
/// response if its fields have the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Variant(Vec<Nominated>);

/// A field that `Vary` names, in lower case, and its normalized value; `None` where the request did not have it.
type Nominated = (Box<[u8]>, Option<Box<[u8]>>);

impl Variant {
    /// The variant that a response with `fields` to a request with `asked` is. `None` where no other request
    /// selects it.
    pub(crate) fn of(fields: &FieldBlock, asked: &FieldBlock) -> Option<Self> {
        let mut names: Vec<Box<[u8]>> = Vec::new();
        for name in fields.values_named(b"vary").flat_map(elements) {
            if !is_token(name) || name == b"*" {
                return None;
            }
            let name = name.to_ascii_lowercase().into_boxed_slice();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        (names.len() <= VARY_NAMES_MAX).then(|| Self::with_values(names, asked))
    }

    /// True if a request with `asked` selects this variant.
    pub(crate) fn matches(&self, asked: &FieldBlock) -> bool {
        self.0.is_empty()
            || VALUE.with_borrow_mut(|value| {
                self.0.iter().all(|(name, nominated)| {
                    value.clear();
                    let is_there = normalize(asked, name, value);
                    is_there.then_some(&value[..]) == nominated.as_deref()
                })
            })
    }

    /// The variant that a request with `asked` selects, if its response varies by the same fields.
    pub(super) fn for_request(&self, asked: &FieldBlock) -> Self {
        Self::with_values(self.0.iter().map(|(name, _)| name.clone()), asked)
    }

    fn with_values(names: impl IntoIterator<Item = Box<[u8]>>, asked: &FieldBlock) -> Self {
        let with_value = |name: Box<[u8]>| {
            let mut value = Vec::new();
            let is_there = normalize(asked, &name, &mut value);
            (name, is_there.then(|| value.into_boxed_slice()))
        };
        Self(names.into_iter().map(with_value).collect())
    }

    /// Memory of the names and values.
    pub(super) fn bytes(&self) -> usize {
        let of = |(name, value): &Nominated| {
            name.len() + value.as_ref().map_or(0, |value| value.len()) + 64
        };
        self.0.iter().map(of).sum()
    }
}

/// Writes all values of a field as one that differs only where its meaning does (RFC 9111 §4.1). False where the
/// request does not have the field.
fn normalize(fields: &FieldBlock, name: &[u8], value: &mut Vec<u8>) -> bool {
    let is_coding = name == b"accept-encoding";
    let mut has_any = false;
    for line in fields.values_named(name) {
        has_any = true;
        if line.contains(&b'"') {
            // Commas may be quoted: as it is.
            separate(value);
            value.extend_from_slice(line);
            continue;
        }
        for element in elements(line) {
            separate(value);
            match is_coding {
                true => {
                    let is_kept = |byte: &&u8| !byte.is_ascii_whitespace();
                    value.extend(element.iter().filter(is_kept).map(u8::to_ascii_lowercase));
                }
                false => value.extend_from_slice(element),
            }
        }
    }
    if is_coding {
        sort(value);
    }
    has_any
}

fn separate(value: &mut Vec<u8>) {
    if !value.is_empty() {
        value.push(b',');
    }
}

/// Codings are preferred by their weight alone: their order says nothing (RFC 9110 §12.5.3).
fn sort(list: &mut Vec<u8>) {
    const SORTED_MAX: usize = 16;
    let mut parts: [&[u8]; SORTED_MAX] = [&[]; SORTED_MAX];
    let mut count = 0;
    for part in list.split(|&byte| byte == b',') {
        let Some(place) = parts.get_mut(count) else {
            return;
        };
        *place = part;
        count += 1;
    }
    let parts = &mut parts[..count];
    if parts.is_sorted() {
        return;
    }
    parts.sort_unstable();
    let sorted = parts.join(&b',');
    list.clear();
    list.extend_from_slice(&sorted);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::field::testing::fields;

    fn variant(vary: &str, asked: &[(&str, &str)]) -> Option<Variant> {
        Variant::of(&fields(&[("vary", vary)]), &fields(asked))
    }

    #[test]
    fn whatever_vary_names_selects() {
        let one = variant(
            "Accept-Language, x-a",
            &[("accept-language", "de"), ("X-A", "1")],
        );
        let one = one.expect("it is selected");
        let matches = |asked: &[(&str, &str)]| one.matches(&fields(asked));
        assert!(matches(&[
            ("Accept-Language", "de"),
            ("x-a", "1"),
            ("x-b", "2")
        ]));
        assert!(!matches(&[("accept-language", "en"), ("x-a", "1")]));
        assert!(!matches(&[("accept-language", "de")]));
        assert!(!matches(&[("accept-language", "de"), ("x-a", "")]));
        let none = variant("x-a", &[]).expect("it is selected");
        assert!(none.matches(&fields(&[])) && !none.matches(&fields(&[("x-a", "")])));
        assert!(
            variant("", &[])
                .expect("all")
                .matches(&fields(&[("x-a", "1")]))
        );
    }

    #[test]
    fn another_request_is_looked_at_by_the_same_names() {
        let one = variant("x-a, x-b", &[("x-a", "1")]).expect("it is selected");
        let asked = fields(&[("x-a", "2"), ("x-b", "3"), ("x-c", "4")]);
        let again = one.for_request(&asked);
        assert!(again.matches(&asked) && !one.matches(&asked));
        assert_eq!(
            Some(again),
            variant("x-a, x-b", &[("x-a", "2"), ("x-b", "3")])
        );
    }

    #[test]
    fn names_and_values_take_memory() {
        let bytes = |vary, asked: &[_]| variant(vary, asked).expect("it is selected").bytes();
        assert_eq!(bytes("", &[]), 0);
        let one = bytes("x-a", &[]);
        assert!(one > "x-a".len());
        assert_eq!(bytes("x-a", &[("x-a", "12345")]), one + 5);
        assert_eq!(bytes("x-a, x-b", &[("x-b", "12345")]), 2 * one + 5);
        assert_eq!(bytes("x-abcd", &[]), one + 3);
    }

    #[test]
    fn nothing_selects_what_varies_by_everything() {
        assert_eq!(variant("*", &[]), None);
        assert_eq!(variant("x-a, *", &[]), None);
        assert_eq!(variant("x a", &[]), None);
        let names = |count| {
            let names: Vec<_> = (0..count).map(|at| format!("x-{at}")).collect();
            variant(&names.join(","), &[])
        };
        assert!(names(VARY_NAMES_MAX).is_some());
        assert_eq!(names(VARY_NAMES_MAX + 1), None);
    }

    #[test]
    fn values_are_the_same_where_they_mean_the_same() {
        let same = |name, one: &[&str], other: &[&str]| {
            let block = |values: &[&str]| {
                let lines: Vec<_> = values.iter().map(|value| (name, *value)).collect();
                fields(&lines)
            };
            let vary = fields(&[("vary", name)]);
            let variant = Variant::of(&vary, &block(one)).expect("it is selected");
            variant.matches(&block(other))
        };
        assert!(same("x-a", &["1 ,2"], &["1", "2"]));
        assert!(!same("x-a", &["1,2"], &["2,1"]));
        assert!(!same("x-a", &["a"], &["A"]));
        assert!(!same("x-a", &["\"1 ,2\""], &["\"1,2\""]));
        assert!(!same("x-a", &["1", "2"], &["12"]));
        assert!(!same("x-a", &["\"1\"", "\"2\""], &["\"1\"\"2\""]));
        assert!(same("accept-encoding", &["gzip, br"], &["BR,gzip"]));
        assert!(!same("accept-encoding", &["gzip, br"], &["zstd, br"]));
        assert!(same("accept-encoding", &["gzip;q=0.5"], &["gzip; q=0.5"]));
        assert!(!same("accept-encoding", &["gzip;q=0"], &["gzip"]));
        assert!(!same("accept-encoding", &["gzip"], &["gzip, br"]));
    }

    proptest! {
        #[test]
        fn a_request_selects_what_it_was_answered_with(
            vary in "[a-c, -]{0,12}",
            values in proptest::collection::vec("[ -~]{0,12}", 3),
        ) {
            let trimmed: Vec<&str> = values.iter().map(|value| value.trim()).collect();
            let asked = fields(&[("a", trimmed[0]), ("b", trimmed[1]), ("accept-encoding", trimmed[2])]);
            let vary = format!("{vary},accept-encoding");
            if let Some(variant) = Variant::of(&fields(&[("vary", &vary)]), &asked) {
                prop_assert!(variant.matches(&asked));
            }
        }
    }
}
