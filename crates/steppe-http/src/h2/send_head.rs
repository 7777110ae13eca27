//! A head, or trailers, on the way to the connection.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use steppe_h2::hpack::FieldLine;
use steppe_h2::{EndStream, SendError, StreamId};
use steppe_mem::Waiter;

use super::link::Link;
use super::turns::Turn;

/// The stream takes nothing more: it was reset, or its connection is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamClosed;

/// A section that waits for its turn, and for memory.
pub(super) struct SendHead<'a> {
    pub(super) link: &'a Rc<Link>,
    pub(super) id: StreamId,
    pub(super) turn: &'a mut Turn,
    pub(super) waiter: &'a mut Waiter,
}

impl SendHead<'_> {
    /// Ready when the connection has it.
    ///
    /// # Errors
    /// [`StreamClosed`].
    pub(super) fn poll<'a>(
        self,
        cx: &mut Context<'_>,
        lines: impl Iterator<Item = FieldLine<'a>> + Clone,
        end: EndStream,
    ) -> Poll<Result<(), StreamClosed>> {
        loop {
            ready!(self.turn.poll(cx));
            let mut connection = self.link.connection.borrow_mut();
            let sent = connection.send_head(self.id, lines.clone(), end);
            drop(connection);
            match sent {
                Ok(()) => {
                    *self.waiter = Waiter::default();
                    self.link.wake();
                    return Poll::Ready(Ok(()));
                }
                Err(SendError::OverBudget(bytes)) => {
                    self.turn.pass();
                    ready!(self.link.poll_room(cx, bytes, self.waiter));
                }
                Err(SendError::Full) => {
                    self.turn.wait(cx);
                    return Poll::Pending;
                }
                Err(SendError::Closed | SendError::StreamLimit) => {
                    return Poll::Ready(Err(StreamClosed));
                }
            }
        }
    }
}
