//! The request plane: framed calls between callers and workers, whose memory is its budget.
//!
//! The protocol has no socket: [`frame`] reads and writes frames, [`Connection`] is the state machine
//! of one connection, on either side of it and in a relay. Bytes and the time come in, and events and
//! slices to write come out. `docs/plane-protocol.md` specifies it to the byte. Around it, [`Caller`]
//! and [`Worker`] call and serve over TCP, within [`Memory`].
//!
//! Invariant: nothing that a peer sends grows anything here past a bound of [`limits`], and no DATA is
//! accepted that was not granted before.
//!
//! [`Relay`] passes calls on between them.
//!
//! Leaves out: what a body means.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read the clock")
)]

mod balance;
mod caller;
pub mod config;
mod connection;
mod dial;
mod discovery;
pub mod frame;
mod io;
pub mod limits;
mod random;
mod relay;
mod service;
mod status;
mod worker;

pub use balance::{Balancer, Choice};
pub use caller::{Ask, Call, Caller};
pub use connection::{
    Config, Connection, DataPart, Event, HalfLeft, OpenError, Peer, Processing, SendError, Side,
    StreamId, Violation,
};
pub use dial::{ALPN, Target, TargetTls};
pub use discovery::Directory;
pub use io::{Failure, Memory, Part, Receiver, Room, Sender};
pub use relay::{
    CallReport, DialedWorker, QueueReport, Relay, RelayConfig, RelayReport, ServiceReport,
    TimeReport, WorkerReport,
};
pub use service::{PlaneCollector, PlaneContext, PlaneService};
pub use status::{Reason, Status};
pub use worker::{Registered, Request, Worker, WorkerBuilder, WorkerServer, WorkerStatus};
