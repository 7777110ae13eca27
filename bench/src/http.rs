//! `steppe-bench http`: the HTTP/1.1 gateway beside its peers, in interleaved rounds, with TLS too.
//!
//! All proxies are started once and stay up, idle but for the one that is measured; a round runs
//! every proxy through each phase, in an order that changes, so that a slow minute of the machine
//! hits all of them. System calls are counted after the rounds, and idle connections on servers
//! started anew, since neither may touch the timings.

mod fleet;
mod measure;
mod pairs;
mod report;
mod targets;
mod tls;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use self::fleet::Fleet;
use self::measure::{Contestant, Results};
use crate::load::transfer::Direction;
use crate::load::wrk;
use crate::peer::credentials::Credentials;
use crate::peer::{Proxy, Setup, Transport, origin};
use crate::server::Server;
use crate::{machine, stats};

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
    /// Seconds of each run of handshakes, of each kind [default: 2, quick: 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    handshake_seconds: Option<u16>,
    /// Idle keep-alive connections, 0 for none [default: 10000, quick: 2000]
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
  steppe-bench http                          the whole table, about half an hour
  steppe-bench http --quick --peers nginx    a first impression
  steppe-bench http --rounds 10 --peers nginx,floor --phases saturation
                                             CPU a request alone, in pairs to tell 2 % apart
  steppe-bench http --phases tls-saturation,tls-handshakes,tls-resumed,tls-bodies,tls-upstream
                                             what TLS costs, without the phases that lack it
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
    handshakes: Duration,
    /// Resumed handshakes, with a ticket each.
    tickets: usize,
    idle: usize,
    rate: Option<f64>,
    phases: Vec<Phase>,
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
    let bench = Bench {
        wrk: wrk::Files::create(&setup.run_dir)?,
        plan,
        setup,
    };
    let origin = origin::prepare(&bench.setup)?;
    let _origin = Server::start(&origin, &bench.setup.run_dir).await?;
    let (mut fleets, mut skipped) = (Vec::new(), Vec::new());
    for transport in bench.plan.transports() {
        fleets.push(Fleet::start(transport, options, &bench.setup, &mut skipped).await?);
    }
    let machine = machine::describe();
    for round in 0..bench.plan.rounds {
        run_round(&mut fleets, &bench, round).await?;
    }
    for fleet in fleets.iter_mut().filter(|fleet| !fleet.transport.is_tls()) {
        for (contestant, results) in fleet.contestants.iter_mut().zip(&mut fleet.results) {
            measure::syscalls(contestant, results, &bench).await?;
        }
    }
    let fleets = run_idle(fleets, &bench).await?;
    report::print(&fleets, &skipped, &bench.plan, &machine);
    Ok(fleets.is_valid())
}

/// What the phases share.
struct Bench {
    plan: Plan,
    setup: Setup,
    wrk: wrk::Files,
}

