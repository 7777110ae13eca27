//! Flaky tests are hunted: every test program runs again and again on a machine whose cores are busy, its measured
//! tests on a quiet one, and a table counts the failures.
//!
//! The counts are kept in the target directory, so a hunt that was stopped goes on where it was.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::git;
use crate::jobs::{self, Ended};
use crate::process;
use crate::programs::{self, Program};

/// The arguments of `cargo xtask flakes`.
pub struct Hunt {
    /// Runs that each program needs, earlier hunts included.
    pub runs: usize,
    /// Programs as `package/program`, or packages; all when none is named.
    pub programs: Vec<String>,
    /// Forget earlier counts of these programs first.
    pub is_fresh: bool,
}

/// The counts of one program, or of its measured tests.
#[derive(Default, Serialize, Deserialize, Clone)]
struct Count {
    runs: usize,
    failed_runs: usize,
    /// Failures of each test.
    tests: BTreeMap<String, usize>,
    /// The commit of the last run.
    commit: String,
}

impl Count {
    fn add(&mut self, ended: &Ended) {
        self.runs += 1;
        self.commit = git::head().unwrap_or_default();
        if ended.succeeded {
            return;
        }
        self.failed_runs += 1;
        for test in &ended.failed {
            *self.tests.entry(test.clone()).or_default() += 1;
        }
        if ended.failed.is_empty() {
            *self
                .tests
                .entry("(the program died)".to_owned())
                .or_default() += 1;
        }
    }
}

type Counts = BTreeMap<String, Count>;

/// Runs it and prints the table. True: nothing failed, earlier runs included.
///
/// # Errors
/// Something does not build, a program is not there, or counts can't be kept.
pub fn command(hunt: &Hunt) -> Result<bool> {
    let programs = select(programs::build()?, &hunt.programs)?;
    programs::build_allocator()?;
    let mut counts = read();
    if hunt.is_fresh {
        for program in &programs {
            counts.remove(&program.title());
            counts.remove(&measured_title(program));
        }
        write(&counts)?;
    }
    let measured = programs::with_measured(&programs)?;
    {
        let _busy = BusyCores::start()?;
        while let Some(round) = next_round(&programs, &counts, hunt.runs) {
            let jobs = round.iter().map(|program| program.ordinary_job());
            let mut failure = None;
            jobs::run(jobs.collect(), programs::lanes(), |ended| {
                println!("{}", ended.line());
                failure = failure.take().or(keep(&mut counts, ended).err());
            })?;
            failure.map_or(Ok(()), Err)?;
        }
    }
    for program in &measured {
        let title = measured_title(program);
        while counts.get(&title).map_or(0, |count| count.runs) < hunt.runs {
            let ended = programs::measure(program)?;
            println!("{}", ended.line());
            keep(&mut counts, &ended)?;
        }
    }
    print!("{}", table(&counts));
    Ok(counts.values().all(|count| count.failed_runs == 0))
}

fn measured_title(program: &Program) -> String {
    format!("{}: measured", program.title())
}

/// The programs that still have to run, each once.
fn next_round<'a>(
    programs: &'a [Program],
    counts: &Counts,
    runs: usize,
) -> Option<Vec<&'a Program>> {
    let due = programs.iter().filter(|program| {
        let done = counts.get(&program.title());
        done.map_or(0, |count| count.runs) < runs
    });
    let mut due: Vec<&Program> = due.collect();
    programs::longest_first(&mut due);
    (!due.is_empty()).then_some(due)
}

fn select(programs: Vec<Program>, names: &[String]) -> Result<Vec<Program>> {
    for name in names {
        let mut known = programs.iter();
        ensure!(
            known.any(|program| is_named(program, name)),
            "no test program '{name}'; there are {}",
            (programs.iter().map(Program::title).collect::<Vec<_>>()).join(", ")
        );
    }
    let chosen = programs.into_iter();
    let chosen = chosen
        .filter(|program| names.is_empty() || names.iter().any(|name| is_named(program, name)));
    Ok(chosen.collect())
}

fn is_named(program: &Program, name: &str) -> bool {
    program.package == name || program.title() == name
}

/// Adds a run to the counts, and keeps the output of one that failed.
fn keep(counts: &mut Counts, ended: &Ended) -> Result<()> {
    let count = counts.entry(ended.name.clone()).or_default();
    count.add(ended);
    if !ended.succeeded {
        let folder = process::target_directory().join("flakes");
        fs::create_dir_all(&folder)?;
        let name = jobs::file_name(&ended.name);
        fs::write(
            folder.join(format!("{name}-{}.log", count.runs)),
            &ended.said,
        )?;
    }
    write(counts)
}

fn path() -> PathBuf {
    process::target_directory().join("flakes.json")
}

fn read() -> Counts {
    let read = fs::read(path()).ok();
    read.and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default()
}

fn write(counts: &Counts) -> Result<()> {
    fs::write(path(), serde_json::to_vec_pretty(counts)?).context("the counts can't be kept")
}

fn table(counts: &Counts) -> String {
    let mut lines = String::from("runs  failed  program\n");
    for (name, count) in counts {
        lines += &format!("{:4}  {:6}  {name}\n", count.runs, count.failed_runs);
        for (test, times) in &count.tests {
            lines += &format!("{times:12}  - {test}\n");
        }
    }
    let runs: usize = counts.values().map(|count| count.runs).sum();
    let failed: usize = counts.values().map(|count| count.failed_runs).sum();
    lines + &format!("{runs:4}  {failed:6}  in all\n")
}

/// A busy loop for each core, until it is dropped.
struct BusyCores(Vec<Child>);

impl BusyCores {
    fn start() -> Result<Self> {
        let mut busy = Self(Vec::new());
        for _ in 0..programs::cores() {
            let mut shell = Command::new("sh");
            // It ends with this process, too: its parent is another then.
            let script = "while [ \"$(ps -o ppid= -p $$ | tr -d ' ')\" = \"$1\" ]; do \
                          i=0; while [ $i -lt 5000000 ]; do i=$((i+1)); done; done";
            shell.args(["-c", script, "busy", &std::process::id().to_string()]);
            let child = shell.stdin(Stdio::null()).spawn();
            busy.0.push(child.context("a busy loop can't be started")?);
        }
        Ok(busy)
    }
}

impl Drop for BusyCores {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libtest::TestCounts;
    use crate::report::Timing;

    fn ended(failed: &[&str]) -> Ended {
        Ended {
            name: "a/lib".to_owned(),
            timing: Timing {
                name: String::new(),
                seconds: 1.0,
                cpu_seconds: None,
            },
            succeeded: failed.is_empty(),
            counts: TestCounts::default(),
            failed: failed.iter().map(|&name| name.to_owned()).collect(),
            said: String::new(),
        }
    }

    #[test]
    fn the_table_says_what_failed_how_often() {
        let mut count = Count::default();
        for failed in [&[][..], &["x::y"], &["x::y", "z"]] {
            count.add(&ended(failed));
        }
        let counts = Counts::from([("a/lib".to_owned(), count)]);
        assert_eq!(
            table(&counts),
            "runs  failed  program\n   3       2  a/lib\n           2  - x::y\n           1  - z\n   \
             3       2  in all\n"
        );
    }

    #[test]
    fn each_core_has_a_busy_loop_until_the_end() {
        let busy = BusyCores::start().unwrap();
        let id = busy.0[0].id();
        assert_eq!(busy.0.len(), programs::cores());
        let stat = format!("/proc/{id}/stat");
        assert!(fs::exists(&stat).unwrap());
        drop(busy);
        assert!(!fs::exists(stat).unwrap());
    }
}
