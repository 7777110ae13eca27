//! `steppe-bench malloc`: the allocator beside its peers, preloaded into the same programs.
//!
//! A round runs every case under every allocator, each in a fresh process, in an order that
//! changes, so that a slow minute of the machine hits all of them, and no allocator always runs after
//! the same other one. Instructions and system calls are counted after the rounds, since neither may
//! touch the timings. With `--before` the library of another commit is one more allocator.

mod build;
mod case;
mod idle;
mod page;
mod peer;
mod plan;
mod record;
mod report;
mod rounds;
mod run;
mod soak;
mod targets;
mod trace;
mod unit;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;

use self::case::Case;
use self::peer::{Libraries, Peer};
use self::plan::{Plan, Traced};
use self::record::Records;
use self::rounds::Rounds;
use self::run::Launcher;
use crate::before::schedule::Schedule;
use crate::page::Page;
use crate::{before, machine};

/// Options of `steppe-bench malloc`: length, cases, allocators and output of a run.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Interleaved rounds; with --before each runs every allocator twice [default: 5, quick: 3,
    /// before: 15]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Work of each run, as a multiple of the default [default: 1, quick and before:
    /// 0.25]
    #[arg(long, value_parser = positive)]
    scale: Option<f64>,
    /// The cases to run [default: all]
    #[arg(long, value_delimiter = ',')]
    cases: Vec<Case>,
    /// The allocators to run [default: all; soak: the profiles and two mimallocs]
    #[arg(long, value_delimiter = ',')]
    peers: Vec<Peer>,
    /// A libsteppe_malloc.so, instead of building one
    #[arg(long, value_name = "PATH")]
    steppe: Option<PathBuf>,
    /// The libsteppe_malloc.so of another commit, which runs beside today's: a ratio of CPU an
    /// operation with an interval, instructions, and whether today's is no slower. Without --peers
    /// these two run alone, in the balanced profile
    #[arg(long, value_name = "PATH", conflicts_with = "soak")]
    before: Option<PathBuf>,
    /// Without instructions and system calls, and a quarter of the work
    #[arg(long)]
    quick: bool,
    /// Writes the tables into this page, as docs/performance/malloc.md is one, between their marks
    #[arg(long, value_name = "FILE", conflicts_with_all = ["before", "soak"])]
    page: Option<PathBuf>,
    /// Instead of the cases: resident memory of a program that frees in many ways and is idle then, in two minutes
    #[arg(long, conflicts_with_all = ["cases", "rounds", "scale", "quick", "before", "soak"])]
    idle: bool,
    /// Instead of the cases: random mixed in one process an allocator, which take turns for so many
    /// minutes
    #[arg(long, value_name = "MINUTES", value_parser = positive, conflicts_with_all = ["cases", "rounds"])]
    soak: Option<f64>,
    /// Seconds of a turn of the soak
    #[arg(long, default_value_t = 5.0, value_parser = positive, requires = "soak")]
    epoch: f64,
}

const EXAMPLES: &str = "\
Examples:
  steppe-bench malloc                               everything, the better part of an hour
  steppe-bench malloc --quick                       a first impression, about ten minutes
  steppe-bench malloc --quick --cases random-400    one case
  steppe-bench malloc --peers steppe-balanced,mimalloc-3,glibc --rounds 15
                                                    narrower intervals between few
  steppe-bench malloc --page docs/performance/malloc.md
                                                    the tables of the page anew
  steppe-bench malloc --before old/libsteppe_malloc.so --cases random-400,larson
                                                    is this checkout no slower than another build?
  steppe-bench malloc --before old/libsteppe_malloc.so --peers steppe-speed,glibc
                                                    the same of another profile, glibc beside it
  steppe-bench malloc --idle --page docs/performance/malloc.md
                                                    the table of idle memory anew
  steppe-bench malloc --soak 60                     throughput by turns of five seconds

Standard output holds the tables, progress goes to standard error. Figures are medians over rounds.
Exit code: 0 valid, 1 a program failed under an allocator, 2 the bench could not run.";

/// Runs the bench and prints its tables; true if every program ran to its end.
///
/// # Errors
/// When the load programs can't be built, or no allocator is left.
pub async fn run(options: &Options) -> Result<bool> {
    let plan = options.plan();
    let open = |path: &PathBuf| Page::open(path, &page::MARKS, options.on_page(&plan));
    let page = options.page.as_ref().map(open).transpose()?;
    let launcher = Launcher::prepare()?;
    let libraries = options.libraries(&launcher)?;
    let (contestants, skipped) = peer::prepare_all(&options.peers(), &libraries);
    ensure!(!contestants.is_empty(), "no allocator to run");
    let machine = machine::describe();
    if let Some(minutes) = options.soak {
        println!("{}", soak::heading());
        let epoch_seconds = options.epoch;
        let length = soak::Length {
            minutes,
            epoch_seconds,
        };
        soak::run(&launcher, &contestants, &length).await?;
        return Ok(true);
    }
    if options.idle {
        return idle::tell(&contestants, page).await;
    }
    let mut records = Records::new(&plan.cases, &contestants);
    let rounds = Rounds {
        launcher: &launcher,
        contestants: &contestants,
        plan: &plan,
    };
    rounds.run(options.schedule(), &mut records).await;
    rounds.count(&mut records).await;
    let report = report::Report {
        records: &records,
        contestants: &contestants,
        skipped: &skipped,
        plan: &plan,
        machine: &machine,
    };
    report.print();
    let is_valid = records.failures().is_empty();
    if let Some(page) = page.filter(|_| is_valid) {
        let pages = page::Pages {
            cases: &plan.cases,
            contestants: &contestants,
            records: &records,
            rounds: plan.rounds,
        };
        page.write(&pages.sections(plan.on_page()))?;
    }
    Ok(is_valid)
}

