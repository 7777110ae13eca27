//! The request plane of two builds, by their own commands: `steppe plane bench` calls, `steppe plane
//! echo` answers, and between them stands nothing or a node that relays.
//!
//! The peers' program has today's plane alone compiled in; of another commit there is the one
//! binary. Streams are left out: the command that answers has none of 1,000 items.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use super::case::{Case, Shape};
use crate::before::Build;
use crate::before::comparison::{self, Comparison, Costs, Instructions};
use crate::before::counts::Counts;
use crate::before::schedule::Schedule;
use crate::callgrind::{self, Counted, marginal};
use crate::peer::loopback;
use crate::server::{Launch, Server};
use crate::{machine, process};

/// Both builds, and how long they are loaded.
pub struct Bench {
    pub now: PathBuf,
    pub before: PathBuf,
    pub folder: PathBuf,
    pub rounds: usize,
    pub milliseconds: u64,
}

/// The way of a call, which names the processes whose CPU is the figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    /// Nothing; that of caller and worker.
    Direct,
    /// A node, and its own.
    Relayed,
}

/// Caller, worker and relay of one build in one load.
struct Trio<'a> {
    program: &'a Path,
    folder: &'a Path,
    case: Case,
    route: Route,
}

/// A worker that runs, and the relay before it.
struct Serving {
    measured: Measured,
    _registered: Option<Child>,
}

/// The server whose CPU or instructions are read.
enum Measured {
    Timed(Server),
    Counted(Counted),
}

/// The program that a server is started under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Under {
    Nothing,
    Callgrind,
}

/// Answers that a caller got, and its CPU time.
struct Called {
    answered: u64,
    cpu_us: f64,
}

const WORKER: SocketAddr = loopback(28290);
const RELAY: SocketAddr = loopback(28291);
const ADMIN: SocketAddr = loopback(28292);
/// Memory budget of caller and worker; the relay's is as large.
const BUDGET: &str = "512MiB";

/// Runs the loads and prints the comparison; whether every call was answered.
///
/// # Errors
/// When a build can't be started, or a call fails.
pub async fn run(bench: &Bench, cases: &[Case]) -> Result<bool> {
    let machine = machine::describe();
    let mut comparisons = Vec::new();
    for &case in cases.iter().filter(|case| case.shape == Shape::Unary) {
        for route in [Route::Direct, Route::Relayed] {
            comparisons.push(bench.compare(case, route).await?);
        }
    }
    ensure!(!comparisons.is_empty(), "streams are not compared");
    let table = comparison::table(&comparisons);
    println!("{machine}\n");
    println!("Old and new: CPU and instructions a call, pair by pair within each round\n");
    println!("{table}");
    print!("{}", comparison::verdicts(&comparisons));
    Ok(true)
}

impl Bench {
    fn trio(&self, build: Build, case: Case, route: Route) -> Trio<'_> {
        Trio {
            program: match build {
                Build::Now => &self.now,
                Build::Before => &self.before,
            },
            folder: &self.folder,
            case,
            route,
        }
    }

    async fn compare(&self, case: Case, route: Route) -> Result<Comparison> {
        const BUILDS: [Build; 2] = [Build::Now, Build::Before];
        let name = format!("{case}: {}", route.name());
        let mut schedule = Schedule::mirrored();
        let mut costs = Costs::default();
        for round in 0..self.rounds {
            for at in schedule.order(BUILDS.len(), round) {
                let (build, number) = (BUILDS[at], round + 1);
                eprint!(
                    "round {number} of {}: {name}, {} ",
                    self.rounds,
                    build.name()
                );
                let trio = self.trio(build, case, route);
                let cpu_us = trio.cpu_us(self.milliseconds).await?;
                eprintln!("{cpu_us:.2} µs CPU a call");
                match build {
                    Build::Now => costs.now.push(cpu_us),
                    Build::Before => costs.before.push(cpu_us),
                }
            }
        }
        let now = self.trio(Build::Now, case, route).counts().await;
        let before = self.trio(Build::Before, case, route).counts().await;
        eprintln!(
            "counting: {name}: {:.0} to {:.0}",
            now.median(),
            before.median()
        );
        Ok(Comparison {
            name,
            unit: "µs",
            costs,
            instructions: Instructions::of(now, before),
        })
    }
}

