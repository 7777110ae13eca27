//! What an exchange does to what passes through its relay, and what it learns of the
//! server meanwhile.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::{ClientContext, Core};
use crate::error::GatewayError;
use crate::exchange::Part;
use crate::field::{FieldBlock, FieldId};
use crate::filter::attached::AttachedFilters;
use crate::filter::{Author, Filter};
use crate::gateway::snapshot::RouteFilter;
use crate::head::ResponseHead;
use crate::relay::{Continue, Tap};
use crate::upstream::TargetState;

/// An exchange as its relay sees it.
pub(super) struct ExchangeTap<'a> {
    pub(super) core: &'a mut Core,
    pub(super) filters: &'a AttachedFilters,
    pub(super) client: &'a ClientContext,
    /// The server that is asked; `None` where the response is made here.
    pub(super) target: Option<&'a Arc<TargetState>>,
    pub(super) author: Author,
}

impl Tap for ExchangeTap<'_> {
    fn replay(&mut self) -> Option<Result<Part, GatewayError>> {
        if let Some(part) = self.core.replay.next() {
            return Some(part.map_err(GatewayError::from));
        }
        let mut part = self.core.content.as_mut()?.pop_front()?;
        self.pass_request_part(&mut part);
        Some(Ok(part))
    }

    fn request_part(&mut self, part: &mut Part) -> Result<(), GatewayError> {
        if let Part::Chunk(chunk) = part {
            self.core.log.received_bytes += chunk.len() as u64;
        }
        self.pass_request_part(part);
        Ok(())
    }

    fn interim_head(&mut self, head: &mut ResponseHead) {
        self.core.replay.forget();
        // Filters see final heads alone: what they might take out of those does not come before them, but for
        // links, which is what early hints are for (RFC 8297).
        if self.core.filters().next().is_some() {
            head.fields.keep_only(b"link");
        }
    }

    fn response_head(
        &mut self,
        head: &mut ResponseHead,
        now: Instant,
    ) -> Result<Continue, GatewayError> {
        if let Some(call) = &mut self.core.call {
            call.answered(head);
        }
        if let Some(target) = self.target {
            self.core.answered(target, head, now)?;
        }
        let core = &mut *self.core;
        let route = core.route.as_ref().expect("only a tunnel has none");
        let mut attached = self.filters.borrow_mut();
        let places = core.places.clone();
        let filters = route.filters.iter().enumerate().take(places.end);
        for (place, RouteFilter { filter, .. }) in filters.skip(places.start).rev() {
            if core.answered_by == Some(place) {
                continue;
            }
            filter.response(head)?;
            // Each filter has one state at most.
            if let Some(state) = attached.iter_mut().find(|state| state.place == place) {
                state.filter.written_by(self.author);
                state.filter.response(head)?;
            }
        }
        // What stands behind a filter has no client of its own.
        if core.places.start == 0 {
            self.client.introduce(head)?;
        }
        // It is passed on: the request is not sent again.
        core.replay.forget();
        core.head = None;
        core.verdict.has_passed = true;
        core.log.answered(head.status);
        if head.is_tunnel() {
            core.log.begin_tunnel(self.client.totals());
            attached.clear();
            core.route = None;
            return Ok(Continue::Bounded);
        }
        Ok(if attached.iter().any(|state| state.filter.holds_head()) {
            Continue::Held
        } else if is_event_stream(head) {
            Continue::Endless
        } else {
            Continue::Bounded
        })
    }

    fn release_head(&mut self, head: &mut ResponseHead) {
        for state in self.filters.borrow_mut().iter_mut().rev() {
            state.filter.release_head(head);
        }
    }

    fn response_part(&mut self, part: &mut Part) -> Result<(), GatewayError> {
        match part {
            Part::Chunk(chunk) => self.core.log.sent_bytes += chunk.len() as u64,
            Part::End(Some(trailers)) => {
                if let Some(call) = &mut self.core.call {
                    call.see(trailers);
                }
                let filters = self.core.filters().rev();
                filters.for_each(|filter| filter.response_trailers(trailers));
            }
            Part::End(None) => {}
        }
        Ok(())
    }
}

impl ClientContext {
    /// Adds what the gateway itself says to a client.
    fn introduce(&self, head: &mut ResponseHead) -> Result<(), GatewayError> {
        if let Some(value) = &self.settings().strict_transport_security {
            head.fields
                .set(b"strict-transport-security", value.as_bytes())?;
        }
        let via = super::via_value(head.version);
        head.fields.append_known(FieldId::Via, b"via", via)?;
        Ok(())
    }
}

impl ExchangeTap<'_> {
    /// A part of the request goes on.
    fn pass_request_part(&mut self, part: &mut Part) {
        let core = &mut *self.core;
        if let Part::End(Some(trailers)) = part {
            let filters = core.filters();
            filters.for_each(|filter| filter.request_trailers(trailers));
        }
        if let Some(route) = &core.route {
            core.replay.record(part, &route.lease);
            if !core.replay.is_kept() {
                core.head = None;
            }
        }
    }
}

impl Core {
    /// Those of the route, in the order in which they see a request.
    fn filters(&self) -> impl DoubleEndedIterator<Item = &Arc<dyn Filter>> {
        let Range { start, end } = self.places;
        let filters = self.route.iter().flat_map(move |route| {
            let end = end.min(route.filters.len());
            &route.filters[start.min(end)..end]
        });
        filters.map(|each| &each.filter)
    }
}

/// WHATWG HTML §9.2: it lasts for as long as its server has something to say.
fn is_event_stream(head: &ResponseHead) -> bool {
    const TYPE: &[u8] = b"text/event-stream";
    let value = first_value(&head.fields);
    value
        .get(..TYPE.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(TYPE))
}

fn first_value(fields: &FieldBlock) -> &[u8] {
    let mut values = fields.values(FieldId::ContentType);
    values.next().unwrap_or_default()
}
