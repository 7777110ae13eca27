//! Shows a request to the filters of its route.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use super::behind::{Place, Seen};
use super::{Core, Exchange, Stage};
use crate::error::GatewayError;
use crate::filter::attached::Attached;
use crate::filter::{About, Ready, Serve, Step};
use crate::gateway::attempt::Attempt;
use crate::gateway::client::ClientContext;
use crate::gateway::snapshot::RouteFilter;
use crate::local::Local;

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
            return self.start_respond(&answer, now);
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
            match core.begin_filter(each, seen, now)? {
                Step::Continue => {}
                Step::Respond(respond) => {
                    metrics.answered();
                    core.answered_by = Some(place);
                    return self.start_respond(&respond, now);
                }
                Step::Serve(serve) => {
                    metrics.answered();
                    return self.serve(place, serve, now);
                }
                Step::Attach(filter) => {
                    let filters = self.filters.get_mut();
                    filters.push(Attached { place, filter });
                    self.stage = Stage::Waiting(place);
                    return Ok(());
                }
            }
        }
        self.start_first(client, &route, now)
    }

    /// Waits for the state that was attached last.
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
        let ready = ready!(filter.poll_ready(cx, head))?;
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
                self.start_respond(&respond, now)
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
            scheme: seen.client.scheme(),
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
