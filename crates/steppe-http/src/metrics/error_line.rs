//! Outcomes of lines of the error log.

/// The outcome of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorLine {
    /// Queued to be written.
    Written,
    /// Left out: too many of its kind came in this second.
    Omitted,
    /// Dropped: the thread that writes is behind.
    Dropped,
}

impl ErrorLine {
    /// Labels of the outcomes, by index.
    pub const OUTCOMES: [&str; 3] = ["written", "omitted", "dropped"];

    /// The outcome's index in [`ErrorLine::OUTCOMES`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}
