//! The endpoints of admin.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::Value;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;

use super::access::{Access, guard, refuse_other_sites};
use super::live::{self, Live};
use super::{Content, cache, certificates, dns, heap_profile, page, plane, readiness, upstreams};
use crate::memory;
use crate::reload::Ask;

/// The routes of all endpoints, with the probes unless they have an address of their own.
#[expect(
    clippy::fn_params_excessive_bools,
    reason = "probes stand beside the rest or alone"
)]
pub(super) fn router(live: Arc<Live>, access: Access, probes_apart: bool) -> Router {
    let content = Arc::clone(live.content());
    let index = if probes_apart {
        INDEX.to_owned()
    } else {
        format!("{INDEX}{PROBES_INDEX}")
    };
    let guarded = Router::new()
        .route("/metrics", get(metrics))
        .route("/memory", get(memory_report))
        .route(
            "/memory/profile",
            get(heap_profile::text)
                .post(heap_profile::start)
                .delete(heap_profile::stop),
        )
        .route("/config", get(config))
        .route("/reload", get(reload_status).post(reload))
        .route("/upstreams", get(upstreams::report))
        .route(
            "/upstreams/{name}/{server}/drain",
            post(upstreams::drain).delete(upstreams::undrain),
        )
        .route(
            "/upstreams/{name}/{server}/undrain",
            post(upstreams::undrain),
        )
        .route("/cache", get(cache::report))
        .route("/cache/purge", post(cache::purge))
        .route("/certificates", get(certificates::report))
        .route("/dns", get(dns::report))
        .route("/dns/flush", post(dns::flush_all))
        .route("/dns/flush/name/{name}", post(dns::flush_name))
        .route("/dns/flush/suffix/{name}", post(dns::flush_suffix))
        .route("/plane", get(plane::report))
        .route("/events", get(live::events).with_state(live))
        .fallback(not_found)
        .layer(from_fn_with_state(access.clone(), guard));
    let page = page::routes(index).layer(from_fn_with_state(access.without_token(), guard));
    let guarded = guarded.merge(page);
    let all = if probes_apart {
        guarded
    } else {
        guarded.merge(probe_routes())
    };
    bounded(all).with_state(content)
}

/// The routes of health and readiness alone.
pub(super) fn probes(content: Arc<Content>) -> Router {
    bounded(probe_routes().fallback(not_found)).with_state(content)
}

fn probe_routes() -> Router<Arc<Content>> {
    // An orchestrator's probe has no token. The response is one word.
    Router::new()
        .route("/healthz", get(healthy))
        .route("/readyz", get(ready))
}

fn bounded(router: Router<Arc<Content>>) -> Router<Arc<Content>> {
    router
        .layer(from_fn(refuse_content))
        .layer(from_fn(refuse_other_sites))
        .layer(from_fn(add_fields))
}

const INDEX: &str = "\
Steppe

/          the admin page, for browsers
/metrics   metrics for Prometheus: OpenMetrics text, or text/plain if Accept prefers it
/memory    JSON: the memory budget by account, resident memory by category
           POST /memory/profile starts a heap profile, DELETE stops it
           GET /memory/profile returns it for jeprof and go tool pprof
/config    JSON: the effective configuration, secrets masked
/reload    JSON: the configuration in force, and the error of the last reload
           POST /reload loads the file again
/upstreams JSON: servers with state, reason, requests and latency
           POST /upstreams/NAME/SERVER/drain drains a server, DELETE undrains it
/cache     JSON: each cache with its hit ratio, memory and counts
           POST /cache/purge?uri=URI, ?prefix=URI, ?tag=TAG or ?all purges responses
/certificates
           JSON: certificates of listeners, and days until they expire
/dns       JSON: the DNS forwarder, its cache, its upstreams
/dns/flush POST flushes the DNS cache
           /dns/flush/name/NAME one name, /dns/flush/suffix/NAME a name and its subdomains
/plane     JSON: services of the request plane, their workers, queued calls
/events    server-sent events: the last ten minutes, then one event a second
";

const PROBES_INDEX: &str = "\
/healthz   200 while the process responds
/readyz    200 while the node is ready for traffic, otherwise 503
";

async fn metrics(State(content): State<Arc<Content>>, fields: HeaderMap) -> Response {
    super::metrics::exposition(&content.metrics, &fields)
        .unwrap_or_else(|error| failed("metrics", &error))
}

async fn memory_report(State(content): State<Arc<Content>>) -> Response {
    match memory::report(&content.memory) {
        Ok(report) => json(&report),
        Err(error) => failed("memory", &error),
    }
}

async fn config(State(content): State<Arc<Content>>) -> Response {
    json(&content.config.effective())
}

async fn reload_status(State(content): State<Arc<Content>>) -> Response {
    json(&content.config.report())
}

/// Responds once the configuration is in force or was refused.
async fn reload(State(content): State<Arc<Content>>) -> Response {
    let (answer, answered) = oneshot::channel();
    let asked = content.reload.try_send(Ask(answer));
    // The error has the question, whose end is waited for.
    let is_full = asked.is_err_and(|error| matches!(error, TrySendError::Full(_)));
    match answered.await {
        Ok(Ok(_)) => json(&content.config.report()),
        Ok(Err(why)) => (StatusCode::UNPROCESSABLE_ENTITY, format!("{why}\n")).into_response(),
        Err(_) if is_full => StatusCode::TOO_MANY_REQUESTS.into_response(),
        // The node drains.
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

async fn healthy() -> &'static str {
    "ok\n"
}

async fn ready(State(content): State<Arc<Content>>) -> Response {
    let state = content.readiness.state();
    let status = match state {
        readiness::State::Ready => StatusCode::OK,
        readiness::State::Starting | readiness::State::Terminating | readiness::State::Draining => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    let mut text = format!("{}\n", state.as_str());
    for (list, why) in content.dns.lists_left_out() {
        let _ = writeln!(text, "list {list} is not in force: {why}");
    }
    (status, text).into_response()
}

async fn not_found() -> Response {
    (
        StatusCode::NOT_FOUND,
        "no such endpoint; GET / lists the endpoints\n",
    )
        .into_response()
}

pub(super) fn json(value: &Value) -> Response {
    // Readable for operators and programs: indented, and ended by a line feed.
    ([(CONTENT_TYPE, "application/json")], format!("{value:#}\n")).into_response()
}

fn failed(what: &'static str, error: &dyn std::error::Error) -> Response {
    tracing::error!(%error, what, "admin failed to build a report");
    (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()
}

/// Refuses requests with content: no endpoint reads any, so none is awaited.
async fn refuse_content(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        next.run(request).await
    } else {
        (
            StatusCode::PAYLOAD_TOO_LARGE,
            "admin accepts no request content\n",
        )
            .into_response()
    }
}

async fn add_fields(request: Request, next: Next) -> Response {
    let fields: [(HeaderName, &str); 2] = [
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    let mut response = next.run(request).await;
    for (name, value) in fields {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}
