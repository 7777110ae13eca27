//! The mistakes of one file, collected while it is read.
//!
//! Invariant: all are counted, and those nearest to the start of the file are kept, so that memory does not grow with
//! the number of mistakes: a file of [`FILE_BYTES_MAX`](super::limits::FILE_BYTES_MAX) has room for some hundred
//! thousand.

use std::ops::Range;

use miette::Severity;

use crate::limits::MISTAKES_SHOWN_MAX;
use crate::mistake::{Mistake, Span};

/// Mistakes of one file, in any order.
#[derive(Debug)]
pub struct Mistakes {
    kept: Vec<Mistake>,
    /// A mistake that starts here or later would not be shown.
    horizon: usize,
    count: Count,
    /// Bytes around mistakes of the syntax, which may be misread, in the order of the files.
    unsure: Vec<Range<usize>>,
    /// True if a file is missing.
    is_partial: bool,
}

/// Number of mistakes, including those that are not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Reasons to refuse the file.
    pub errors: usize,
    /// Settings that work, but are hardly intended.
    pub warnings: usize,
    /// Problems of another process or time.
    pub notes: usize,
}

impl Default for Mistakes {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            horizon: usize::MAX,
            count: Count::default(),
            unsure: Vec::new(),
            is_partial: false,
        }
    }
}

impl Mistakes {
    /// Adds a mistake.
    pub fn push(&mut self, mistake: Mistake) {
        if self.is_unsure(mistake.span) {
            return;
        }
        match mistake.severity {
            Severity::Error => self.count.errors += 1,
            Severity::Warning => self.count.warnings += 1,
            Severity::Advice => self.count.notes += 1,
        }
        self.keep(mistake);
    }

    /// Adds an error. `make` is called only if it is kept: the search for similar names takes long.
    pub fn error_at(&mut self, span: Span, make: impl FnOnce() -> Mistake) {
        if self.is_unsure(span) {
            return;
        }
        self.count.errors += 1;
        if span.start < self.horizon {
            self.keep(make());
        }
    }

    /// Drops mistakes that are found from now on within these bytes, which are in the order of the files and behind
    /// those of earlier calls: they would repeat mistakes of the syntax.
    pub fn drop_within(&mut self, unsure: Vec<Range<usize>>) {
        self.unsure.extend(unsure);
    }

    /// True if the syntax has mistakes, or a file is missing, so that a key that seems to be missing may be there.
    pub fn is_partial(&self) -> bool {
        self.is_partial || !self.unsure.is_empty()
    }

    /// Notes that a file is missing, whose mistake was reported.
    pub fn set_partial(&mut self) {
        self.is_partial = true;
    }

    /// Adds the mistakes of a file whose first byte is `start`.
    pub(crate) fn absorb(&mut self, of_file: Self, start: usize) {
        let (kept, count) = of_file.finish();
        self.count.errors += count.errors;
        self.count.warnings += count.warnings;
        self.count.notes += count.notes;
        for mut mistake in kept {
            mistake.span = mistake.span.shifted(start);
            for (span, _) in &mut mistake.also {
                *span = span.shifted(start);
            }
            self.keep(mistake);
        }
    }

    fn is_unsure(&self, span: Span) -> bool {
        let next = self
            .unsure
            .partition_point(|range| range.start <= span.start);
        let range = next.checked_sub(1).and_then(|last| self.unsure.get(last));
        // A placeholder value that the parser made for a broken one has no place.
        let is_made_up = !self.unsure.is_empty() && span == Span::at(0);
        is_made_up || range.is_some_and(|range| range.contains(&span.start))
    }

    /// True if no mistake was found.
    pub fn is_empty(&self) -> bool {
        self.count == Count::default()
    }

    /// The first mistakes in the order of the file, and the number of all.
    pub fn finish(mut self) -> (Vec<Mistake>, Count) {
        self.trim();
        (self.kept, self.count)
    }

    fn keep(&mut self, mistake: Mistake) {
        if mistake.span.start >= self.horizon {
            return;
        }
        self.kept.push(mistake);
        // Sorted only when as many again are kept: a few comparisons a mistake.
        if self.kept.len() >= 2 * MISTAKES_SHOWN_MAX {
            self.trim();
        }
    }

    /// Stable: of mistakes at one place, the first that was found stays first.
    fn trim(&mut self) {
        self.kept.sort_by_key(|mistake| mistake.span.start);
        self.kept.truncate(MISTAKES_SHOWN_MAX);
        if let [.., last] = &*self.kept
            && self.kept.len() == MISTAKES_SHOWN_MAX
        {
            self.horizon = last.span.start;
        }
    }
}

impl Count {
    /// Errors, warnings and notes.
    pub fn all(self) -> usize {
        self.errors + self.warnings + self.notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(start: usize) -> Mistake {
        Mistake::new(Span::at(start), start.to_string())
    }

    #[test]
    fn the_first_of_the_file_are_kept_in_whatever_order_they_are_found() {
        let first: Vec<usize> = (0..MISTAKES_SHOWN_MAX).collect();
        let orders: [Box<dyn Iterator<Item = usize>>; 3] = [
            Box::new(0..5_000),
            Box::new((0..5_000).rev()),
            Box::new((0..5_000).map(|index| index * 1_999 % 5_000)),
        ];
        for order in orders {
            let mut mistakes = Mistakes::default();
            for start in order {
                mistakes.push(mistake(start));
                assert!(mistakes.kept.len() < 2 * MISTAKES_SHOWN_MAX);
            }
            let (kept, count) = mistakes.finish();
            let starts: Vec<_> = kept.iter().map(|kept| kept.span.start).collect();
            assert_eq!(starts, first);
            assert_eq!(count.all(), 5_000);
        }
    }

    #[test]
    fn what_is_not_kept_is_counted_and_not_made() {
        let (mut mistakes, mut made) = (Mistakes::default(), 0);
        for start in 0..5_000 {
            mistakes.error_at(Span::at(start), || {
                made += 1;
                mistake(start)
            });
        }
        assert_eq!(mistakes.finish().1.errors, 5_000);
        assert_eq!(made, 2 * MISTAKES_SHOWN_MAX);
    }
}
