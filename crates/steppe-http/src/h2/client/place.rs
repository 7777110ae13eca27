//! The place of a stream, which the next one takes over: a request allocates nothing for it.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::stream::ClientStream;
use crate::error::GatewayError;
use crate::exchange::{Outgoing as Request, Part, Sink, Source, Upstream};
use crate::head::ResponseHead;
use crate::upstream::channel::{Channel, UpstreamStream};

/// Places that streams have left. There are no more than there were streams at once: their charge is kept.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "a stream is handed over in its box")]
pub(super) struct Places(RefCell<Vec<Box<Place>>>);

/// The place of a stream.
pub(super) struct Place(Option<TakenPlace>);

struct TakenPlace {
    stream: ClientStream,
    places: Rc<Places>,
}

impl Places {
    /// A place for `stream`, which begins.
    pub(super) fn take(self: &Rc<Self>, stream: ClientStream) -> Box<Place> {
        let left = self.0.borrow_mut().pop();
        let mut place = left.unwrap_or_else(|| Box::new(Place(None)));
        place.0 = Some(TakenPlace {
            stream,
            places: Rc::clone(self),
        });
        place
    }
}

impl Place {
    fn stream(&self) -> &ClientStream {
        let taken = self.0.as_ref();
        &taken.expect("it is there until it is finished").stream
    }

    fn stream_mut(&mut self) -> &mut ClientStream {
        let taken = self.0.as_mut();
        &mut taken.expect("it is there until it is finished").stream
    }
}

impl UpstreamStream for Place {
    fn finish(mut self: Box<Self>) -> Option<Box<dyn Channel>> {
        let places = Rc::clone(&self.0.as_ref()?.places);
        // Where it is: a stream is large.
        self.0 = None;
        places.0.borrow_mut().push(self);
        None
    }
}

impl Sink for Place {
    fn can_put(&self) -> bool {
        self.stream().can_put()
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        self.stream_mut().put(part)
    }

    fn written(&self) -> u64 {
        self.stream().written()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        self.stream_mut().poll_flush(cx)
    }
}

impl Source for Place {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        self.stream_mut().poll_part(cx)
    }

    fn is_starved(&self) -> bool {
        self.stream().is_starved()
    }
}

impl Upstream for Place {
    fn start(&mut self, request: &Request<'_>) -> Result<(), GatewayError> {
        self.stream_mut().start(request)
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        self.stream_mut().poll_head(cx)
    }

    fn start_tunnel(&mut self) {
        self.stream_mut().start_tunnel();
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.stream(), f)
    }
}
