//! `steppe plane bench`: latency, throughput and refusals of a service.
//!
//! Invariant: one body is held for all requests, and no more answers than the budget has room for. A call refused for
//! want of room is no failure, and neither counts as answered. Latencies of an open loop count from the time at which a
//! call was due.

mod body;
mod counts;
mod load;
mod report;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use steppe_plane::Target;
use tokio::signal::unix::{SignalKind, signal};

use super::memory::{Held, connect};
use super::tls::Tls;
use super::wishes::Wishes;
use crate::cli::code::Code;
use crate::cli::console::{print, say};
use crate::config::{duration, size};
use load::{Load, Plan};

#[derive(Debug, Args)]
pub(super) struct Options {
    /// A worker or a relay, HOST:PORT
    address: String,
    /// The service to call
    service: String,
    /// Bytes of each request
    #[arg(long, value_name = "N", default_value_t = 1000)]
    bytes: usize,
    /// Sends JSON: a list of short messages
    #[arg(long)]
    json: bool,
    /// Maximum number of concurrent calls
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=CALLS_MAX))]
    concurrency: u32,
    #[command(flatten)]
    length: Length,
    /// Calls per second, evenly spaced; without it, a call begins when another ends
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Number of connections
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=CONNECTIONS_MAX))]
    connections: u32,
    #[command(flatten)]
    wishes: Wishes,
    #[command(flatten)]
    tls: Tls,
    /// Accepts streamed responses of many messages
    #[arg(long)]
    stream: bool,
    /// Memory limit for responses
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
    budget: u64,
    /// Prints the load protocol of steppe-lab
    #[arg(long)]
    lab: bool,
}

/// When it is over: after as many calls, or so long.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = true)]
struct Length {
    /// Number of calls
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// Time in which calls begin; open calls then finish
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    duration: Option<Duration>,
}

pub(super) const HELP: &str = "\
Examples:
  steppe plane bench 127.0.0.1:7701 echo --bytes 1000000 --concurrency 96 --requests 1000
  steppe plane bench 127.0.0.1:7700 infer --bytes 220000 --concurrency 150 --duration 30s --stream
  steppe plane bench 127.0.0.1:7700 echo --rate 500 --concurrency 2000 --duration 35s --no-queue

Overloaded calls count as refused; calls with any other error count as failed. With --lab, the
command is a load for steppe-lab, of kind = \"command\".
Exit codes: 0 if the run completed, with any statuses; 2 if the command line is wrong; 5 if no
connection to ADDRESS is possible.";

/// Concurrent calls, at most: tasks of the process.
const CALLS_MAX: i64 = 65_536;
/// Connections, at most: each takes some hundred KiB of the budget.
const CONNECTIONS_MAX: i64 = 1024;

pub(super) fn run(options: &Options) -> ExitCode {
    let plan = match options.plan() {
        Ok(plan) => plan,
        Err(error) => {
            say(&format!("steppe: {error:#}\n"));
            return Code::Usage.into();
        }
    };
    match measure(options, plan) {
        Ok(text) => print(&text),
        Err(error) => {
            say(&format!("steppe: {error:#}\n"));
            Code::NoAnswer.into()
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the run begins")]
fn measure(options: &Options, plan: Plan) -> anyhow::Result<String> {
    let tls = options.tls.to_target()?;
    let held = Held::new(options.budget)?;
    held.run(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut callers = Vec::new();
        for _ in 0..options.connections {
            let target = Target::new(options.address.as_str()).with_tls(tls.clone());
            let caller = connect(target, held.memory()).await;
            callers.push(caller.with_context(|| options.address.clone())?);
        }
        let load = Arc::new(Load::new(plan, Instant::now()));
        tokio::select! {
            () = load::run(&load, &callers) => {}
            // The counts so far are printed.
            _ = interrupt.recv() => {}
        }
        let counts = load.counts();
        Ok(match options.lab {
            true => report::lines(&counts),
            false => report::text(&counts),
        })
    })
}

impl Options {
    fn plan(&self) -> anyhow::Result<Plan> {
        let rate = self.rate.unwrap_or(1.0);
        anyhow::ensure!(
            rate.is_finite() && rate > 0.0,
            "--rate: {rate} is not a positive number"
        );
        Ok(Plan {
            service: self.service.clone(),
            body: match self.json {
                true => body::json(self.bytes)?,
                false => body::bytes(self.bytes),
            },
            concurrency: self.concurrency,
            requests: self.length.requests,
            duration: self.length.duration,
            rate: self.rate,
            deadline: self.wishes.deadline,
            queueing: self.wishes.queueing(),
            taking: match self.stream {
                true => load::Taking::Messages,
                false => load::Taking::Whole,
            },
        })
    }
}
