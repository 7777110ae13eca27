//! The record of one exchange from its first byte to its last: metrics, logs, trace, and the status of a gRPC call.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use super::grpc_call::GrpcCall;
use super::log::Log;
use super::request::{Completed, End};
use super::trace::{Trace, TraceFacts};
use crate::error::{GatewayError, Origin};
use crate::gateway::client::ClientContext;
use crate::grpc::Code;
use crate::upstream::{Pool, Selection, TargetState};

/// Everything that is counted, logged and traced of an exchange.
pub(super) struct Journal {
    pub(super) began_at: Instant,
    pub(super) log: Log,
    /// `None`: it is not sampled.
    pub(super) trace: Option<Trace>,
    /// The call of gRPC that it is, whose client gets errors in gRPC's way.
    pub(super) grpc_call: Option<GrpcCall>,
    /// The name of the filter that answered.
    pub(super) answered_by: Option<Rc<str>>,
    /// The number of times that the request was sent again.
    pub(super) resends: u32,
}

impl Journal {
    /// The journal of an exchange whose first byte came at `began_at`.
    pub(super) fn new(began_at: Instant) -> Self {
        Self {
            began_at,
            log: Log::default(),
            trace: None,
            grpc_call: None,
            answered_by: None,
            resends: 0,
        }
    }

    /// Notes that `server` is asked, or answers in place of the one that was.
    pub(super) fn asked(&mut self, server: &Arc<TargetState>) {
        self.log.set_server(server);
        if let Some(trace) = &mut self.trace {
            trace.set_server(server);
        }
    }

    /// Queues a line of the error log where `error` is the upstream's.
    pub(super) fn failed(&mut self, error: &GatewayError, at: &FailedAt<'_>) {
        let Some(pool) = at.pool.filter(|_| error.origin == Origin::Upstream) else {
            return;
        };
        let failed = self
            .log
            .failed(pool.upstream(), at.selection.tried(), error);
        let snapshot = at.client.state.current();
        let line = snapshot.gateway.shared.errors.write(failed, at.now);
        at.client.totals().error_line(line);
    }

    /// Counts the exchange and writes its lines.
    pub(super) fn finish(&mut self, client: &ClientContext, completed: Completed) {
        let Completed { end, at } = completed;
        if let Some(call) = &mut self.grpc_call {
            let cut = (end == End::Aborted).then(|| Code::of_cut(self.log.reason));
            call.finish(client, cut, self.log.status());
        }
        let filter = self.answered_by.as_deref();
        if let Some(trace) = self.trace.take() {
            trace.finish(&TraceFacts {
                log: &self.log,
                filter,
                resends: self.resends,
                ended_at: at,
            });
        }
        let elapsed = at.saturating_duration_since(self.began_at);
        self.log.finish(client, elapsed, filter);
    }
}

/// An exchange at the moment in which it failed.
pub(super) struct FailedAt<'a> {
    pub(super) client: &'a ClientContext,
    pub(super) now: Instant,
    /// `None`: its route has no servers.
    pub(super) pool: Option<&'a Rc<Pool>>,
    pub(super) selection: &'a Selection,
}
