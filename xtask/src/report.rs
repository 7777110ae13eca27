//! Steps in a row: each announced, timed and counted; failures are repeated at the end, below a table
//! of what took how long.
//!
//! A failed step stops nothing: one run tells everything that is wrong.

use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::process;

/// What a step came to, unless it failed as a whole.
pub enum Outcome {
    /// It counts as one.
    Passed,
    /// It ran tests that are counted one by one.
    Tests(TestRun),
    /// It could not be done here, for this reason.
    Skipped(String),
}

/// Tests that ran.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestCounts {
    /// Those that passed.
    pub passed: usize,
    /// Those that failed.
    pub failed: usize,
}

impl TestCounts {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }

    /// Adds the counts of a `test result: ok. 3 passed; 0 failed; …` line; ignores other lines.
    pub fn add_result_line(&mut self, line: &str) {
        if line.starts_with("test result: ") {
            self.passed += count_before(line, " passed");
            self.failed += count_before(line, " failed");
        }
    }
}

fn count_before(line: &str, word: &str) -> usize {
    let before = line.split(word).next().unwrap_or_default();
    before
        .rsplit(' ')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// What took how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// A step, or a program of tests.
    pub name: String,
    /// How long, by the clock.
    pub seconds: f64,
    /// Seconds of processors that processes took which ended during it, where that is known.
    pub cpu_seconds: Option<f64>,
}

/// What cargo and the programs of tests that it runs print, read line by line.
#[derive(Debug, Default)]
pub struct TestRun {
    /// All tests.
    pub counts: TestCounts,
    /// Each program by itself.
    pub programs: Vec<Timing>,
    running: String,
}

impl TestRun {
    /// Takes over what other programs of tests came to.
    pub fn add(&mut self, other: Self) {
        self.counts.add(other.counts);
        self.programs.extend(other.programs);
    }

    /// Reads a line: which program runs now, how it ended, or anything else.
    pub fn see(&mut self, line: &str) {
        self.counts.add_result_line(line);
        let words = line.trim_start();
        if let Some(program) = words.strip_prefix("Running ") {
            self.running = program_name(program);
        } else if words.starts_with("Doc-tests ") {
            self.running = words.to_owned();
        } else if let Some(seconds) = seconds_of(line) {
            let name = self.running.clone();
            self.programs.push(Timing {
                name,
                seconds,
                cpu_seconds: None,
            });
        }
    }
}

/// `lab (tests/lab/main.rs)` of `tests/lab/main.rs (target/debug/deps/lab-cf8e698c17859e04)`.
fn program_name(running: &str) -> String {
    let (source, program) = running.split_once(" (").unwrap_or((running, ""));
    let file = program.trim_end_matches(')').rsplit('/').next();
    let file = file.unwrap_or_default();
    let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
    format!("{name} ({})", source.trim_start_matches("unittests "))
}

fn seconds_of(line: &str) -> Option<f64> {
    let mut parts = line.strip_prefix("test result: ")?.rsplit("finished in ");
    parts.next()?.strip_suffix('s')?.parse().ok()
}

/// So many programs of tests are in the table: the slowest.
const PROGRAMS_SHOWN: usize = 15;

/// The steps done so far.
#[derive(Default, Serialize, Deserialize)]
pub struct Report {
    counts: TestCounts,
    failures: Vec<String>,
    skipped: Vec<String>,
    steps: Vec<Timing>,
    /// Those that ran while others did: their time was not waited for.
    beside: Vec<Timing>,
    programs: Vec<Timing>,
}

impl Report {
    /// Does one step and takes note of how it went.
    pub fn step(&mut self, name: &str, work: impl FnOnce() -> Result<Outcome>) {
        println!("\n==> {name}");
        let (start, cpu_before) = (Instant::now(), process::cpu_seconds_of_children());
        let outcome = work();
        let verdict = self.note(name, outcome);
        let seconds = start.elapsed().as_secs_f64();
        println!("<== {name}: {verdict} ({seconds:.1} s)");
        let cpu = cpu_before.zip(process::cpu_seconds_of_children());
        self.steps.push(Timing {
            name: name.to_owned(),
            seconds,
            cpu_seconds: cpu.map(|(before, after)| after - before),
        });
    }

