//! Steps in a row: each announced, timed and counted; failures are repeated at the end.
//!
//! A failed step stops nothing: one run tells everything that is wrong.

use std::time::Instant;

use anyhow::Result;

/// What a step came to, unless it failed as a whole.
pub enum Outcome {
    /// It counts as one.
    Passed,
    /// It ran tests that are counted one by one.
    Tests(TestCounts),
    /// It could not be done here, for this reason.
    Skipped(String),
}

/// Tests that ran.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct TestCounts {
    /// Those that passed.
    pub passed: usize,
    /// Those that failed.
    pub failed: usize,
}

impl TestCounts {
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

/// The steps done so far.
#[derive(Default)]
pub struct Report {
    counts: TestCounts,
    failures: Vec<String>,
    skipped: Vec<String>,
}

impl Report {
    /// Does one step and takes note of how it went.
    pub fn step(&mut self, name: &str, work: impl FnOnce() -> Result<Outcome>) {
        println!("\n==> {name}");
        let start = Instant::now();
        let outcome = work();
        let verdict = self.note(name, outcome);
        println!(
            "<== {name}: {verdict} ({:.1} s)",
            start.elapsed().as_secs_f64()
        );
    }

    fn note(&mut self, name: &str, outcome: Result<Outcome>) -> &'static str {
        match outcome {
            Ok(Outcome::Passed) => {
                self.counts.passed += 1;
                "ok"
            }
            Ok(Outcome::Tests(counts)) => self.note_tests(name, counts),
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
        self.counts.passed += counts.passed;
        self.counts.failed += counts.failed;
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

    /// Prints what failed and what was skipped, and the sum as the last line. True: all passed.
    pub fn finish(self) -> bool {
        println!();
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

fn sum_line(counts: TestCounts) -> String {
    format!("{} passed, {} failed", counts.passed, counts.failed)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        report.step("tests", || {
            Ok(Outcome::Tests(TestCounts {
                passed: 2,
                failed: 0,
            }))
        });
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
        report.step("tests", || {
            Ok(Outcome::Tests(TestCounts {
                passed: 2,
                failed: 1,
            }))
        });
        assert!(!report.finish());
    }
}
