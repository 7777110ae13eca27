//! Room for what a handler makes of a body.
//!
//! Invariant: nobody who waits here holds what others wait for here. Most of it is reserved together with the body,
//! before that is sent; what is missing then is of the share of responses, which no body waits for.

use std::sync::Arc;

use steppe_mem::Reservation;

use super::failure::Failure;
use super::memory::{Memory, Way};
use crate::frame::Queueing;
use crate::status::Status;

/// Bytes that a handler may make of a body, reserved until this is dropped.
#[derive(Debug)]
pub struct Room {
    /// Reserved with the body.
    held: Reservation,
    /// Of the share of responses.
    more: Option<Reservation>,
    memory: Arc<Memory>,
    queueing: Queueing,
}

impl Room {
    pub(super) fn new(held: Reservation, memory: &Arc<Memory>, queueing: Queueing) -> Self {
        Self {
            held,
            more: None,
            memory: Arc::clone(memory),
            queueing,
        }
    }

    /// Bytes reserved.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.held.bytes() + self.more.as_ref().map_or(0, Reservation::bytes)
    }

    /// Has it be `bytes` in all: gives back what is over, and waits for what is missing.
    ///
    /// # Errors
    /// [`Status::TooLarge`] where more is missing than requests leave to responses;
    /// [`Status::Overloaded`] where there is none now and the request does not wait, or too many do.
    ///
    /// # Cancel safety
    /// What was reserved with the body is kept.
    pub async fn fit(&mut self, bytes: usize) -> Result<(), Failure> {
        // Before it waits: of the share it holds nothing then.
        self.more = None;
        let held = self.held.bytes();
        let Some(missing) = bytes.checked_sub(held).filter(|&missing| missing > 0) else {
            self.held.shrink(held - bytes);
            return Ok(());
        };
        let share = self.memory.response_share_bytes();
        if missing as u64 > share {
            let most = held as u64 + share;
            let detail = format!("the response may need {bytes} bytes, at most {most} are allowed");
            return Err(Failure::new(Status::TooLarge, detail));
        }
        let more = self
            .memory
            .reserve_for(Way::Response, missing, self.queueing);
        self.more = Some(more.await?);
        Ok(())
    }
}
