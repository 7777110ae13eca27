//! `/dns`: the DNS forwarder's report. `/dns/flush`: removes responses from its cache.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use steppe_dns::cache::Flush;
use steppe_dns::report::{Count, ListReport, ListsReport, ServerReport, TopName, UpstreamReport};
use steppe_dns::wire::NameError;
use tokio::task::spawn_blocking;

use super::Content;
use super::endpoints::json as json_response;

pub(super) async fn report(State(content): State<Arc<Content>>) -> Response {
    let report = content.dns.report();
    let totals = &report.totals;
    let cache = &totals.cache;
    json_response(&json!({
        "listeners": report.listeners,
        "queries": counts(&totals.queries),
        "responses": counts(&totals.responses),
        "lookups": counts(&totals.lookups),
        "cache": {
            "bytes": report.cache_bytes,
            "used_bytes": cache.used_bytes,
            "entries": cache.entries,
            "inserted": cache.insertions,
            "evicted": cache.evictions,
        },
        "events": counts(&totals.events),
        "connections": counts(&totals.connections),
        "limited": counts(&totals.limited),
        "upstream_queries": counts(&totals.upstream_queries),
        "upstream_trouble": counts(&totals.upstream_trouble),
        "upstreams": report.upstreams.iter().map(upstream).collect::<Vec<_>>(),
        "lists": lists(&report.lists),
        "top_names": report.top_names.as_ref().map(|names| names.iter().map(top_name).collect::<Vec<_>>()),
    }))
}

fn counts(rows: &[Count]) -> Value {
    let rows = rows
        .iter()
        .map(|&(name, count)| (name.to_owned(), count.into()));
    Value::Object(rows.collect())
}

fn upstream(upstream: &UpstreamReport) -> Value {
    json!({
        "name": upstream.name,
        "policy": upstream.policy,
        "servers": upstream.servers.iter().map(server).collect::<Vec<_>>(),
    })
}

fn server(server: &ServerReport) -> Value {
    json!({
        "server": server.server,
        "state": server.state.as_str(),
        "queries": server.queries,
        "failures": server.failures,
        "latency_ms": server.latency.map(|latency| latency.as_secs_f64() * 1000.0),
    })
}

fn lists(report: &ListsReport) -> Value {
    let list = |list: &ListReport| {
        json!({
            "name": list.name,
            "rules": list.rules,
            "unsupported": list.unsupported,
            "malformed": list.malformed,
            "hits": list.hits,
            "not_in_force": list.left_out.map(|why| why.to_string()),
            "error": list.error,
        })
    };
    json!({
        "read_at": report.read_at,
        "error": report.error,
        "bytes": report.bytes,
        "lists": report.lists.iter().map(list).collect::<Vec<_>>(),
    })
}

fn top_name(top: &TopName) -> Value {
    json!({ "name": top.name, "queries": top.queries, "over": top.over })
}

pub(super) async fn flush_all(content: State<Arc<Content>>) -> Response {
    flush(&content, Flush::All).await
}

pub(super) async fn flush_name(content: State<Arc<Content>>, name: Path<String>) -> Response {
    match name.parse() {
        Ok(name) => flush(&content, Flush::Name(name)).await,
        Err(error) => refused(error),
    }
}

pub(super) async fn flush_suffix(content: State<Arc<Content>>, name: Path<String>) -> Response {
    match name.parse() {
        Ok(name) => flush(&content, Flush::Suffix(name)).await,
        Err(error) => refused(error),
    }
}

fn refused(error: NameError) -> Response {
    let text = format!("not a domain name: {error}\n");
    (StatusCode::BAD_REQUEST, text).into_response()
}

/// Runs on another thread: a flush visits the whole cache.
async fn flush(content: &Content, flush: Flush) -> Response {
    let dns = content.dns.clone();
    match spawn_blocking(move || (dns.flush(&flush), flush)).await {
        Ok((forgotten, flush)) => {
            tracing::info!(?flush, forgotten, "DNS cache flushed over admin");
            json_response(&json!({ "forgotten": forgotten }))
        }
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}
