//! Metrics and logs.
//!
//! Metrics are cells that one thread writes and everybody reads: a worker pays a
//! plain load and store for a count, and a scrape sums the workers' cells. Their
//! text is OpenMetrics, written by `prometheus-client`.
//!
//! Leaves out: what is counted (each crate has its own cells), and serving it.

mod cell;
pub mod encode;
mod escape;
mod histogram;
pub mod limits;
mod line_log;
pub mod log;
pub mod recent;
mod shard;

pub use cell::{Counter, Gauge};
pub use escape::Escaped;
pub use histogram::{Histogram, HistogramSum};
pub use line_log::{Destination, Line, LineLog, LineWriter};
pub use prometheus_client::collector::Collector;
pub use prometheus_client::encoding::DescriptorEncoder;
pub use prometheus_client::registry::Registry;
pub use shard::{PerWorker, Writer};
