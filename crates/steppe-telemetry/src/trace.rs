//! Traces: spans of what the node did, which a thread of its own sends to a collector.
//!
//! A worker hands a span over when what it tells of has ended. The thread takes them in batches, writes
//! each batch as OTLP in JSON, and gives it to an [`Export`], which knows the way to the collector.
//!
//! Invariant: a worker never waits, and what waits for the collector is bounded and charged: what is too much
//! is dropped and counted. Who is not sampled costs a few random numbers.
//!
//! Non-goals: the connection to the collector, and which spans there are.
//! Spec: OpenTelemetry Protocol 1.x (OTLP/HTTP, JSON), semantic conventions of HTTP.

mod context;
mod otlp;
mod thread;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use steppe_mem::{Account, OverBudget, Reservation};

use crate::encode::Family;
use crate::limits::{
    SPAN_ATTRIBUTES_MAX, SPAN_TEXT_BYTES_MAX, SPAN_TEXTS_BYTES_MAX, SPANS_HELD_BYTES,
    SPANS_QUEUED_MAX,
};

pub use context::{Ids, TRACEPARENT_BYTES, TRACESTATE_BYTES_MAX, TraceContext, is_tracestate};

/// The settings of a tracer.
#[derive(Debug, Clone, Copy)]
pub struct TraceSettings {
    /// The share of traces that is kept of those that begin here: above 0, at most 1.
    pub sample: f64,
    /// The version of the program, for the collector.
    pub version: &'static str,
}

/// Gives batches to a collector. It is called on the tracer's thread, where it may block.
pub trait Export: Send {
    /// Gives a batch, which is an `ExportTraceServiceRequest` in JSON.
    ///
    /// # Errors
    /// Why it was not taken.
    fn export(&mut self, batch: &[u8]) -> Result<Taken, BatchRefused>;
}

/// A batch was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Spans of it that were not, for which sending again is of no use.
    pub rejected: u64,
}

/// A batch was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchRefused {
    /// Sending it again may be of use.
    pub may_be_sent_again: bool,
    /// For people.
    pub why: String,
}

/// Takes spans, of all workers.
#[derive(Debug)]
pub struct Tracer {
    /// Traces whose lower half is below it are kept.
    threshold: u64,
    to_thread: SyncSender<Message>,
    counts: Arc<TraceCounters>,
    ended: Mutex<Receiver<()>>,
    _charge: Reservation,
}

/// An operation of a trace: its begin, end and attributes.
#[derive(Debug)]
pub struct Span {
    /// The trace's id and the span's own.
    pub context: TraceContext,
    /// The span that it is part of; `None`: the trace begins with it.
    pub parent: Option<TraceContext>,
    /// The `tracestate` list of other vendors.
    state: String,
    name: String,
    /// When it began.
    pub began_at: Instant,
    /// When it ended.
    pub ended_at: Instant,
    /// True for a failure of the node or of its upstream.
    pub is_error: bool,
    attributes: Vec<(&'static str, Value)>,
    /// Bytes of texts that there is room for.
    text_bytes_left: usize,
}

#[derive(Debug)]
enum Value {
    Text(String),
    Number(u64),
}

#[derive(Debug)]
enum Message {
    Span(Box<Span>),
    End,
}

/// Spans exported and lost, of all tracers that follow on each other. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct TraceCounts(Arc<TraceCounters>);

#[derive(Debug, Default)]
struct TraceCounters {
    /// There is a tracer, or was one.
    is_used: AtomicBool,
    exported: AtomicU64,
    /// There was no room for them, or no memory.
    overflowed: AtomicU64,
    /// No collector took them.
    failed: AtomicU64,
    /// The collector took their batch, and not them.
    rejected: AtomicU64,
    /// Set at shutdown: nothing is sent again.
    is_ending: AtomicBool,
}

/// Why there are no traces.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The budget has no room for the queue of spans.
    #[error("no room in the budget for spans: {0}")]
    Budget(#[from] OverBudget),
    /// There is no thread.
    #[error("cannot start the thread that exports spans")]
    Thread(#[from] io::Error),
}

impl Tracer {
    /// Starts the thread that gives spans to `export`. What waits is charged to `account`.
    ///
    /// # Errors
    /// There is no room for what waits, or no thread.
    pub fn start(
        settings: TraceSettings,
        account: &Account,
        export: Box<dyn Export>,
    ) -> Result<Arc<Self>, TraceError> {
        Self::start_counted(settings, account, export, &TraceCounts::default())
    }

    /// The same with counts that go on.
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

    /// A span below `parent`, or of a new trace: whether it is kept is up to who began the trace.
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

    /// Takes a span over that has ended.
    pub fn end(&self, span: Box<Span>) {
        if self.to_thread.try_send(Message::Span(span)).is_err() {
            self.dropped();
        }
    }

    /// Counts a span that could not be kept.
    pub fn dropped(&self) {
        self.counts.overflowed.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until what was handed over is sent, for at most `timeout`; says whether it was.
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
    /// A collector, for registration. It tells nothing before there is a tracer.
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

impl Span {
    /// A span without attributes.
    #[must_use]
    pub fn new(context: TraceContext, parent: Option<TraceContext>, began_at: Instant) -> Self {
        Self {
            context,
            parent,
            state: String::new(),
            name: String::new(),
            began_at,
            ended_at: began_at,
            is_error: false,
            attributes: Vec::with_capacity(SPAN_ATTRIBUTES_MAX),
            text_bytes_left: SPAN_TEXTS_BYTES_MAX,
        }
    }

    /// Says what it is, such as `GET api`.
    pub fn set_name(&mut self, name: &str) {
        self.name = self.kept(name.as_bytes());
    }

    /// Says what others keep of the trace; a list that has no room is left out whole.
    pub fn set_state(&mut self, state: &str) {
        if state.len() <= TRACESTATE_BYTES_MAX.min(self.text_bytes_left) {
            self.text_bytes_left -= state.len();
            state.clone_into(&mut self.state);
        }
    }

    /// Adds a text, of which no more is kept than a span has room for.
    pub fn text(&mut self, name: &'static str, value: &[u8]) {
        let value = self.kept(value);
        self.put(name, Value::Text(value));
    }

    /// Adds a number.
    pub fn number(&mut self, name: &'static str, value: u64) {
        self.put(name, Value::Number(value));
    }

    /// As much of a text as there is room for; bytes that are no UTF-8 are replaced.
    fn kept(&mut self, text: &[u8]) -> String {
        let room = SPAN_TEXT_BYTES_MAX.min(self.text_bytes_left);
        let mut kept = String::from_utf8_lossy(&text[..text.len().min(room)]).into_owned();
        kept.truncate(kept.floor_char_boundary(room));
        self.text_bytes_left -= kept.len();
        kept
    }

    fn put(&mut self, name: &'static str, value: Value) {
        if self.attributes.len() < SPAN_ATTRIBUTES_MAX {
            self.attributes.push((name, value));
        }
    }
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
