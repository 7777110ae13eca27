//! Metrics, logs and traces.
//!
//! Metrics are cells with a single writer: a worker increments a counter with a plain load and store, and a scrape
//! sums the workers' cells. `prometheus-client` encodes them as OpenMetrics text.
//!
//! Non-goals: the list of metrics (each crate defines its own), and serving them.
//!
//! # Map of files
//! - `cell.rs`: single-writer counters and gauges
//! - `shard.rs`: cells of one worker, on cache lines of their own
//! - `histogram.rs`: histogram of durations with log-linear buckets
//! - `encode.rs`, `encode/`: metric families as OpenMetrics text, or as Prometheus' older text
//! - `log.rs`: structured log on standard error
//! - `recent.rs`: last warnings and errors of the log
//! - `line_log.rs`, `line_log/`: asynchronous line log: buffers of the workers, writer thread (`writer.rs`),
//!   destination (`sink.rs`)
//! - `trace.rs`, `trace/`: spans: trace context (`context.rs`), export thread (`thread.rs`), OTLP in JSON (`otlp.rs`)
//! - `clock.rs`: UTC timestamps of log lines, formatted once a second
//! - `escape.rs`: escaping of a peer's bytes in log lines
//! - `limits.rs`: every bound of the crate, with its reason

mod cell;
pub mod clock;
pub mod encode;
mod escape;
mod histogram;
pub mod limits;
mod line_log;
pub mod log;
pub mod recent;
mod shard;
pub mod trace;

pub use cell::{Counter, Gauge};
pub use escape::Escaped;
pub use histogram::{Histogram, HistogramSum};
pub use line_log::{Destination, LineCounts, LineLog, LineWriter, LogLine, WeakLineLog};
pub use prometheus_client::collector::Collector;
pub use prometheus_client::encoding::DescriptorEncoder;
pub use prometheus_client::registry::Registry;
pub use shard::{PerWorker, ShardWriter};
