//! `steppe-bench dns`: the forwarder beside its peers, from the cache and from the server behind.
//!
//! A round takes each phase in turn, and in each phase every forwarder, in an order that changes from
//! round to round. All of them are started once and stay up, idle. The same minimal server answers behind
//! them, at once and without errors, so that differences are the forwarders' own.

mod ask;
mod before;
mod contestant;
mod load;
mod page;
mod peer;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use self::contestant::{Contestant, PHASES, Phase};
use self::load::Pace;
use self::peer::{Builds, Peer};
use crate::before::ROUNDS as ROUNDS_BEFORE;
use crate::before::comparison::{self, Comparison};
use crate::before::schedule::Schedule;
use crate::page::Page;
use crate::server::Server;
use crate::table::{Table, figure};
use crate::{machine, stats};

/// Options of `steppe-bench dns`: length, forwarders and output of a run.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Interleaved rounds; with --before each runs every forwarder twice [default: 5, quick: 3, before:
    /// 15]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Seconds of a phase that goes on for a while [default: 5, quick and before: 2]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// The forwarders to run [default: all that are installed; before: steppe]
    #[arg(long, value_delimiter = ',')]
    peers: Vec<Peer>,
    /// A steppe to run, instead of building one
    #[arg(long, value_name = "PATH")]
    steppe: Option<PathBuf>,
    /// The steppe of another commit, which runs beside today's: a ratio of CPU a query with an
    /// interval, instructions, and whether today's is no slower. Without --peers these two run alone.
    /// The phase of latencies is left out
    #[arg(long, value_name = "PATH")]
    before: Option<PathBuf>,
    /// Three short rounds
    #[arg(long)]
    quick: bool,
    /// Writes the table into this page, as docs/performance/dns.md is one, between its marks
    #[arg(long, value_name = "FILE", conflicts_with = "before")]
    page: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  steppe-bench dns                              everything, some six minutes
  steppe-bench dns --quick                      a first impression
  steppe-bench dns --peers steppe,unbound,floor --rounds 15
                                                narrower intervals between few
  steppe-bench dns --page docs/performance/dns.md
                                                the table of the page anew
  steppe-bench dns --before ../old/target/release/steppe
                                                is this checkout no slower than another build?

Standard output holds the tables, progress goes to standard error. Figures are medians over rounds.
Exit code: 0 valid, 1 queries were lost or answered with errors, 2 the bench could not run.";

/// Number of names in the cached phases.
const CACHED_NAMES: u64 = 3_000;
/// Number of names in a round of misses.
const MISSES: u64 = 100_000;
/// Queries a second in the phase of latencies: a tenth of the rate of the slowest forwarder.
const RATE: u64 = 5_000;

/// Runs the bench and prints its tables; true if every query was answered without an error.
///
/// # Errors
/// When dnsperf or every forwarder is missing.
pub async fn run(options: &Options) -> Result<bool> {
    machine::program("dnsperf")?;
    let open = |path: &PathBuf| Page::open(path, &page::MARKS, page::MARKS.names);
    let page = options.page.as_ref().map(open).transpose()?;
    let (_, target) = machine::workspace()?;
    let folder = target.join("bench/dns");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let builds = options.builds(&folder)?;
    let behind = peer::floor("server", peer::SERVER)?;
    let _behind = Server::start(&behind, &folder).await?;
    let (mut contestants, skipped) = start(options, &builds, &folder).await;
    let is_missing = |peer| contestants.iter().all(|one| one.peer != peer);
    let has_pair = !is_missing(Peer::Steppe) && !is_missing(Peer::Before);
    ensure!(
        !contestants.is_empty() && (options.before.is_none() || has_pair),
        "no forwarder to run: {}",
        skipped.join("; ")
    );
    let rounds = Rounds {
        count: options.rounds().into(),
        seconds: options.seconds(),
        cached: load::write_names(&folder, "cached", CACHED_NAMES)?,
        folder: &folder,
    };
    rounds.run(options.schedule(), &mut contestants).await?;
    let comparisons = before::compare(&mut contestants, &folder).await;
    print(&contestants, &skipped, &comparisons);
    let is_valid = contestants
        .iter()
        .all(|one| one.lost == 0 && one.errors == 0);
    if let Some(page) = page.filter(|_| is_valid) {
        page.write(&[page::section(&contestants, rounds.count, RATE)])?;
    }
    Ok(is_valid)
}

/// The rounds' common arguments.
struct Rounds<'a> {
    count: usize,
    seconds: u64,
    /// Names that the cache has.
    cached: PathBuf,
    folder: &'a Path,
}

impl Rounds<'_> {
    async fn run(&self, mut schedule: Schedule, contestants: &mut [Contestant]) -> Result<()> {
        for round in 0..self.count {
            let phases = PHASES.into_iter();
            // The phase of latencies has no figure of CPU, so two builds are not compared in it.
            let is_taken = |phase: &Phase| *phase != Phase::Latency || !schedule.is_mirrored();
            for phase in phases.filter(is_taken).collect::<Vec<_>>() {
                for at in schedule.order(contestants.len(), round) {
                    let contestant = &mut contestants[at];
                    let (number, name) = (round + 1, contestant.peer.name());
                    eprint!("round {number} of {}: {phase:?} {name:<14} ", self.count);
                    if schedule.is_mirrored() {
                        let server = &mut contestant.server;
                        server.restart(&contestant.launch, self.folder).await?;
                    }
                    self.run_phase(phase, contestant, round).await?;
                }
            }
        }
        Ok(())
    }

    async fn run_phase(
        &self,
        phase: Phase,
        contestant: &mut Contestant,
        round: usize,
    ) -> Result<()> {
        let seconds = self.seconds;
        match phase {
            Phase::Cached => {
                let pace = Pace::Saturation { seconds };
                contestant.take(phase, &self.cached, pace).await
            }
            Phase::Latency => {
                let per_s = RATE;
                let pace = Pace::Rate { per_s, seconds };
                contestant.take(phase, &self.cached, pace).await
            }
            Phase::Miss => {
                let zone = format!("r{round}-{}", contestant.peer.name());
                let names = load::write_names(self.folder, &zone, MISSES)?;
                let taken = contestant.take(phase, &names, Pace::Once).await;
                _ = std::fs::remove_file(&names);
                taken
            }
        }
    }
}

