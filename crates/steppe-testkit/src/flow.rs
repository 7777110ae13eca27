//! Thousands of slow transfers at once, with every byte verified.
//!
//! Content is a [`Pattern`] that depends on the transfer's number and on the
//! offset, so a byte that is lost, repeated, reordered or taken from another
//! transfer is noticed where it happens. The load is paced by the slow side
//! alone: a token bucket in the origin for uploads, each reader's own pace for
//! downloads. Socket buffers on this side are small, or the kernel would
//! swallow the pace.

mod client;
mod origin;
mod pattern;
mod streams;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

pub use origin::FlowOrigin;
pub use pattern::Pattern;

use client::Outcome;
use streams::Connections;

use crate::duplex::{self, Buffers, Duplex};
use crate::wire::Wire;

/// Many transfers of the same size.
#[derive(Debug, Clone)]
pub struct FlowPlan {
    /// Where clients connect.
    pub gateway: SocketAddr,
    /// Number of concurrent connections.
    pub connections: u64,
    /// Protocol of the connections, and transfers on each.
    pub carrier: Carrier,
    /// Bytes of content of each transfer.
    pub bytes_each: u64,
    /// Bytes that one reader reads a second (downloads).
    pub reader_bytes_per_second: u64,
    /// Time without a byte after which a client counts its transfer as hung.
    pub patience: Duration,
}

/// The protocol of clients.
#[derive(Debug, Clone, Copy)]
pub enum Carrier {
    /// One transfer on each connection.
    Http1,
    /// Concurrent transfers on each connection.
    Http2 {
        /// Streams of a connection, no more than the gateway allows.
        streams: u64,
    },
}

impl FlowPlan {
    /// A client's connection, of the run's kind.
    async fn connect(&self, buffers: Buffers, protocol: &str) -> std::io::Result<Box<dyn Duplex>> {
        let credentials = Wire::of_run().credentials();
        let tls = credentials.map(|credentials| credentials.client.clone().alpn(&[protocol]));
        duplex::connect(self.gateway, Some(buffers), tls).await
    }

    /// Number of all transfers.
    pub fn transfers(&self) -> u64 {
        match self.carrier {
            Carrier::Http1 => self.connections,
            Carrier::Http2 { streams } => self.connections * streams,
        }
    }
}

/// The outcomes of the transfers.
#[derive(Debug, Clone, Default)]
pub struct FlowReport {
    /// Transfers that were complete and right to the last byte.
    pub served: u64,
    /// Transfers answered by 503 with `Retry-After`, before anything else.
    pub refused: u64,
    /// Transfers closed before their end, or ended by 408.
    pub cut: u64,
    /// Anything else: wrong bytes, other responses, hangs. None of these may happen.
    pub wrong: u64,
    /// Descriptions of up to ten transfers that were cut or wrong.
    pub examples: Vec<String>,
    /// Bytes of content that passed the slow side.
    pub bytes: u64,
    /// From the first connect to the last outcome.
    pub elapsed: Duration,
    /// Sum of the time that each accepted transfer took.
    pub busy: Duration,
    /// The longest time in which no byte passed.
    pub longest_silence: Duration,
}

impl FlowReport {
    /// Bytes a second, of all transfers together.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.elapsed.as_secs_f64().max(0.001)
    }

    /// Bytes a second, of the average transfer while it lasted.
    pub fn bytes_per_second_each(&self) -> f64 {
        self.bytes as f64 / self.busy.as_secs_f64().max(0.001)
    }

    fn count(&mut self, outcome: Outcome, lasted: Duration) {
        match outcome {
            Outcome::Served => self.served += 1,
            Outcome::Refused => {
                self.refused += 1;
                return;
            }
            Outcome::Cut(why) => {
                self.cut += 1;
                self.example(why);
            }
            Outcome::Wrong(why) => {
                self.wrong += 1;
                self.example(why);
            }
        }
        self.busy += lasted;
    }

    fn example(&mut self, why: String) {
        if self.examples.len() < 10 {
            self.examples.push(why);
        }
    }
}

/// Uploads to `origin` behind the gateway, all at once.
pub fn upload(plan: &FlowPlan, origin: &FlowOrigin) -> FlowReport {
    let moved = origin.uploaded();
    match plan.carrier {
        Carrier::Http1 => run(plan, moved, |plan, id, _| client::upload(plan, id)),
        Carrier::Http2 { .. } => {
            let connections = Connections::new(plan);
            run(plan, moved, |plan, id, _| {
                streams::upload(connections.clone(), plan, id)
            })
        }
    }
}

/// Downloads from an origin behind the gateway, all at once, each at its reader's pace.
pub fn download(plan: &FlowPlan) -> FlowReport {
    match plan.carrier {
        Carrier::Http1 => run(plan, Arc::default(), client::download),
        Carrier::Http2 { .. } => {
            let connections = Connections::new(plan);
            run(plan, Arc::default(), |plan, id, moved| {
                streams::download(connections.clone(), plan, id, moved)
            })
        }
    }
}

/// Runs all transfers at once, here in the caller's thread, and watches `moved`.
fn run<F>(
    plan: &FlowPlan,
    moved: Arc<AtomicU64>,
    transfer: impl Fn(FlowPlan, u64, Arc<AtomicU64>) -> F,
) -> FlowReport
where
    F: Future<Output = Outcome> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made");
    runtime.block_on(async {
        let before = moved.load(Ordering::Relaxed);
        let started = Instant::now();
        let mut transfers = JoinSet::new();
        for id in 0..plan.transfers() {
            let transfer = transfer(plan.clone(), id, Arc::clone(&moved));
            transfers.spawn(async move {
                let started = Instant::now();
                (transfer.await, started.elapsed())
            });
        }
        let mut report = FlowReport::default();
        let mut watch = Watch::new(before);
        while !transfers.is_empty() {
            tokio::select! {
                Some(ended) = transfers.join_next() => {
                    let (outcome, lasted) = ended.expect("a transfer doesn't panic");
                    report.count(outcome, lasted);
                }
                () = tokio::time::sleep(Duration::from_millis(100)) => {}
            }
            watch.look(moved.load(Ordering::Relaxed));
        }
        report.elapsed = started.elapsed();
        report.bytes = moved.load(Ordering::Relaxed) - before;
        report.longest_silence = watch.longest;
        report
    })
}

/// Finds the longest time in which a counter stood still.
struct Watch {
    count: u64,
    since: Instant,
    longest: Duration,
}

impl Watch {
    fn new(count: u64) -> Self {
        Self {
            count,
            since: Instant::now(),
            longest: Duration::ZERO,
        }
    }

    fn look(&mut self, count: u64) {
        self.longest = self.longest.max(self.since.elapsed());
        if count != self.count {
            (self.count, self.since) = (count, Instant::now());
        }
    }
}
