//! The interface to a collector.

/// Gives batches to a collector. It is called on the tracer's thread, where it may block.
pub trait Export: Send {
    /// Gives a batch, which is an `ExportTraceServiceRequest` in JSON.
    ///
    /// # Errors
    /// The reason why it was not taken.
    fn export(&mut self, batch: &[u8]) -> Result<Taken, BatchRefused>;
}

/// A batch was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Spans of it that were rejected: sending them again is of no use.
    pub rejected: u64,
}

/// A batch was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchRefused {
    /// True if sending it again may be of use.
    pub may_be_sent_again: bool,
    /// The reason, for a log.
    pub why: String,
}
