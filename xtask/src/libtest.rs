//! Reads the output of Rust's test harness: counts, and the names of tests that failed.

use serde::{Deserialize, Serialize};

/// Tests that ran.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestCounts {
    /// Number of tests that passed.
    pub passed: usize,
    /// Number of tests that failed.
    pub failed: usize,
}

impl TestCounts {
    /// The counts of all `test result: ok. 3 passed; 0 failed; …` lines of a text.
    pub fn of(said: &str) -> Self {
        let mut counts = Self::default();
        said.lines().for_each(|line| counts.add_result_line(line));
        counts
    }

    /// Adds those of others.
    pub fn add(&mut self, other: Self) {
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

/// Names of the tests that failed, from the list which the harness prints at its end. It is the same whether tests
/// printed into the lines that announced them or not.
pub fn failed_tests(said: &str) -> Vec<String> {
    let mut failed: Vec<String> = Vec::new();
    let mut is_list = false;
    for line in said.lines() {
        match line.strip_prefix("    ") {
            // The list of names; that of what they printed comes before, with the same heading.
            Some(name) if is_list && !name.contains(' ') => failed.push(name.to_owned()),
            _ if line == "failures:" => {
                is_list = true;
                failed.clear();
            }
            _ if line.is_empty() => {}
            _ => is_list = false,
        }
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_summed() {
        let said = "running 4 tests\n\
                    test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured\n\
                    test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured\n";
        let (passed, failed) = (15, 1);
        assert_eq!(TestCounts::of(said), TestCounts { passed, failed });
    }

    #[test]
    fn failed_tests_are_named() {
        let said = "running 3 tests\ntest a::b ... SKIPPED x\nFAILED\ntest c ... ok\n\nfailures:\n\n\
                    ---- a::b stdout ----\n    indented by a test\npanicked\n\nfailures:\n    a::b\n    d\n\n\
                    test result: FAILED. 1 passed; 2 failed; 0 ignored\n";
        assert_eq!(failed_tests(said), ["a::b", "d"]);
        assert_eq!(failed_tests("test result: ok. 1 passed"), [""; 0]);
    }
}
