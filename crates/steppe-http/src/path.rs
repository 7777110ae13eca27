//! Paths: normalized once, before routing, and matched by pattern.

/// A route's path: literal segments, `{name}`, and `{rest*}` at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    segments: Vec<PatternSegment>,
}

/// One segment of a [`PathPattern`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatternSegment {
    /// This text, after normalization.
    Literal(String),
    /// `{name}`: any one segment that is not empty.
    Capture(String),
    /// `{rest*}`: whatever follows, nothing included.
    Rest(String),
}
