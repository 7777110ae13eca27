//! Shows a request to the filters of its route.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_net::Deadline;

use super::behind::{Place, Seen};
use super::{Core, Exchange, Stage};
use crate::error::{GatewayError, Origin};
use crate::exchange::{Downstream, Part};
use crate::field::FieldId;
use crate::filter::attached::Attached;
use crate::filter::{About, Author, Ready, Serve, Step, WholeContent};
use crate::gateway::attempt::Attempt;
use crate::gateway::client::ClientContext;
use crate::gateway::snapshot::RouteFilter;
use crate::head::ResponseHead;
use crate::local::Local;
use crate::metrics::CloseReason;

impl Exchange {
    /// Shows the request to the filters from `place` on; after the last one the first
    /// attempt begins.
    pub(super) fn filter(
        &mut self,
        client: &ClientContext,
        place: usize,
        now: Instant,
    ) -> Result<(), GatewayError> {
        if let Some(answer) = self.core.answer.take() {
            return self.start_respond(&answer, Author::Gateway, now);
        }
        let core = &mut self.core;
        let route = Rc::clone(core.route.as_ref().expect("it was routed"));
        for (place, each) in route.filters.iter().enumerate().skip(place) {
            let metrics = &each.metrics;
            let seen = Seen {
                client,
                route: &route,
                place,
            };
            let begun = core.begin_filter(each, seen, now);
            match begun.inspect_err(|error| core.note_refusal(place, error))? {
                Step::Continue => {}
                Step::Respond(respond) => {
                    metrics.answered();
                    core.answered_by = Some(place);
                    return self.start_respond(&respond, Author::Gateway, now);
                }
                Step::Serve(serve) => {
                    metrics.answered();
                    return self.serve(place, serve, now);
                }
                Step::Attach(mut filter) => {
                    filter.meter(metrics);
                    let filters = self.filters.get_mut();
                    filters.push(Attached { place, filter });
                    self.core.content_at = now;
                    self.stage = Stage::Waiting(place);
                    return Ok(());
                }
            }
        }
        self.start_first(client, &route, now)
    }

    /// Gives the state that was attached last the request's content, if it wants that.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn poll_content<D>(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        deadline: &Deadline,
        down: &mut D,
    ) -> Poll<Result<(), GatewayError>>
    where
        D: Downstream + ?Sized,
    {
        let core = &mut self.core;
        let attached = self.filters.get_mut().last_mut();
        let Attached { place, filter } = attached.expect("it was attached");
        let place = *place;
        if !filter.wants_content() {
            return Poll::Ready(Ok(()));
        }
        while filter.wants_content() {
            if let Some(parts) = &mut core.content {
                // An earlier filter has taken it.
                let part = parts.pop_front().ok_or_else(GatewayError::bad_request)?;
                let put = filter.put_content(part);
                put.inspect_err(|error| core.note_refusal(place, error))?;
                continue;
            }
            core.answer_expectation(down)?;
            let Poll::Ready(part) = down.poll_part(cx) else {
                if let Poll::Ready(Err(error)) = down.poll_flush(cx) {
                    return Poll::Ready(Err(error));
                }
                return core.poll_late(cx, now, deadline, down.is_starved());
            };
            let part = part?;
            if let Part::Chunk(chunk) = &part {
                core.log.received_bytes += chunk.len() as u64;
            }
            core.content_at = now;
            let put = filter.put_content(part);
            put.inspect_err(|error| core.note_refusal(place, error))?;
        }
        deadline.clear();
        Poll::Ready(Ok(()))
    }

    /// Waits for the state that was attached last.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn poll_filter(
        &mut self,
        cx: &mut Context<'_>,
        client: &ClientContext,
        place: usize,
        now: Instant,
    ) -> Poll<Result<(), GatewayError>> {
        let attached = self.filters.get_mut().last_mut();
        let filter = &mut attached.expect("it was attached").filter;
        let head = self.core.head.as_mut().expect("no attempt has begun");
        let ready = ready!(filter.poll_ready(cx, head));
        let core = &mut self.core;
        let ready = ready.inspect_err(|error| core.note_refusal(place, error))?;
        if let Some(WholeContent { content, trailers }) = filter.take_content() {
            let parts = content.map(Part::Chunk).into_iter();
            let parts = parts.chain([Part::End(trailers)]).collect();
            self.core.content = Some(Box::new(parts));
        }
        if filter.request_body().is_some() {
            // What it rewrote can't be had again.
            self.core.replay.forget();
        }
        Poll::Ready(match ready {
            Ready::Continue => self.filter(client, place + 1, now),
            Ready::Respond(respond) => {
                let core = &mut self.core;
                let route = core.route.as_ref().expect("it was routed");
                route.filters[place].metrics.answered();
                core.answered_by = Some(place);
                self.start_respond(&respond, Author::Gateway, now)
            }
            Ready::Serve(serve) => {
                if let Some(route) = &self.core.route {
                    route.filters[place].metrics.answered();
                }
                self.serve(place, serve, now)
            }
        })
    }

    /// Answers with what the filter at `place` has: those behind it have seen it, or are not asked.
    fn serve(&mut self, place: usize, serve: Serve, now: Instant) -> Result<(), GatewayError> {
        let core = &mut self.core;
        core.places.end = place;
        core.log.served_from = Some(serve.from);
        // It is not sent anywhere.
        core.replay.forget();
        self.start(Attempt::Served(Local(serve.by)), now)
    }
}

