//! Stream identifiers. Spec: RFC 9113 §5.1.1.

use std::fmt;

/// A stream identifier, 1 to 2^31-1. RFC 9113 §5.1.1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(crate) u32);

impl StreamId {
    /// The last one.
    pub(crate) const MAX: Self = Self((1 << 31) - 1);

    /// The identifier as it stands in frames.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn is_of_client(self) -> bool {
        self.0 % 2 == 1
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}", self.0)
    }
}
