//! What is sent in a call.

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

/// The body that is sent to the peer.
#[derive(Debug)]
pub struct Sender {
    handle: Arc<Handle>,
}

impl Sender {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        Self { handle }
    }

    /// Begins a response whose messages may be larger than [`EAGER_BYTES_MAX`], or are all smaller.
    /// Without it the first message decides.
    ///
    /// # Errors
    /// [`Failure`] of a stream that is gone, or where it has begun.
    pub async fn begin(&mut self, payment: Payment) -> Result<(), Failure> {
        let head = Head {
            payment,
            ..Head::response()
        };
        self.respond(&head).await
    }

    /// Sends a message; waits while earlier ones wait to be written.
    ///
    /// # Errors
    /// [`Failure`] of a stream that is gone; of a message that is larger than those that were begun.
    ///
    /// # Cancel safety
    /// Where it is dropped, the message was not sent.
    pub async fn send(&mut self, bytes: Bytes) -> Result<(), Failure> {
        if !self.has_begun() {
            self.begin(payment_of(bytes.len())).await?;
        }
        poll_fn(|cx| self.poll_send(cx, &bytes, 0)).await
    }

    /// Sends a part of a message of an announced body, of which `rest` bytes follow in later parts; waits
    /// while earlier ones wait to be written.
    ///
    /// # Errors
    /// As [`Sender::send`]; of parts that do not follow from each other.
    ///
    /// # Cancel safety
    /// Where it is dropped, the part was not sent.
    pub async fn send_part(&mut self, bytes: &Bytes, rest: u64) -> Result<(), Failure> {
        poll_fn(|cx| self.poll_send(cx, bytes, rest)).await
    }

    /// Waits until the peer has room for some of an announced body: what is sent before waits here.
    ///
    /// # Errors
    /// [`Failure`] of a stream that is gone.
    ///
    /// # Cancel safety
    /// Nothing is lost where it is dropped.
    pub async fn granted(&self) -> Result<(), Failure> {
        poll_fn(|cx| match self.gone() {
            Some(failure) => Poll::Ready(Err(failure)),
            None => self.poll_granted(cx, 0).map(|_| Ok(())),
        })
        .await
    }

    /// Ready with all that the peer has granted to an announced body, once that is more than `known`.
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

    /// Sends a body of one message, and ends.
    ///
    /// # Errors
    /// As [`Sender::send`].
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

    /// Ends the body, as it should.
    ///
    /// # Errors
    /// [`Failure`] of a stream that is gone, or of a body that lacks something.
    pub fn end(self) -> Result<(), Failure> {
        self.handle.end(None)
    }

    /// Ends a response, or a body that lacks something, with a failure.
    pub fn fail(self, failure: &Failure) {
        // Where it is gone, the peer knows an end.
        let _ = self.handle.end(Some(failure));
    }

    /// Why the whole stream is gone, if it is.
    pub(crate) fn gone(&self) -> Option<Failure> {
        self.handle.link.lock().failure_of(self.handle.id)
    }

    /// Whether the peer asked to end early.
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

    /// Begins a response as `head` says.
    pub(crate) async fn respond(&mut self, head: &Head<'_>) -> Result<(), Failure> {
        poll_fn(|cx| {
            let mut state = self.handle.link.lock();
            match state.connection.respond(self.handle.id, head) {
                Ok(()) => {
                    if let Some(stream) = state.streams.get_mut(self.handle.id) {
                        stream.has_begun = true;
                    }
                    drop(state);
                    // It may be long before a message follows.
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