impl Core {
    /// Notes that the filter at `place` refuses the request, for its metrics and the access log.
    fn note_refusal(&mut self, place: usize, error: &GatewayError) {
        if let Some(route) = self
            .route
            .as_ref()
            .filter(|_| error.origin != Origin::Internal)
        {
            route.filters[place].metrics.answered();
            self.answered_by = Some(place);
        }
    }

    /// A client that waits to be told to go on is told so: its request's content is wanted here (RFC 9110
    /// §10.1.1).
    fn answer_expectation<D>(&mut self, down: &mut D) -> Result<(), GatewayError>
    where
        D: Downstream + ?Sized,
    {
        let (Some(head), Some(route)) = (&mut self.head, &self.route) else {
            return Ok(());
        };
        if !head.fields.has(FieldId::Expect) || !down.can_put() {
            return Ok(());
        }
        head.fields.remove_where(|id| id == FieldId::Expect);
        let go_on = ResponseHead::go_on(&route.lease)?;
        down.put_interim(go_on)
    }

    /// Pending until the client is late with content.
    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn poll_late(
        &self,
        cx: &mut Context<'_>,
        now: Instant,
        deadline: &Deadline,
        is_starved: bool,
    ) -> Poll<Result<(), GatewayError>> {
        let late = match is_starved {
            true => CloseReason::OverBudget,
            false => CloseReason::BodyTimeout,
        };
        let late_at = self.content_at.checked_add(self.timeouts.request_content);
        let total_at = self.timeouts.total_at;
        for (at, reason) in [(late_at, late), (total_at, CloseReason::TotalTimeout)] {
            if at.is_some_and(|at| at <= now) {
                return Poll::Ready(Err(GatewayError::timeout(reason)));
            }
        }
        deadline.set_at(late_at.into_iter().chain(total_at).min());
        // The sweep wakes this task when it has passed.
        let _ = deadline.poll_passed(cx);
        Poll::Pending
    }

    /// The scheme that its client asked by, as far as trusted proxies vouch for it: the field is theirs or the
    /// gateway's own.
    pub(super) fn scheme(&self, client: &ClientContext) -> &'static str {
        let head = self.head.as_ref();
        let mut told =
            (head.into_iter()).flat_map(|head| head.fields.values(FieldId::XForwardedProto));
        let known = |told: &[u8]| {
            ["http", "https"]
                .into_iter()
                .find(|known| told == known.as_bytes())
        };
        match (told.next().and_then(known), told.next()) {
            (Some(scheme), None) => scheme,
            _ => client.scheme(),
        }
    }

    fn begin_filter(
        &mut self,
        each: &RouteFilter,
        seen: Seen<'_>,
        now: Instant,
    ) -> Result<Step, GatewayError> {
        let client = self.log.client.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let about = About {
            client,
            listener: &seen.client.listener.address,
            route: seen.route.report.name.as_deref().unwrap_or_default(),
            lease: &seen.route.lease,
            identity: &self.identity,
            pool: each.pool.as_ref(),
            scheme: self.scheme(seen.client),
            behind: &Place {
                seen,
                client,
                identity: &self.identity,
            },
            now,
        };
        each.filter
            .begin(&about, self.head.as_mut().expect("no attempt has begun"))
    }
}
