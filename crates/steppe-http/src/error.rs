//! What goes wrong in an exchange: whose fault, what the client is told, and
//! whether the request may be sent again.

use crate::field::UnderscoreRefused;
use crate::metrics::CloseReason;
use crate::path::PathError;

/// Where an error came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The client, or the way to it.
    Downstream,
    /// The server, or the way to it.
    Upstream,
    /// The node itself.
    Internal,
}

/// Why an exchange ended before it was whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason:?} ({status})")]
pub struct GatewayError {
    /// Counted and logged.
    pub reason: CloseReason,
    /// What the client is told, as long as its response has not begun.
    pub status: u16,
    /// Whose doing it was.
    pub origin: Origin,
    /// The request never got a response byte from a connection that had been
    /// idle: another connection may be tried if the request allows it.
    pub is_stale_connection: bool,
}

impl GatewayError {
    /// The client's fault.
    #[must_use]
    pub fn downstream(reason: CloseReason, status: u16) -> Self {
        Self {
            reason,
            status,
            origin: Origin::Downstream,
            is_stale_connection: false,
        }
    }

    /// The server's fault.
    #[must_use]
    pub fn upstream(reason: CloseReason, status: u16) -> Self {
        Self {
            reason,
            status,
            origin: Origin::Upstream,
            is_stale_connection: false,
        }
    }

    /// The budget has no room: 503, and another try later is welcome.
    #[must_use]
    pub fn over_budget() -> Self {
        let (reason, status) = (CloseReason::OverBudget, 503);
        Self {
            reason,
            status,
            origin: Origin::Internal,
            is_stale_connection: false,
        }
    }

    /// The client has gone. 499, as logs have it: nobody is told.
    #[must_use]
    pub fn client_gone() -> Self {
        Self::downstream(CloseReason::ClientGone, 499)
    }

    /// A deadline passed.
    #[must_use]
    pub fn timeout(reason: CloseReason) -> Self {
        match reason {
            CloseReason::HeaderTimeout | CloseReason::BodyTimeout | CloseReason::IdleTimeout => {
                Self::downstream(reason, 408)
            }
            CloseReason::WriteStall | CloseReason::TunnelIdleTimeout => {
                Self::downstream(reason, 499)
            }
            CloseReason::OverBudget => Self::over_budget(),
            CloseReason::ConnectTimeout
            | CloseReason::FirstByteTimeout
            | CloseReason::UpstreamIdleTimeout
            | CloseReason::TotalTimeout => Self::upstream(reason, 504),
            CloseReason::BodyTooLarge
            | CloseReason::HeaderTooLarge
            | CloseReason::UriTooLong
            | CloseReason::ConnectionLimit
            | CloseReason::BadRequest
            | CloseReason::Unsupported
            | CloseReason::ClientGone
            | CloseReason::ConnectFailed
            | CloseReason::UpstreamReset
            | CloseReason::BadResponse
            | CloseReason::ProxyProtocol
            | CloseReason::Handshake
            | CloseReason::FileFailed
            | CloseReason::Flood
            | CloseReason::Drain => {
                debug_assert!(false, "{reason:?} is no timeout");
                Self {
                    origin: Origin::Internal,
                    ..Self::upstream(reason, 500)
                }
            }
        }
    }

    /// A file can't be opened or read.
    #[must_use]
    pub fn file(error: &std::io::Error) -> Self {
        let is_short = error.kind() == std::io::ErrorKind::ResourceBusy;
        Self {
            reason: CloseReason::FileFailed,
            status: if is_short { 503 } else { 500 },
            origin: Origin::Internal,
            is_stale_connection: false,
        }
    }

    /// A request that can't be understood, or may be understood in two ways.
    #[must_use]
    pub fn bad_request() -> Self {
        Self::downstream(CloseReason::BadRequest, 400)
    }

    /// Content was not as long as its head said, after filters had changed either.
    #[must_use]
    pub fn wrong_length() -> Self {
        Self {
            origin: Origin::Internal,
            ..Self::upstream(CloseReason::BadResponse, 500)
        }
    }

    /// A response that can't be used.
    #[must_use]
    pub fn bad_response() -> Self {
        Self::upstream(CloseReason::BadResponse, 502)
    }
}

impl From<steppe_mem::OverBudget> for GatewayError {
    fn from(_: steppe_mem::OverBudget) -> Self {
        Self::over_budget()
    }
}

impl From<UnderscoreRefused> for GatewayError {
    fn from(_: UnderscoreRefused) -> Self {
        Self::bad_request()
    }
}

impl From<PathError> for GatewayError {
    fn from(_: PathError) -> Self {
        Self::downstream(CloseReason::BadRequest, 400)
    }
}