    fn note(&mut self, name: &str, outcome: Result<Outcome>) -> &'static str {
        match outcome {
            Ok(Outcome::Passed) => {
                self.counts.passed += 1;
                "ok"
            }
            Ok(Outcome::Tests(run)) => {
                self.programs.extend(run.programs);
                self.note_tests(name, run.counts)
            }
            Ok(Outcome::Skipped(reason)) => {
                self.skipped.push(format!("{name}: {reason}"));
                "skipped"
            }
            Err(error) => {
                println!("{error:#}");
                self.counts.failed += 1;
                self.failures
                    .push(format!("{name}: {}", first_line(&format!("{error:#}"))));
                "FAILED"
            }
        }
    }

    fn note_tests(&mut self, name: &str, counts: TestCounts) -> &'static str {
        self.counts.add(counts);
        if counts.failed == 0 {
            return "ok";
        }
        self.failures
            .push(format!("{name}: {} tests failed", counts.failed));
        "FAILED"
    }

    /// A test that was counted as passed said that it could not be done here.
    pub fn skip_test(&mut self, line: &str) {
        self.counts.passed = self.counts.passed.saturating_sub(1);
        self.skipped
            .push(line.trim_start_matches("SKIPPED ").to_owned());
    }

    /// Takes over the steps of another report, which ran while this one's did.
    pub fn add_beside(&mut self, other: Self) {
        self.counts.add(other.counts);
        self.failures.extend(other.failures);
        self.skipped.extend(other.skipped);
        self.beside.extend(other.steps);
        self.programs.extend(other.programs);
    }

    /// Writes it to a file, for the process that waits for this one.
    pub fn write(&self, file: &Path) -> Result<()> {
        serde_json::to_writer(File::create(file)?, self)?;
        Ok(())
    }

    /// Reads what [`Self::write`] has written.
    pub fn read(file: &Path) -> Result<Self> {
        let text = fs::read(file).with_context(|| format!("no report in {}", file.display()))?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// Prints what took how long, what failed and what was skipped, and the sum as the last line. True: all
    /// passed.
    pub fn finish(mut self) -> bool {
        println!();
        print!("{}", self.table());
        for skipped in &self.skipped {
            println!("skipped: {skipped}");
        }
        for failure in &self.failures {
            println!("failed: {failure}");
        }
        println!("{}", sum_line(self.counts));
        self.counts.failed == 0
    }
}

impl Report {
    fn table(&mut self) -> String {
        let sum = self.steps.iter().map(|step| step.seconds).sum();
        let mut lines =
            String::from("what took how long, in seconds, and how much of processors\n");
        self.steps.iter().for_each(|step| lines += &row(step));
        lines += &row(&Timing {
            name: "in all".to_owned(),
            seconds: sum,
            cpu_seconds: process::cpu_seconds_of_children(),
        });
        lines += "while others ran\n";
        self.beside.iter().for_each(|step| lines += &row(step));
        lines += "the slowest programs of tests\n";
        (self.programs).sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        let slowest = self.programs.iter().take(PROGRAMS_SHOWN);
        slowest.for_each(|program| lines += &row(program));
        lines
    }
}

fn row(timing: &Timing) -> String {
    let cpu = timing
        .cpu_seconds
        .map_or(String::new(), |cpu| format!("{cpu:.1}"));
    format!("{:9.1} {cpu:>9}  {}\n", timing.seconds, timing.name)
}

