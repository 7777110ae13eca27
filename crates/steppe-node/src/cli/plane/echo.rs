//! `steppe plane echo`: a worker that answers each request with its body.

mod handler;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use steppe_plane::Worker;
use tokio::signal::unix::{SignalKind, signal};

use super::memory::Held;
use crate::cli::code::Code;
use crate::cli::console::{print, say};
use crate::config::{read_duration, read_size};
use handler::Manner;

#[derive(Debug, Args)]
pub(super) struct Options {
    /// Where it listens for callers
    #[arg(long, value_name = "ADDRESS")]
    listen: SocketAddr,
    /// The service's name
    #[arg(long, value_name = "NAME", default_value = "echo")]
    service: String,
    /// What it holds of requests and responses, at most
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = read_size)]
    budget: u64,
    /// How long each call is held before it is answered; with --tokens, how long its answer takes
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = read_duration)]
    hold: Duration,
    /// Calls that run at once; others wait, or are refused where they do not
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    calls: usize,
    /// Reads each body as JSON, and keeps what comes of it until the answer
    #[arg(long)]
    json: bool,
    /// Answers with a stream of N small messages instead
    #[arg(long, value_name = "N", conflicts_with = "json")]
    tokens: Option<u32>,
    /// How long calls may take to end, once it was told to stop
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = read_duration)]
    drain_timeout: Duration,
}

pub(super) const HELP: &str = "\
Examples:
  steppe plane echo --listen 127.0.0.1:7701
  steppe plane echo --listen 127.0.0.1:7701 --budget 64MiB --hold 500ms
  steppe plane echo --listen 127.0.0.1:7701 --service infer --tokens 1000 --hold 2s

SIGTERM and Ctrl-C drain it: it takes no further calls, finishes those that are open, and says `drained`.
Exit codes: 0 where all were finished, 4 where some were cut, 3 where it could not start.";

pub(super) fn run(options: &Options) -> ExitCode {
    match serve(options) {
        Ok(code) => code,
        Err(error) => {
            say(&format!("steppe: {error:#}\n"));
            Code::Start.into()
        }
    }
}

fn serve(options: &Options) -> anyhow::Result<ExitCode> {
    let held = Held::new(options.budget)?;
    let manner = Arc::new(Manner {
        hold: options.hold,
        is_json: options.json,
        tokens: options.tokens,
        memory: Arc::clone(held.memory()),
        parsed_bytes_max: held.account().limit_bytes() / 4,
    });
    let worker = Worker::builder(held.memory())
        .stream(&options.service, options.calls, move |request| {
            handler::answer(Arc::clone(&manner), request)
        })
        .build();
    held.run(async {
        // Before anything else: a signal drains it from the start on.
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let server = worker.listen(options.listen).await;
        let server = server.with_context(|| options.listen.to_string())?;
        print(&format!(
            "serves {} on {}\n",
            options.service,
            server.address()
        ));
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if server.drain(options.drain_timeout).await {
            return Ok(print("drained\n"));
        }
        say("steppe: calls that did not end in time were cut\n");
        Ok(Code::Dropped.into())
    })
}
