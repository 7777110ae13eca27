//! Why a call failed.

use std::fmt;
use std::time::Duration;

use crate::connection::Processing;
use crate::status::{Reason, Status};

/// Why a call failed: what the peer said, or what happened here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// How it ended; never [`Status::Ok`].
    pub status: Status,
    /// When another try may succeed.
    pub retry_after: Option<Duration>,
    /// A text for people; of the peer's, at most
    /// [`DETAIL_BYTES_MAX`](crate::limits::DETAIL_BYTES_MAX) bytes.
    pub detail: String,
    /// Whether anything was done for it: where nothing was, it may be sent again, whatever it is.
    pub processing: Processing,
}

impl Failure {
    /// A failure that has begun, with a text.
    #[must_use]
    pub fn new(status: Status, detail: impl Into<String>) -> Self {
        Self {
            status,
            retry_after: None,
            detail: detail.into(),
            processing: Processing::Begun,
        }
    }

    /// A failure of something for which nothing was done.
    pub(crate) fn unprocessed(status: Status, detail: impl Into<String>) -> Self {
        Self {
            processing: Processing::None,
            ..Self::new(status, detail)
        }
    }

    /// What the peer said.
    pub(crate) fn of(reason: &Reason<'_>, processing: Processing) -> Self {
        Self {
            status: reason.status,
            retry_after: reason.retry_after,
            detail: reason.detail.to_owned(),
            processing,
        }
    }

    /// As it is sent.
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
            // A peer's text: escaped.
            write!(f, ": {}", self.detail.escape_debug())?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
