//! Errors of calls.

use std::fmt;
use std::time::Duration;

use crate::connection::Processing;
use crate::status::{Reason, Status};

/// The failure of a call, reported by the peer or caused on this side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Status of the call; never [`Status::Ok`].
    pub status: Status,
    /// Time until another try may succeed.
    pub retry_after: Option<Duration>,
    /// A text for people. A text of the peer has at most
    /// [`DETAIL_BYTES_MAX`](crate::limits::DETAIL_BYTES_MAX) bytes.
    pub detail: String,
    /// Processing that the request received: one that was not processed may always be sent again.
    pub processing: Processing,
}

impl Failure {
    /// A failure of a call that was possibly processed.
    #[must_use]
    pub fn new(status: Status, detail: impl Into<String>) -> Self {
        Self {
            status,
            retry_after: None,
            detail: detail.into(),
            processing: Processing::Begun,
        }
    }

    /// A failure of a call that was not processed.
    pub(crate) fn unprocessed(status: Status, detail: impl Into<String>) -> Self {
        Self {
            processing: Processing::None,
            ..Self::new(status, detail)
        }
    }

    /// The failure that the peer has reported.
    pub(crate) fn of(reason: &Reason<'_>, processing: Processing) -> Self {
        Self {
            status: reason.status,
            retry_after: reason.retry_after,
            detail: reason.detail.to_owned(),
            processing,
        }
    }

    /// The failure in the form in which it is sent.
    pub(crate) fn reason(&self) -> Reason<'_> {
        Reason {
            status: self.status,
            retry_after: self.retry_after,
            detail: &self.detail,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.status.name())?;
        if !self.detail.is_empty() {
            // The text may come from a peer: escaped.
            write!(f, ": {}", self.detail.escape_debug())?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
