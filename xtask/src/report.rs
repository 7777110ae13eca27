//! Steps in a row: each announced, timed and counted; failures are repeated at the end, below a table
//! of what took how long.
//!
//! A failed step stops nothing: one run tells everything that is wrong.

use std::time::Instant;

use anyhow::Result;

use crate::libtest::TestCounts;
use crate::process;

/// The result of a step that did not fail as a whole.
pub enum Outcome {
    /// The step passed, and counts as one.
    Passed,
    /// The step ran tests that are counted one by one.
    Tests(TestRun),
    /// The step could not be done here, for this reason.
    Skipped(String),
}

/// A duration with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    /// A step, or a program of tests.
    pub name: String,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Seconds of processors that processes took which ended during it, where that is known.
    pub cpu_seconds: Option<f64>,
}

impl Timing {
    /// Both together, under this one's name.
    pub fn plus(&self, other: &Self) -> Self {
        let cpu = self.cpu_seconds.zip(other.cpu_seconds);
        Self {
            name: self.name.clone(),
            seconds: self.seconds + other.seconds,
            cpu_seconds: cpu.map(|(one, other)| one + other),
        }
    }
}

/// The sum of several test programs.
#[derive(Debug, Default)]
pub struct TestRun {
    /// All tests.
    pub counts: TestCounts,
    /// Each program by itself.
    pub programs: Vec<Timing>,
    /// Tests that failed, with their programs.
    pub failed: Vec<String>,
}

/// So many programs of tests are in the table: the slowest.
const PROGRAMS_SHOWN: usize = 15;

/// The steps done so far.
#[derive(Default)]
pub struct Report {
    counts: TestCounts,
    failures: Vec<String>,
    skipped: Vec<String>,
    steps: Vec<Timing>,
    /// Steps that the first tier left to the second, with reasons.
    left_out: Vec<String>,
    warnings: Vec<String>,
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
                let failed = run.failed.into_iter();
                let failed = failed.map(|test| format!("{name}: {test}"));
                self.failures.extend(failed);
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

    /// A step that was left out, and why.
    pub fn leave_out(&mut self, what: impl Into<String>) {
        self.left_out.push(what.into());
    }

    /// A remark that does not fail the run.
    pub fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    /// The steps done so far.
    pub fn steps(&self) -> &[Timing] {
        &self.steps
    }

    /// Prints what took how long, what failed and what was skipped, and the sum as the last line. True: all
    /// passed.
    pub fn finish(mut self) -> bool {
        println!();
        print!("{}", self.table());
        if !self.left_out.is_empty() {
            println!("left to make test-all: {}", self.left_out.join("; "));
        }
        for warning in &self.warnings {
            println!("warning: {warning}");
        }
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
    fn the_table_has_the_steps_their_sum_and_the_slowest_programs() {
        let mut report = Report::default();
        let program = |name: &str, seconds| Timing {
            name: name.to_owned(),
            seconds,
            cpu_seconds: Some(1.0),
        };
        let run = TestRun {
            programs: vec![program("a/lib", 2.0), program("b/lib", 3.0)],
            ..tests(2, 0)
        };
        report.step("tests", || Ok(Outcome::Tests(run)));
        report.steps[0].seconds = 5.0;
        report.steps[0].cpu_seconds = None;
        let table = report.table();
        let rows: Vec<&str> = table.lines().map(str::trim).collect();
        assert_eq!(rows[1], "5.0            tests", "{table}");
        assert!(rows[2].starts_with("5.0") && rows[2].ends_with("in all"));
        assert!(rows[4].ends_with("b/lib") && rows[5].ends_with("a/lib"));
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
