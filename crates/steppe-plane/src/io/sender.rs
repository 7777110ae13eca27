//! The outgoing body of a call.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::failure::Failure;
use super::link::{Handle, internal};
use super::stream::wait;
use crate::connection::SendError;
use crate::frame::{Head, Payment};
use crate::limits::EAGER_BYTES_MAX;

/// The body that this side sends.
#[derive(Debug)]
pub struct Sender {
    handle: Arc<Handle>,
}

impl Sender {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        Self { handle }
    }

    /// Begins a response: with [`Payment::Granted`] if a message may be larger than [`EAGER_BYTES_MAX`].
    /// Without this call, the length of the first message decides.
    ///
    /// # Errors
    /// [`Failure`] if the stream is closed, or if the response has begun already.
    pub async fn begin(&mut self, payment: Payment) -> Result<(), Failure> {
        let head = Head {
            payment,
            ..Head::response()
        };
        self.respond(&head).await
    }

    /// Sends a message; waits while the write queue of the stream is full.
    ///
    /// # Errors
    /// [`Failure`] if the stream is closed, or if the message is too large for its kind of credit.
    ///
    /// # Cancel safety
    /// A future that is dropped has not sent the message.
    pub async fn send(&mut self, bytes: Bytes) -> Result<(), Failure> {
        if !self.has_begun() {
            self.begin(payment_of(bytes.len())).await?;
        }
        poll_fn(|cx| self.poll_send(cx, &bytes, 0)).await
    }

    /// Sends a part of a message of an announced body, of which `rest` bytes follow in later parts; waits
    /// while the write queue of the stream is full.
    ///
    /// # Errors
    /// The errors of [`Sender::send`]; also if the lengths of parts contradict each other.
    ///
    /// # Cancel safety
    /// A future that is dropped has not sent the part.
    pub async fn send_part(&mut self, bytes: &Bytes, rest: u64) -> Result<(), Failure> {
        poll_fn(|cx| self.poll_send(cx, bytes, rest)).await
    }

    /// Waits until the peer has granted credit to an announced body. Parts that are sent before are queued here.
    ///
    /// # Errors
    /// [`Failure`] if the stream is closed.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub async fn granted(&self) -> Result<(), Failure> {
        poll_fn(|cx| match self.gone() {
            Some(failure) => Poll::Ready(Err(failure)),
            None => self.poll_granted(cx, 0).map(|_| Ok(())),
        })
        .await
    }

    /// Ready with the sum of credit that the peer has granted to an announced body, once it is above `known`.
    pub(crate) fn poll_granted(&self, cx: &mut Context<'_>, known: u64) -> Poll<u64> {
        let mut state = self.handle.link.lock();
        let state = &mut *state;
        let granted = state.connection.granted_to_send(self.handle.id);
        if let Some(granted) = granted.filter(|&granted| granted > known) {
            return Poll::Ready(granted);
        }
        if let Some(stream) = state.streams.get_mut(self.handle.id) {
            wait(&mut stream.wakers.send, cx.waker());
        }
        Poll::Pending
    }

    /// Sends a body of one message, and ends it.
    ///
    /// # Errors
    /// The errors of [`Sender::send`].
    pub async fn send_whole(mut self, bytes: Bytes) -> Result<(), Failure> {
        if !self.has_begun() {
            let head = Head {
                length: Some(bytes.len() as u64),
                payment: payment_of(bytes.len()),
                ..Head::response()
            };
            self.respond(&head).await?;
        }
        poll_fn(|cx| self.poll_send(cx, &bytes, 0)).await?;
        self.end()
    }

    /// Ends a complete body as *ok*.
    ///
    /// # Errors
    /// [`Failure`] if the stream is closed, or if the body is incomplete.
    pub fn end(self) -> Result<(), Failure> {
        self.handle.end(None)
    }

    /// Ends a response or an incomplete body with a failure.
    pub fn fail(self, failure: &Failure) {
        // The peer knows that a closed stream has ended.
        let _ = self.handle.end(Some(failure));
    }

    /// The reason why the stream is closed; `None` while it is not.
    pub(crate) fn gone(&self) -> Option<Failure> {
        self.handle.link.lock().failure_of(self.handle.id)
    }

    /// True if the peer asked for an early end, or the stream is closed.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        let state = self.handle.link.lock();
        let stream = state.streams.get(self.handle.id);
        stream.is_none_or(|stream| stream.is_stopped)
    }

    fn has_begun(&self) -> bool {
        let state = self.handle.link.lock();
        let stream = state.streams.get(self.handle.id);
        stream.is_none_or(|stream| stream.has_begun)
    }

    /// Begins a response with `head`; waits while the write queue of the connection is full.
    pub(crate) async fn respond(&mut self, head: &Head<'_>) -> Result<(), Failure> {
        poll_fn(|cx| {
            let mut state = self.handle.link.lock();
            match state.connection.respond(self.handle.id, head) {
                Ok(()) => {
                    if let Some(stream) = state.streams.get_mut(self.handle.id) {
                        stream.has_begun = true;
                    }
                    drop(state);
                    // A message may follow much later.
                    self.handle.link.wake();
                    Poll::Ready(Ok(()))
                }
                Err(SendError::Busy) => {
                    state.waiting.push(cx.waker().clone());
                    Poll::Pending
                }
                Err(error) => {
                    let failure = state.failure_of(self.handle.id);
                    Poll::Ready(Err(failure.unwrap_or_else(|| internal(error))))
                }
            }
        })
        .await
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &Bytes,
        rest: u64,
    ) -> Poll<Result<(), Failure>> {
        let mut state = self.handle.link.lock();
        let sent = state.connection.send(self.handle.id, bytes, rest);
        match sent {
            Ok(()) => {
                drop(state);
                self.handle.link.wake();
                Poll::Ready(Ok(()))
            }
            Err(SendError::Full) => {
                if let Some(stream) = state.streams.get_mut(self.handle.id) {
                    wait(&mut stream.wakers.send, cx.waker());
                }
                Poll::Pending
            }
            Err(error) => {
                let stream = state.streams.get(self.handle.id);
                let ended = stream.and_then(|stream| match &stream.peer_ended {
                    Some(Err(failure)) => Some(failure.clone()),
                    _ => stream.gone.clone(),
                });
                Poll::Ready(Err(ended.unwrap_or_else(|| internal(error))))
            }
        }
    }
}

pub(crate) fn payment_of(len: usize) -> Payment {
    if len > EAGER_BYTES_MAX {
        Payment::Granted
    } else {
        Payment::Standing
    }
}
