//! `/plane`: services of the request plane, their workers, and queued calls.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};
use steppe_plane::{CallReport, ServiceReport, WorkerReport};

use super::Content;
use super::endpoints::json as json_response;

pub(super) async fn report(State(content): State<Arc<Content>>) -> Response {
    let report = content.plane.report();
    json_response(&json!({
        "services": report.services.iter().map(service).collect::<Vec<_>>(),
        "queue": { "calls": report.queue.calls, "bytes": report.queue.bytes },
        "calls": {
            "finished": finished(&report.calls),
            "queued": report.calls.queued.count,
            "queued_seconds": report.calls.queued.total.as_secs_f64(),
            "answered": report.calls.answered.count,
            "first_byte_seconds": report.calls.answered.total.as_secs_f64(),
        },
        "budget_waits": report.budget_waits,
    }))
}

/// Calls by status, without the statuses of no call.
fn finished(calls: &CallReport) -> Value {
    let ended = calls.finished.iter().filter(|(_, count)| *count > 0);
    let ended = ended.map(|(status, count)| (status.name().to_owned(), json!(count)));
    Value::Object(ended.collect())
}

fn service(service: &ServiceReport) -> Value {
    json!({
        "name": service.name,
        "waiting": service.waiting,
        "workers": service.workers.iter().map(worker).collect::<Vec<_>>(),
    })
}

fn worker(worker: &WorkerReport) -> Value {
    json!({
        "address": worker.address.to_string(),
        "calls": worker.calls,
        "calls_max": worker.calls_max,
        "bytes": worker.bytes,
    })
}
