//! Foundations of integration tests: the node under test, its peers, and instruments.
//!
//! Real programs come first (nginx, curl, wrk); a scripted peer stands in only where a real one can't show the
//! property under test: the bytes that reached an origin, or a message that no honest server would send. Everything
//! here panics with the reason instead of returning errors: its callers are tests.
//!
//! Invariant: nothing outlives the value that started it: processes, ports, cgroups and scratch directories end with
//! their guard, a scripted connection with its thread.
//!
//! Non-goals: any knowledge of the other crates. The kit sees the node as a stranger does, by its sockets and its
//! process.
//!
//! # Map of files
//! The node under test:
//!
//! - `steppe.rs`: a running node, with its own ports and scratch directory
//! - `node_config.rs`, `node_config/`: builder of configurations
//! - `forwarder.rs`: a node with a DNS forwarder
//! - `wire.rs`: transport of a test run: TCP or TLS (`STEPPE_WIRE`)
//! - `documents.rs`, `page.rs`: examples of the documentation: fenced blocks, configurations of a page
//!
//! Clients:
//!
//! - `peer.rs`: scripted end of a TCP connection
//! - `framing.rs`: lenient parser of HTTP/1.1 heads and bodies
//! - `h2_peer.rs`: HTTP/2 client that sends given frames
//! - `tls_client.rs`: TLS client for scripted peers
//! - `record_peer.rs`: TLS 1.3 client that writes its own records
//! - `websocket.rs`: WebSocket client and echo server
//! - `dns_client.rs`: DNS query over UDP
//! - `duplex.rs`: asynchronous client connection over TCP or TLS
//! - `tools.rs`: `curl` and `wrk`
//! - `h2load.rs`: `h2load`
//! - `s_client.rs`: OpenSSL's `s_client`
//! - `chromium.rs`: headless Chromium over the DevTools protocol
//! - `steady_load.rs`: load at a constant rate, with each failure
//! - `flow.rs`, `flow/`: thousands of slow transfers, every byte verified
//!
//! Servers:
//!
//! - `origin.rs`: scripted origin that records received bytes
//! - `h2_origin.rs`: HTTP/2 origin that sends given frames
//! - `grpc_origin.rs`: gRPC server
//! - `tls_server.rs`: TLS server for scripted origins
//! - `full_queue.rs`: listener with a full accept queue
//! - `nginx.rs`, `redis.rs`, `etcd.rs`: real nginx, Redis and etcd
//! - `name_server.rs`: real name server (dnsmasq), with resolver settings
//! - `dns_server.rs`: minimal DNS server over UDP
//!
//! Environment:
//!
//! - `authority.rs`: certificate authority
//! - `cgroup.rs`: control group with a memory limit
//! - `namespace.rs`: network namespace with delay and packet loss
//! - `open_files.rs`: command with a limit on open files
//! - `delay_queue.rs`: packet delay by NFQUEUE, for kernels without netem
//! - `port.rs`: free TCP ports for parallel tests
//! - `process.rs`: child process with its output
//! - `scratch.rs`: temporary directory
//! - `file_lock.rs`: locks between test processes
//! - `virtual_time.rs`: runtime with a virtual clock
//! - `wait.rs`: waiting for a condition
//!
//! Instruments:
//!
//! - `meter.rs`: memory of a process
//! - `metrics.rs`: parser of Prometheus metrics
//! - `sockets.rs`: TCP states of a process
//! - `worker_time.rs`: CPU time and context switches of workers
//! - `strace.rs`: system call counts
//! - `callgrind.rs`: instruction counts
//! - `digest.rs`: SHA-256 digests

