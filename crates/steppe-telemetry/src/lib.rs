//! Metrics and logs.
//!
//! Metrics are cells with a single writer: a worker increments a counter with a
//! plain load and store, and a scrape sums the workers' cells. `prometheus-client`
//! encodes them as OpenMetrics text.
//!
//! Non-goals: which metrics exist (each crate defines its own), and serving them.

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
pub use line_log::{Destination, Line, LineLog, LineWriter};
pub use prometheus_client::collector::Collector;
pub use prometheus_client::encoding::DescriptorEncoder;
pub use prometheus_client::registry::Registry;
pub use shard::{PerWorker, Writer};
