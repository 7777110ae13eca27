//! Questions in flight, the clients that wait for them, and the queries that are out for them.
//!
//! `coalesce` is shared by workers: the first to ask a question leads, the others wait for the leader's answer.
//! `attempts` is a worker's own: the queries that it sent, found again by socket and id.
//!
//! Invariant: both tables keep the size that they were made with; a question or query without room is refused.
//! Spec: RFC 5452.

mod attempts;
mod coalesce;
mod wheel;

pub use attempts::{
    AttemptId, Attempts, Case, Exchange, ExchangeId, Expired, Ignored, Outgoing, Received, Sent,
    Sizes,
};
pub use coalesce::{Coalescer, Crowded, Join, Ticket, Waiter};
