//! `steppe plane call`: one call, and its answer on standard output.
//!
//! Invariant: standard output gets the bytes of the answer and nothing else; errors go to standard error, with the
//! status by its name.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use bytes::Bytes;
use clap::Args;
use steppe_plane::frame::TraceParent;
use steppe_plane::{Ask, Balancer, Caller, Choice, DialedWorker, Failure, Target, TargetTls};

use super::etcd::EtcdAddress;
use super::memory::{Held, connect};
use super::tls::Tls;
use super::wishes::Wishes;
use crate::cli::code::Code;
use crate::cli::console::say;
use crate::config::size;

#[derive(Debug, Args)]
pub(super) struct Options {
    /// A worker or a relay, HOST:PORT; or etcd://HOST:PORT/PREFIX to discover workers
    #[arg(value_parser = callee)]
    address: Callee,
    /// The service to call
    service: String,
    /// File with the body of the request; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    data: Option<PathBuf>,
    /// The body of the request
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Media type of the request
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    #[command(flatten)]
    wishes: Wishes,
    #[command(flatten)]
    tls: Tls,
    /// Idempotency key, which permits to run the call more than once; at most 64 bytes
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Trace context, as in the HTTP field `traceparent`
    #[arg(long, value_name = "TRACEPARENT")]
    traceparent: Option<TraceParent>,
    /// Accepts a streamed response, and prints each message as it arrives
    #[arg(long)]
    stream: bool,
    /// Memory limit for the response
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
    budget: u64,
    /// Prints the bytes sent and received to standard error
    #[arg(short, long)]
    verbose: bool,
}

pub(super) const HELP: &str = "\
Examples:
  steppe plane call 127.0.0.1:7701 echo --text hello
  steppe plane call 127.0.0.1:7700 infer --data prompt.json --content-type application/json --deadline 30s
  steppe plane call 127.0.0.1:7700 infer --data prompt.json --stream
  steppe plane call etcd://127.0.0.1:2379/steppe echo --text hello
  steppe plane call node.example:7700 infer --text hello --tls --ca ca.pem --cert me.crt --key me.key
  tar c . | steppe plane call 127.0.0.1:7700 store --data - --no-queue

Exit codes: 0 if the call succeeded; 2 if the command line is wrong or its file can't be read; 5 if
no connection to ADDRESS is possible; else 10 plus the number of the status: 11 cancelled,
12 invalid, 13 deadline exceeded, 14 unknown service, 15 unavailable, 16 overloaded, 17 too large,
18 unsupported, 19 denied, 20 internal, 21 draining.";

/// Exit code of status 0; a status that is not ok adds its number.
const STATUS_CODE_BASE: u32 = 10;

/// The callee of the command line.
#[derive(Debug, Clone)]
enum Callee {
    /// `HOST:PORT`.
    One(String),
    Found(EtcdAddress),
}

fn callee(text: &str) -> Result<Callee, String> {
    match EtcdAddress::is_meant(text) {
        true => text.parse().map(Callee::Found),
        false => Ok(Callee::One(text.to_owned())),
    }
}

/// The connected callees.
enum Peers {
    One(Caller),
    Several(Balancer),
}

/// The reason why there is no answer.
enum Trouble {
    /// An error of a file, or of the address.
    Here(Code, anyhow::Error),
    Failed(Failure),
    /// Standard output failed.
    Output(io::Error),
}

pub(super) fn run(options: &Options) -> ExitCode {
    let trouble = match call(options) {
        Ok(()) => return Code::Ok.into(),
        Err(trouble) => trouble,
    };
    match trouble {
        Trouble::Here(code, error) => {
            say(&format!("steppe: {error:#}\n"));
            code.into()
        }
        Trouble::Failed(failure) => {
            say(&format!("steppe: {failure}\n"));
            if let Some(after) = failure.retry_after {
                say(&format!("steppe: retry after {after:?}\n"));
            }
            let code = STATUS_CODE_BASE + failure.status.code();
            u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)
        }
        Trouble::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Code::Ok.into(),
        Trouble::Output(error) => {
            say(&format!(
                "steppe: can't write to standard output: {error}\n"
            ));
            ExitCode::FAILURE
        }
    }
}

