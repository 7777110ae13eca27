//! Questions in flight: who waits for which, and which queries are out for them.
//!
//! `coalesce` is shared by workers: whoever asks first leads, the others wait for the leader's answer.
//! `attempts` is a worker's own: the queries that it sent, found again by socket and id.
//!
//! Invariant: both have the size that they were made with; what has no room is refused. Spec: RFC 5452.

mod attempts;
mod coalesce;
mod wheel;

pub use attempts::{
    AttemptId, Attempts, Case, Exchange, ExchangeId, Expired, Ignored, Outgoing, Received, Sent,
    Sizes,
};
pub use coalesce::{Coalescer, Crowded, Join, Ticket, Waiter};
