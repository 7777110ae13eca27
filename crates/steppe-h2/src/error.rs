//! Error codes (RFC 9113 §7), and violations of the protocol.

use std::fmt;

use crate::stream_id::StreamId;

/// An error code of RST_STREAM and GOAWAY. RFC 9113 §7.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// Graceful shutdown.
    pub const NO_ERROR: Self = Self(0x0);
    /// A violation without a code of its own.
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    /// An internal error of the sender.
    pub const INTERNAL_ERROR: Self = Self(0x2);
    /// The peer violated flow control.
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    /// SETTINGS were not acknowledged in time.
    pub const SETTINGS_TIMEOUT: Self = Self(0x4);
    /// A frame of a stream that is half-closed.
    pub const STREAM_CLOSED: Self = Self(0x5);
    /// A frame of invalid length.
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    /// The stream was refused before any processing.
    pub const REFUSED_STREAM: Self = Self(0x7);
    /// The stream is no longer needed.
    pub const CANCEL: Self = Self(0x8);
    /// The field section compression context can't be kept.
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    /// The connection of a CONNECT request was reset.
    pub const CONNECT_ERROR: Self = Self(0xa);
    /// The peer causes excessive load.
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);
    /// The transport's security is insufficient.
    pub const INADEQUATE_SECURITY: Self = Self(0xc);
    /// The message has to be sent over HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: Self = Self(0xd);

    const NAMES: [&'static str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = usize::try_from(self.0).unwrap_or(usize::MAX);
        match Self::NAMES.get(index) {
            Some(name) => f.write_str(name),
            None => write!(f, "error code {:#x}", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A violation of the protocol by the peer. RFC 9113 §5.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// The connection ends by GOAWAY.
    Connection(ConnectionError),
    /// The stream ends by RST_STREAM.
    Stream(StreamId, ErrorCode),
}

/// The error that ended a connection. RFC 9113 §5.4.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason} ({code})")]
pub struct ConnectionError {
    /// The code of GOAWAY.
    pub code: ErrorCode,
    /// The rule that the peer broke.
    pub reason: &'static str,
}

impl Violation {
    /// A connection error of the type PROTOCOL_ERROR.
    pub(crate) const fn protocol(reason: &'static str) -> Self {
        Self::connection(ErrorCode::PROTOCOL_ERROR, reason)
    }

    /// A connection error: a field block is contiguous (§4.3).
    pub(crate) const fn interleaved() -> Self {
        Self::protocol("a frame comes amid a field block")
    }

    /// A connection error.
    pub(crate) const fn connection(code: ErrorCode, reason: &'static str) -> Self {
        Self::Connection(ConnectionError { code, reason })
    }

    /// A stream error.
    pub(crate) const fn stream(id: StreamId, code: ErrorCode) -> Self {
        Self::Stream(id, code)
    }
}

/// The reason why nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The stream or the connection is over, or takes no further streams.
    #[error("the stream is closed")]
    Closed,
    /// So much waits to be written that more is to wait.
    #[error("the connection has more to write than the peer takes")]
    Full,
    /// The peer allows no further stream for now.
    #[error("the peer allows no further stream")]
    StreamLimit,
    /// The budget has no room for a buffer of so many bytes.
    #[error("no room for {0} bytes of output")]
    OverBudget(usize),
}