mod authority;
mod callgrind;
mod cgroup;
mod chromium;
mod delay_queue;
mod digest;
mod dns_client;
mod dns_server;
mod documents;
mod duplex;
mod etcd;
mod file_lock;
mod flow;
mod forwarder;
mod framing;
mod full_queue;
mod grpc_origin;
mod h2_origin;
mod h2_peer;
mod h2load;
mod meter;
mod metrics;
mod name_server;
mod namespace;
mod nginx;
mod node_config;
mod open_files;
mod origin;
mod page;
mod peer;
mod port;
mod process;
mod record_peer;
mod redis;
mod s_client;
mod scratch;
mod sockets;
mod steady_load;
mod steppe;
mod strace;
mod tls_client;
mod tls_server;
mod tools;
pub mod virtual_time;
mod wait;
mod websocket;
mod wire;
mod worker_time;

pub use authority::{Authority, Issued, KeyKind, Leaf, Validity};
pub use cgroup::Cgroup;
pub use chromium::Chromium;
pub use digest::sha256_hex;
pub use dns_client::{ask_dns, dns_query};
pub use dns_server::DnsServer;
pub use documents::{Document, Fence};
pub use etcd::EtcdServer;
pub use file_lock::{FileLock, Resource, heavy};
pub use flow::{Carrier, FlowOrigin, FlowPlan, FlowReport, Pattern, download, upload};
pub use forwarder::{Forwarder, SecureForwarder};
pub use framing::{BodyDecoder, BodyFraming, Head};
pub use full_queue::FullQueue;
pub use grpc_origin::{GrpcCall, GrpcOrigin, GrpcReply, grpc_message};
pub use h2_origin::H2Server;
pub use h2_peer::{FieldSection, H2Answer, H2Frame, H2Peer};
pub use h2load::{H2load, H2loadOutput};
pub use meter::{MemoryMeter, MemoryPeak, resident_bytes, thread_count};
pub use metrics::Metrics;
pub use name_server::NameServer;
pub use namespace::Namespace;
pub use nginx::Nginx;
pub use node_config::{NodeConfig, Section, Setting};
pub use origin::{OriginPeer, RawOrigin};
pub use page::{page_example, page_examples};
pub use peer::{Message, PATIENCE, Peer};
pub use port::Port;
pub use process::Process;
pub use record_peer::{ContentType, RecordPeer};
pub use redis::RedisServer;
pub use s_client::{SClient, SClientOutput};
pub use scratch::Scratch;
pub use sockets::TcpStates;
pub use steady_load::{SteadyClient, SteadyLoad, SteadyOutcome, SteadyProtocol};
pub use steppe::{Steppe, SteppeBuilder};
pub use strace::Strace;
pub use tls_client::TlsClient;
pub use tls_server::TlsServer;
pub use tools::{Curl, CurlOutput, CurlRun, Load, Wrk, WrkOutput};
pub use wait::{Gate, eventually, observe_until};
pub use websocket::{WebSocket, websocket_accept, websocket_connect, websocket_echo};
pub use wire::Wire;
pub use worker_time::WorkerTime;

use std::io::Write as _;

/// True if tests run at the promised sizes, which take long (`STEPPE_LONG=1`).
#[must_use]
pub fn is_long() -> bool {
    std::env::var_os("STEPPE_LONG").is_some_and(|value| value == "1")
}

/// Skips a test that takes long, but in the long tier: true when it is skipped.
#[must_use]
pub fn is_left_to_long_tier(test: &str) -> bool {
    if !is_long() {
        skip(test, "takes long: STEPPE_LONG=1 runs it");
    }
    !is_long()
}

/// True if programs and libraries that tests run were built before the tests, as `cargo xtask test` does.
///
/// Without it (`STEPPE_BUILT=1`) such a test has cargo build them; cargo's lock lets one build at a time.
#[must_use]
pub fn is_built() -> bool {
    std::env::var_os("STEPPE_BUILT").is_some_and(|value| value == "1")
}

/// Reports that a test was skipped, and the reason, past the harness's capture.
///
/// A skipped test counts as passed for the harness, so the line is also added
/// to the file that `STEPPE_SKIPPED` names, for the runner of the suite to count.
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED {test}: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    let Some(path) = std::env::var_os("STEPPE_SKIPPED") else {
        return;
    };
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path);
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}

/// Raises this process's limit of open files to its hard limit and returns it.
pub fn raise_file_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
