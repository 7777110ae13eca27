//! `steppe-bench plane`: callers and workers of the request plane beside those of tonic, tarpc and NATS.
//!
//! A round takes each load in turn, and of each load every contestant, in an order that changes, in fresh
//! processes with a thread each and the C library's allocator. All of them are one program with one loop around its
//! calls. A figure is the median over rounds, a ratio the median of the ratios within rounds.

mod before;
mod case;
mod contestant;
mod report;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use self::case::{Case, Shape};
use self::contestant::Contestant;
use self::report::Record;
use crate::before::{Build, ROUNDS as ROUNDS_BEFORE};
use crate::page::Page;
use crate::peer::cargo::built;
use crate::peer::steppe;
use crate::{machine, stats};

/// Options of `steppe-bench plane`: length, loads, contestants and output of a run.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Interleaved rounds; with --before each runs both builds twice [default: 5, quick: 3, before:
    /// 15]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Milliseconds in which calls of a load begin [default: 2000, quick and before: 700]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    milliseconds: Option<u64>,
    /// Contestants to compare [default: all that are installed]
    #[arg(long, value_delimiter = ',')]
    peers: Vec<Contestant>,
    /// Loads with bodies, or items, of so many bytes alone
    #[arg(long, value_delimiter = ',')]
    bytes: Vec<u32>,
    /// Loads with so many calls at a time alone
    #[arg(long, value_delimiter = ',')]
    concurrency: Vec<u32>,
    /// Loads of this shape alone
    #[arg(long)]
    shape: Option<Shape>,
    /// All eighteen loads, an hour, instead of the six main ones
    #[arg(long)]
    full: bool,
    /// Three short rounds
    #[arg(long)]
    quick: bool,
    /// A steppe to run as the relay, instead of building one
    #[arg(long, value_name = "PATH")]
    steppe: Option<PathBuf>,
    /// The steppe of another commit, beside today's and no other peer: `plane bench` calls `plane echo`
    /// of the same build, directly and through a node. A ratio of CPU for each load with an interval,
    /// instructions, and whether today's is no slower; streams are left out
    #[arg(long, value_name = "PATH", conflicts_with = "peers")]
    before: Option<PathBuf>,
    /// Writes the table into this page, as docs/performance/plane.md is one, between its marks
    #[arg(long, value_name = "FILE", conflicts_with = "before")]
    page: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  steppe-bench plane                            six loads, some fifteen minutes
  steppe-bench plane --quick                    a first impression
  steppe-bench plane --full                     everything
  steppe-bench plane --page docs/performance/plane.md
                                                the table of the page anew
  steppe-bench plane --peers steppe,tonic,floor --bytes 1000 --concurrency 96 --full
                                                one load, few contestants
  steppe-bench plane --before ../old/target/release/steppe --bytes 1000
                                                is this checkout no slower than another build?

Standard output holds the tables, progress goes to standard error. Figures are medians over rounds.
Exit code: 0 valid, 1 calls failed, 2 the bench could not run.";

/// The programs that the bench starts.
#[derive(Debug)]
struct Programs {
    peers: PathBuf,
    steppe: PathBuf,
    nats: Option<PathBuf>,
}

/// The figures of one contestant in one round.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// Microseconds of CPU an operation.
    caller_us: f64,
    worker_us: f64,
    /// Microseconds of CPU an operation, of a relay or broker.
    between_us: f64,
    per_s: f64,
    /// p50, p99, p99.9.
    quantiles_us: [u64; 3],
    /// Peak memory of caller and worker.
    peak_bytes: [u64; 2],
    between_bytes: u64,
    failed: u64,
}

