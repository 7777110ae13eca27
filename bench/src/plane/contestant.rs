//! The contestants: callers, workers, and the relay or broker between them.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::case::{Case, NATS_BYTES_MAX, Shape};
use super::{Programs, Run};
use crate::process;
use crate::server::{Launch, Server};

/// Callers and workers that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Contestant {
    /// Steppe's plane, from caller to worker, on one connection.
    Steppe,
    /// The same by way of the relay of a node.
    SteppeRelay,
    /// tonic on one connection.
    Tonic,
    /// tonic on four.
    #[value(name = "tonic-4")]
    TonicFour,
    /// tarpc on one connection.
    Tarpc,
    /// NATS, by way of nats-server.
    Nats,
    /// A length and a body, on a connection for each call at a time.
    Floor,
}

/// Address that workers listen on, some of them only to show that they are up.
const WORKER: &str = "127.0.0.1:28290";
const BROKER: &str = "127.0.0.1:28291";
const ADMIN: &str = "127.0.0.1:28292";

/// A caller that was started, and waits to begin.
struct Caller {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// CPU time and peak memory of one process.
struct Spent {
    cpu_us: f64,
    peak_bytes: u64,
}

impl Contestant {
    pub fn name(self) -> &'static str {
        match self {
            Self::Steppe => "steppe",
            Self::SteppeRelay => "steppe, relay",
            Self::Tonic => "tonic",
            Self::TonicFour => "tonic, 4 connections",
            Self::Tarpc => "tarpc",
            Self::Nats => "nats",
            Self::Floor => "floor",
        }
    }

    /// The reason why the contestant can't run this load; `None` if it can.
    pub fn cannot(self, case: Case) -> Option<&'static str> {
        match self {
            Self::Tarpc if case.shape == Shape::Stream => Some("tarpc has no streams"),
            Self::Nats if case.shape == Shape::Stream => {
                Some("messages to an inbox of NATS have no flow control")
            }
            Self::Nats if case.bytes > NATS_BYTES_MAX => Some("above the payload of nats-server"),
            _ => None,
        }
    }

    fn peer(self) -> &'static str {
        match self {
            Self::Steppe | Self::SteppeRelay => "steppe",
            Self::Tonic | Self::TonicFour => "tonic",
            Self::Tarpc => "tarpc",
            Self::Nats => "nats",
            Self::Floor => "floor",
        }
    }

    fn connections(self) -> &'static str {
        match self {
            Self::TonicFour => "4",
            _ => "1",
        }
    }

    /// The relay or broker between callers and workers; `None` without one.
    fn between(self, programs: &Programs, folder: &Path) -> Result<Option<Launch>> {
        let (program, arguments) = match self {
            Self::SteppeRelay => {
                let config = folder.join("relay.toml");
                std::fs::write(&config, relay_config())
                    .with_context(|| config.display().to_string())?;
                let arguments = vec!["run".into(), "-c".into(), config.into_os_string()];
                (programs.steppe.clone(), arguments)
            }
            Self::Nats => {
                let nats = programs.nats.clone().context("nats-server is missing")?;
                let (host, port) = BROKER.split_once(':').context("an address")?;
                (nats, ["-a", host, "-p", port].map(Into::into).to_vec())
            }
            _ => return Ok(None),
        };
        Ok(Some(Launch {
            name: format!("{}-between", self.peer()),
            version: String::new(),
            program,
            arguments,
            environment: Vec::new(),
            address: BROKER.parse()?,
        }))
    }

    /// Runs one load in processes of its own.
    ///
    /// # Errors
    /// When something can't be started, ends, or prints something else than figures.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub async fn run(
        self,
        case: Case,
        milliseconds: u64,
        programs: &Programs,
        folder: &Path,
    ) -> Result<Run> {
        let between = match self.between(programs, folder)? {
            Some(launch) => Some(Server::start(&launch, folder).await?),
            None => None,
        };
        let mut arguments = vec!["serve", self.peer(), "--listen", WORKER];
        if between.is_some() {
            arguments.extend(["--broker", BROKER]);
        }
        let worker = Launch {
            name: format!("{}-worker", self.peer()),
            version: String::new(),
            program: programs.peers.clone(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            address: WORKER.parse()?,
        };
        let worker = Server::start(&worker, folder).await?;
        let address = if between.is_some() { BROKER } else { WORKER };
        let mut caller = Caller::start(self, case, milliseconds, address, programs).await?;
        let mut processes = vec![caller.process()?, worker.process()];
        processes.extend(between.as_ref().map(Server::process));
        let before: Vec<_> = processes
            .iter()
            .map(|&id| process::cpu(id))
            .collect::<Result<_>>()?;
        let line = caller.begin().await?;
        let figures = Figures::parse(&line).with_context(|| format!("it said `{line}`"))?;
        let mut spent = Vec::new();
        for (&id, before) in processes.iter().zip(&before) {
            let used = process::cpu(id)?.since(before);
            spent.push(Spent {
                cpu_us: used.microseconds_per(figures.operations).0,
                peak_bytes: process::memory(id)?.peak_bytes,
            });
        }
        ensure!(
            figures.operations > 0,
            "nothing was answered: {}",
            figures.failure
        );
        Ok(Run {
            caller_us: spent[0].cpu_us,
            worker_us: spent[1].cpu_us,
            between_us: spent.get(2).map_or(0.0, |spent| spent.cpu_us),
            per_s: figures.per_s(),
            quantiles_us: figures.quantiles_us,
            peak_bytes: [0, 1].map(|at| spent[at].peak_bytes),
            between_bytes: spent.get(2).map_or(0, |spent| spent.peak_bytes),
            failed: figures.failed,
        })
    }
}