impl Route {
    const fn name(self) -> &'static str {
        match self {
            Self::Direct => "caller and worker",
            Self::Relayed => "relay",
        }
    }

    /// Where callers go.
    const fn address(self) -> SocketAddr {
        match self {
            Self::Direct => WORKER,
            Self::Relayed => RELAY,
        }
    }
}

impl Trio<'_> {
    /// Microseconds a call, of processes that were started for it.
    async fn cpu_us(&self, milliseconds: u64) -> Result<f64> {
        let serving = self.serve(Under::Nothing).await?;
        self.call(&format!("--requests={}", self.lengths()[0]))
            .await?;
        let server = serving.process();
        let before = process::cpu(server)?;
        let called = self.call(&format!("--duration={milliseconds}ms")).await?;
        let used = process::cpu(server)?.since(&before);
        let (server_us, _, _) = used.microseconds_per(called.answered);
        Ok(match self.route {
            Route::Direct => server_us + called.cpu_us / called.answered as f64,
            Route::Relayed => server_us,
        })
    }

    /// Instructions a call, until they have settled; none where they can't be counted.
    async fn counts(&self) -> Counts {
        let counted = async {
            let mut serving = self.serve(Under::Callgrind).await?;
            let [few, _] = self.lengths();
            self.call(&format!("--requests={few}")).await?;
            let mut counts = Counts::default();
            while !counts.is_settled() {
                counts.push(self.count(&mut serving).await?);
            }
            anyhow::Ok(counts)
        };
        counted.await.unwrap_or_else(|error| {
            eprintln!("no instructions: {error:#}");
            Counts::default()
        })
    }

    async fn count(&self, serving: &mut Serving) -> Result<f64> {
        let Measured::Counted(server) = &mut serving.measured else {
            bail!("the server is not counted");
        };
        let [_, many] = self.lengths();
        // Its start is not in it, and a connection is nothing beside so many calls.
        let (count, _) = server
            .during(self.call(&format!("--requests={many}")))
            .await?;
        let of_server = count as f64 / many as f64;
        if self.route == Route::Relayed {
            return Ok(of_server);
        }
        let mut points = [(0, 0); 2];
        for (point, requests) in points.iter_mut().zip(self.lengths()) {
            *point = (self.count_caller(requests).await?, requests);
        }
        Ok(of_server + marginal(points)?)
    }

    /// Instructions of a caller over its whole life.
    async fn count_caller(&self, requests: u64) -> Result<u64> {
        let log = self.folder.join("caller.callgrind");
        let mut command = Command::new(machine::program("valgrind")?);
        command
            .args(callgrind::options(&log))
            .arg(self.program)
            .args(self.caller_arguments(&format!("--requests={requests}")))
            .kill_on_drop(true);
        let output = command.output().await.context("cannot run valgrind")?;
        answered(&String::from_utf8_lossy(&output.stdout))?;
        callgrind::collected(&log)
    }

    /// Calls that warm up or shorten a run, and of the long run under callgrind.
    const fn lengths(&self) -> [u64; 2] {
        match self.case.bytes {
            0..=9_999 => [1_000, 5_000],
            10_000..=99_999 => [400, 1_600],
            _ => [100, 300],
        }
    }

    async fn serve(&self, under: Under) -> Result<Serving> {
        let echo = |how: [&str; 2]| -> Vec<OsString> {
            let fixed = ["plane", "echo", "--budget", BUDGET];
            fixed.into_iter().chain(how).map(Into::into).collect()
        };
        let launch = |name: &str, arguments| Launch {
            name: format!("plane-{name}"),
            version: String::new(),
            program: self.program.to_owned(),
            arguments,
            environment: Vec::new(),
            address: self.route.address(),
        };
        let address = self.route.address().to_string();
        if self.route == Route::Direct {
            let worker = launch("worker", echo(["--listen", &address]));
            return Ok(Serving {
                measured: Measured::start(&worker, self.folder, under).await?,
                _registered: None,
            });
        }
        let config = self.folder.join("before-relay.toml");
        std::fs::write(&config, relay_config()).with_context(|| config.display().to_string())?;
        let relay = launch("relay", vec!["run".into(), "-c".into(), config.into()]);
        let measured = Measured::start(&relay, self.folder, under).await?;
        let worker = Command::new(self.program)
            .args(echo(["--register", &address]))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a worker")?;
        self.wait_until_answered().await?;
        Ok(Serving {
            measured,
            _registered: Some(worker),
        })
    }

    /// A relay that knows no worker of a service yet refuses calls of it.
    async fn wait_until_answered(&self) -> Result<()> {
        let deadline = Instant::now() + REGISTER_TIMEOUT;
        while let Err(error) = self.call("--requests=1").await {
            ensure!(Instant::now() < deadline, "no worker registers: {error:#}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    fn caller_arguments(&self, length: &str) -> Vec<OsString> {
        let address = self.route.address().to_string();
        let bytes = self.case.bytes.to_string();
        let concurrency = self.case.concurrency.to_string();
        let fixed = ["plane", "bench", &address, "echo", "--budget", BUDGET];
        let load = ["--bytes", &bytes, "--concurrency", &concurrency, length];
        fixed.into_iter().chain(load).map(Into::into).collect()
    }

    async fn call(&self, length: &str) -> Result<Called> {
        let mut command = Command::new(self.program);
        called(command.args(self.caller_arguments(length))).await
    }
}

impl Serving {
    fn process(&self) -> u32 {
        match &self.measured {
            Measured::Timed(server) => server.process(),
            Measured::Counted(server) => server.process(),
        }
    }
}

impl Measured {
    async fn start(launch: &Launch, folder: &Path, under: Under) -> Result<Self> {
        Ok(match under {
            Under::Nothing => Self::Timed(Server::start(launch, folder).await?),
            Under::Callgrind => Self::Counted(Counted::start(launch, folder).await?),
        })
    }
}

/// Runs a caller to its end. Its CPU time is read while it is a zombie: after `wait`, its accounts
/// in `/proc` would be gone.
async fn called(command: &mut Command) -> Result<Called> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = command.kill_on_drop(true).spawn();
    let mut child = child.context("cannot start a caller")?;
    let process = child.id().context("the caller has ended")?;
    let mut output = child.stdout.take().context("it has an output")?;
    let mut said = String::new();
    output.read_to_string(&mut said).await?;
    let deadline = Instant::now() + END_TIMEOUT;
    while !process::has_ended(process)? {
        ensure!(Instant::now() < deadline, "the caller does not end");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let cpu_us = process::cpu(process)?.so_far().as_secs_f64() * 1e6;
    child.wait().await?;
    Ok(Called {
        answered: answered(&said)?,
        cpu_us,
    })
}

/// A relay under callgrind takes seconds.
const REGISTER_TIMEOUT: Duration = Duration::from_secs(30);
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// N in `N answered, 0 refused, 0 failed in 2.00 s`.
fn answered(said: &str) -> Result<u64> {
    let line = said.lines().next().unwrap_or_default();
    let mut counts = line
        .split(", ")
        .map(|part| part.split(' ').next()?.parse().ok());
    match [counts.next(), counts.next(), counts.next()].map(Option::flatten) {
        [Some(answered), Some(0), Some(0)] if answered > 0 => Ok(answered),
        _ => bail!("the caller said `{line}`"),
    }
}

/// A node that relays, with the budget that caller and worker have.
fn relay_config() -> String {
    format!(
        "[node]\nworkers = 1\nmemory_budget = \"544MiB\"\n[admin]\nlisten = \"{ADMIN}\"\n\
         [[plane.listener]]\nlisten = \"{RELAY}\"\n[plane]\nbudget = \"512MiB\"\n\
         queue = {{ bytes = \"64MiB\", wait = \"120s\" }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_that_was_refused_or_failed_is_no_figure() {
        let said = "5000 answered, 0 refused, 0 failed in 1.95 s\n  latency  1 ms\n";
        assert_eq!(answered(said).expect("all were answered"), 5_000);
        for text in [
            "",
            "0 answered, 0 refused, 0 failed in 1.00 s",
            "5 answered, 1 refused, 0 failed in 1.00 s",
            "5 answered, 0 refused, 1 failed in 1.00 s",
        ] {
            assert!(answered(text).is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn cpu_of_a_caller_is_read_after_its_end() {
        let mut command = Command::new("sh");
        let burn = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; \
                    echo '7 answered, 0 refused, 0 failed in 1.00 s'";
        let called = called(command.args(["-c", burn])).await;
        let called = called.expect("it ends well");
        assert_eq!(called.answered, 7);
        assert!(called.cpu_us > 0.0);
    }
}
