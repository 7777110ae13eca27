//! The filters' states of one exchange, and an upstream seen through them.

use std::cell::RefCell;
use std::task::{Context, Poll, ready};

use steppe_mem::Lease;

use super::ExchangeFilter;
use crate::error::GatewayError;
use crate::exchange::{Outgoing, Part, Sink, Source, Upstream};
use crate::head::ResponseHead;

/// States in the order of the filters that attached them.
pub(crate) type AttachedFilters = RefCell<Vec<Attached>>;

/// The state of the filter at `place` of its route.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) place: usize,
    pub(crate) filter: Box<dyn ExchangeFilter>,
}

/// Where the rewriting of an attempt's content is at.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// A request part was put, and not all of what it became went on.
    has_request_input: bool,
    /// A filter waits for budget to rewrite with.
    is_starved: bool,
}

/// An upstream whose content is rewritten on its way.
pub(crate) struct Filtered<'a> {
    pub(crate) upstream: &'a mut dyn Upstream,
    pub(crate) filters: &'a AttachedFilters,
    pub(crate) progress: &'a mut Progress,
    pub(crate) lease: &'a Lease,
}

type Polled<T> = Poll<Result<T, GatewayError>>;

impl Filtered<'_> {
    /// Has what was put go on; ready when another part may be put.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Polled<()> {
        while self.progress.has_request_input {
            if !self.upstream.can_put() {
                ready!(self.upstream.poll_flush(cx))?;
                continue;
            }
            let mut filters = self.filters.borrow_mut();
            let content = RewrittenContent {
                of: MessageKind::Request,
                lease: self.lease,
            };
            let mut nothing = |_: &mut Context<'_>| Poll::Ready(Ok(None));
            let pulled = content.pull(cx, &mut filters, &mut nothing);
            self.progress.is_starved = pulled.is_pending();
            match ready!(pulled)? {
                Some(part) => {
                    self.progress.has_request_input = !matches!(part, Part::End(_));
                    self.upstream.put(part)?;
                }
                None => self.progress.has_request_input = false,
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The message whose content is rewritten.
#[derive(Debug, Clone, Copy)]
enum MessageKind {
    Request,
    Response,
}

/// Content that passes the filters which rewrite it, without a list of them: it is pulled at every poll.
struct RewrittenContent<'a> {
    of: MessageKind,
    lease: &'a Lease,
}

impl RewrittenContent<'_> {
    /// The next part that comes out of `filters`; `source` feeds the one that the message passes first. `None`: the source
    /// has no more for now.
    fn pull(
        &self,
        cx: &mut Context<'_>,
        filters: &mut [Attached],
        source: &mut dyn FnMut(&mut Context<'_>) -> Polled<Option<Part>>,
    ) -> Polled<Option<Part>> {
        let split = match self.of {
            MessageKind::Request => filters.split_last_mut(),
            // The response passes the filters in reverse.
            MessageKind::Response => filters.split_first_mut(),
        };
        let Some((last, before)) = split else {
            return source(cx);
        };
        let transform = match self.of {
            MessageKind::Request => last.filter.request_body(),
            MessageKind::Response => last.filter.response_body(),
        };
        let Some(transform) = transform else {
            return self.pull(cx, before, source);
        };
        loop {
            if let Some(part) = ready!(transform.poll_part(cx, self.lease))? {
                return Poll::Ready(Ok(Some(part)));
            }
            match self.pull(cx, before, source)? {
                Poll::Ready(Some(part)) => transform.put(part)?,
                Poll::Ready(None) => return Poll::Ready(Ok(None)),
                Poll::Pending => return transform.poll_paused(cx, self.lease).map_ok(Some),
            }
        }
    }
}

impl Sink for Filtered<'_> {
    fn can_put(&self) -> bool {
        !self.progress.has_request_input && self.upstream.can_put()
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        let mut filters = self.filters.borrow_mut();
        let first = filters
            .iter_mut()
            .find_map(|attached| attached.filter.request_body());
        match first {
            Some(first) => {
                self.progress.has_request_input = true;
                first.put(part)
            }
            None => self.upstream.put(part),
        }
    }

    fn written(&self) -> u64 {
        self.upstream.written()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Polled<()> {
        let put = self.poll_request(cx)?;
        ready!(self.upstream.poll_flush(cx))?;
        put.map(Ok)
    }
}

impl Source for Filtered<'_> {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Polled<Part> {
        let mut filters = self.filters.borrow_mut();
        let content = RewrittenContent {
            of: MessageKind::Response,
            lease: self.lease,
        };
        let upstream = &mut self.upstream;
        let mut waits_for_upstream = false;
        let pulled = content.pull(cx, &mut filters, &mut |cx| {
            let part = upstream.poll_part(cx).map_ok(Some);
            waits_for_upstream = part.is_pending();
            part
        });
        self.progress.is_starved = pulled.is_pending() && !waits_for_upstream;
        let part = ready!(pulled)?;
        Poll::Ready(Ok(part.expect("an upstream has parts up to its end")))
    }

    fn is_starved(&self) -> bool {
        self.progress.is_starved || self.upstream.is_starved()
    }
}

impl Upstream for Filtered<'_> {
    fn start(&mut self, request: &Outgoing<'_>) -> Result<(), GatewayError> {
        self.upstream.start(request)
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Polled<ResponseHead> {
        self.upstream.poll_head(cx)
    }

    fn start_tunnel(&mut self) {
        self.upstream.start_tunnel();
    }
}
