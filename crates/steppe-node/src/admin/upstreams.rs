//! `/upstreams`: the state of servers, and draining them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use steppe_http::upstream::{ServerReport, UpstreamReport};

use super::Content;
use super::endpoints::json as json_response;

pub(super) async fn report(State(content): State<Arc<Content>>) -> Response {
    json_response(&json!({ "upstreams": list(&content) }))
}

/// Each upstream with its servers.
#[expect(
    clippy::disallowed_methods,
    reason = "the report has the time that an ejection still lasts"
)]
pub(super) fn list(content: &Content) -> Vec<Value> {
    let now = Instant::now();
    let upstreams = content.upstreams.current();
    upstreams
        .iter()
        .map(|each| upstream(&each.report(now)))
        .collect()
}

pub(super) async fn drain(content: State<Arc<Content>>, path: Path<(String, String)>) -> Response {
    change(&content, &path, Change::Drain)
}

pub(super) async fn undrain(
    content: State<Arc<Content>>,
    path: Path<(String, String)>,
) -> Response {
    change(&content, &path, Change::Undrain)
}

/// A change of a server's drain state.
#[derive(Clone, Copy, PartialEq)]
enum Change {
    Drain,
    Undrain,
}

fn change(content: &Content, (name, server): &(String, String), change: Change) -> Response {
    let found = match change {
        Change::Drain => content.upstreams.drain(name, server),
        Change::Undrain => content.upstreams.undrain(name, server),
    };
    if found.is_none() {
        let text = "no such server; GET /upstreams lists the servers\n";
        return (StatusCode::NOT_FOUND, text).into_response();
    }
    let is_drained = change == Change::Drain;
    tracing::info!(
        upstream = name,
        server,
        is_drained,
        "drain state set over admin"
    );
    json_response(&json!({ "upstream": name, "server": server, "draining": is_drained }))
}

fn upstream(upstream: &UpstreamReport) -> Value {
    json!({
        "name": upstream.name,
        "balance": upstream.balance,
        "circuit": upstream.circuit,
        "retries": { "tried": upstream.retries_tried, "denied": upstream.retries_denied },
        "servers": upstream.servers.iter().map(server).collect::<Vec<_>>(),
    })
}

fn server(server: &ServerReport) -> Value {
    let probe = server
        .probe
        .as_ref()
        .map(|probe| json!({ "passed": probe.passed, "failed": probe.failed, "last": probe.last }));
    json!({
        "server": server.server,
        "address": server.address,
        "weight": server.weight,
        "state": server.state,
        "reason": server.reason,
        "since_s": rounded(server.since, 1.0),
        "ejections": server.ejections,
        "active": server.active,
        "requests": server.requests,
        "failures": server.failures,
        "latency_ms": rounded(server.latency.unwrap_or_default(), 1e3),
        "probe": probe,
    })
}

/// The duration in units of 1/`scale` seconds, with three digits after the point.
fn rounded(duration: Duration, scale: f64) -> f64 {
    (duration.as_secs_f64() * scale * 1e3).round() / 1e3
}
