//! Fields that a message does not keep beyond this hop. Spec: RFC 9110 §7.6.1.
//!
//! Names with an underscore are valid (RFC 9110 §5.1) and dangerous: servers that hand fields on
//! as variables (CGI, RFC 3875 §4.1.18) read `X_Forwarded_For` as `X-Forwarded-For`, which the
//! gateway vouches for. Where a listener passes them, aliases of fields that the gateway sets itself are taken out
//! with the fields: here those of every request, in [`FieldBlock::remove`] and its kin those of filters.
//!
//! Invariant: the cost is at most n log n in the size of the head, however many options `Connection`
//! has and however many lines they name. A peer that chooses both must not buy n² comparisons.

use std::cmp::Ordering;

use super::line::{Field, FieldId};
use super::{FieldBlock, elements};
use crate::limits::{CONNECTION_OPTIONS_COMPARED_MAX, HEADER_COUNT_MAX};

/// The treatment of request fields whose name has an underscore: servers that hand fields on as
/// variables take them for those with a hyphen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Underscores {
    /// The fields are not forwarded.
    #[default]
    Drop,
    /// The fields are forwarded, unless they are aliases of fields that the gateway sets.
    Pass,
    /// The request is refused: 400.
    Refuse,
}

impl FieldBlock {
    /// Removes the hop-by-hop fields: those that always are, and those that `Connection` names,
    /// unless they are [kept from it](FieldId::is_kept_from_connection).
    pub(crate) fn strip_hop_by_hop(&mut self) {
        drop_connection_options(self.fields.as_mut_slice(), self.bytes.filled());
        self.fields
            .retain(|field| !field.is_dropped && !field.id.is_hop_by_hop());
    }

    /// Does with names that have an underscore what the listener asks for. The parser noted
    /// whether there are any, so a usual head pays for one comparison.
    ///
    /// # Errors
    /// [`UnderscoreRefused`] where there is one and it is to be refused.
    pub(crate) fn apply_underscores(&mut self, rule: Underscores) -> Result<(), UnderscoreRefused> {
        if !self.fields.has_underscore() {
            return Ok(());
        }
        match rule {
            Underscores::Pass => {
                let bytes = self.bytes.filled();
                self.fields.retain(|field| {
                    !(field.has_underscore && is_alias_of_ours(field.name.of(bytes)))
                });
                Ok(())
            }
            Underscores::Refuse => Err(UnderscoreRefused),
            Underscores::Drop => {
                self.fields.retain(|field| !field.has_underscore);
                Ok(())
            }
        }
    }
}

/// True if a name is an alias of a field that the gateway sets or removes in every request.
fn is_alias_of_ours(name: &[u8]) -> bool {
    /// No name that means something here is longer, and of longer ones the beginning decides.
    const NAME_BYTES: usize = 32;
    let mut room = [0; NAME_BYTES];
    let length = name.len().min(NAME_BYTES);
    let folded = &mut room[..length];
    folded.copy_from_slice(&name[..length]);
    for byte in folded.iter_mut().filter(|byte| **byte == b'_') {
        *byte = b'-';
    }
    let id = FieldId::of(folded);
    id.is_hop_by_hop() || id.is_kept_from_connection()
}

/// A field's name has an underscore in it, and the listener refuses those: 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("underscore in a field name")]
pub struct UnderscoreRefused;

/// Marks the lines that `Connection` names.
fn drop_connection_options(fields: &mut [Field], bytes: &[u8]) {
    if options(fields, bytes).next().is_none() {
        return;
    }
    let mut named = options(fields, bytes);
    let few: [_; CONNECTION_OPTIONS_COMPARED_MAX] = std::array::from_fn(|_| named.next());
    let is_more = named.next().is_some();
    drop(named);
    if is_more {
        return drop_many(fields, bytes);
    }
    for option in few.into_iter().flatten() {
        for field in fields.iter_mut() {
            field.is_dropped |= compare(field.name.of(bytes), option) == Ordering::Equal;
        }
    }
}