impl Options {
    fn plan(&self) -> Plan {
        let (rounds, scale, traced) = match (&self.before, self.quick) {
            (Some(_), _) => (before::ROUNDS, 0.25, Traced::Instructions),
            (None, true) => (3, 0.25, Traced::Nothing),
            (None, false) => (5, 1.0, Traced::InstructionsAndSyscalls),
        };
        Plan {
            rounds: self.rounds.unwrap_or(rounds).into(),
            scale: self.scale.unwrap_or(scale),
            traced,
            cases: named_or_all(&self.cases),
        }
    }

    /// The tables of the page that the run measures.
    const fn on_page(&self, plan: &Plan) -> &'static [&'static str] {
        if self.idle {
            &[page::IDLE]
        } else {
            plan.on_page()
        }
    }

    fn peers(&self) -> Vec<Peer> {
        if self.soak.is_some() && self.peers.is_empty() {
            return soak::DEFAULT_PEERS.into();
        }
        if self.before.is_none() {
            return named_or_all(&self.peers);
        }
        let named = match self.peers.as_slice() {
            [] => vec![Peer::SteppeBalanced],
            named => named_or_all(named),
        };
        let with_before = |peer: Peer| [Some(peer), peer.before()];
        named.into_iter().flat_map(with_before).flatten().collect()
    }

    fn libraries(&self, launcher: &Launcher) -> Result<Libraries> {
        match &self.before {
            Some(before) => Libraries::compared(self.steppe.as_deref(), before, &launcher.run_dir),
            None => Ok(Libraries {
                steppe: self.steppe.clone(),
                before: None,
            }),
        }
    }

    const fn schedule(&self) -> Schedule {
        match self.before {
            Some(_) => Schedule::mirrored(),
            None => Schedule::Single,
        }
    }
}

/// The values in `named`, each once; all values if it is empty.
fn named_or_all<T: clap::ValueEnum + PartialEq + Clone>(named: &[T]) -> Vec<T> {
    let wanted = if named.is_empty() {
        T::value_variants()
    } else {
        named
    };
    let mut found = Vec::new();
    for value in wanted {
        if !found.contains(value) {
            found.push(value.clone());
        }
    }
    found
}

fn positive(text: &str) -> Result<f64, String> {
    let value: f64 = text
        .parse()
        .map_err(|_| format!("'{text}' is not a number"))?;
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(format!("'{text}' is not above 0"))
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
        Cli::try_parse_from(["malloc"].iter().chain(arguments))
            .expect("valid arguments")
            .options
    }

    #[test]
    fn quick_gives_way_to_what_is_said() {
        let plan = options(&["--quick", "--rounds", "7"]).plan();
        let expected = (7, 0.25, Traced::Nothing);
        assert_eq!((plan.rounds, plan.scale, plan.traced), expected);
        assert!(options(&[]).plan().rounds >= 5);
    }

    #[test]
    fn what_is_named_twice_runs_once() {
        let options = options(&["--cases", "large,random-400,large", "--peers", "glibc"]);
        assert_eq!(options.plan().cases, [Case::Large, Case::Random400]);
        assert_eq!(options.peers(), [Peer::Glibc]);
    }

    #[test]
    fn before_runs_beside_the_same_profile_alone_or_with_peers() {
        let alone = options(&["--before", "old.so"]);
        assert_eq!(alone.peers(), [Peer::SteppeBalanced, Peer::BeforeBalanced]);
        assert_eq!(alone.plan().traced, Traced::Instructions);
        let peers = options(&["--before", "old.so", "--peers", "glibc,steppe-lean"]).peers();
        let expected = [Peer::Glibc, Peer::SteppeLean, Peer::BeforeLean];
        assert_eq!(peers, expected);
        assert!(Cli::try_parse_from(["malloc", "--before", "a", "--soak", "1"]).is_err());
    }

    #[test]
    fn a_scale_of_nothing_is_refused() {
        assert!(Cli::try_parse_from(["malloc", "--scale", "0"]).is_err());
        assert!(Cli::try_parse_from(["malloc", "--scale", "nan"]).is_err());
    }
}