/// Configuration of a node that relays, with the budget of callers and workers.
fn relay_config() -> String {
    format!(
        "[node]\nworkers = 1\nmemory_budget = \"544MiB\"\n[admin]\nlisten = \"{ADMIN}\"\n\
         [[plane.listener]]\nlisten = \"{BROKER}\"\n[plane]\nbudget = \"512MiB\"\n\
         queue = {{ bytes = \"64MiB\", wait = \"120s\" }}\n"
    )
}

impl Caller {
    /// Starts a caller, and waits until it is warm.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    async fn start(
        contestant: Contestant,
        case: Case,
        milliseconds: u64,
        address: &str,
        programs: &Programs,
    ) -> Result<Self> {
        let mut command = Command::new(&programs.peers);
        command
            .args(["call", contestant.peer(), "--address", address])
            .args(["--connections", contestant.connections()])
            .args(["--shape", case.shape.name()])
            .args(["--bytes", &case.bytes.to_string()])
            .args(["--concurrency", &case.concurrency.to_string()])
            .args(["--milliseconds", &milliseconds.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().context("cannot start the caller")?;
        let output = child.stdout.take().context("it has an output")?;
        let mut caller = Self {
            child,
            lines: BufReader::new(output).lines(),
        };
        match caller.line().await?.as_str() {
            "ready" => Ok(caller),
            other => bail!("it said `{other}`"),
        }
    }

    fn process(&self) -> Result<u32> {
        self.child.id().context("the caller has ended")
    }

    /// Starts the calls, and returns the caller's line of figures. The caller then idles until it is dropped.
    async fn begin(&mut self) -> Result<String> {
        let input = self.child.stdin.as_mut().context("it has an input")?;
        input.write_all(b"\n").await?;
        self.line().await
    }

    async fn line(&mut self) -> Result<String> {
        let line = self.lines.next_line().await?;
        line.context("the caller ended")
    }
}

/// The figures that a caller prints.
#[derive(Debug, PartialEq, Eq)]
struct Figures {
    operations: u64,
    failed: u64,
    wall_us: u64,
    quantiles_us: [u64; 3],
    failure: String,
}

impl Figures {
    /// `operations=N failed=N wall_us=N p50_us=N p99_us=N p999_us=N failure=TEXT`
    fn parse(line: &str) -> Option<Self> {
        let (figures, failure) = line.split_once(" failure=")?;
        let read = |key: &str| {
            let mut pairs = figures.split(' ').filter_map(|pair| pair.split_once('='));
            pairs.find(|pair| pair.0 == key)?.1.parse().ok()
        };
        Some(Self {
            operations: read("operations")?,
            failed: read("failed")?,
            wall_us: read("wall_us")?,
            quantiles_us: [read("p50_us")?, read("p99_us")?, read("p999_us")?],
            failure: failure.to_owned(),
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of a run are small")]
    fn per_s(&self) -> f64 {
        self.operations as f64 * 1e6 / self.wall_us.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_by_their_names() {
        let line =
            "operations=2000 failed=1 wall_us=500000 p50_us=5 p99_us=9 p999_us=11 failure=a b=c";
        let figures = Figures::parse(line).expect("figures");
        let expected = Figures {
            operations: 2000,
            failed: 1,
            wall_us: 500_000,
            quantiles_us: [5, 9, 11],
            failure: "a b=c".to_owned(),
        };
        assert_eq!(figures, expected);
        assert!((figures.per_s() - 4000.0).abs() < 1e-9);
        assert_eq!(Figures::parse("operations=2000 failure="), None);
        assert_eq!(Figures::parse("ready"), None);
    }

    #[test]
    fn whoever_cannot_says_why() {
        for case in Case::all() {
            assert_eq!(Contestant::Steppe.cannot(case), None);
            assert_eq!(Contestant::Tonic.cannot(case), None);
            let is_stream = case.shape == Shape::Stream;
            assert_eq!(Contestant::Tarpc.cannot(case).is_some(), is_stream);
            let is_large = case.bytes > NATS_BYTES_MAX;
            let cannot = Contestant::Nats.cannot(case).is_some();
            assert_eq!(cannot, is_stream || is_large, "{case}");
        }
    }
}
