//! The trace that an exchange is part of, and its span where that is sampled.
//!
//! Invariant: without `[trace]` nothing of a request is read or changed; with it, a request that is not sampled
//! has its fields written, and allocates nothing.
//!
//! Spec: W3C Trace Context §4; OpenTelemetry semantic conventions for HTTP servers. Trace fields of any client are
//! believed: spans that are sampled for one are bounded as all spans are.

use std::sync::Arc;
use std::time::Instant;

use steppe_telemetry::trace::{Span, TRACESTATE_BYTES_MAX, TraceContext, Tracer, is_tracestate};

use super::log::Log;
use crate::error::GatewayError;
use crate::field::FieldBlock;
use crate::gateway::client::ClientContext;
use crate::gateway::snapshot::Snapshot;
use crate::head::RequestHead;
use crate::metrics::CloseReason;
use crate::upstream::TargetState;

const TRACEPARENT: &[u8] = b"traceparent";
const TRACESTATE: &[u8] = b"tracestate";

/// The span of an exchange that is sampled.
#[derive(Debug)]
pub(super) struct Trace {
    span: Box<Span>,
    /// The method, with which its name begins.
    method: &'static str,
    /// The one that there was when it began.
    tracer: Arc<Tracer>,
    /// The server that was asked last.
    server: Option<Arc<TargetState>>,
}

/// The rest of what a span tells.
pub(super) struct TraceFacts<'a> {
    pub(super) log: &'a Log,
    /// The name of the filter that answered.
    pub(super) filter: Option<&'a str>,
    /// The number of times that the request was sent again.
    pub(super) resends: u32,
    pub(super) ended_at: Instant,
}

impl Trace {
    /// Takes a request into its trace, or into a new one; `None`: it is not sampled.
    pub(super) fn begin(
        client: &ClientContext,
        snapshot: &Snapshot,
        head: &mut RequestHead,
        began_at: Instant,
    ) -> Result<Option<Self>, GatewayError> {
        let Some(tracer) = snapshot.tracer() else {
            return Ok(None);
        };
        let parent = parent(&head.fields);
        let context = tracer.begin(&client.state.trace_ids, parent);
        // It says something about the parent alone.
        if parent.is_none() || !has_fair_state(&head.fields) {
            head.fields.remove(TRACESTATE);
        }
        head.fields.set(TRACEPARENT, &context.text())?;
        if !context.is_sampled {
            return Ok(None);
        }
        let mut span = Box::new(Span::new(context, parent, began_at));
        span.set_state(&state(&head.fields));
        tell_request(&mut span, client, head);
        Ok(Some(Self {
            tracer: Arc::clone(tracer),
            span,
            method: known_method(head.method()),
            server: None,
        }))
    }

    /// Notes the server that is asked.
    pub(super) fn set_server(&mut self, server: &Arc<TargetState>) {
        self.server = Some(Arc::clone(server));
    }

    /// Ends the span of an exchange that is over.
    pub(super) fn finish(self, facts: &TraceFacts<'_>) {
        let Self {
            tracer,
            mut span,
            method,
            server,
        } = self;
        let log = facts.log;
        let status = log.status();
        span.ended_at = facts.ended_at;
        span.is_error = status >= 500;
        span.number("http.response.status_code", status.into());
        let route = log.report().and_then(|report| report.name.as_deref());
        match route {
            Some(route) => span.set_name(&format!("{method} {route}")),
            None => span.set_name(method),
        }
        let upstream = log.report().and_then(|report| report.upstream.as_deref());
        let server = server.as_ref().map(|server| server.address());
        for (key, value) in [
            ("steppe.route", route),
            ("steppe.upstream", upstream),
            ("steppe.server", server),
            ("steppe.filter", facts.filter),
            ("error.type", log.reason.map(CloseReason::as_str)),
        ] {
            if let Some(value) = value {
                span.text(key, value.as_bytes());
            }
        }
        if facts.resends > 0 {
            span.number("http.request.resend_count", facts.resends.into());
        }
        tracer.end(span);
    }
}

/// The parent that the one field names; of several fields none is believed.
fn parent(fields: &FieldBlock) -> Option<TraceContext> {
    let mut values = fields.values_named(TRACEPARENT);
    let parent = TraceContext::parse(values.next()?)?;
    values.next().is_none().then_some(parent)
}

/// True when the state that others keep of the trace can be passed on.
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

/// The method as a span's name has it, which must not be of a client's making.
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
    span.text("network.protocol.version", head.version.number().as_bytes());
}
