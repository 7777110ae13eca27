//! The trace that an exchange is part of, and its span where that is kept.
//!
//! Invariant: without `[trace]` nothing of a request is read or changed; with it, a request that is not sampled
//! has its fields written, and allocates nothing.
//!
//! Spec: W3C Trace Context §4; OpenTelemetry semantic conventions for HTTP servers. A field of a trace is
//! taken from any client: what is sampled for one is bounded as all spans are.

use std::sync::Arc;
use std::time::Instant;

use steppe_telemetry::trace::{Span, TRACESTATE_BYTES_MAX, TraceContext, Tracer, is_tracestate};

use super::{ClientContext, Core, answered_by};
use crate::error::GatewayError;
use crate::field::FieldBlock;
use crate::gateway::snapshot::Snapshot;
use crate::head::{RequestHead, Version};
use crate::upstream::TargetState;

const TRACEPARENT: &[u8] = b"traceparent";
const TRACESTATE: &[u8] = b"tracestate";

/// The span of an exchange that is sampled.
#[derive(Debug)]
pub(super) struct Trace {
    span: Box<Span>,
    /// What its name begins with.
    method: &'static str,
    /// The one that there was when it began.
    tracer: Arc<Tracer>,
    /// The server that was asked last.
    server: Option<Arc<TargetState>>,
}

impl Core {
    /// Takes a request into its trace, or into a new one.
    pub(super) fn begin_trace(
        &mut self,
        client: &ClientContext,
        snapshot: &Snapshot,
        head: &mut RequestHead,
    ) -> Result<(), GatewayError> {
        let Some(tracer) = snapshot.tracer() else {
            return Ok(());
        };
        let parent = parent(&head.fields);
        let context = tracer.begin(&client.state.trace_ids, parent);
        // It says something about the parent alone.
        if parent.is_none() || !has_fair_state(&head.fields) {
            head.fields.remove(TRACESTATE);
        }
        head.fields.set(TRACEPARENT, &context.text())?;
        if context.is_sampled {
            let mut span = Box::new(Span::new(context, parent, self.began_at));
            span.set_state(&state(&head.fields));
            tell_request(&mut span, client, head);
            self.trace = Some(Trace {
                tracer: Arc::clone(tracer),
                span,
                method: known_method(head.method()),
                server: None,
            });
        }
        Ok(())
    }

    /// A server is asked.
    pub(super) fn trace_server(&mut self, server: &Arc<TargetState>) {
        if let Some(trace) = &mut self.trace {
            trace.server = Some(Arc::clone(server));
        }
    }

    /// The exchange is over.
    pub(super) fn finish_trace(&mut self, now: Instant) {
        let Some(trace) = self.trace.take() else {
            return;
        };
        let Trace {
            tracer,
            mut span,
            method,
            server,
        } = trace;
        let status = self.log.status();
        span.ended_at = now;
        span.is_error = status >= 500;
        span.number("http.response.status_code", status.into());
        let route = self.log.report().and_then(|report| report.name.as_deref());
        match route {
            Some(route) => span.set_name(&format!("{method} {route}")),
            None => span.set_name(method),
        }
        if let Some(report) = self.log.report() {
            if let Some(route) = &report.name {
                span.text("steppe.route", route.as_bytes());
            }
            if let Some(upstream) = &report.upstream {
                span.text("steppe.upstream", upstream.as_bytes());
            }
        }
        if let Some(server) = server {
            span.text("steppe.server", server.address().as_bytes());
        }
        if let Some(filter) = answered_by(self.route.as_deref(), self.answered_by) {
            span.text("steppe.filter", filter.as_bytes());
        }
        let resent = self.selection.sent_again();
        if resent > 0 {
            span.number("http.request.resend_count", resent.into());
        }
        if let Some(reason) = self.log.reason {
            span.text("error.type", reason.as_str().as_bytes());
        }
        tracer.end(span);
    }
}

/// The one field that says so; of several none can be believed.
fn parent(fields: &FieldBlock) -> Option<TraceContext> {
    let mut values = fields.values_named(TRACEPARENT);
    let parent = TraceContext::parse(values.next()?)?;
    values.next().is_none().then_some(parent)
}

/// Whether the state that others keep of the trace can be passed on.
fn has_fair_state(fields: &FieldBlock) -> bool {
    let lines = || fields.values_named(TRACESTATE);
    let bytes: usize = lines().map(<[u8]>::len).sum();
    bytes <= TRACESTATE_BYTES_MAX && lines().all(is_tracestate)
}

/// All lines of it as one.
fn state(fields: &FieldBlock) -> String {
    let lines = fields.values_named(TRACESTATE).map(String::from_utf8_lossy);
    lines.collect::<Vec<_>>().join(",")
}

/// A name of a span must not be of a client's making.
fn known_method(method: &[u8]) -> &'static str {
    const KNOWN: [&str; 9] = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT",
    ];
    let known = KNOWN.iter().find(|known| known.as_bytes() == method);
    known.copied().unwrap_or("HTTP")
}

fn tell_request(span: &mut Span, client: &ClientContext, head: &RequestHead) {
    span.text("http.request.method", head.method());
    span.text(
        "url.scheme",
        if client.tls().is_some() {
            b"https"
        } else {
            b"http"
        },
    );
    // What a query says may be a secret.
    span.text("url.path", head.path());
    span.text("server.address", head.host());
    let version: &[u8] = match head.version {
        Version::Http10 => b"1.0",
        Version::Http11 => b"1.1",
        Version::Http2 => b"2",
    };
    span.text("network.protocol.version", version);
}
