//! Random mixed in one process an allocator, for minutes: the processes take turns.
//!
//! One process works while the others wait, so that changes of the machine over the minutes hit all
//! of them. The spread over the turns is printed beside the median, and so is resident memory.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::peer::{Contestant, Peer};
use super::record::Ratio;
use super::run::Launcher;
use super::unit::{megabytes, rate, small};
use crate::syscalls::Tracer;
use crate::table::{Table, figure};
use crate::{machine, stats};

/// The allocators that run if none is named: the profiles, and two mimallocs to compare them with.
pub const DEFAULT_PEERS: [Peer; 5] = [
    Peer::SteppeBalanced,
    Peer::SteppeSpeed,
    Peer::SteppeLean,
    Peer::Mimalloc3,
    Peer::MimallocPypi,
];

/// One process, and its turns so far.
struct Soaked<'a> {
    contestant: &'a Contestant,
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    turns: Vec<Turn>,
    syscalls: Option<f64>,
}

/// The figures of one turn.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Turn {
    operations: u64,
    cpu_us: u64,
    resident_kib: u64,
}

/// The length of the soak, and that of a turn.
pub struct Length {
    pub minutes: f64,
    pub epoch_seconds: f64,
}

/// Lets the allocators take turns, and prints the table.
///
/// # Errors
/// When a process can't be started, or ends before its time.
pub async fn run(launcher: &Launcher, contestants: &[Contestant], length: &Length) -> Result<()> {
    let mut all = Vec::new();
    for contestant in contestants {
        all.push(Soaked::start(launcher, contestant)?);
    }
    let end = Instant::now() + Duration::from_secs_f64(length.minutes * 60.0);
    let mut round = 0;
    while round == 0 || Instant::now() < end {
        for index in stats::order(all.len(), round) {
            let soaked = &mut all[index];
            let turn = soaked.turn(length.epoch_seconds).await?;
            soaked.turns.push(turn);
        }
        round += 1;
        if round % ROUNDS_A_LINE == 1 {
            print_progress(&all, round);
        }
    }
    for soaked in &mut all {
        soaked.count_syscalls(launcher, length.epoch_seconds).await;
    }
    println!(
        "{} rounds, a turn of {} s each\n",
        round, length.epoch_seconds
    );
    print!("{}", table(&all));
    Ok(())
}

const ROUNDS_A_LINE: usize = 12;

fn print_progress(all: &[Soaked<'_>], round: usize) {
    let last = |soaked: &Soaked<'_>| {
        let rate_now = soaked.turns.last().map_or(f64::NAN, Turn::rate);
        format!("{} {}", soaked.contestant.peer.name(), rate(rate_now))
    };
    let told: Vec<String> = all.iter().map(last).collect();
    eprintln!("round {round}: {}", told.join(", "));
}

impl<'a> Soaked<'a> {
    fn start(launcher: &Launcher, contestant: &'a Contestant) -> Result<Self> {
        let mut child = Command::new(launcher.program("malloc-soak"))
            .arg("turns")
            .envs(contestant.environment())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot run malloc-soak")?;
        let input = child.stdin.take().context("it has no input")?;
        let output = child.stdout.take().context("it has no output")?;
        Ok(Self {
            contestant,
            child,
            input,
            output: BufReader::new(output).lines(),
            turns: Vec::new(),
            syscalls: None,
        })
    }

    async fn turn(&mut self, seconds: f64) -> Result<Turn> {
        let name = self.contestant.peer.name();
        self.input
            .write_all(format!("{seconds}\n").as_bytes())
            .await?;
        let limit = Duration::from_secs_f64(seconds * 10.0 + 60.0);
        let line = timeout(limit, self.output.next_line()).await;
        let line = line.with_context(|| format!("{name} does not end its turn"))??;
        let line = line.with_context(|| format!("{name} ended within its turn"))?;
        Turn::parse(&line).with_context(|| format!("{name} said '{line}'"))
    }

    /// Counts system calls in one more turn, which is slower and counts for nothing else.
    async fn count_syscalls(&mut self, launcher: &Launcher, seconds: f64) {
        match self.traced_turn(launcher, seconds).await {
            Ok(each) => self.syscalls = Some(each),
            Err(error) => eprintln!("{}: no calls: {error:#}", self.contestant.peer.name()),
        }
    }

    async fn traced_turn(&mut self, launcher: &Launcher, seconds: f64) -> Result<f64> {
        let process = self.child.id().context("it has ended")?;
        let tracer = Tracer::attach(process, &launcher.run_dir).await?;
        let turn = self.turn(seconds).await?;
        let counts = tracer.detach().await?;
        ensure!(turn.operations > 0, "did no operation");
        Ok(counts.values().sum::<u64>() as f64 / turn.operations as f64)
    }

    fn rates(&self) -> Vec<f64> {
        self.turns.iter().map(Turn::rate).collect()
    }

    fn resident_kib(&self, turn: Option<&Turn>) -> f64 {
        turn.map_or(f64::NAN, |turn| turn.resident_kib as f64)
    }
}

impl Turn {
    fn rate(&self) -> f64 {
        self.operations as f64 / (self.cpu_us.max(1) as f64 / 1e6)
    }

    fn parse(line: &str) -> Option<Self> {
        let mut numbers = line.split(' ').map(|number| number.parse().ok());
        let turn = Self {
            operations: numbers.next()??,
            cpu_us: numbers.next()??,
            resident_kib: numbers.next()??,
        };
        numbers.next().is_none().then_some(turn)
    }
}

fn table(all: &[Soaked<'_>]) -> Table {
    let reference = all
        .iter()
        .filter(|soaked| soaked.contestant.peer.is_mimalloc())
        .map(Soaked::rates)
        .max_by(|a, b| stats::median(a).total_cmp(&stats::median(b)))
        .unwrap_or_default();
    let mut table = Table::new(&[
        "allocator",
        "op/CPU s",
        "CV %",
        "to best mimalloc",
        "calls/op",
        "first MB",
        "a tenth in",
        "last",
    ]);
    for soaked in all {
        let (rates, turns) = (soaked.rates(), &soaked.turns);
        let ratio = Ratio::of(&stats::ratios(&rates, &reference));
        let resident = |turn| megabytes(soaked.resident_kib(turn));
        table.row(vec![
            soaked.contestant.peer.name().to_owned(),
            rate(stats::median(&rates)),
            figure(stats::variation(&rates) * 100.0, 2),
            ratio.map_or_else(|| "-".to_owned(), |ratio| ratio.to_string()),
            soaked.syscalls.map_or_else(|| "-".to_owned(), small),
            resident(turns.first()),
            resident(turns.get(turns.len() / 10)),
            resident(turns.last()),
        ]);
    }
    table
}

/// The text above the table.
pub fn heading() -> String {
    format!(
        "{}; {}\nrandom mixed, 400 slots, one process each; medians over turns; in brackets a 95 % \
         interval of the median ratio (bootstrap over rounds); calls/op include the few of the \
         program itself",
        machine::date(),
        machine::describe()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_three_numbers() {
        let turn = Turn::parse("4000000 2000000 512").expect("a turn");
        assert_eq!((turn.rate(), turn.resident_kib), (2e6, 512));
        assert_eq!(Turn::parse("1 2"), None);
        assert_eq!(Turn::parse("1 2 3 4"), None);
        assert_eq!(Turn::parse("1 2 x"), None);
    }
}
