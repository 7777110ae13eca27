//! The request's metrics and its lines of the access and error logs, written when its exchange is over.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::access::{Ended, Record, WorkerAccess};
use crate::error::GatewayError;
use crate::error_log::{Failed, RequestName};
use crate::filter::ServedFrom;
use crate::forwarded::Peer;
use crate::gateway::client::ClientContext;
use crate::gateway::snapshot::{RouteReport, Snapshot, WorkerRoute};
use crate::head::{RequestHead, RequestView};
use crate::metrics::{Answered, CloseReason, TotalMetrics};
use crate::upstream::{TargetState, UpstreamState};

/// The line of an exchange in flight, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// `None` while its route is not known.
    report: Option<Rc<RouteReport>>,
    /// The status that the client was sent.
    status: Option<u16>,
    answered: Option<Answered>,
    /// The client, as far as trusted proxies vouch for it.
    pub(super) client: Option<IpAddr>,
    /// The reason why it was aborted.
    pub(super) reason: Option<CloseReason>,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    tunnel: Option<TunnelCount>,
    /// `None`: no cache had it.
    pub(super) served_from: Option<ServedFrom>,
    access: Option<Access>,
    /// Host and path of a request to an upstream, for the error log.
    name: RequestName,
    /// The server of an attempt that failed, and is not repeated.
    failed_at: Option<Arc<TargetState>>,
}

/// The facts that the access log alone needs.
#[derive(Debug)]
struct Access {
    log: Rc<WorkerAccess>,
    peer: Peer,
    record: Option<Record>,
    /// The server that was asked last.
    server: Option<Arc<TargetState>>,
}

/// Counts a tunnel for as long as it lasts.
#[derive(Debug)]
struct TunnelCount(TotalMetrics);

impl Log {
    /// Begins the line of the access log, where there is one: a request came from `peer`, and this much of it could be
    /// read.
    pub(super) fn begin(
        &mut self,
        snapshot: &Snapshot,
        peer: Peer,
        request: Option<&RequestView<'_>>,
    ) {
        self.access = snapshot.access.as_ref().map(|log| Access {
            log: Rc::clone(log),
            peer,
            record: request.and_then(|request| log.capture(request)),
            server: None,
        });
    }

    pub(super) fn set_report(&mut self, report: &Rc<RouteReport>) {
        self.report = Some(Rc::clone(report));
    }

    pub(super) fn report(&self) -> Option<&Rc<RouteReport>> {
        self.report.as_ref()
    }

    /// Notes host and path of a request for an upstream, whose failures have a line in the error log.
    pub(super) fn set_name(&mut self, route: &WorkerRoute, head: &RequestHead) {
        if route.pool().is_some() {
            self.name.set(head.host(), head.path());
        }
    }

    /// The last attempt failed at `server`.
    pub(super) fn set_failed_at(&mut self, server: &Arc<TargetState>) {
        self.failed_at = Some(Arc::clone(server));
    }

    /// The line of the error log for a request to `upstream` that ends with `error`, after attempts at the servers
    /// that were `tried` failed.
    pub(super) fn failed(
        &mut self,
        upstream: &Arc<UpstreamState>,
        tried: &[Arc<TargetState>],
        error: &GatewayError,
    ) -> Failed {
        let last = self.failed_at.take();
        Failed {
            client: self.client,
            name: self.name,
            upstream: Arc::clone(upstream),
            attempts: tried.len() + usize::from(last.is_some()),
            server: last.or_else(|| tried.last().cloned()),
            reason: error.reason,
            status: error.status,
            omitted: 0,
        }
    }

    /// A server is asked.
    pub(super) fn set_server(&mut self, server: &Arc<TargetState>) {
        if let Some(access) = &mut self.access {
            access.server = Some(Arc::clone(server));
        }
    }

    /// The client is sent the upstream's response.
    pub(super) fn note_status(&mut self, status: u16) {
        self.status = Some(status);
        self.answered = Some(Answered::Upstream);
    }

    /// The client is sent a response of the gateway's own, with so much content.
    pub(super) fn refused(&mut self, status: u16, sent_bytes: u64) {
        self.status = Some(status);
        self.answered = Some(Answered::Gateway);
        self.sent_bytes = sent_bytes;
    }

    pub(super) fn begin_tunnel(&mut self, totals: &TotalMetrics) {
        totals.tunnel_opened();
        self.tunnel = Some(TunnelCount(totals.clone()));
    }

    /// The status that the client was sent, or would have been.
    pub(super) fn status(&self) -> u16 {
        self.status.unwrap_or(502)
    }

    /// Counts an exchange of `client`, which `filter` answered if any did, and writes its line.
    pub(super) fn finish(
        &mut self,
        client: &ClientContext,
        elapsed: Duration,
        filter: Option<&str>,
    ) {
        let Some(report) = self.report.take() else {
            return;
        };
        let status = self.status();
        let by_upstream = report.upstream.is_some() && self.answered == Some(Answered::Upstream);
        let answered = if by_upstream {
            Answered::Upstream
        } else {
            Answered::Gateway
        };
        report.metrics.request(answered, status, elapsed);
        let Some(access) = self.access.take() else {
            return;
        };
        access.log.ended(Ended {
            client: self.client.unwrap_or_else(|| access.peer.address()),
            peer: &access.peer,
            tls: client.tls().map(|session| &session.agreed),
            record: access.record,
            status,
            sent_bytes: self.sent_bytes,
            received_bytes: self.received_bytes,
            duration: elapsed,
            route: report.name.as_deref(),
            upstream: report.upstream.as_deref(),
            server: access.server.as_ref().map(|server| server.address()),
            filter,
            reason: self.reason,
            served_from: self.served_from,
        });
    }
}

impl Drop for TunnelCount {
    fn drop(&mut self) {
        self.0.tunnel_closed();
    }
}
