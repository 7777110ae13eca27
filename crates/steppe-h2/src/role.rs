//! The side of a connection.

/// The side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It opens streams.
    Client,
    /// It accepts them.
    Server,
}
