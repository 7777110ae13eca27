//! Traces: spans of the node's operations, which a thread of its own sends to a collector.
//!
//! A worker passes a span on when its operation has ended. The thread takes them in batches, writes each batch as OTLP
//! in JSON, and gives it to an [`Export`], which sends it to the collector.
//!
//! Invariant: a worker never waits, and the queue for the collector is bounded and charged: spans beyond its bound are
//! dropped and counted. An operation that is not sampled costs a few random numbers.
//!
//! Non-goals: the connection to the collector, and the choice of spans.
//! Spec: OpenTelemetry Protocol 1.x (OTLP/HTTP, JSON), semantic conventions of HTTP.

mod context;
mod counters;
mod export;
mod otlp;
mod span;
mod thread;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use steppe_mem::{Account, OverBudget, Reservation};

use crate::encode::Family;
use crate::limits::{SPANS_HELD_BYTES, SPANS_QUEUED_MAX};

use counters::TraceCounters;
use thread::Message;

pub use context::{Ids, TRACEPARENT_BYTES, TRACESTATE_BYTES_MAX, TraceContext, is_tracestate};
pub use export::{BatchRefused, Export, Taken};
pub use span::Span;

/// The settings of a tracer.
#[derive(Debug, Clone, Copy)]
pub struct TraceSettings {
    /// The share of traces that are kept, of those that begin here: above 0, at most 1.
    pub sample: f64,
    /// The version of the program, for the collector.
    pub version: &'static str,
}

/// Queues the spans of all workers.
#[derive(Debug)]
pub struct Tracer {
    /// Traces with a lower half below this are kept.
    threshold: u64,
    to_thread: SyncSender<Message>,
    counts: Arc<TraceCounters>,
    ended: Mutex<Receiver<()>>,
    _charge: Reservation,
}

/// Spans exported and lost, of all tracers that replace each other. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct TraceCounts(Arc<TraceCounters>);

/// The reason why no tracer could be started.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The budget has no room for the queue of spans.
    #[error("no room in the budget for spans: {0}")]
    Budget(#[from] OverBudget),
    /// The thread could not be started.
    #[error("cannot start the thread that exports spans")]
    Thread(#[from] io::Error),
}

impl Tracer {
    /// Starts the thread that gives spans to `export`. The queue is charged to `account`.
    ///
    /// # Errors
    /// [`TraceError`]: there is no room for the queue, or no thread.
    pub fn start(
        settings: TraceSettings,
        account: &Account,
        export: Box<dyn Export>,
    ) -> Result<Arc<Self>, TraceError> {
        Self::start_counted(settings, account, export, &TraceCounts::default())
    }

    /// The same as [`Self::start`] with counts that continue.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_counted(
        settings: TraceSettings,
        account: &Account,
        export: Box<dyn Export>,
        TraceCounts(counts): &TraceCounts,
    ) -> Result<Arc<Self>, TraceError> {
        let charge = account.lease().try_reserve(SPANS_HELD_BYTES)?;
        counts.is_used.store(true, Ordering::Relaxed);
        let (to_thread, messages) = sync_channel(SPANS_QUEUED_MAX);
        let (end, ended) = sync_channel(1);
        let thread = thread::Exporter::new(settings.version, Arc::clone(counts), export);
        std::thread::Builder::new()
            .name("traces".to_owned())
            .spawn(move || {
                thread.run(&messages);
                // The receiver may be gone.
                let _ = end.try_send(());
            })?;
        Ok(Arc::new(Self {
            threshold: threshold(settings.sample),
            to_thread,
            counts: Arc::clone(counts),
            ended: Mutex::new(ended),
            _charge: charge,
        }))
    }

    /// A span below `parent`, or of a new trace: the side that began the trace decides whether it is kept.
    #[must_use]
    pub fn begin(&self, ids: &Ids, parent: Option<TraceContext>) -> TraceContext {
        if let Some(parent) = parent {
            return TraceContext {
                span: ids.span(),
                ..parent
            };
        }
        let new = ids.trace();
        let [.., a, b, c, d, e, f, g, h] = new.trace.get().to_be_bytes();
        let lower = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        TraceContext {
            is_sampled: lower <= self.threshold,
            ..new
        }
    }

    /// Queues a span that has ended.
    pub fn end(&self, span: Box<Span>) {
        if self.to_thread.try_send(Message::Span(span)).is_err() {
            self.dropped();
        }
    }

    /// Counts a span that could not be kept.
    pub fn dropped(&self) {
        self.counts.overflowed.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until all queued spans are sent, for at most `timeout`; returns true if they were.
    pub fn close(&self, timeout: Duration) -> bool {
        let ends_at = Instant::now() + timeout;
        self.counts.is_ending.store(true, Ordering::Relaxed);
        while self.to_thread.try_send(Message::End).is_err() && Instant::now() < ends_at {
            std::thread::sleep(Duration::from_millis(5));
        }
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let left = ends_at.saturating_duration_since(Instant::now());
        ended.recv_timeout(left) != Err(RecvTimeoutError::Timeout)
    }

    /// A collector of its counts, for registration.
    #[must_use]
    pub fn collector(&self) -> Box<dyn Collector> {
        TraceCounts(Arc::clone(&self.counts)).collector()
    }
}

impl TraceCounts {
    /// A collector, for registration. It encodes nothing before there is a tracer.
    #[must_use]
    pub fn collector(&self) -> Box<dyn Collector> {
        Box::new(TraceCollector(Arc::clone(&self.0)))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of all numbers; a conversion saturates"
)]
fn threshold(sample: f64) -> u64 {
    (sample * u64::MAX as f64) as u64
}

/// Encodes the counts of a tracer.
#[derive(Debug)]
struct TraceCollector(Arc<TraceCounters>);

const EXPORTED: Family = Family::new(
    "steppe_trace_spans_exported",
    "Spans accepted by the collector",
);
const DROPPED: Family = Family::new(
    "steppe_trace_spans_dropped",
    "Spans lost: the buffer was full, no collector accepted them, or the collector rejected them",
);

impl Collector for TraceCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &*self.0;
        if !counts.is_used.load(Ordering::Relaxed) {
            return Ok(());
        }
        EXPORTED.counter(&mut encoder, load(&counts.exported))?;
        let reasons = [
            ("overflow", &counts.overflowed),
            ("unreachable", &counts.failed),
            ("rejected", &counts.rejected),
        ];
        let samples = reasons.map(|(reason, count)| ([("reason", reason)], load(count)));
        DROPPED.counters(&mut encoder, samples)
    }
}

#[cfg(test)]
mod tests;
