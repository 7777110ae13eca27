//! A query that is out, and its response as far as it has come.

use std::time::Instant;

use steppe_mem::{Buffer, Chunk, Lease};

use super::error::QueryError;
use crate::limits::{MESSAGE_BYTES_MAX, UPSTREAM_STALL_TIME};

/// The state of a query, which its stream holds.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) id: u16,
    pub(super) sent_at: Instant,
    /// True if it was sent before the server's settings were known: it may be beyond the limit of streams.
    pub(super) is_early: bool,
    /// Content that waits for a window.
    pub(super) unsent: Option<Chunk>,
    /// Content of the response; `None` until the response's fields have come.
    pub(super) message: Option<Buffer>,
}

impl Query {
    pub(super) fn due(&self) -> Instant {
        self.sent_at + UPSTREAM_STALL_TIME
    }

    /// Adds content of the response.
    ///
    /// # Errors
    /// The content is too large, or the budget has no room.
    pub(super) fn add(&mut self, content: &[u8], lease: &Lease) -> Result<(), QueryError> {
        let gathered = self.message.as_ref().map_or(0, Buffer::len);
        let bytes = gathered + content.len();
        if bytes > MESSAGE_BYTES_MAX {
            return Err(QueryError::TooLarge);
        }
        let message = self.room(bytes, lease)?;
        message.put(content).map_err(|_| QueryError::TooLarge)
    }

    /// The message with room for `bytes` in all.
    fn room(&mut self, bytes: usize, lease: &Lease) -> Result<&mut Buffer, QueryError> {
        let before = self.message.take();
        let message = match before {
            Some(message) if message.capacity() >= bytes => message,
            before => {
                let larger = Buffer::take(lease, bytes);
                let mut larger = larger.map_err(|_| QueryError::OverBudget)?;
                let gathered = before.as_ref().map_or(&[][..], Buffer::filled);
                larger.put(gathered).map_err(|_| QueryError::TooLarge)?;
                larger
            }
        };
        Ok(self.message.insert(message))
    }

    /// The whole message, with the query's id.
    ///
    /// # Errors
    /// There is no message.
    pub(super) fn finish(&mut self) -> Result<Buffer, QueryError> {
        let mut message = self.message.take().ok_or(QueryError::Content)?;
        let id = message.filled_mut().first_chunk_mut();
        *id.ok_or(QueryError::Content)? = self.id.to_be_bytes();
        Ok(message)
    }
}