/// Runs the bench and prints its tables; true if every call was answered.
///
/// # Errors
/// When the peers can't be built, or no load is left.
pub async fn run(options: &Options) -> Result<bool> {
    machine::raise_file_limit(16_384);
    let (root, target) = machine::workspace()?;
    let folder = target.join("bench/plane");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let cases = options.cases();
    ensure!(!cases.is_empty(), "no load has these bytes and calls");
    if let Some(path) = &options.before {
        let bench = options.before_bench(path, &folder)?;
        return before::run(&bench, &cases).await;
    }
    let open = |path: &PathBuf| Page::open(path, &report::MARKS, report::MARKS.names);
    let page = options.page.as_ref().map(open).transpose()?;
    let programs = Programs {
        peers: build_peers(&root, &target)?,
        steppe: options.steppe()?,
        nats: machine::program("nats-server").ok(),
    };
    let contestants = options.contestants(&programs);
    let (rounds, milliseconds) = if options.quick { (3, 700) } else { (5, 2_000) };
    let rounds = options.rounds.map_or(rounds, usize::from);
    let milliseconds = options.milliseconds.unwrap_or(milliseconds);
    let mut records = Vec::new();
    for case in cases {
        let mut record = Record::new(case, &contestants);
        for round in 0..rounds {
            for at in stats::order(contestants.len(), round) {
                let contestant = contestants[at];
                if contestant.cannot(case).is_some() {
                    continue;
                }
                eprint!(
                    "round {} of {rounds}: {case}, {:<20} ",
                    round + 1,
                    contestant.name()
                );
                match contestant.run(case, milliseconds, &programs, &folder).await {
                    Ok(run) => {
                        eprintln!(
                            "{:>8.0}/s, {:>8.1} µs CPU",
                            run.per_s,
                            run.caller_us + run.worker_us
                        );
                        record.take(contestant, run);
                    }
                    Err(error) => {
                        eprintln!("FAILED: {error:#}");
                        record.fail(contestant, format!("{error:#}"));
                    }
                }
            }
        }
        records.push(record);
    }
    report::print(&records, &programs);
    let is_valid = records.iter().all(Record::is_valid);
    if let Some(page) = page.filter(|_| is_valid) {
        page.write(&[report::section(&records, rounds)])?;
    }
    Ok(is_valid)
}

impl Options {
    fn cases(&self) -> Vec<Case> {
        let all = if self.full { Case::all() } else { Case::main() };
        let is_wanted = |case: &Case| {
            (self.bytes.is_empty() || self.bytes.contains(&case.bytes))
                && (self.concurrency.is_empty() || self.concurrency.contains(&case.concurrency))
                && self.shape.is_none_or(|shape| shape == case.shape)
        };
        all.into_iter().filter(is_wanted).collect()
    }

    /// The steppe of the options, or one that is built now.
    fn steppe(&self) -> Result<PathBuf> {
        if let Some(path) = &self.steppe {
            return Ok(std::path::absolute(path)?);
        }
        let (root, target) = machine::workspace()?;
        built(&root, &target, "steppe")
    }

    fn before_bench(&self, before: &Path, folder: &Path) -> Result<before::Bench> {
        steppe::ensure_runs(before)?;
        Ok(before::Bench {
            now: Build::Now.copied(&self.steppe()?, folder)?,
            before: Build::Before.copied(before, folder)?,
            folder: folder.to_owned(),
            rounds: self.rounds.unwrap_or(ROUNDS_BEFORE).into(),
            milliseconds: self.milliseconds.unwrap_or(700),
        })
    }

    fn contestants(&self, programs: &Programs) -> Vec<Contestant> {
        let wanted = match self.peers.as_slice() {
            [] => Contestant::value_variants(),
            named => named,
        };
        let is_there = |one: &&Contestant| **one != Contestant::Nats || programs.nats.is_some();
        wanted.iter().filter(is_there).copied().collect()
    }
}

/// Builds the program that has callers and workers of all contestants.
fn build_peers(root: &Path, target: &Path) -> Result<PathBuf> {
    eprintln!("building plane-peers (tonic, tarpc and NATS: some minutes the first time)");
    let target = target.join("plane-peers");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--locked", "--manifest-path"])
        .arg(root.join("bench/plane-peers/Cargo.toml"))
        .env("CARGO_TARGET_DIR", &target)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the peers do not build: {status}");
    Ok(target.join("release/plane-peers"))
}
