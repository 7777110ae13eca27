//! Threads and sockets: workers and the services that they run, listeners, inherited sockets, connections to servers,
//! TLS, names, files, the clock, deadlines, drain.
//!
//! Non-goals: protocols above the byte stream.
//!
//! # Map of files
//! A folder has the submodules and tests of the file beside it; indented entries are in the folder of the file above
//! them.
//!
//! - `worker.rs`: worker threads, one a core, each with a runtime of its own
//! - `service.rs`: trait of a service of the node, with the order of its calls
//!   - `set.rs`: all services of a node, started, changed and drained together
//!   - `changes.rs`: channel of configuration changes from a service to its workers
//! - `sockets.rs`: bound sockets by address and transport
//! - `address.rs`: addresses of a configuration, and keys of sockets
//! - `listener.rs`: listening sockets: TCP with `SO_REUSEPORT`, Unix
//! - `datagram.rs`, `datagram/`: UDP sockets with `SO_REUSEPORT`; batches by `recvmmsg` and `sendmmsg`
//! - `activation.rs`, `activation/`: socket activation (`LISTEN_FDS`)
//! - `stream.rs`: connected stream socket
//! - `accept.rs`: listeners of a worker, and admission of their connections and sessions
//!   - `service.rs`: trait of a service that serves connections, with the order of its calls
//!   - `listeners.rs`: listeners by socket: opened, retired, drained
//!   - `acceptor.rs`: accept loop of a listener
//!   - `admission.rs`: limit, charge and drain of sessions
//!   - `preamble.rs`, `introduction.rs`: PROXY header and TLS handshake of a listener, and of one connection
//!   - `refused.rs`: reasons for which a connection is not served
//! - `transport.rs`, `transport/`: byte stream of a connection in charged buffers, and the trait `Driver` of a socket
//!   or TLS session
//! - `io.rs`: choice of drivers for a worker's listeners and connections
//! - `probe.rs`: check of an address without listening on it
//! - `proxy_protocol.rs`, `proxy_protocol/`: parser of the PROXY protocol, versions 1 and 2
//! - `tls.rs`: TLS on rustls, on either side
//!   - `accept.rs`: server side of the handshake
//!   - `client.rs`: client side of the handshake, to upstream servers
//!   - `session.rs`: driver of an established session
//!   - `agreed.rs`: result of a handshake: version, cipher suite, ALPN, SNI, peer certificate
//!   - `handshakes.rs`, `handshakes/`: handshakes in progress on a worker: limit and scheduling
//!   - `record.rs`: record and handshake headers, and their bounds
//!   - `server.rs`: TLS of a listener: certificates, client authentication, tickets
//!   - `identity.rs`: our certificates, and their choice by SNI
//!   - `tickets.rs`: session tickets, and their keys
//!   - `config.rs`: TLS settings as valid types
//!   - `load.rs`: loading of certificates, keys and revocation lists from files
//!   - `reread.rs`: reloading of changed files
//!   - `outdated.rs`: certificates that clients refuse by their dates
//!   - `x509.rs`, `x509/`: fields of a certificate, for logs, metrics and predicates
//! - `config.rs`, `config/`: keys of a configuration that products share: addresses, networks, TLS
//! - `names.rs`: name resolution on the control thread, by TTL
//! - `folder.rs`: files below a folder, opened with `openat2` and read without blocking a worker
//! - `disk.rs`: blocking disk I/O on threads of its own
//! - `watch.rs`: detection of changed files by polling
//! - `clock.rs`: monotonic clock that tests can pause and advance
//! - `deadline.rs`: deadlines of connections, swept periodically
//! - `drain.rs`: phase of a graceful shutdown
//! - `drain_grace.rs`: time that a drain leaves to a PROXY header, a handshake, a first request
//! - `file_limit.rs`: limit on open files (`RLIMIT_NOFILE`)
//! - `sys.rs`: kernel memory of socket buffers (`SO_MEMINFO`)
//! - `limits.rs`: every bound of the crate, with its reason

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read the clock")
)]

pub mod accept;
mod activation;
mod address;
pub mod clock;
pub mod config;
mod datagram;
mod deadline;
mod disk;
mod drain;
mod drain_grace;
mod file_limit;
mod folder;
mod io;
pub mod limits;
mod listener;
mod names;
mod probe;
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
pub use drain_grace::DrainGrace;
pub use file_limit::{FileLimit, raise_file_limit};
pub use folder::{
    File, FileStatus, Folder, FolderContents, FolderEntry, FolderHandle, Opened, Reading, Root,
};
pub use io::{Accept, Connecting, Io, Readiness, ServerSocket};
pub use listener::{BindError, BoundListener, Listener, bind};
pub use names::{Endpoints, NameError, Names, Resolve, Resolved, SystemResolver};
pub use probe::probe;
pub use service::{
    Change, Changes, Drained, LocalFuture, PrepareError, Prepared, PreparedServices, ReadAhead,
    Service, ServiceSet, WorkerServices,
};
pub use sockets::{BoundSockets, SocketBinder};
pub use stream::{PeerAddress, Stream};
pub use transport::{Driver, ReadRoom, Transport};
pub use watch::Watch;
pub use worker::{Heartbeat, Worker, WorkerPlan, WorkerThread, spawn_worker};
