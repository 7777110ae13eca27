//! A head, or trailers, on the way to the connection.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use steppe_h2::hpack::FieldLine;
use steppe_h2::{EndStream, SendError, StreamId};
use steppe_mem::Waiter;

use super::shared::Shared;
use crate::error::GatewayError;
use crate::h2::turns::Turn;

/// A section that waits for its turn, and for memory.
pub(super) struct SendHead<'a> {
    pub(super) shared: &'a Rc<Shared>,
    pub(super) id: StreamId,
    pub(super) turn: &'a mut Turn,
    pub(super) waiter: &'a mut Waiter,
}

impl SendHead<'_> {
    /// Ready when the connection has it.
    ///
    /// # Errors
    /// The client has reset the stream, or its connection is over.
    pub(super) fn poll<'a>(
        self,
        cx: &mut Context<'_>,
        lines: impl Iterator<Item = FieldLine<'a>> + Clone,
        end: EndStream,
    ) -> Poll<Result<(), GatewayError>> {
        loop {
            ready!(self.turn.poll(cx));
            let mut connection = self.shared.connection.borrow_mut();
            let sent = connection.send_head(self.id, lines.clone(), end);
            drop(connection);
            match sent {
                Ok(()) => {
                    *self.waiter = Waiter::default();
                    self.shared.wake();
                    return Poll::Ready(Ok(()));
                }
                Err(SendError::OverBudget(bytes)) => {
                    self.turn.pass();
                    ready!(self.shared.poll_room(cx, bytes, self.waiter));
                }
                Err(SendError::Full) => {
                    self.turn.wait(cx);
                    return Poll::Pending;
                }
                Err(SendError::Closed | SendError::StreamLimit) => {
                    return Poll::Ready(Err(GatewayError::client_gone()));
                }
            }
        }
    }
}
