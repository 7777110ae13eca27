//! Memory for a handler's work on a body.
//!
//! Invariant: a handler that waits here holds no memory that other handlers wait for here. Most of its memory is
//! reserved together with the body, before the body is sent; the rest comes from the share of responses, for which
//! no request body waits.

use std::sync::Arc;

use steppe_mem::Reservation;

use super::failure::Failure;
use super::memory::{Memory, Way};
use crate::frame::Queueing;
use crate::status::Status;

/// Memory for a handler's work on a body, reserved until this is dropped.
#[derive(Debug)]
pub struct Room {
    /// Reservation that was made together with the body.
    held: Reservation,
    /// Reservation from the share of responses.
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

    /// The number of reserved bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.held.bytes() + self.more.as_ref().map_or(0, Reservation::bytes)
    }

    /// Resizes the reservation to `bytes` in all: returns the excess, or waits for the missing part.
    ///
    /// # Errors
    /// [`Status::TooLarge`] if the missing part exceeds the share of responses;
    /// [`Status::Overloaded`] if it has no room now and the request does not wait, or if too many bodies wait.
    ///
    /// # Cancel safety
    /// The reservation that was made with the body is kept.
    pub async fn fit(&mut self, bytes: usize) -> Result<(), Failure> {
        // Returned before the wait, which must not hold any of the share.
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
