//! Errors of an exchange: origin, the client's status, and whether a retry is safe.

use crate::field::UnderscoreRefused;
use crate::metrics::CloseReason;
use crate::path::PathError;

/// The origin of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The client, or the way to it.
    Downstream,
    /// The server, or the way to it.
    Upstream,
    /// The node itself.
    Internal,
}

/// An error that ends an exchange early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason:?} ({status})")]
pub struct GatewayError {
    /// Counted and logged.
    pub reason: CloseReason,
    /// The status that the client gets, if its response has not begun.
    pub status: u16,
    /// The origin of the error.
    pub origin: Origin,
    /// The retries that are safe without the upstream's `retry`.
    pub resend: Resend,
}

/// The requests that may be sent again on another connection after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resend {
    /// None: the server may have processed the request, and a retry is a matter of policy.
    No,
    /// Idempotent ones (RFC 9110 §9.2.2): a reused connection ended before a byte of the response,
    /// perhaps because the server closed it while it was idle.
    IfIdempotent,
    /// Any: the server says that it has processed none of it (RFC 9113 §8.7).
    Any,
}

impl GatewayError {
    /// The client's fault.
    #[must_use]
    pub fn downstream(reason: CloseReason, status: u16) -> Self {
        Self {
            reason,
            status,
            origin: Origin::Downstream,
            resend: Resend::No,
        }
    }

    /// The server's fault.
    #[must_use]
    pub fn upstream(reason: CloseReason, status: u16) -> Self {
        Self {
            reason,
            status,
            origin: Origin::Upstream,
            resend: Resend::No,
        }
    }

    /// The server closed or failed before its response was whole; `resend` says which requests may
    /// be repeated.
    #[must_use]
    pub fn cut(resend: Resend) -> Self {
        Self {
            resend,
            ..Self::upstream(CloseReason::UpstreamReset, 502)
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
            resend: Resend::No,
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
            | CloseReason::CircuitOpen
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
            resend: Resend::No,
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

    /// A response that a filter can't do with as it is configured to: nothing is wrong with its server.
    #[must_use]
    pub fn unfit_response() -> Self {
        Self {
            origin: Origin::Internal,
            ..Self::bad_response()
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