impl Options {
    fn plan(&self) -> Plan {
        let (rounds, seconds, transfer, handshakes, tickets, idle) = if self.quick {
            (2, 2, 1, 1, 300, 2_000)
        } else {
            (5, 6, 2, 2, 1_000, 10_000)
        };
        Plan {
            rounds: self.rounds.unwrap_or(rounds).into(),
            seconds: self.seconds.unwrap_or(seconds).into(),
            transfer: Duration::from_secs(self.transfer_seconds.unwrap_or(transfer).into()),
            handshakes: Duration::from_secs(self.handshake_seconds.unwrap_or(handshakes).into()),
            tickets,
            idle: self.idle.unwrap_or(idle),
            rate: self.rate,
            phases: match self.phases.is_empty() {
                true => Phase::value_variants().to_vec(),
                false => self.phases.clone(),
            },
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

impl Plan {
    /// Those that its phases need, each once.
    fn transports(&self) -> Vec<Transport> {
        let mut transports = Vec::new();
        for transport in self.phases.iter().map(|phase| phase.transport()) {
            if !transports.contains(&transport) {
                transports.push(transport);
            }
        }
        transports
    }
}

/// Folders, certificates, and file limits that carry the idle connections, or fewer of those.
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
    let files_max = machine::raise_file_limit(u64::try_from(2 * plan.idle + FILES_SPARE)?);
    // A proxy keeps a file free for the server's side of each client, and takes no more clients.
    let carried = usize::try_from(files_max)?.saturating_sub(FILES_SPARE) / 2;
    if carried < plan.idle {
        eprintln!("the limit of {files_max} open files carries {carried} idle connections only");
        plan.idle = carried;
    }
    Ok(Setup {
        credentials: Credentials::create(&run_dir.join("certificates"))?,
        run_dir,
        cache_dir,
        root: root.to_owned(),
        connections_max: u64::try_from(plan.idle + FILES_SPARE / 2)?,
        files_max,
        steppe: options.steppe.clone(),
    })
}

/// Each phase runs all proxies before the next one begins: pairs are as close in time as can be.
async fn run_round(fleets: &mut [Fleet], bench: &Bench, round: usize) -> Result<()> {
    for phase in &bench.plan.phases {
        let fleet = fleets
            .iter_mut()
            .find(|fleet| fleet.transport == phase.transport())
            .context("a phase without its proxies")?;
        ensure!(!fleet.contestants.is_empty(), "no proxy to run");
        for index in stats::order(fleet.contestants.len(), round) {
            let (contestant, results) = (&mut fleet.contestants[index], &mut fleet.results[index]);
            contestant.server.ensure_alive()?;
            let (round, rounds) = (round + 1, bench.plan.rounds);
            eprint!("round {round} of {rounds}: {:<8} ", results.name);
            run_phase(*phase, contestant, results, bench).await?;
        }
    }
    Ok(())
}

async fn run_phase(
    phase: Phase,
    contestant: &Contestant,
    results: &mut Results,
    bench: &Bench,
) -> Result<()> {
    match phase {
        Phase::Saturation | Phase::TlsSaturation | Phase::TlsUpstream => {
            measure::saturation(contestant, results, bench).await
        }
        Phase::OpenLoop => measure::open_loop(contestant, results, &bench.plan).await,
        Phase::Download => {
            measure::transfer(contestant, results, &bench.plan, Direction::Download).await
        }
        Phase::Upload => {
            measure::transfer(contestant, results, &bench.plan, Direction::Upload).await
        }
        Phase::TlsBodies => {
            measure::transfer(contestant, results, &bench.plan, Direction::Download).await?;
            eprint!("{:<24} ", "");
            measure::transfer(contestant, results, &bench.plan, Direction::Upload).await
        }
        Phase::TlsHandshakes => tls::handshakes(contestant, results, bench).await,
        Phase::TlsResumed => tls::resumed(contestant, results, bench).await,
    }
}

/// Idle connections, where they are of clients: an idle connection to an origin is nobody's load.
async fn run_idle(fleets: Vec<Fleet>, bench: &Bench) -> Result<fleet::Outcome> {
    // All are stopped before the first one is started anew.
    let stopped: Vec<_> = fleets.into_iter().map(Fleet::stop).collect();
    let mut outcome = fleet::Outcome::default();
    for mut fleet in stopped {
        if bench.plan.idle > 0 && fleet.transport != Transport::TlsUpstream {
            for (subject, results) in fleet.subjects.into_iter().zip(&mut fleet.results) {
                measure::idle(subject, results, bench).await?;
            }
        }
        outcome.insert(fleet.transport, fleet.results);
    }
    Ok(outcome)
}

/// What a round measures, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Phase {
    Saturation,
    /// At half of the rate of saturation, which it needs unless `--rate` names one.
    OpenLoop,
    Download,
    Upload,
    /// As saturation, over TLS.
    TlsSaturation,
    /// Full handshakes: P-256 and RSA-2048 with X25519, then P-256 with X25519MLKEM768.
    TlsHandshakes,
    /// Handshakes with a ticket.
    TlsResumed,
    /// Download and upload over TLS.
    TlsBodies,
    /// As saturation, with TLS between proxy and origin.
    TlsUpstream,
}

impl Phase {
    const fn transport(self) -> Transport {
        match self {
            Self::Saturation | Self::OpenLoop | Self::Download | Self::Upload => Transport::Plain,
            Self::TlsSaturation | Self::TlsHandshakes | Self::TlsResumed | Self::TlsBodies => {
                Transport::TlsDownstream
            }
            Self::TlsUpstream => Transport::TlsUpstream,
        }
    }
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
    fn proxies_run_with_the_transports_that_phases_need() {
        let transports = |arguments: &[&str]| options(arguments).plan().transports();
        assert_eq!(
            transports(&[]),
            [
                Transport::Plain,
                Transport::TlsDownstream,
                Transport::TlsUpstream
            ]
        );
        assert_eq!(
            transports(&["--phases", "tls-handshakes,tls-bodies"]),
            [Transport::TlsDownstream]
        );
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