fn call(options: &Options) -> Result<(), Trouble> {
    let usage = |error| Trouble::Here(Code::Usage, error);
    let body = body(options).map_err(usage)?;
    let tls = options.tls.to_target().map_err(usage)?;
    let held = Held::new(options.budget).map_err(usage)?;
    held.run(async {
        match &options.address {
            Callee::One(address) => {
                let target = Target::new(address.as_str()).with_tls(tls);
                let caller = connect(target, held.memory()).await;
                let caller = caller.with_context(|| address.clone());
                let caller = caller.map_err(|error| Trouble::Here(Code::NoAnswer, error))?;
                exchange(options, &Peers::One(caller), body).await
            }
            Callee::Found(etcd) => find(options, (etcd, tls), &held, body).await,
        }
    })
}

/// Calls a worker that etcd announces for the service.
async fn find(
    options: &Options,
    (etcd, tls): (&EtcdAddress, Option<TargetTls>),
    held: &Held,
    body: Bytes,
) -> Result<(), Trouble> {
    let balancer = Balancer::new(held.memory(), []);
    let directory = etcd.directory(None);
    let follow = directory.follow(|workers| {
        let serves = |worker: &&DialedWorker| worker.services.contains(&options.service);
        let addresses = workers.iter().filter(serves).map(|worker| &*worker.address);
        balancer.set_targets(addresses.map(|address| Target::new(address).with_tls(tls.clone())));
    });
    let peers = Peers::Several(balancer.clone());
    tokio::select! {
        done = exchange(options, &peers, body) => done,
        never = follow => match never {},
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "what people are told that a call took"
)]
async fn exchange(options: &Options, peers: &Peers, body: Bytes) -> Result<(), Trouble> {
    let (start, sent) = (Instant::now(), body.len());
    let ask = options.ask();
    let mut output = Output::default();
    if options.stream {
        let answer = match peers {
            Peers::One(caller) => caller.stream(&ask, body).await,
            Peers::Several(balancer) => balancer.stream(&ask, Choice::Least, body).await,
        };
        let mut answer = answer.map_err(Trouble::Failed)?;
        while let Some(part) = answer.next().await.map_err(Trouble::Failed)? {
            output.write(&part.bytes)?;
        }
    } else {
        let answer = match peers {
            Peers::One(caller) => caller.unary(&ask, body).await,
            Peers::Several(balancer) => balancer.unary(&ask, Choice::Least, body).await,
        };
        output.write(&answer.map_err(Trouble::Failed)?)?;
    }
    if options.verbose {
        let (elapsed, came) = (start.elapsed(), output.bytes);
        let service = &options.service;
        say(&format!(
            "> {service}, {sent} bytes\n< ok, {came} bytes in {elapsed:.1?}\n"
        ));
    }
    Ok(())
}

/// Standard output, and the number of bytes written there.
#[derive(Default)]
struct Output {
    bytes: usize,
}

impl Output {
    /// Writes and flushes: the reader may wait for each message.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        let mut output = io::stdout();
        output.write_all(bytes).map_err(Trouble::Output)?;
        self.bytes += bytes.len();
        output.flush().map_err(Trouble::Output)
    }
}

fn body(options: &Options) -> anyhow::Result<Bytes> {
    let Some(file) = &options.data else {
        return Ok(options.text.clone().unwrap_or_default().into());
    };
    let mut bytes = Vec::new();
    if file.as_os_str() == "-" {
        io::stdin()
            .read_to_end(&mut bytes)
            .context("standard input")?;
    } else {
        bytes = std::fs::read(file).with_context(|| file.display().to_string())?;
    }
    Ok(bytes.into())
}

impl Options {
    fn ask(&self) -> Ask<'_> {
        Ask {
            deadline: self.wishes.deadline,
            queueing: self.wishes.queueing(),
            content_type: self.content_type.as_deref(),
            idempotency_key: self.idempotency_key.as_deref().map(str::as_bytes),
            trace_parent: self.traceparent,
            ..Ask::new(&self.service)
        }
    }
}
