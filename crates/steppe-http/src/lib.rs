//! The HTTP gateway.

pub mod config;
pub mod forwarded;
pub mod host;
pub mod limits;
pub mod metrics;
pub mod path;
pub mod router;
