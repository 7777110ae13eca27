//! Memory for what comes out of content, of which nobody knows before how long it will be.

use steppe_mem::{Buffer, Lease};

use crate::error::GatewayError;
use crate::metrics::CloseReason;

/// Why nothing was made of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EditFault {
    /// The content can't be read.
    Invalid,
    /// There was no room for what comes out.
    Full,
}

/// Why content goes no further, whoever sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentRejection {
    TooLong,
    Unreadable,
    OverBudget,
}

impl ContentRejection {
    pub(super) fn of_request(self) -> GatewayError {
        match self {
            Self::TooLong => GatewayError::downstream(CloseReason::BodyTooLarge, 413),
            Self::Unreadable => GatewayError::bad_request(),
            Self::OverBudget => GatewayError::over_budget(),
        }
    }

    pub(super) fn of_response(self) -> GatewayError {
        match self {
            Self::TooLong | Self::Unreadable => GatewayError::unfit_response(),
            Self::OverBudget => GatewayError::over_budget(),
        }
    }
}

/// A buffer with the output of `write`: of the `usual` size, and where that is too small of the
/// size
/// `most`.
///
/// # Errors
/// Where that is too small as well, where content can't be read, and where the budget has no room.
pub(super) fn written(
    lease: &Lease,
    usual: usize,
    most: usize,
    mut write: impl FnMut(&mut Buffer) -> Result<(), EditFault>,
) -> Result<Buffer, ContentRejection> {
    let mut room = usual.min(most);
    loop {
        let mut out = Buffer::take(lease, room).map_err(|_| ContentRejection::OverBudget)?;
        match write(&mut out) {
            Ok(()) => return Ok(out),
            Err(EditFault::Full) if room < most => room = most,
            Err(EditFault::Full) => return Err(ContentRejection::TooLong),
            Err(EditFault::Invalid) => return Err(ContentRejection::Unreadable),
        }
    }
}
