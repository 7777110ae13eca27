//! `steppe-bench http`: the HTTP/1.1 gateway beside its peers, in interleaved rounds.
//!
//! All proxies are started once and stay up, idle but for the one that is measured; a round runs
//! every proxy through each phase, in an order that changes, so that a slow minute of the machine
//! hits all of them. System calls are counted after the rounds, and idle connections on servers
//! started anew, since neither may touch the timings.

mod measure;
mod pairs;
mod report;
mod targets;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use self::measure::{Contestant, Results};
use crate::load::transfer::Direction;
use crate::load::wrk;
use crate::peer::{Proxy, Setup, origin};
use crate::server::Server;
use crate::{machine, server, stats};

/// How long, against whom.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Interleaved rounds [default: 5, quick: 2]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Seconds of each run of small bodies, at saturation and below [default: 6, quick: 2]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    seconds: Option<u16>,
    /// Seconds of each run of 1 MB bodies, each way [default: 2, quick: 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    transfer_seconds: Option<u16>,
    /// Idle keep-alive connections [default: 10000, quick: 2000]
    #[arg(long)]
    idle: Option<usize>,
    /// Requests a second of the open loop [default: half of what the proxy itself just reached]
    #[arg(long)]
    rate: Option<f64>,
    /// Who Steppe runs beside; nginx is the reference and always among them
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "floor,nginx,haproxy,envoy,caddy"
    )]
    peers: Vec<Proxy>,
    /// What each round measures [default: all]
    #[arg(long, value_delimiter = ',')]
    phases: Vec<Phase>,
    /// The steppe to run, instead of building one
    #[arg(long, value_name = "PATH")]
    steppe: Option<PathBuf>,
    /// A second Steppe, with an access log: what that costs
    #[arg(long, conflicts_with = "without_steppe")]
    access_log: bool,
    /// Only the peers: shows what the machine and the bench itself are worth
    #[arg(long, conflicts_with = "steppe")]
    without_steppe: bool,
    /// A first impression in about two minutes
    #[arg(long)]
    quick: bool,
}

const EXAMPLES: &str = "\
Examples:
  steppe-bench http                          the whole table, under 15 minutes
  steppe-bench http --quick --peers nginx    a first impression
  steppe-bench http --rounds 10 --peers nginx,floor --phases saturation
                                             CPU a request alone, in pairs to tell 2 % apart
  steppe-bench http --steppe target/release/steppe
                                             a binary that is there already
  steppe-bench http --rate 5000              the open loop at one rate for all

Standard output holds the tables and, as its last line, JSON with the ratios to nginx; progress
goes to standard error. Exit code: 0 valid, 1 a proxy answered with errors, 2 it could not run.";

/// `Options` with every default filled in.
struct Plan {
    rounds: usize,
    seconds: u64,
    transfer: Duration,
    idle: usize,
    rate: Option<f64>,
    phases: Vec<Phase>,
    script: PathBuf,
}

/// Keep-alive connections of small bodies.
const CONNECTIONS: usize = 64;
/// Connections of large bodies.
const TRANSFER_CONNECTIONS: usize = 8;
/// Files that a proxy or the bench needs beside two for each connection.
const FILES_SPARE: usize = 1_024;

/// Runs the bench and prints its tables; whether the run was valid.
///
/// # Errors
/// When something can't be started, or a port is taken.
pub async fn run(options: &Options) -> Result<bool> {
    let mut plan = options.plan();
    let setup = prepare(options, &mut plan)?;
    let origin = origin::prepare(&setup)?;
    let _origin = Server::start(&origin, &setup.run_dir).await?;
    let (mut contestants, skipped) = start_proxies(options, &setup).await?;
    let mut results: Vec<Results> = contestants.iter().map(Results::new).collect();
    let machine = machine::describe();
    for round in 0..plan.rounds {
        run_round(&mut contestants, &mut results, &plan, round).await?;
    }
    for (contestant, results) in contestants.iter_mut().zip(&mut results) {
        measure::syscalls(contestant, results, &plan, &setup.run_dir).await?;
    }
    let launches: Vec<_> = contestants.into_iter().map(Contestant::stop).collect();
    for (launch, results) in launches.into_iter().zip(&mut results) {
        measure::idle(launch, results, &plan, &setup.run_dir).await?;
    }
    report::print(&results, &skipped, &plan, &machine);
    Ok(results.iter().all(|results| results.errors.is_empty()))
}

impl Options {
    fn plan(&self) -> Plan {
        let (rounds, seconds, transfer, idle) = if self.quick {
            (2, 2, 1, 2_000)
        } else {
            (5, 6, 2, 10_000)
        };
        Plan {
            rounds: self.rounds.unwrap_or(rounds).into(),
            seconds: self.seconds.unwrap_or(seconds).into(),
            transfer: Duration::from_secs(self.transfer_seconds.unwrap_or(transfer).into()),
            idle: self.idle.unwrap_or(idle),
            rate: self.rate,
            phases: match self.phases.is_empty() {
                true => Phase::value_variants().to_vec(),
                false => self.phases.clone(),
            },
            script: PathBuf::new(),
        }
    }

    /// Steppe first, then the reference, then the others as they were named.
    fn proxies(&self) -> Vec<Proxy> {
        let steppe = (!self.without_steppe).then_some(Proxy::Steppe);
        let with_log = self.access_log.then_some(Proxy::SteppeLog);
        let ours = steppe.into_iter().chain(with_log);
        let mut proxies: Vec<Proxy> = ours.chain([Proxy::Nginx]).collect();
        for &peer in &self.peers {
            if !proxies.contains(&peer) {
                proxies.push(peer);
            }
        }
        proxies
    }
}

