//! Received content of a stream, as its exchange takes it.
//!
//! Invariant: content comes with the charge of its window, or in memory that is charged already; the window opens
//! again by what the exchange took, once that is charged anew.

use std::rc::Rc;
use std::task::{Context, Poll};

use steppe_h2::StreamId;
use steppe_h2::message::SectionKind;
use steppe_mem::{Chunk, Lease, Waiter};

use super::head::{TrailersError, trailers};
use super::inbox::Inbox;
use super::link::Link;
use super::windows::Window;
use crate::exchange::Part;

pub(super) struct Incoming {
    link: Rc<Link>,
    id: StreamId,
    /// Bytes that may still come.
    left: u64,
    /// Taken, and the window was not opened again by it.
    taken: usize,
    waiter: Waiter,
    is_starved: bool,
    /// Thrown away, in bytes.
    discarded: usize,
    /// A reset takes nothing away that came before it, where the end did.
    survives_reset: bool,
}

/// Why content can't be read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IncomingError {
    /// The stream is closed; see [`Inbox::cut`].
    Cut,
    /// There is more of it than is allowed.
    TooLarge,
    /// The trailers can't be used.
    Trailers(TrailersError),
}

impl Incoming {
    pub(super) fn new(link: &Rc<Link>, id: StreamId, allowed: u64) -> Self {
        Self {
            link: Rc::clone(link),
            id,
            left: allowed,
            taken: 0,
            waiter: Waiter::default(),
            is_starved: false,
            discarded: 0,
            survives_reset: false,
        }
    }

    /// A server may reset a stream behind its whole response (RFC 9113 §8.1).
    pub(super) fn of_response(mut self) -> Self {
        self.survives_reset = true;
        self
    }

    /// However much comes, it is let through.
    pub(super) fn allow_any(&mut self) {
        self.left = u64::MAX;
    }

    pub(super) fn is_starved(&self) -> bool {
        self.is_starved
    }

    /// The next part, charged to `lease` as far as that has room, and else as it came.
    ///
    /// # Errors
    /// The content can't be read to its end.
    pub(super) fn poll_part(
        &mut self,
        cx: &mut Context<'_>,
        lease: &Lease,
    ) -> Poll<Result<Part, IncomingError>> {
        self.is_starved = false;
        if let Some(chunk) = self.take_chunk(cx)? {
            let bytes = chunk.len();
            self.taken += bytes;
            self.left = (self.left)
                .checked_sub(bytes as u64)
                .ok_or(IncomingError::TooLarge)?;
            self.poll_reopen(cx);
            return Poll::Ready(Ok(Part::Chunk(charged_to(chunk, lease))));
        }
        self.poll_reopen(cx);
        let mut connection = self.link.connection.borrow_mut();
        let Some(inbox) = connection.stream_mut(self.id) else {
            return Poll::Ready(Err(IncomingError::Cut));
        };
        if inbox.is_ended {
            let received = inbox.take_section(SectionKind::Trailers);
            let trailers = received.map(trailers).transpose();
            return Poll::Ready(trailers.map(Part::End).map_err(IncomingError::Trailers));
        }
        self.is_starved = self.taken > 0 || inbox.window.as_ref().is_some_and(Window::is_short);
        Poll::Pending
    }

    /// The next chunk that has come; otherwise the task is woken when there is one.
    fn take_chunk(&mut self, cx: &Context<'_>) -> Result<Option<Chunk>, IncomingError> {
        let mut connection = self.link.connection.borrow_mut();
        let inbox = connection.stream_mut(self.id).ok_or(IncomingError::Cut)?;
        if inbox.cut.is_some() && !(self.survives_reset && inbox.is_ended) {
            return Err(IncomingError::Cut);
        }
        inbox.register(cx.waker());
        Ok(inbox.take_content())
    }

    /// Opens the window again by what was taken, or waits for budget for that.
    fn poll_reopen(&mut self, cx: &mut Context<'_>) {
        if self.taken == 0 {
            return;
        }
        let mut connection = self.link.connection.borrow_mut();
        let Some(inbox) = connection.stream_mut(self.id) else {
            return;
        };
        if let Some(window) = &mut inbox.window
            && window
                .poll_recharge(cx, self.taken, &mut self.waiter)
                .is_pending()
        {
            return;
        }
        self.waiter = Waiter::default();
        let taken = std::mem::take(&mut self.taken);
        connection.release_content(self.id, u32::try_from(taken).unwrap_or(u32::MAX));
        drop(connection);
        self.link.wake();
    }

    /// Throws away what comes, up to `bytes_max` in all. Ready at its end, or where it is more.
    pub(super) fn poll_discard(&mut self, cx: &mut Context<'_>, bytes_max: usize) -> Poll<()> {
        self.left = u64::MAX;
        let lease = self.link.windows.lease();
        while self.discarded <= bytes_max {
            match self.poll_part(cx, &lease) {
                Poll::Ready(Ok(Part::Chunk(chunk))) => self.discarded += chunk.len(),
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }

    /// Octets that the connection's window opens by when the stream is over.
    pub(super) fn unreleased_bytes(&self) -> usize {
        let mut connection = self.link.connection.borrow_mut();
        let waiting = connection
            .stream_mut(self.id)
            .map_or(0, |inbox: &mut Inbox| inbox.bytes());
        self.taken + waiting
    }
}

/// Content that counts for the budget of its exchange, where that has room.
fn charged_to(chunk: Chunk, lease: &Lease) -> Chunk {
    match chunk.into_buffer() {
        Ok(mut buffer) => {
            let _ = buffer.charge_to(lease);
            buffer.into()
        }
        // The memory of a view is charged with that of its neighbors as long as it lasts.
        Err(view) => match lease.try_reserve(view.len()) {
            Ok(charge) => Chunk::charged(view.into_bytes(), charge),
            Err(_) => view,
        },
    }
}
