//! Servers: which there are, in what condition, and the connections to them.
//!
//! A [`Pool`] has the connections of a worker to the servers of one upstream, and a [`Call`] is one request to one of
//! them. [`UpstreamState`] is what all workers share.

mod breaker;
mod call;
pub mod channel;
mod connector;
mod error_lines;
mod hedge;
mod idle;
mod latency;
mod metrics;
mod picker;
mod pool;
mod probe;
mod random;
mod report;
mod retry_budget;
mod selection;
mod state;
mod sticky;
mod stream;
mod target;
mod under_way;
mod uptime;

use std::time::Duration;

pub use breaker::{Admission, Circuit, Trial};
pub use call::{
    Answering, Call, Fault, FinishedCall, Outcome, Reconnect, content, final_head, put,
};
pub(crate) use connector::Connector;
pub use metrics::UpstreamsCollector;
pub(crate) use pool::PoolParts;
pub use pool::{Checkout, Pool};
pub(crate) use probe::ProbeSettings;
pub use probe::Probes;
pub use report::{ProbeReport, ServerReport, UpstreamReport};
pub use selection::Selection;
pub use state::{UpstreamState, Upstreams, Way};
pub use stream::PooledStream;
pub use target::{Condition, Failure, TargetState};

/// Interval at which idle connections are swept, and new addresses of names are taken over.
pub const SWEEP_EVERY: Duration = Duration::from_secs(1);
