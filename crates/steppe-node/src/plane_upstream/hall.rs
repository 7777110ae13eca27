//! The exchange of pieces between the gateway and a call: one each way at a time.
//!
//! Both sides are polled by one task, so that no wakers are needed.

use std::cell::{RefCell, RefMut};
use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use steppe_http::config::Respond;

/// The pieces in exchange; see the module.
#[derive(Debug, Default)]
pub(super) struct Hall(RefCell<Rooms>);

#[derive(Debug, Default)]
pub(super) struct Rooms {
    /// A piece of the request, for the call.
    pub(super) request: Option<Bytes>,
    /// True after the last piece of the request.
    pub(super) is_request_whole: bool,
    /// The call wants more of the request.
    pub(super) wants_request: bool,
    /// A piece of the response, for the gateway.
    pub(super) response: Option<Bytes>,
    /// The service has begun its response.
    pub(super) has_begun: bool,
    /// The media type of the response.
    pub(super) content_type: Option<Box<str>>,
    /// The result of the call, once it has ended.
    pub(super) outcome: Option<Result<(), Respond>>,
}

impl Hall {
    /// The present pieces. Not to be held across a poll.
    pub(super) fn rooms(&self) -> RefMut<'_, Rooms> {
        self.0.borrow_mut()
    }

    /// The next piece of the request; `None` at its end.
    pub(super) async fn next_of_request(&self) -> Option<Bytes> {
        self.rooms().wants_request = true;
        poll_fn(|_| {
            let mut rooms = self.rooms();
            if let Some(piece) = rooms.request.take() {
                rooms.wants_request = false;
                return Poll::Ready(Some(piece));
            }
            if rooms.is_request_whole {
                return Poll::Ready(None);
            }
            Poll::Pending
        })
        .await
    }

    /// Passes a piece of the response on, once the one before it was taken.
    pub(super) async fn put_response(&self, piece: Bytes) {
        let mut piece = Some(piece);
        poll_fn(|_| {
            let mut rooms = self.rooms();
            if rooms.response.is_some() {
                return Poll::Pending;
            }
            rooms.response = piece.take();
            Poll::Ready(())
        })
        .await;
    }
}
