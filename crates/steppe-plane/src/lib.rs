//! The request plane: framed calls between callers and workers, within a memory budget.
//!
//! The protocol has no socket: [`frame`] reads and writes frames, [`Connection`] is the state machine of one
//! connection, on either side of it and in a relay. It takes bytes and the time, and returns events and slices to
//! write. `docs/plane/protocol.md` specifies it to the byte. Around it, [`Caller`] and [`Worker`] call and serve over
//! TCP or TLS, within [`Memory`]; [`Relay`] passes calls between them.
//!
//! Invariant: a peer can make nothing here grow past a bound of [`limits`], and DATA is accepted only within credit
//! that was granted.
//!
//! Non-goals: the meaning of a body.
//!
//! # Map of files
//! A folder has the submodules and tests of the file beside it; indented entries are in the folder of the file above
//! them.
//!
//! - `frame.rs`: frames
//!   - `header.rs`: header of every frame
//!   - `field.rs`: fields of a payload
//!   - `head.rs`, `hello.rs`, `services.rs`: HEADERS, HELLO, SERVICES
//!   - `trace.rs`: trace context
//! - `connection.rs`: state machine of a connection
//!   - `machine.rs`: interface to the shell: bytes, deadlines
//!   - `command.rs`, `event.rs`: commands from the shell, events to it
//!   - `reader.rs`: bytes to frames
//!   - `receive.rs`, `call.rs`: handling of received frames and of timeouts; frames of a stream
//!   - `streams.rs`, `half.rs`: table of streams; send and receive half of a stream
//!   - `queue.rs`: queues of streams, and their deadlines
//!   - `transmit.rs`, `output.rs`: choice of the next frame; frames being written
//!   - `keepalive.rs`: HELLO timeout, PING
//!   - `violation.rs`: protocol violations
//! - `status.rs`: status and reason of a stream's end
//! - `io.rs`: driver of a connection over TCP or TLS, within the budget
//!   - `driver.rs`: task of a connection: reads, writes, timers
//!   - `link.rs`, `stream.rs`: connection and streams, shared by the driver and the calls
//!   - `transport.rs`: socket, or TLS above it
//!   - `memory.rs`, `room.rs`: budget accounts of calls; memory of handlers
//!   - `sender.rs`, `receiver.rs`: outgoing and incoming body
//!   - `reading.rs`: buffer of a message being received
//!   - `returns.rs`: return of standing credit
//!   - `wait.rs`: waiting for HELLO, drain, and end of a connection
//!   - `failure.rs`: errors of a call
//! - `caller.rs`: calls over one connection
//! - `balance.rs`, `balance/`: calls over several peers: connections (`seat.rs`), retry budget (`retries.rs`)
//! - `worker.rs`, `worker/`: services and their handlers: listening, or registered at a relay
//! - `relay.rs`: relay of calls from callers to workers
//!   - `peers.rs`, `access.rs`: connections of the relay, and the rights of their peers
//!   - `registry.rs`: services of the connected workers, and the choice of a worker
//!   - `dialed.rs`: workers that the relay dials
//!   - `forward.rs`, `pump.rs`: forwarding of a call, and of a body
//!   - `queue.rs`: calls that wait for a worker
//!   - `tries.rs`: workers that refused a call
//!   - `pressure.rs`: calls that have waited for long, and those that hold credit and send nothing
//!   - `counts.rs`, `report.rs`: counts of forwarded calls; report for `/plane`
//! - `dial.rs`, `dial/`: target of outgoing connections, and reconnect backoff
//! - `discovery.rs`, `discovery/`: workers registered in etcd
//! - `service.rs`: the request plane as a service of the node
//!   - `accept.rs`: accept loop of a worker thread
//!   - `dialing.rs`: dialed workers, configured or discovered
//!   - `running.rs`: the running relay
//!   - `tls.rs`: TLS of listeners and of dialed workers
//!   - `metrics.rs`: metrics of the relay
//! - `config.rs`, `config/rules.rs`: settings of the plane as valid types; rules for offered and called services
//!   - `keys.rs`, `keys/`: keys of `[plane]` and `[discovery]`, with their checks and builds
//! - `random.rs`: pseudorandom numbers
//! - `rest.rs`: rest of a worker that refused a call
//! - `table.rs`, `table/`: streams by their number, in both layers
//! - `limits.rs`: every bound of the crate, with its reason

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
mod rest;
mod service;
mod status;
mod table;
mod worker;

pub use balance::{Balancer, Choice};
pub use caller::{Ask, Call, Caller};
pub use connection::{
    Config, Connection, DataPart, Event, HalfLeft, OpenError, Peer, Processing, SendError, Side,
    StreamId, Violation,
};
pub use dial::{Target, TargetTls};
pub use discovery::Directory;
pub use io::{ALPN, Failure, Memory, Part, Receiver, Room, Sender};
pub use relay::{
    CallReport, DialedWorker, QueueReport, Relay, RelayConfig, RelayReport, ServiceReport,
    TimeReport, Tries, WorkerReport,
};
pub use service::{PlaneCollector, PlaneContext, PlaneService};
pub use status::{Reason, Status};
pub use worker::{Registered, Request, Worker, WorkerBuilder, WorkerServer, WorkerStatus};
