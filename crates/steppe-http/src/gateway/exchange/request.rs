//! The types that codecs give to an exchange, and get back.

use std::time::Instant;

use crate::error::GatewayError;
use crate::head::{RequestHead, RequestView};

/// A request that a codec has read.
#[derive(Debug)]
pub struct Request {
    /// The head.
    pub head: RequestHead,
    /// The time at which its first bytes came.
    pub began_at: Instant,
}

/// Bytes that a codec could not read as a request.
#[derive(Debug)]
pub struct Rejected<'a> {
    /// The error that the client is answered with.
    pub error: GatewayError,
    /// The time at which its first bytes came.
    pub began_at: Instant,
    /// As much as could be read, for the access log.
    pub request: Option<RequestView<'a>>,
}

/// The end of an exchange. Its codec decides what follows on the connection.
#[derive(Debug, Clone, Copy)]
pub struct Completed {
    /// The way in which it ended.
    pub end: End,
    /// The time of the end.
    pub at: Instant,
}

/// The way in which an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The client has a whole response.
    Response,
    /// The exchange was a tunnel, and is closed.
    Tunnel,
    /// The response was cut, or the client has gone.
    Aborted,
}