fn sum_line(counts: TestCounts) -> String {
    format!("{} passed, {} failed", counts.passed, counts.failed)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests(passed: usize, failed: usize) -> TestRun {
        TestRun {
            counts: TestCounts { passed, failed },
            ..TestRun::default()
        }
    }

    #[test]
    fn each_program_has_its_time() {
        let mut run = TestRun::default();
        let said = "     Running unittests src/lib.rs (target/debug/deps/steppe_dns-27c2786d4ff62d3d)\n\
                    running 1 test\n\
                    test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; finished in 0.25s\n\
                    \x20    Running tests/lab/main.rs (target/debug/deps/lab-cf8e698c17859e04)\n\
                    test result: FAILED. 1 passed; 1 failed; finished in 12.00s\n\
                    \x20  Doc-tests steppe_dns\n\
                    test result: ok. 3 passed; 0 failed; finished in 1.50s\n";
        said.lines().for_each(|line| run.see(line));
        let shown: String = run.programs.iter().map(row).collect();
        assert_eq!(
            shown,
            "      0.2            steppe_dns (src/lib.rs)\n     12.0            lab (tests/lab/main.rs)\n\
             \x20     1.5            Doc-tests steppe_dns\n"
        );
        assert_eq!((run.counts.passed, run.counts.failed), (5, 1));
    }

    #[test]
    fn what_ran_beside_counts_and_its_time_is_not_in_the_sum() {
        let mut beside = Report::default();
        beside.step("breaks", || anyhow::bail!("broken"));
        beside.step("elsewhere", || {
            Ok(Outcome::Skipped("no network".to_owned()))
        });
        beside.steps[0].seconds = 60.0;
        beside.steps[0].cpu_seconds = Some(90.0);
        let written = serde_json::to_string(&beside).unwrap();
        let mut report = Report::default();
        report.step("tests", || Ok(Outcome::Tests(tests(2, 0))));
        report.steps[0].seconds = 5.0;
        report.add_beside(serde_json::from_str(&written).unwrap());
        assert_eq!(sum_line(report.counts), "2 passed, 1 failed");
        assert_eq!((report.failures.len(), report.skipped.len()), (1, 1));
        let table = report.table();
        let rows: Vec<Vec<&str>> = (table.lines())
            .map(|row| row.split_whitespace().collect())
            .collect();
        let in_all = rows.iter().find(|row| row.ends_with(&["in", "all"]));
        assert!(in_all.is_some_and(|row| row[0] == "5.0"), "{table}");
        let others = rows.iter().position(|row| row.starts_with(&["while"]));
        let first = others.map(|row| rows[row + 1].clone());
        assert_eq!(first, Some(vec!["60.0", "90.0", "breaks"]), "{table}");
        assert!(!report.finish());
    }

    #[test]
    fn result_lines_are_summed() {
        let mut counts = TestCounts::default();
        counts.add_result_line("running 4 tests");
        counts.add_result_line("test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured");
        counts.add_result_line("test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured");
        assert_eq!(
            counts,
            TestCounts {
                passed: 15,
                failed: 1
            }
        );
    }

    #[test]
    fn a_failed_step_fails_the_whole_and_stops_nothing() {
        let mut report = Report::default();
        report.step("breaks", || anyhow::bail!("broken"));
        report.step("tests", || Ok(Outcome::Tests(tests(2, 0))));
        report.step("elsewhere", || {
            Ok(Outcome::Skipped("no network".to_owned()))
        });
        assert_eq!(sum_line(report.counts), "2 passed, 1 failed");
        report.skip_test("SKIPPED memory: no cgroup");
        assert_eq!(sum_line(report.counts), "1 passed, 1 failed");
        assert_eq!(report.skipped.pop().as_deref(), Some("memory: no cgroup"));
        assert_eq!(report.skipped, ["elsewhere: no network"]);
        assert!(!report.finish());
    }

    #[test]
    fn a_failed_test_fails_the_whole() {
        let mut report = Report::default();
        report.step("tests", || Ok(Outcome::Tests(tests(2, 1))));
        assert!(!report.finish());
    }
}