/// Folders, wrk's script, and file limits that carry the idle connections, or fewer of those.
fn prepare(options: &Options, plan: &mut Plan) -> Result<Setup> {
    machine::program("wrk")?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("the bench has no parent")?;
    let target_dir =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let cache_dir = std::path::absolute(target_dir)?.join("bench");
    let run_dir = cache_dir.join("run");
    std::fs::create_dir_all(&run_dir)
        .with_context(|| format!("cannot create {}", run_dir.display()))?;
    plan.script = run_dir.join("summary.lua");
    std::fs::write(&plan.script, wrk::SCRIPT)?;
    let files_max = machine::raise_file_limit(u64::try_from(2 * plan.idle + FILES_SPARE)?);
    // A proxy keeps a file free for the server's side of each client, and takes no more clients.
    let carried = usize::try_from(files_max)?.saturating_sub(FILES_SPARE) / 2;
    if carried < plan.idle {
        eprintln!("the limit of {files_max} open files carries {carried} idle connections only");
        plan.idle = carried;
    }
    Ok(Setup {
        run_dir,
        cache_dir,
        root: root.to_owned(),
        connections_max: u64::try_from(plan.idle + FILES_SPARE / 2)?,
        files_max,
        steppe: options.steppe.clone(),
    })
}

/// Steppe and nginx have to run; others that can't be had are returned by name, with the reason.
async fn start_proxies(options: &Options, setup: &Setup) -> Result<(Vec<Contestant>, Vec<String>)> {
    let (mut contestants, mut skipped) = (Vec::new(), Vec::new());
    for proxy in options.proxies() {
        server::ensure_free(proxy.address(), proxy.name())?;
        let required = matches!(proxy, Proxy::Steppe | Proxy::SteppeLog | Proxy::Nginx);
        match start_proxy(proxy, setup).await {
            Ok(contestant) => contestants.push(contestant),
            Err(error) if required => return Err(error.context(proxy.name())),
            Err(error) => {
                let reason = format!("{}: {error:#}", proxy.name());
                eprintln!("skipped {reason}");
                skipped.push(reason);
            }
        }
    }
    Ok((contestants, skipped))
}

async fn start_proxy(proxy: Proxy, setup: &Setup) -> Result<Contestant> {
    let launch = proxy.prepare(setup)?;
    let server = Server::start(&launch, &setup.run_dir).await?;
    let contestant = Contestant { launch, server };
    measure::probe(&contestant.launch).await?;
    Ok(contestant)
}

/// Each phase runs all proxies before the next one begins: pairs are as close in time as can be.
async fn run_round(
    contestants: &mut [Contestant],
    results: &mut [Results],
    plan: &Plan,
    round: usize,
) -> Result<()> {
    ensure!(!contestants.is_empty(), "no proxy to run");
    for phase in &plan.phases {
        for index in stats::order(contestants.len(), round) {
            let (contestant, results) = (&mut contestants[index], &mut results[index]);
            contestant.server.ensure_alive()?;
            eprint!(
                "round {} of {}: {:<8} ",
                round + 1,
                plan.rounds,
                results.name
            );
            match phase {
                Phase::Saturation => measure::saturation(contestant, results, plan).await?,
                Phase::OpenLoop => measure::open_loop(contestant, results, plan).await?,
                Phase::Download => {
                    measure::transfer(contestant, results, plan, Direction::Download).await?;
                }
                Phase::Upload => {
                    measure::transfer(contestant, results, plan, Direction::Upload).await?;
                }
            }
        }
    }
    Ok(())
}

/// What a round measures, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Phase {
    Saturation,
    /// At half of the rate of saturation, which it needs unless `--rate` names one.
    OpenLoop,
    Download,
    Upload,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    fn options(arguments: &[&str]) -> Options {
        Cli::try_parse_from(["http"].iter().chain(arguments))
            .expect("valid arguments")
            .options
    }

    #[test]
    fn quick_gives_way_to_what_is_said() {
        let plan = options(&["--quick", "--rounds", "3"]).plan();
        assert_eq!((plan.rounds, plan.seconds, plan.idle), (3, 2, 2_000));
        assert!(options(&[]).plan().rounds >= 5);
    }

    #[test]
    fn phases_are_all_unless_some_are_named() {
        assert_eq!(options(&[]).plan().phases, Phase::value_variants());
        let plan = options(&["--phases", "saturation", "--rounds", "10"]).plan();
        assert_eq!((plan.phases, plan.rounds), (vec![Phase::Saturation], 10));
    }

    #[test]
    fn the_reference_runs_even_when_it_is_not_named() {
        let proxies = options(&["--without-steppe", "--peers", "caddy,haproxy,caddy"]).proxies();
        assert_eq!(proxies, [Proxy::Nginx, Proxy::Caddy, Proxy::Haproxy]);
    }

    #[test]
    fn the_one_with_a_log_runs_beside_the_one_without() {
        assert_eq!(
            options(&["--access-log", "--peers", "nginx"]).proxies(),
            [Proxy::Steppe, Proxy::SteppeLog, Proxy::Nginx]
        );
    }

    #[test]
    fn steppe_is_no_peer_of_itself() {
        assert!(Cli::try_parse_from(["http", "--peers", "steppe"]).is_err());
        assert_eq!(
            options(&["--peers", "nginx"]).proxies(),
            [Proxy::Steppe, Proxy::Nginx]
        );
    }
}
