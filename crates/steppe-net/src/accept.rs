//! Listeners of a worker, and the way of a connection to the service that serves it: admission, PROXY header, TLS
//! handshake.
//!
//! A service implements [`ConnectionService`] for a listener and keeps its listeners in a [`ListenerSet`], which opens
//! them, retires those that a new configuration has not, and drains all. Sessions that are no byte streams, such as
//! those of QUIC, take the same [`Admission`]: they count, and are drained and retired, as connections are.
//!
//! Invariant: a session is charged and counted until its [`Admitted`] is dropped, whichever service serves it.
//!
//! Non-goals: metrics, and what is spoken.

mod acceptor;
mod admission;
mod introduction;
mod listeners;
mod preamble;
mod refused;
mod service;

#[cfg(test)]
mod tests;

pub use admission::{
    Admission, Admitted, SessionCount, SessionLimit, SessionPermit, SessionRequest,
};
pub use listeners::{ListenerSet, RetiredListeners};
pub use preamble::{HeaderLimits, Preamble, TlsPreamble};
pub use refused::Refused;
pub use service::{Accepted, ConnectionEnds, ConnectionService, Established, SessionService};
