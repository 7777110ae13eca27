//! A request that can't be sent yet: its connection takes nothing at the moment, no further stream, or has not said
//! whether it takes extended CONNECT.

use steppe_h2::hpack::{FieldLine, Indexing};
use steppe_mem::{Buffer, Lease, OverBudget};

/// Octets before each line: the lengths of its name and its value, and 1 for a line that is never indexed.
const PREFIX: usize = 9;

/// Field lines of a request, in memory of its exchange.
pub(super) struct UnsentLines(Buffer);

impl UnsentLines {
    /// # Errors
    /// The budget has no room.
    pub(super) fn copy<'a>(
        lines: impl Iterator<Item = FieldLine<'a>> + Clone,
        lease: &Lease,
    ) -> Result<Self, OverBudget> {
        let bytes = |line: FieldLine<'_>| PREFIX + line.name.len() + line.value.len();
        let mut copy = Buffer::take(lease, lines.clone().map(bytes).sum())?;
        for line in lines {
            let length = |octets: &[u8]| u32::try_from(octets.len()).unwrap_or(u32::MAX);
            let lengths = [length(line.name), length(line.value)].map(u32::to_be_bytes);
            let is_never_indexed = [u8::from(line.indexing == Indexing::Never)];
            let [name, value] = &lengths;
            for part in [name, value, &is_never_indexed[..], line.name, line.value] {
                copy.put(part).expect("it was taken for them");
            }
        }
        Ok(Self(copy))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = FieldLine<'_>> + Clone {
        let mut left = self.0.filled();
        std::iter::from_fn(move || {
            let mut take = |octets: usize| {
                let (first, rest) = left.split_at_checked(octets)?;
                left = rest;
                Some(first)
            };
            let mut length = || {
                let octets = take(size_of::<u32>())?.try_into().ok()?;
                usize::try_from(u32::from_be_bytes(octets)).ok()
            };
            let (name, value) = (length()?, length()?);
            let indexing = match take(1)? {
                [1] => Indexing::Never,
                _ => Indexing::Without,
            };
            Some(FieldLine {
                name: take(name)?,
                value: take(value)?,
                indexing,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;
    use crate::h2::head::line;

    #[test]
    fn lines_are_kept_as_they_are() {
        let budget = Budget::new(1 << 20);
        let mut lines = [(&b":method"[..], &b"GET"[..]), (b"x", b""), (b"y", b"2")]
            .map(|(name, value)| line(name, value));
        lines[2].indexing = Indexing::Never;
        let lines = || lines.iter().copied();
        let kept = UnsentLines::copy(lines(), &budget.root().lease()).expect("room");
        assert!(kept.iter().eq(lines()));
        assert!(kept.iter().eq(lines()), "it can be read again");
    }
}
