//! Memory of a program that frees and is idle then, under each allocator: a row for each way to free.
//!
//! The program is the one that the tests of the library judge (`testdata/idleness.c`). It holds 64 MiB, frees, calls
//! the allocator no more, and tells after a pause what is resident. All allocators run a row at once: they sleep, and
//! memory is all that is read. Invariant: a program that fails leaves its cell empty and a line among the failures.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::process::Command;
use tokio::task::JoinSet;

use super::build;
use super::page::{self, title};
use super::peer::Contestant;
use super::run::output;
use crate::machine;
use crate::page::{Figures, Page, Section};
use crate::table::significant;

const CORNER: &str = "anonymous resident memory 2 s after the last free, MB ↓";

/// Arguments of the program: way, size of blocks, order of frees, threads.
const ROWS: [(&str, &str); 18] = [
    ("blocks of 48 B, all freed", "own 48 random 1"),
    ("blocks of 2,000 B, all freed", "own 2000 random 1"),
    ("blocks of 200 kB, all freed", "own 200000 random 1"),
    ("blocks of 20 MB, all freed", "own 20000000 fifo 1"),
    ("700 B, one kept in each 64 KiB", "own 700 slab 1"),
    ("2,000 B, one kept in each 4 MiB", "own 2000 chunk 1"),
    ("16,000 B, each second one kept", "own 16000 half 1"),
    (
        "20 MB, shrunk to a quarter by realloc",
        "shrunk 20000000 fifo 1",
    ),
    (
        "freed by another thread, which sleeps",
        "other 2000 random 1",
    ),
    (
        "freed by a thread that has ended",
        "freed-then-ended 2000 random 1",
    ),
    (
        "allocated by 4 threads that have ended",
        "ended 2000 random 4",
    ),
    (
        "freed by 4 threads as they end",
        "thread-exit 2000 random 4",
    ),
    (
        "4 producers and 4 consumers, all asleep",
        "exchange 2000 random 4",
    ),
    ("4 threads asleep, their caches warm", "warm 2000 random 4"),
    (
        "64 threads asleep, their caches warm",
        "warm 2000 random 64",
    ),
    (
        "child of a fork frees what it inherited",
        "child 2000 random 1",
    ),
    (
        "parent of a fork frees, the child lives",
        "parent 2000 random 1",
    ),
    ("freed by a handler of atexit", "atexit 2000 random 1"),
];
const PAUSE_MS: &str = "2000";
/// The program itself gives up after a minute.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Memory of one program, in KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Memory {
    /// Pages with a live block.
    live_kib: u64,
    /// All that is resident.
    idle_kib: u64,
}

/// The cells of a run, and the programs that failed.
struct Idle {
    figures: Figures,
    failures: Vec<String>,
}

/// Runs every row, prints the table, and writes it into a page unless a program failed; whether none did.
///
/// # Errors
/// When the program can't be built, or the page can't be written.
pub async fn tell(contestants: &[Contestant], page: Option<Page>) -> Result<bool> {
    let idle = measure(contestants).await?;
    let table = idle.figures.into_table();
    println!("{}; {}\n\n{table}", machine::date(), machine::describe());
    for failure in &idle.failures {
        println!("FAILED {failure}");
    }
    let is_valid = idle.failures.is_empty();
    if let Some(page) = page.filter(|_| is_valid) {
        page.write(&[Section {
            name: page::IDLE,
            rounds: 1,
            tables: vec![table],
        }])?;
    }
    Ok(is_valid)
}

async fn measure(contestants: &[Contestant]) -> Result<Idle> {
    let program = build::idle_program()?;
    let columns = contestants
        .iter()
        .map(|contestant| (contestant.peer.name(), title(contestant)));
    let mut idle = Idle {
        figures: Figures::new(CORNER, columns.collect(), &[]),
        failures: Vec::new(),
    };
    for (label, arguments) in ROWS {
        eprintln!("idle: {label}");
        let mut runs = JoinSet::new();
        for contestant in contestants {
            let mut command = Command::new(&program);
            command.args(arguments.split(' ')).args(["wait", PAUSE_MS]);
            command.envs(contestant.environment());
            let name = contestant.peer.name();
            runs.spawn(async move { (name, run(command).await) });
        }
        let ended = runs.join_all().await;
        for (name, outcome) in &ended {
            if let Err(error) = outcome {
                idle.failures
                    .push(format!("idle, {label} under {name}: {error:#}"));
            }
        }
        let of = |name: &str| {
            let found = ended.iter().find(|(peer, _)| *peer == name);
            found.and_then(|(_, outcome)| outcome.as_ref().ok())
        };
        let first = contestants.first().and_then(|it| of(it.peer.name()));
        idle.figures.row(&labeled(label, first), |name| {
            of(name).map_or_else(String::new, |memory| megabytes(memory.idle_kib))
        });
    }
    Ok(idle)
}

async fn run(mut command: Command) -> Result<Memory> {
    parse(&output(&mut command, TIMEOUT).await?)
}

/// `HELD LIVE IDLE MS`.
fn parse(text: &str) -> Result<Memory> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let mut number = || -> Result<u64> {
        let number = numbers.next().with_context(|| format!("said '{text}'"))?;
        number.with_context(|| format!("said '{text}'"))
    };
    let _held_kib = number()?;
    Ok(Memory {
        live_kib: number()?,
        idle_kib: number()?,
    })
}

/// The row's label; where blocks stay, with the pages that they need under the first allocator.
fn labeled(label: &str, memory: Option<&Memory>) -> String {
    match memory.map_or(0, |memory| memory.live_kib) {
        0 => label.to_owned(),
        live => format!("{label} ({})", megabytes(live)),
    }
}

fn megabytes(kib: u64) -> String {
    significant(kib as f64 * 1_024.0 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_the_pages_that_blocks_need() {
        let row = |text| {
            let memory = parse(text).expect("figures");
            (labeled("half", Some(&memory)), megabytes(memory.idle_kib))
        };
        let all_freed = ("half".to_owned(), "0.524".to_owned());
        assert_eq!(row("65700 0 512 2000\n"), all_freed);
        let kept = ("half (33.8)".to_owned(), "34.9".to_owned());
        assert_eq!(row("65700 33024 34048 2000\n"), kept);
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "65700 0\n", "no memory\n"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
