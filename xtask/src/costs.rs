//! The cost of the first tier's steps: the table in CONTRIBUTING.md, and warnings about steps above their rows.
//!
//! A row says how many CPU-seconds a step took from cold on the machine where the table was made. The sum is kept by
//! moving cases to `make test-all`, not by raising rows.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};

use crate::process;
use crate::report::Timing;

/// A step may exceed its row by this part before the run warns of it.
const TOLERANCE: f64 = 0.1;
/// Steps that cost less than this are not worth a warning, in CPU-seconds.
const WORTH_SECONDS: f64 = 10.0;

/// The rows: CPU-seconds by the step's name.
pub struct Table(BTreeMap<String, f64>);

/// The heading of the column that counts.
const COLUMN: &str = "CPU-s now";

impl Table {
    /// Reads it.
    ///
    /// # Errors
    /// CONTRIBUTING.md has no such table.
    pub fn read() -> Result<Self> {
        let path = process::root().join("CONTRIBUTING.md");
        Self::parse(&fs::read_to_string(&path)?).context("CONTRIBUTING.md")
    }

    fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines();
        let heading = lines.find(|line| line.starts_with("| step |"));
        let heading = heading.context("it has no table of steps")?;
        let column = cells(heading).position(|cell| cell == COLUMN);
        let column = column.with_context(|| format!("the table has no column '{COLUMN}'"))?;
        let rows = lines
            .skip(1)
            .take_while(|line| line.starts_with('|'))
            .filter_map(|line| {
                let seconds = cells(line).nth(column)?.replace(',', "").parse().ok()?;
                Some((cells(line).next()?.to_owned(), seconds))
            });
        Ok(Self(rows.collect()))
    }

    /// A warning for each step that is above its row by more than a tenth.
    pub fn warnings(&self, steps: &[Timing]) -> Vec<String> {
        let above = steps.iter().filter_map(|step| {
            let (row, cpu) = (*self.0.get(&step.name)?, step.cpu_seconds?);
            let is_above = cpu > row * (1.0 + TOLERANCE) && cpu - row > WORTH_SECONDS;
            is_above.then(|| {
                format!(
                    "step '{}' took {cpu:.0} CPU-seconds; its row in CONTRIBUTING.md says {row:.0}",
                    step.name
                )
            })
        });
        above.collect()
    }
}

fn cells(row: &str) -> impl Iterator<Item = &str> {
    row.trim_matches('|').split('|').map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_a_tenth_above_its_row_is_warned_of() {
        let text = "# Tests\n\n| step | CPU-s before | CPU-s now |\n|---|--:|--:|\n\
                    | tests: build | 967 | 1,000 |\n| lints | 200 | 100 |\n\nend\n";
        let table = Table::parse(text).unwrap();
        let step = |name: &str, cpu| Timing {
            name: name.to_owned(),
            seconds: 1.0,
            cpu_seconds: Some(cpu),
        };
        let steps = [
            step("tests: build", 1_101.0),
            step("lints", 109.0),
            step("new", 500.0),
        ];
        assert_eq!(
            table.warnings(&steps),
            ["step 'tests: build' took 1101 CPU-seconds; its row in CONTRIBUTING.md says 1000"]
        );
        assert!(Table::parse("| step | CPU-s |\n").is_err());
    }

    #[test]
    fn the_table_is_there() {
        let table = Table::read().unwrap();
        assert!(table.0.contains_key("tests: build"), "{:?}", table.0);
    }
}
