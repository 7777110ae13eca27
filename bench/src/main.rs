//! `steppe-bench`: side-by-side runs of Steppe against its peers.
//!
//! Invariants: figures are printed and never judged (the exit code says only whether the run was
//! valid), and every process that a run starts is gone when the run ends, by Ctrl-C too.
//! Leaves out: soaks and verdicts about memory over time.

#![forbid(unsafe_code)]

mod before;
mod callgrind;
mod dns;
mod floor;
mod http;
mod load;
mod machine;
mod malloc;
mod page;
mod peer;
mod plane;
mod process;
mod server;
mod stats;
mod syscalls;
mod table;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

/// Side-by-side runs of Steppe against its peers.
#[derive(Parser)]
#[command(name = "steppe-bench", version)]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// The gateway against nginx, HAProxy, Envoy and Caddy.
    Http(http::Options),
    /// The allocator, preloaded, against glibc, mimalloc, jemalloc, tcmalloc and others.
    Malloc(malloc::Options),
    /// The DNS forwarder against unbound, dnsdist, Knot Resolver and dnsmasq.
    Dns(dns::Options),
    /// The request plane against tonic, tarpc and NATS.
    Plane(plane::Options),
    /// The minimal proxy of HTTP/1.1, which `http` starts as the floor.
    FloorProxy(floor::Options),
    /// The minimal proxy of HTTP/2 with clients, which `http` starts as the floor.
    FloorH2Proxy(floor::h2::Options),
    /// The minimal proxy from HTTP/2 on Steppe's own codec, to HTTP/1.1 or HTTP/2, a second floor.
    FloorH2Codec(floor::codec::Options),
    /// The minimal DNS server, which `dns` starts as the floor and behind every forwarder.
    FloorDns(floor::dns::Options),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let bench = Cli::parse().bench;
    // Dropping the run stops every server and program that it holds.
    let outcome = tokio::select! {
        outcome = run(&bench) => outcome,
        interruption = interrupted() => {
            eprintln!("interrupted: everything that was started is stopped");
            return interruption;
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn run(bench: &Bench) -> anyhow::Result<bool> {
    match bench {
        Bench::Http(options) => http::run(options).await,
        Bench::Malloc(options) => malloc::run(options).await,
        Bench::Dns(options) => dns::run(options).await,
        Bench::Plane(options) => plane::run(options).await,
        Bench::FloorDns(options) => floor::dns::run(options).await,
        Bench::FloorProxy(options) => floor::run(options).await,
        Bench::FloorH2Proxy(options) => floor::h2::run(options).await,
        Bench::FloorH2Codec(options) => floor::codec::run(options).await,
    }
}

async fn interrupted() -> ExitCode {
    let mut terminate = signal(SignalKind::terminate()).expect("SIGTERM can be handled");
    let mut interrupt = signal(SignalKind::interrupt()).expect("SIGINT can be handled");
    tokio::select! {
        _ = terminate.recv() => ExitCode::from(143),
        _ = interrupt.recv() => ExitCode::from(130),
    }
}
