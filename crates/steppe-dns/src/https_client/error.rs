//! Errors of queries by HTTPS.

use steppe_h2::ErrorCode;
use steppe_mem::OverBudget;

use crate::limits::{HTTPS_FIELDS_BYTES_MAX, MESSAGE_BYTES_MAX};

/// The reason why a query was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// The server allows no further stream for now, or takes nothing.
    #[error("the server takes no further query for now")]
    Later,
    /// The connection takes no further query.
    #[error("the connection takes no further query")]
    Over,
    /// The budget has no room.
    #[error("over budget")]
    OverBudget,
    /// The query is shorter than an id, or longer than a buffer.
    #[error("not a DNS message")]
    NoMessage,
}

impl From<OverBudget> for NotSent {
    fn from(_: OverBudget) -> Self {
        Self::OverBudget
    }
}

/// The reason why a query that was sent has no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// Any status but 200.
    #[error("status {0}")]
    Status(u16),
    /// Any media type but `application/dns-message`: RFC 8484 §6.
    #[error("the content type is not application/dns-message")]
    MediaType,
    /// Content shorter than the id of a message.
    #[error("the content is not a DNS message")]
    Content,
    /// Content longer than any message.
    #[error("more than {MESSAGE_BYTES_MAX} bytes")]
    TooLarge,
    /// Fields larger than [`HTTPS_FIELDS_BYTES_MAX`].
    #[error("more than {HTTPS_FIELDS_BYTES_MAX} bytes of fields")]
    FieldsTooLarge,
    /// The server reset the stream.
    #[error("the server reset the stream ({0})")]
    Reset(ErrorCode),
    /// The response violates HTTP/2, and its stream was reset with this code.
    #[error("malformed response ({0})")]
    Malformed(ErrorCode),
    /// The budget has no room for the response.
    #[error("over budget")]
    OverBudget,
    /// There was no response in time.
    #[error("no response in time")]
    Silent,
}
