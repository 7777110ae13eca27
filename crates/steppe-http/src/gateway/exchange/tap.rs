//! The exchange's view of its relay: filters see what passes, and the journal and the server's call learn of it.

use std::time::Instant;

use super::grpc_call::GrpcCall;
use super::journal::Journal;
use super::retry;
use super::routed::Routed;
use super::standing::Standing;
use crate::error::GatewayError;
use crate::exchange::Part;
use crate::field::{FieldBlock, FieldId};
use crate::filter::Author;
use crate::filter::attached::AttachedFilters;
use crate::gateway::client::ClientContext;
use crate::head::ResponseHead;
use crate::metrics::CloseReason;
use crate::relay::{Continue, Tap};
use crate::upstream::Answering;

/// An exchange as its relay sees it.
pub(super) struct ExchangeTap<'a> {
    pub(super) routed: &'a mut Routed,
    pub(super) journal: &'a mut Journal,
    pub(super) standing: &'a mut Standing,
    pub(super) filters: &'a AttachedFilters,
    pub(super) client: &'a ClientContext,
    /// The server that is asked; `None` where the response is made here.
    pub(super) answering: Option<Answering<'a>>,
    pub(super) author: Author,
}

impl Tap for ExchangeTap<'_> {
    fn replay(&mut self) -> Option<Result<Part, GatewayError>> {
        if let Some(part) = self.routed.replay.next() {
            return Some(part.map_err(GatewayError::from));
        }
        let mut part = self.routed.content.as_mut()?.pop_front()?;
        self.pass_request_part(&mut part);
        Some(Ok(part))
    }

    fn request_part(&mut self, part: &mut Part) -> Result<(), GatewayError> {
        if let Part::Chunk(chunk) = part {
            self.journal.log.received_bytes += chunk.len() as u64;
        }
        self.pass_request_part(part);
        Ok(())
    }

    fn interim_head(&mut self, head: &mut ResponseHead) {
        self.routed.replay.forget();
        // Filters see final heads alone: fields that they would take out of those pass only where no filter is, but
        // for links, which are the purpose of early hints (RFC 8297).
        if self.routed.filters().next().is_some() {
            head.fields.keep_only(b"link");
        }
    }

    fn response_head(
        &mut self,
        head: &mut ResponseHead,
        now: Instant,
    ) -> Result<Continue, GatewayError> {
        if let Some(call) = &mut self.journal.grpc_call {
            call.note_head(head);
        }
        self.server_answered(head, now)?;
        self.filter_response(head)?;
        if !self.routed.is_subrequest() {
            introduce(self.client, head)?;
        }
        // The head was accepted: the request is not sent again, also where the head is held.
        self.routed.replay.forget();
        self.standing.has_passed = true;
        self.journal.log.note_status(head.status);
        let mut attached = self.filters.borrow_mut();
        if head.is_tunnel() {
            self.journal.log.begin_tunnel(self.client.totals());
            attached.clear();
            self.standing.is_tunnel = true;
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
            Part::Chunk(chunk) => self.journal.log.sent_bytes += chunk.len() as u64,
            Part::End(Some(trailers)) => {
                if let Some(call) = &mut self.journal.grpc_call {
                    call.see(trailers);
                }
                let filters = self.routed.filters().rev();
                filters.for_each(|filter| filter.response_trailers(trailers));
            }
            Part::End(None) => {}
        }
        Ok(())
    }
}

impl ExchangeTap<'_> {
    /// A server has answered: its call learns that, and the answer is turned down where another server is to be asked.
    fn server_answered(
        &mut self,
        head: &mut ResponseHead,
        now: Instant,
    ) -> Result<(), GatewayError> {
        let Some(answering) = &mut self.answering else {
            return Ok(());
        };
        let routed = &mut *self.routed;
        answering.note_status(head.status, &mut routed.selection, now);
        let code = self
            .journal
            .grpc_call
            .as_ref()
            .and_then(GrpcCall::server_code);
        let turned_down_on = retry::turned_down_on(head, code, &routed.replay);
        let (pool, server) = (answering.pool(), answering.server);
        let is_turned_down = turned_down_on.is_some_and(|on| match self.standing.is_hedged {
            // The second server has the request already: it is not sent again.
            true => pool.is_retried_on(&mut routed.selection, on, now),
            false => pool.try_spend_retry(&mut routed.selection, on, server),
        });
        if is_turned_down {
            self.standing.is_turned_down = true;
            return Err(GatewayError::upstream(CloseReason::UpstreamReset, 503));
        }
        // The response to a subrequest may be stored, and sent to many clients.
        if routed.is_subrequest() {
            return Ok(());
        }
        let pool = answering.pool();
        pool.set_affinity(&routed.selection, answering.server, &mut head.fields)
    }

    /// Shows the head of the response to the filters, in reverse.
    fn filter_response(&mut self, head: &mut ResponseHead) -> Result<(), GatewayError> {
        let routed = &*self.routed;
        let mut attached = self.filters.borrow_mut();
        for place in routed.places.clone().rev() {
            if routed.answered_by == Some(place) {
                continue;
            }
            routed.route.filters[place].filter.response(head)?;
            // Each filter has one state at most.
            if let Some(state) = attached.iter_mut().find(|state| state.place == place) {
                state.filter.written_by(self.author);
                state.filter.response(head)?;
            }
        }
        Ok(())
    }

    /// A part of the request goes on.
    fn pass_request_part(&mut self, part: &mut Part) {
        let routed = &mut *self.routed;
        if let Part::End(Some(trailers)) = part {
            let filters = routed.filters();
            filters.for_each(|filter| filter.request_trailers(trailers));
        }
        routed.replay.record(part, &routed.route.lease);
    }
}

/// Adds the fields that the gateway itself sends to a client.
fn introduce(client: &ClientContext, head: &mut ResponseHead) -> Result<(), GatewayError> {
    if let Some(value) = &client.settings().strict_transport_security {
        head.fields
            .set(b"strict-transport-security", value.as_bytes())?;
    }
    let via = head.version.via();
    head.fields.append_known(FieldId::Via, b"via", via)?;
    Ok(())
}

/// True for a response that lasts for as long as its server has something to send (WHATWG HTML §9.2).
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
