//! `steppe-bench malloc`: the allocator beside its peers, preloaded into the same programs.
//!
//! A round runs every case under every allocator, each in a fresh process, in an order that
//! changes, so that a slow minute of the machine hits all of them, and nobody always finds the
//! memory that the same other one left. Instructions and system calls are counted after the rounds,
//! since neither may touch the timings.

mod build;
mod case;
mod peer;
mod record;
mod report;
mod run;
mod soak;
mod targets;
mod trace;
mod unit;

use anyhow::{Result, ensure};
use clap::Args;

use self::case::Case;
use self::peer::{Contestant, Peer};
use self::record::Records;
use self::run::Launcher;
use crate::{machine, stats};

/// How long, which cases, against whom.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Interleaved rounds [default: 5, quick: 3]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// How much work each run does, as a multiple of the default [default: 1, quick: 0.25]
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
    steppe: Option<std::path::PathBuf>,
    /// Without instructions and system calls, and a quarter of the work
    #[arg(long)]
    quick: bool,
    /// Tables for the README, in Markdown
    #[arg(long)]
    markdown: bool,
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
  steppe-bench malloc --soak 60                     throughput by turns of five seconds

Standard output holds the tables, progress goes to standard error. Figures are medians over rounds.
Exit code: 0 valid, 1 a program failed under an allocator, 2 the bench could not run.";

/// `Options` with every default filled in.
struct Plan {
    rounds: usize,
    scale: f64,
    /// Whether instructions and system calls are counted.
    traced: bool,
    cases: Vec<Case>,
}

/// Runs the bench and prints its tables; whether every program ran to its end.
///
/// # Errors
/// When the load programs can't be built, or no allocator is left.
pub async fn run(options: &Options) -> Result<bool> {
    let plan = options.plan();
    let launcher = Launcher::prepare()?;
    let (contestants, skipped) = peer::prepare_all(&options.peers(), options.steppe.as_deref());
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
    let mut records = Records::new(&plan.cases, &contestants);
    for round in 0..plan.rounds {
        run_round(&launcher, &contestants, &mut records, &plan, round).await;
    }
    if plan.traced {
        trace_all(&launcher, &contestants, &mut records, &plan).await;
    }
    let report = report::Report {
        records: &records,
        contestants: &contestants,
        skipped: &skipped,
        plan: &plan,
        machine: &machine,
    };
    if options.markdown {
        report.print_markdown();
    } else {
        report.print();
    }
    Ok(records.failures().is_empty())
}

impl Options {
    fn plan(&self) -> Plan {
        let (rounds, scale) = if self.quick { (3, 0.25) } else { (5, 1.0) };
        Plan {
            rounds: self.rounds.unwrap_or(rounds).into(),
            scale: self.scale.unwrap_or(scale),
            traced: !self.quick,
            cases: named_or_all(&self.cases),
        }
    }

    fn peers(&self) -> Vec<Peer> {
        if self.soak.is_some() && self.peers.is_empty() {
            return soak::DEFAULT_PEERS.into();
        }
        named_or_all(&self.peers)
    }
}

/// What was named, each once, or everything.
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

/// Each case runs all allocators before the next begins: pairs are as close in time as can be.
#[expect(clippy::too_many_arguments, reason = "older than the limit")]
async fn run_round(
    launcher: &Launcher,
    contestants: &[Contestant],
    records: &mut Records,
    plan: &Plan,
    round: usize,
) {
    for &case in &plan.cases {
        for index in stats::order(contestants.len(), round) {
            let contestant = &contestants[index];
            eprint!(
                "round {} of {}: {:<14} {:<16} ",
                round + 1,
                plan.rounds,
                case.name(),
                contestant.peer.name()
            );
            // Waiting for idle memory takes seconds: once is enough where it is not the case itself.
            let pause = if round == 0 || case.is_about_silence() {
                PAUSE_MS
            } else {
                0
            };
            let outcome = launcher
                .run(contestant, case, case.units(plan.scale), pause)
                .await;
            match &outcome {
                Ok(figures) => eprintln!("{}", figures.describe()),
                Err(error) => eprintln!("{error:#}"),
            }
            records.add(case, contestant.peer, outcome);
        }
    }
}

/// Between the end of work and the reading of idle memory.
const PAUSE_MS: u64 = 2_000;

async fn trace_all(
    launcher: &Launcher,
    contestants: &[Contestant],
    records: &mut Records,
    plan: &Plan,
) {
    for &case in &plan.cases {
        for contestant in contestants {
            eprint!(
                "counting: {:<14} {:<16} ",
                case.name(),
                contestant.peer.name()
            );
            let instructions = trace::instructions(launcher, contestant, case).await;
            let syscalls = trace::syscalls(launcher, contestant, case, plan.scale).await;
            eprintln!(
                "{}, {}",
                said(&instructions, "instructions"),
                said(&syscalls, "calls")
            );
            records.add_counts(case, contestant.peer, instructions.ok(), syscalls.ok());
        }
    }
}

fn said(counted: &Result<f64>, what: &str) -> String {
    match counted {
        Ok(each) => format!("{each:.3e} {what} an operation"),
        Err(error) => format!("no {what}: {error:#}"),
    }
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
        assert_eq!((plan.rounds, plan.scale, plan.traced), (7, 0.25, false));
        assert!(options(&[]).plan().rounds >= 5);
    }

    #[test]
    fn what_is_named_twice_runs_once() {
        let options = options(&["--cases", "large,random-400,large", "--peers", "glibc"]);
        assert_eq!(options.plan().cases, [Case::Large, Case::Random400]);
        assert_eq!(options.peers(), [Peer::Glibc]);
    }

    #[test]
    fn a_scale_of_nothing_is_refused() {
        assert!(Cli::try_parse_from(["malloc", "--scale", "0"]).is_err());
        assert!(Cli::try_parse_from(["malloc", "--scale", "nan"]).is_err());
    }
}
