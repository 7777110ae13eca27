//! The data of one event: the node at this moment.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use procfs::process::Process;
use serde_json::{Value, json};
use steppe_mem::pool;
use steppe_telemetry::HistogramSum;
use steppe_telemetry::recent::{Recent, RecentEvent};

use super::history::{Sample, rounded};
use super::last_minute::LastMinute;
use crate::admin::{Content, upstreams};
use crate::{allocator, cli, memory};

/// Converts counts to rates, from one sample to the next.
#[derive(Debug)]
pub(super) struct Meter {
    at: Instant,
    requests: u64,
    server_errors: u64,
    latencies: HistogramSum,
}

impl Meter {
    #[expect(clippy::disallowed_methods, reason = "the sampler's own time")]
    pub(super) fn start(content: &Content) -> Self {
        let http = &content.memory.http;
        let responses = http.responses_by_class();
        Self {
            at: Instant::now(),
            requests: responses.iter().sum(),
            server_errors: responses[4],
            latencies: http.latencies(),
        }
    }

    /// The time of the last sample.
    pub(super) fn at(&self) -> Instant {
        self.at
    }

    /// Takes a sample of the time since the last one.
    pub(super) fn sample(&mut self, content: &Content) -> Sample {
        let now = Self::start(content);
        let elapsed = now.at.duration_since(self.at).as_secs_f64();
        let requests = now.requests.saturating_sub(self.requests);
        let server_errors = now.server_errors.saturating_sub(self.server_errors);
        let latencies = now.latencies.since(&self.latencies);
        *self = now;
        let milliseconds = |share| {
            let seconds = latencies.quantile_seconds(share);
            as_f32(seconds.map_or(0.0, |seconds| seconds * 1e3))
        };
        Sample {
            at_ms: now_ms(),
            rss_bytes: rss_bytes(),
            reserved_bytes: content.memory.budget.root().reserved_bytes(),
            requests_per_second: rate(requests, elapsed),
            p50_ms: milliseconds(0.5),
            p99_ms: milliseconds(0.99),
            server_errors_per_second: rate(server_errors, elapsed),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a second's count is below 2^53")]
fn rate(count: u64, seconds: f64) -> f32 {
    // The first tick comes at once, and a rate over no time is undefined.
    match seconds > 0.01 {
        true => as_f32(count as f64 / seconds),
        false => 0.0,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "seven digits are more than a chart shows"
)]
fn as_f32(value: f64) -> f32 {
    value as f32
}

#[expect(
    clippy::disallowed_methods,
    reason = "charts show the time of day; rates are made with a monotonic clock"
)]
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// Resident memory; 0 if the kernel does not report it.
fn rss_bytes() -> u64 {
    let statm = Process::myself().and_then(|process| process.statm());
    statm.map_or(0, |statm| statm.resident * procfs::page_size())
}

/// The event's data.
pub(super) fn snapshot(
    content: &Content,
    uptime: Duration,
    (last, minute): (Sample, &LastMinute),
) -> Value {
    let budget = content.memory.budget.report();
    json!({
        "at_ms": last.at_ms,
        "version": cli::version(),
        "state": content.readiness.state().as_str(),
        "uptime_s": uptime.as_secs(),
        "budget": memory::account(&budget),
        "rss_bytes": last.rss_bytes,
        "allocator_live_bytes": steppe_mem::alloc::live_bytes(),
        "allocator": allocator(),
        "pool": pooled(),
        "requests": content.memory.http.requests(),
        "requests_per_second": rounded(last.requests_per_second),
        "5xx_per_second": rounded(last.server_errors_per_second),
        "p50_ms": Sample::milliseconds(last.p50_ms),
        "p99_ms": Sample::milliseconds(last.p99_ms),
        "connections": memory::connections(&content.memory.http),
        "responses": minute.responses(&content.memory.http),
        "upstreams": upstreams::list(content),
        "caches": minute.caches(&content.caches),
        "reload": content.config.report(),
        "events": recent(&content.recent),
    })
}

/// The allocator's figures; `null` if it has none.
fn allocator() -> Value {
    allocator::figures().map_or(Value::Null, |figures| {
        json!({
            "live_bytes": figures.live_bytes,
            "retained_bytes": figures.retained_bytes,
            "dirty_bytes": figures.dirty_bytes,
        })
    })
}

fn pooled() -> Value {
    let classes = pool::report().classes;
    let bytes = |count: fn(&pool::ClassReport) -> usize| {
        let each = |class: &pool::ClassReport| (class.class_bytes * count(class)) as u64;
        classes.iter().map(each).sum::<u64>()
    };
    json!({
        "in_use_bytes": bytes(|class| class.in_use_count),
        "idle_bytes": bytes(|class| class.idle_count),
    })
}

/// The recent events, the newest first.
fn recent(recent: &Recent) -> Vec<Value> {
    let event = |event: &RecentEvent| {
        json!({
            "at_ms": event.at_ms,
            "level": event.level,
            "target": event.target,
            "text": event.text,
            "count": event.count,
        })
    };
    recent.events().iter().rev().map(event).collect()
}