/// Many options: the lines are sorted by name, and each option looks its name up. On the stack,
/// since no head has more lines than one window.
#[cold]
#[inline(never)]
fn drop_many(fields: &mut [Field], bytes: &[u8]) {
    const WINDOW: usize = HEADER_COUNT_MAX;
    for start in (0..fields.len()).step_by(WINDOW) {
        let end = fields.len().min(start + WINDOW);
        let name = |index: u16| fields[start + usize::from(index)].name.of(bytes);
        let mut sorted: [u16; WINDOW] = INDEXES;
        let sorted = &mut sorted[..end - start];
        sorted.sort_unstable_by(|&left, &right| compare(name(left), name(right)));
        let mut is_named = [false; WINDOW];
        for option in options(fields, bytes) {
            let place = sorted.partition_point(|&at| compare(name(at), option) == Ordering::Less);
            // Of several lines with this name the first is marked, and the others after it below:
            // an option that is repeated must not go over all of them each time.
            if sorted
                .get(place)
                .is_some_and(|&at| compare(name(at), option) == Ordering::Equal)
            {
                is_named[place] = true;
            }
        }
        for place in 1..sorted.len() {
            let is_same = || compare(name(sorted[place - 1]), name(sorted[place]));
            is_named[place] |= is_named[place - 1] && is_same() == Ordering::Equal;
        }
        for (&index, is_named) in sorted.iter().zip(is_named) {
            fields[start + usize::from(index)].is_dropped |= is_named;
        }
    }
}

/// Every index of a window.
#[expect(clippy::cast_possible_truncation, reason = "0 to 999")]
const INDEXES: [u16; HEADER_COUNT_MAX] = {
    let mut indexes = [0; HEADER_COUNT_MAX];
    let mut index = 0;
    while index < HEADER_COUNT_MAX {
        indexes[index] = index as u16;
        index += 1;
    }
    indexes
};

/// The options of `Connection` that may name a line. `close` and the fields that go, or stay,
/// whatever is said of them, do not: usually there are none.
fn options<'a>(fields: &[Field], bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let lines = fields
        .iter()
        .filter(|field| field.id == FieldId::Connection)
        .map(|field| field.value.of(bytes))
        // Of most servers, and not worth the search below.
        .filter(|value| !matches!(*value, b"keep-alive" | b"close"));
    lines.flat_map(elements).filter(|option| {
        let id = FieldId::of(option);
        let is_settled = id.is_hop_by_hop() || id.is_kept_from_connection();
        !is_settled && !option.eq_ignore_ascii_case(b"close")
    })
}

