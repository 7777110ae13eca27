//! Sockets and threads: workers and the services that they run, listeners,
//! inherited sockets, connections to servers, names, files, the clock, deadlines, drain.
//!
//! Non-goals: protocols above the byte stream.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read the clock")
)]

mod activation;
mod address;
pub mod clock;
mod datagram;
mod deadline;
mod disk;
mod drain;
mod file_limit;
mod folder;
pub mod limits;
mod listener;
mod names;
pub mod proxy_protocol;
mod service;
mod sockets;
mod stream;
pub mod sys;
pub mod tls;
mod transport;
mod watch;
mod worker;

pub use activation::Inherited;
pub use address::{ListenAddress, ServerAddress, SocketKey, SocketKind};
pub use datagram::{
    BoundDatagram, Datagram, DatagramBatch, Fits, Sent, bind_datagram, connect_datagram,
    send_connected,
};
pub use deadline::{Deadline, Deadlines};
pub use disk::DiskTask;
pub use drain::{Drain, Phase};
pub use file_limit::{FileLimit, raise_file_limit};
pub use folder::{File, FileStatus, Folder, Opened, Reading, Root};
pub use listener::{BindError, BoundListener, Listener, bind};
pub use names::{Endpoints, NameError, Names, Resolve, Resolved, SystemResolver};
pub use service::{
    Change, Changes, Drained, LocalFuture, PrepareError, Prepared, PreparedServices, ReadAhead,
    Service, ServiceSet, WorkerServices,
};
pub use sockets::{BoundSockets, SocketBinder};
pub use stream::{PeerAddress, Stream};
pub use transport::{Driver, Transport};
pub use watch::Watch;
pub use worker::{Heartbeat, Worker, WorkerPlan, WorkerThread, spawn_worker};
