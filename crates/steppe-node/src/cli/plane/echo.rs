//! `steppe plane echo`: a worker that answers each request with its body.

mod handler;
mod json;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use steppe_etcd::Lease;
use steppe_plane::{Registered, Target, Worker, WorkerServer, WorkerStatus};
use tokio::signal::unix::{SignalKind, signal};

use super::etcd::EtcdAddress;
use super::memory::Held;
use super::tls::Tls;
use crate::cli::code::Code;
use crate::cli::console::{print, say};
use crate::config::{duration, size};
use handler::Manner;

#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    announced: Announced,
    #[command(flatten)]
    tls: Tls,
    /// The service's name
    #[arg(long, value_name = "NAME", default_value = "echo")]
    service: String,
    /// Memory limit for requests and responses
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = size)]
    budget: u64,
    /// Delay of each response; with --tokens, duration of each response
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    hold: Duration,
    /// Maximum number of concurrent calls; further calls wait, or are refused if they must not queue
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    calls: usize,
    /// Parses each body as JSON, and keeps the value until the response
    #[arg(long)]
    json: bool,
    /// Responds with a stream of N small messages instead
    #[arg(long, value_name = "N", conflicts_with = "json")]
    tokens: Option<u32>,
    /// Time for open calls to finish after a stop signal
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    drain_timeout: Duration,
}

/// The way that callers reach the worker.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Place {
    /// Address to listen on for callers
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Relay to register with, HOST:PORT; a lost connection is re-established
    #[arg(long, value_name = "ADDRESS")]
    register: Option<String>,
}

/// Where it is named for callers to find it.
#[derive(Debug, Args)]
struct Announced {
    /// Announces the worker in etcd while it runs, etcd://HOST:PORT/PREFIX
    #[arg(long, value_name = "URL", requires = "listen")]
    announce: Option<EtcdAddress>,
    /// Announced address, if callers use another address than that of --listen
    #[arg(long, value_name = "HOST:PORT", requires = "announce")]
    advertise: Option<String>,
    /// Lease in etcd, after which a silent worker is removed; at least 2s [default: 10s]
    #[arg(long, value_name = "DURATION", requires = "announce", value_parser = duration)]
    lease: Option<Duration>,
}

/// A worker that serves.
enum Serving {
    Listening(WorkerServer),
    Registered(Registered),
}

pub(super) const HELP: &str = "\
Examples:
  steppe plane echo --listen 127.0.0.1:7701
  steppe plane echo --register 127.0.0.1:7700
  steppe plane echo --listen 127.0.0.1:7701 --announce etcd://127.0.0.1:2379/steppe
  steppe plane echo --listen 127.0.0.1:7701 --tls --cert worker.crt --key worker.key --ca callers.pem
  steppe plane echo --listen 127.0.0.1:7701 --budget 64MiB --hold 500ms
  steppe plane echo --listen 127.0.0.1:7701 --service infer --tokens 1000 --hold 2s

SIGTERM and Ctrl-C drain the worker: it accepts no further calls, finishes open calls, and prints
`drained`.
Exit codes: 0 if all calls finished, 4 if some were cut off, 3 if the worker could not start.";

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
    });
    let worker = Worker::builder(held.memory())
        .stream(&options.service, options.calls, move |request| {
            handler::answer(Arc::clone(&manner), request)
        })
        .build();
    held.run(async {
        // Installed before everything else: a signal drains the worker from the start on.
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let serving = options.place.serve(&worker, &options.tls).await?;
        let lease = options.announced.lease(&options.service, &serving)?;
        let is_told = async {
            print(&format!(
                "serves {} {}\n",
                options.service,
                serving.place(&options.place).await
            ));
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = is_told => {}
            () = serving.tell_denied() => {}
        }
        // Callers that no longer find the worker open no calls here.
        if let Some(lease) = lease
            && let Err(error) = lease.withdraw().await
        {
            say(&format!(
                "steppe: the worker stays in etcd until its lease ends: {error}\n"
            ));
        }
        if serving.drain(options.drain_timeout).await {
            return Ok(print("drained\n"));
        }
        say("steppe: calls that did not finish in time were cut off\n");
        Ok(Code::Dropped.into())
    })
}

impl Place {
    async fn serve(&self, worker: &Worker, tls: &Tls) -> anyhow::Result<Serving> {
        if let Some(relay) = &self.register {
            let target = Target::new(relay.as_str()).with_tls(tls.to_target()?);
            let registered = worker.register(target);
            return Ok(Serving::Registered(registered.context("--service")?));
        }
        let address = self.listen.context("--listen or --register is required")?;
        let server = match tls.of_listener(&address.to_string())? {
            None => worker.listen(address).await,
            Some(tls) => worker.listen_tls(address, tls).await,
        };
        Ok(Serving::Listening(
            server.with_context(|| address.to_string())?,
        ))
    }
}

impl Announced {
    fn lease(&self, service: &str, serving: &Serving) -> anyhow::Result<Option<Lease>> {
        let (Some(address), Serving::Listening(server)) = (&self.announce, serving) else {
            return Ok(None);
        };
        let listens = server.address();
        let advertised = match &self.advertise {
            Some(advertised) => advertised.clone(),
            None => {
                let is_one = !listens.ip().is_unspecified();
                ensure!(
                    is_one,
                    "--advertise is required: {listens} is not a single address"
                );
                listens.to_string()
            }
        };
        let directory = address.directory(self.lease);
        Ok(Some(directory.announce([service], &advertised)))
    }
}

impl Serving {
    /// The address at which callers find the worker, once they can.
    async fn place(&self, place: &Place) -> String {
        match self {
            Self::Listening(server) => format!("on {}", server.address()),
            Self::Registered(registered) => {
                registered.reaches(WorkerStatus::Serving).await;
                format!("through {}", place.register.as_deref().unwrap_or_default())
            }
        }
    }

    /// Reports, once, that the relay denies the service. Never ready.
    async fn tell_denied(&self) {
        if let Self::Registered(registered) = self {
            registered.reaches(WorkerStatus::Denied).await;
            say("steppe: the relay denies a service that this worker offers; it dials again\n");
        }
        std::future::pending().await
    }

    async fn drain(self, patience: Duration) -> bool {
        match self {
            Self::Listening(server) => server.drain(patience).await,
            Self::Registered(registered) => registered.drain(patience).await,
        }
    }
}