/// Orders names by length, then by their bytes in lower case: most differ in length.
pub(super) fn compare(left: &[u8], right: &[u8]) -> Ordering {
    #[cfg(test)]
    tests::count_step();
    let by_bytes = || {
        let (left, right) = (left.iter(), right.iter());
        let lower = u8::to_ascii_lowercase;
        left.map(lower).cmp(right.map(lower))
    };
    left.len().cmp(&right.len()).then_with(by_bytes)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use steppe_mem::{Budget, Buffer};

    use super::*;
    use crate::field::FieldList;
    use crate::h1::parse::{self, HeadLimits};

    thread_local! {
        static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count_step() {
        STEPS.set(STEPS.get() + 1);
    }

    /// Names that are left of `lines`.
    fn stripped<'a>(lines: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
        let budget = Budget::new(16 << 20);
        let bytes = Buffer::take(&budget.root().lease(), 4096).expect("room");
        let mut fields = FieldBlock::new(bytes, FieldList::take());
        for (name, value) in lines {
            let added = fields.append(name.as_bytes(), value.as_bytes());
            added.expect("room");
        }
        fields.strip_hop_by_hop();
        let names = fields.iter().map(|(_, name, _)| name);
        names
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect()
    }

    #[test]
    fn what_connection_names_goes_and_what_it_can_not_name_stays() {
        let lines = [
            ("Connection", "close, X-A"),
            ("x-a", "1"),
            ("X-B", "2"),
            ("connection", "X-FORWARDED-FOR, Host, keep-alive,, te"),
            ("Host", "a"),
            ("X-Forwarded-For", "b"),
            ("Close", "c"),
            ("TE", "trailers"),
            ("X-A", "3"),
        ];
        assert_eq!(stripped(lines), ["X-B", "Host", "X-Forwarded-For", "Close"]);
    }

    #[test]
    fn many_options_do_as_few_do() {
        // One line in three is named, some names come twice and in another case.
        for count in [1, 3, 30, HEADER_COUNT_MAX - 1, HEADER_COUNT_MAX + 500] {
            let name = |at: usize| format!("{}-{}", if at < 7 { "X" } else { "x" }, at % 700);
            let names: Vec<_> = (0..count).map(name).collect();
            let is_named = |name: &String| name.len().is_multiple_of(3);
            let options: Vec<_> = names.iter().filter(|name| is_named(name)).collect();
            let options: Vec<_> = options.iter().map(|name| name.to_uppercase()).collect();
            let options = options.join(",");
            let lines = names.iter().map(|name| (name.as_str(), "v"));
            let left = stripped(lines.chain([("connection", options.as_str())]));
            let expected: Vec<_> = names.iter().filter(|name| !is_named(name)).collect();
            assert_eq!(left.iter().collect::<Vec<_>>(), expected, "{count}");
        }
    }

    /// Comparisons for `count` lines and four times as many options.
    fn steps(count: usize, name: impl Fn(usize) -> String, option: &str) -> usize {
        let names: Vec<_> = (0..count).map(name).collect();
        let options = vec![option; 4 * count].join(",");
        let lines = names.iter().map(|name| (name.as_str(), ""));
        let lines: Vec<_> = lines.chain([("connection", options.as_str())]).collect();
        STEPS.set(0);
        stripped(lines);
        STEPS.get()
    }

    #[test]
    fn options_cost_what_the_size_of_the_head_does() {
        let other = |at: usize| format!("x-{at:03}");
        let same = |_| "x-a".to_owned();
        for option in ["a", "x-a", "x-007"] {
            for name in [&other as &dyn Fn(usize) -> String, &same] {
                let (half, whole) = (steps(400, name, option), steps(800, name, option));
                assert!(half > 0, "comparisons are counted");
                let is_quasilinear = whole * 2 < half * 5;
                assert!(is_quasilinear, "{option}: {half}, then {whole}");
            }
        }
    }

    #[test]
    fn the_usual_options_compare_no_name() {
        STEPS.set(0);
        let lines = [("connection", "keep-alive, Upgrade, TE"), ("host", "a")];
        assert_eq!(stripped(lines), ["host"]);
        assert_eq!(STEPS.get(), 0);
    }

    #[test]
    fn names_with_an_underscore_are_dropped_passed_or_refused() {
        let text = b"X-A: 1\r\nX_A: 2\r\n_: 3\r\n\r\n";
        let left = |rule: Underscores, text: &[u8]| {
            let budget = Budget::new(1 << 20);
            let mut bytes = Buffer::take(&budget.root().lease(), 64).expect("room");
            bytes.put(text).expect("room");
            let mut list = FieldList::take();
            let limits = HeadLimits {
                bytes: 64,
                fields: 8,
            };
            let read = parse::trailers(bytes.filled(), limits, &mut list, bytes.lease());
            assert_eq!(read, Ok(Some(text.len())));
            let mut fields = FieldBlock::new(bytes, list);
            fields
                .apply_underscores(rule)
                .map(|()| fields.fields().len())
        };
        assert_eq!(left(Underscores::Drop, text), Ok(1));
        assert_eq!(left(Underscores::Pass, text), Ok(3));
        assert_eq!(left(Underscores::Refuse, text), Err(UnderscoreRefused));
        assert_eq!(left(Underscores::Refuse, b"X-A: _\r\n\r\n"), Ok(1));
        // Aliases of what the gateway sets, or ends here, never pass.
        for (line, passes) in [
            ("X_Forwarded_For", false),
            ("x_forwarded-proto", false),
            ("X_Forwarded_Some_Thing_That_Is_Rather_Long", false),
            ("X-Forwarded_", false),
            ("X_Real_IP", false),
            ("Client_Cert", false),
            ("Content_Length", false),
            ("Transfer_Encoding", false),
            ("Keep_Alive", false),
            ("X_Forwarded", true),
            ("X_User", true),
            ("Content_Type", true),
        ] {
            let text = format!("{line}: 1\r\n\r\n");
            let count = left(Underscores::Pass, text.as_bytes());
            assert_eq!(count, Ok(usize::from(passes)), "{line}");
        }
    }
}
