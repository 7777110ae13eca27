//! Callers and workers of Steppe's plane, and of its peers, under the same load.
//!
//! Invariant: every peer has the same allocator, the same runtime with the same threads, the same
//! bodies and the same loop around its calls.
//!
//! Leaves out: CPU time and memory of both processes, which the bench measures from outside.

#![forbid(unsafe_code)]

mod load;
mod peer;

use std::net::SocketAddr;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};

use self::load::Plan;
use self::peer::Peer;

/// Callers and workers of Steppe's plane, and of its peers, under the same load.
#[derive(Parser)]
struct Cli {
    /// Threads of the runtime; 1: the one of current-thread runtimes
    #[arg(long, default_value_t = 1, global = true)]
    threads: usize,
    /// Memory budget of Steppe, in MiB
    #[arg(long, default_value_t = 512, global = true)]
    budget_mib: u64,
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Answers until it is stopped.
    Serve(Serve),
    /// Prints `ready` once it is warm, begins at the next line of standard input, prints its figures, and
    /// ends when its input is closed.
    Call(Call),
}

#[derive(Args)]
struct Serve {
    peer: Peer,
    /// Address to listen on; workers that connect to a broker listen only to show that they are up
    #[arg(long)]
    listen: SocketAddr,
    /// Broker to connect to
    #[arg(long)]
    broker: Option<SocketAddr>,
}

#[derive(Args)]
struct Call {
    peer: Peer,
    /// The worker, or the broker
    #[arg(long)]
    address: SocketAddr,
    /// Connections that calls are spread over; the floor has one for each call at a time
    #[arg(long, default_value_t = 1)]
    connections: usize,
    #[command(flatten)]
    plan: Plan,
}

/// The memory budget of a process of Steppe; the other peers have none.
#[derive(Debug, Clone, Copy)]
struct Budget {
    bytes: u64,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let mut builder = match cli.threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder
        .worker_threads(cli.threads)
        .enable_all()
        .build()
        .context("no runtime")?;
    let budget = Budget {
        bytes: cli.budget_mib << 20,
    };
    runtime.block_on(async {
        match cli.role {
            Role::Serve(serve) => serve.peer.serve(serve.listen, serve.broker, budget).await,
            Role::Call(call) => {
                call.peer
                    .call(call.address, call.connections, &call.plan, budget)
                    .await
            }
        }
    })
}
