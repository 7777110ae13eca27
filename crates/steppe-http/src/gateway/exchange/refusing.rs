//! Answers of the gateway's own: errors, and what no route is for.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_net::Deadline;

use super::beginning::allowed_methods;
use super::{ClientContext, End, Exchange, Stage};
use crate::error::{GatewayError, Origin};
use crate::exchange::{Downstream, Page, Refusal, RefusalContent};
use crate::gateway::ending::Ending;
use crate::gateway::snapshot::Snapshot;
use crate::grpc::{Code, Dialect};
use crate::head::RequestHead;
use crate::metrics::CloseReason;
use crate::relay::{Relay, Timeouts};
use crate::router::NoRoute;
use crate::status;

impl Exchange {
    /// Nobody is connected to whom a client names.
    pub(super) fn refuse_connect<D>(&mut self, client: &ClientContext, down: &mut D)
    where
        D: Downstream + ?Sized,
    {
        let error = GatewayError::downstream(CloseReason::Unsupported, 501);
        self.refuse(client, down, error, &[]);
    }

    /// No route is for it.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn refuse_unrouted<D>(
        &mut self,
        client: &ClientContext,
        down: &mut D,
        no_route: NoRoute,
        snapshot: &Snapshot,
        head: &RequestHead,
    ) where
        D: Downstream + ?Sized,
    {
        match no_route {
            _ if head.is_connect() => self.refuse_connect(client, down),
            NoRoute::NotFound => self.respond(client, down, 404, &[]),
            NoRoute::MethodNotAllowed => {
                let allowed = allowed_methods(client, snapshot, head);
                self.respond(client, down, 405, &[("allow", &allowed)]);
            }
        }
    }

    /// Queues a line of the error log where `error` is its upstream's.
    pub(super) fn log_failure(
        &mut self,
        client: &ClientContext,
        error: &GatewayError,
        now: Instant,
    ) {
        let core = &mut self.core;
        let pool = core.route.as_ref().and_then(|route| route.pool());
        if let Some(pool) = pool.filter(|_| error.origin == Origin::Upstream) {
            let tried = core.selection.tried();
            let failed = core.log.failed(pool.upstream(), tried, error);
            let snapshot = client.state.current();
            let line = snapshot.gateway.shared.errors.write(failed, now);
            client.totals().error_line(line);
        }
    }

    /// Answers with an error, and counts why.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn refuse<D>(
        &mut self,
        client: &ClientContext,
        down: &mut D,
        error: GatewayError,
        fields: &[(&str, &str)],
    ) where
        D: Downstream + ?Sized,
    {
        client.count_closed(error.reason);
        self.core.log.reason = Some(error.reason);
        if error.status == 499 {
            self.core.log.refused(error.status, 0);
            self.stage = Stage::Over(End::Aborted);
            return;
        }
        let retry_after = [("retry-after", "1")];
        let is_overloaded = error.status == 503;
        let fields = if is_overloaded { &retry_after } else { fields };
        self.respond(client, down, error.status, fields);
    }

    /// Answers with a status and a word about it.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn respond<D>(
        &mut self,
        client: &ClientContext,
        down: &mut D,
        status: u16,
        fields: &[(&str, &str)],
    ) where
        D: Downstream + ?Sized,
    {
        let settings = client.settings();
        let transport_security = settings.strict_transport_security.as_deref();
        let transport_security =
            transport_security.map(|value| ("strict-transport-security", value));
        // A call is told beside 200 (gRPC's "Trailers-Only").
        let code = Code::of(status, self.core.log.reason);
        let dialect = self.core.call.as_ref().map(|call| call.dialect);
        let media_type = dialect.map_or("", Dialect::media_type_of_refusal);
        let of_call = [
            ("content-type", media_type),
            ("grpc-status", code.as_str()),
            ("grpc-message", status::reason(status)),
        ];
        let is_call = self.core.call.is_some();
        let (status, of_call) = match &mut self.core.call {
            Some(call) => {
                call.refuse(code);
                (200, &of_call[..])
            }
            None => (status, &[][..]),
        };
        let with_ours: Vec<_>;
        let fields = if is_call || transport_security.is_some() {
            let ours = transport_security.iter().chain(of_call);
            with_ours = fields.iter().chain(ours).copied().collect();
            &with_ours
        } else {
            fields
        };
        // What the request held is free for others.
        self.attempt = None;
        self.hedge = None;
        self.core.selection.forget_probe();
        self.core.head = None;
        self.core.replay.forget();
        let page = self.page(status).filter(|_| !is_call);
        let content = match &page {
            _ if is_call => RefusalContent::Nothing,
            Some(page) => RefusalContent::Page(page),
            None => RefusalContent::Word,
        };
        let sent = down.put_refusal(&Refusal {
            status,
            fields,
            content,
        });
        self.core.log.refused(status, sent.unwrap_or(0));
        self.relay = Relay::new(Timeouts::default(), self.core.began_at);
        self.stage = match sent {
            Some(_) => Stage::Refusing,
            None => Stage::Over(End::Aborted),
        };
    }

    /// Gives the next stage of an exchange whose response has begun, and failed with `error`: a call is told in
    /// trailers, where they can follow what its client has.
    pub(super) fn stage_after_cut(&mut self, error: &GatewayError) -> Stage {
        let is_open = self.relay.is_response_open() && error.origin != Origin::Downstream;
        match &mut self.core.call {
            Some(call) if is_open && call.takes_status() => {
                let code = Code::of(error.status, Some(error.reason));
                call.refuse(code);
                self.hedge = None;
                Stage::Ending(Ending::new(code))
            }
            _ => Stage::Over(End::Aborted),
        }
    }

    /// What the first filter that has something to say about `status` says.
    fn page(&mut self, status: u16) -> Option<Arc<Page>> {
        let mut filters = self.filters.get_mut().iter();
        filters.find_map(|attached| attached.filter.page(status))
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn poll_refusal<D>(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        client: &ClientContext,
        deadline: &Deadline,
        down: &mut D,
    ) -> Poll<End>
    where
        D: Downstream + ?Sized,
    {
        let flushed = match &mut self.stage {
            Stage::Ending(ending) => ending.poll(cx, client.exchange_lease(), down),
            _ => down.poll_flush(cx),
        };
        if let Poll::Ready(flushed) = flushed {
            let end = flushed.map_or(End::Aborted, |()| End::Response);
            return Poll::Ready(end);
        }
        if down.poll_gone(cx).is_ready() {
            return Poll::Ready(End::Aborted);
        }
        if !self.core.log.is_refusal_timed {
            self.core.log.is_refusal_timed = true;
            deadline.set(now, client.write_timeout());
        }
        ready!(deadline.poll_passed(cx));
        Poll::Ready(End::Aborted)
    }
}
