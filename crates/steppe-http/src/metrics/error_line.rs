//! Outcomes of lines of the error log.

/// The outcome of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorLine {
    /// It is queued to be written.
    Written,
    /// Too many of its kind came in this second.
    Omitted,
    /// The thread that writes is behind.
    Dropped,
}

impl ErrorLine {
    /// Their words, by index.
    pub const OUTCOMES: [&str; 3] = ["written", "omitted", "dropped"];

    /// Its index there.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}