impl Options {
    fn rounds(&self) -> u16 {
        let default = match (&self.before, self.quick) {
            (Some(_), _) => ROUNDS_BEFORE,
            (None, true) => 3,
            (None, false) => 5,
        };
        self.rounds.unwrap_or(default)
    }

    fn seconds(&self) -> u64 {
        let is_short = self.quick || self.before.is_some();
        self.seconds.unwrap_or(if is_short { 2 } else { 5 })
    }

    const fn schedule(&self) -> Schedule {
        match self.before {
            Some(_) => Schedule::mirrored(),
            None => Schedule::Single,
        }
    }

    fn builds(&self, folder: &Path) -> Result<Builds> {
        match &self.before {
            Some(before) => Builds::placed(self.steppe.as_deref(), before, folder),
            None => Ok(Builds {
                now: self.steppe.clone(),
                before: None,
            }),
        }
    }

    fn peers(&self) -> Vec<Peer> {
        match (self.peers.as_slice(), &self.before) {
            ([], None) => Peer::value_variants().to_vec(),
            ([], Some(_)) => vec![Peer::Steppe, Peer::Before],
            (named, None) => named.to_vec(),
            (named, Some(_)) => {
                let ours = [Peer::Steppe, Peer::Before];
                let others = named.iter().filter(|peer| !ours.contains(peer));
                ours.iter().chain(others).copied().collect()
            }
        }
    }
}

/// Starts the forwarders of the options, or all; for each that can't be started, returns the reason.
async fn start(
    options: &Options,
    builds: &Builds,
    folder: &Path,
) -> (Vec<Contestant>, Vec<String>) {
    let (mut started, mut skipped) = (Vec::new(), Vec::new());
    for peer in options.peers() {
        let launched = match peer.prepare(folder, builds) {
            Ok(launch) => Contestant::start(peer, launch, folder).await,
            Err(error) => Err(error),
        };
        match launched {
            Ok(contestant) => started.push(contestant),
            Err(error) => skipped.push(format!("{}: {error:#}", peer.name())),
        }
    }
    (started, skipped)
}

fn print(contestants: &[Contestant], skipped: &[String], comparisons: &[Comparison]) {
    let mut table = Table::new(&[
        "forwarder",
        "cached µs",
        "to unbound",
        "miss µs",
        "to unbound",
        "cached a second",
        "miss a second",
        "p50 µs",
        "p99 µs",
        "RSS MiB",
    ]);
    let reference = contestants.iter().find(|one| one.peer == Peer::Unbound);
    let ratio = |one: &Contestant, phase| {
        reference.map_or(f64::NAN, |reference| {
            let cpu = |of: &Contestant| of.all(phase, |run| run.cpu_us);
            stats::ratio(&cpu(one), &cpu(reference))
        })
    };
    let mut figures = Map::new();
    for one in contestants {
        let cpu = |phase| one.median(phase, |run| run.cpu_us);
        let rate = |phase| one.median(phase, |run| run.queries_per_s);
        let p50 = one.median(Phase::Latency, |run| run.p50_us);
        let p99 = one.median(Phase::Latency, |run| run.p99_us);
        #[expect(clippy::cast_precision_loss, reason = "one decimal is told")]
        let rss = one.median(Phase::Latency, |run| run.rss_bytes as f64) / 1_048_576.0;
        let has_misses = one.peer != Peer::Floor;
        let of_misses = |value: f64| if has_misses { value } else { f64::NAN };
        table.row(vec![
            one.peer.name().to_owned(),
            figure(cpu(Phase::Cached), 2),
            figure(ratio(one, Phase::Cached), 2),
            figure(of_misses(cpu(Phase::Miss)), 2),
            figure(of_misses(ratio(one, Phase::Miss)), 2),
            figure(rate(Phase::Cached), 0),
            figure(of_misses(rate(Phase::Miss)), 0),
            figure(p50, 0),
            figure(p99, 0),
            figure(rss, 1),
        ]);
        figures.insert(
            one.peer.name().to_owned(),
            json!({
                "cached_cpu_us": cpu(Phase::Cached),
                "cached_to_unbound": ratio(one, Phase::Cached),
                "miss_cpu_us": of_misses(cpu(Phase::Miss)),
                "miss_to_unbound": of_misses(ratio(one, Phase::Miss)),
                "p50_us": p50, "p99_us": p99, "rss_mib": rss,
                "lost": one.lost, "errors": one.errors,
            }),
        );
    }
    println!("{}\n", machine::describe());
    println!("{table}");
    if !comparisons.is_empty() {
        println!("Old and new: CPU and instructions a query, pair by pair within each round\n");
        println!("{}", comparison::table(comparisons));
        println!("{}", comparison::verdicts(comparisons));
        figures.insert("before".to_owned(), comparison::to_json(comparisons));
    }
    for one in contestants {
        println!("{}: {}", one.peer.name(), one.launch.version);
        if one.lost > 0 || one.errors > 0 {
            println!(
                "INVALID {}: {} lost, {} errors",
                one.peer.name(),
                one.lost,
                one.errors
            );
        }
    }
    for reason in skipped {
        println!("skipped {reason}");
    }
    println!("{}", Value::Object(figures));
}
