//! The tables: one a load, and the claims about two of them; and one of all loads for a page.

use super::case::{Case, Shape};
use super::contestant::Contestant;
use super::{Programs, Run};
use crate::page::{Figures, Marks, Section};
use crate::table::{Table, figure, grouped, joined, significant};
use crate::{machine, stats};

/// The results of a load.
pub struct Record {
    case: Case,
    rows: Vec<Row>,
}

struct Row {
    contestant: Contestant,
    runs: Vec<Run>,
    /// The reason why the contestant could not be measured.
    failure: Option<String>,
}

impl Record {
    pub fn new(case: Case, contestants: &[Contestant]) -> Self {
        let row = |&contestant| Row {
            contestant,
            runs: Vec::new(),
            failure: None,
        };
        Self {
            case,
            rows: contestants.iter().map(row).collect(),
        }
    }

    pub fn take(&mut self, contestant: Contestant, run: Run) {
        if let Some(row) = self.row_mut(contestant) {
            row.runs.push(run);
        }
    }

    pub fn fail(&mut self, contestant: Contestant, failure: String) {
        if let Some(row) = self.row_mut(contestant) {
            row.failure = Some(failure);
        }
    }

    /// True if every call was answered.
    pub fn is_valid(&self) -> bool {
        self.rows
            .iter()
            .all(|row| row.failure.is_none() && row.failed() == 0)
    }

    fn row_mut(&mut self, contestant: Contestant) -> Option<&mut Row> {
        self.rows
            .iter_mut()
            .find(|row| row.contestant == contestant)
    }

    fn row(&self, contestant: Contestant) -> Option<&Row> {
        let mut rows = self.rows.iter();
        rows.find(|row| row.contestant == contestant && !row.runs.is_empty())
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[
            "",
            "a second",
            "caller µs",
            "worker µs",
            "between µs",
            "to tonic",
            "p50 µs",
            "p99 µs",
            "p99.9 µs",
            "HWM MiB",
            "between MiB",
        ]);
        let tonic = self.row(Contestant::Tonic);
        for row in &self.rows {
            if row.runs.is_empty() {
                let mut cells = vec![row.contestant.name().to_owned()];
                cells.resize(11, "n/a".to_owned());
                table.row(cells);
                continue;
            }
            let to_tonic = tonic.map_or(f64::NAN, |tonic| {
                stats::ratio(&row.all(Run::cpu_us), &tonic.all(Run::cpu_us))
            });
            let between = |value: f64| if row.has_between() { value } else { f64::NAN };
            table.row(vec![
                row.contestant.name().to_owned(),
                figure(row.median(|run| run.per_s), 0),
                figure(row.median(|run| run.caller_us), 1),
                figure(row.median(|run| run.worker_us), 1),
                figure(between(row.median(|run| run.between_us)), 1),
                figure(to_tonic, 2),
                figure(row.median(|run| micros(run, 0)), 0),
                figure(row.median(|run| micros(run, 1)), 0),
                figure(row.median(|run| micros(run, 2)), 0),
                figure(row.median(|run| mebibytes(run.peak_bytes.iter().sum())), 0),
                figure(between(row.median(|run| mebibytes(run.between_bytes))), 0),
            ]);
        }
        table
    }
}

impl Record {
    fn add_to(&self, figures: &mut Figures) {
        let cells = |read: fn(&Row) -> String| {
            move |name: &str| {
                let row = self.rows.iter().find(|row| row.contestant.name() == name);
                row.filter(|row| !row.runs.is_empty())
                    .map_or_else(String::new, read)
            }
        };
        let load = self.case.load();
        let (operations, operation) = match self.case.shape {
            Shape::Unary => ("calls", "a call"),
            Shape::Stream => ("items", "an item"),
        };
        figures.row(
            &format!("{load}: {operations} a second ↑"),
            cells(|row| grouped(row.median(|run| run.per_s), 0)),
        );
        figures.row(
            &format!("{load}: CPU of caller and worker, µs {operation} ↓"),
            cells(|row| significant(row.median(Run::cpu_us))),
        );
        figures.row(
            &format!("{load}: CPU of the relay or broker, µs {operation} ↓"),
            cells(|row| match row.has_between() {
                true => significant(row.median(|run| run.between_us)),
                false => String::new(),
            }),
        );
        let ours = self.rows.first().map_or([f64::NAN; 2], Row::quantiles_us);
        // Milliseconds, where microseconds would have five digits.
        match ours[0] >= 10_000.0 {
            true => figures.row(
                &format!("{load}: p50 / p99, ms ↓"),
                cells(|row| joined(&row.quantiles_us(), |us| significant(us / 1_000.0))),
            ),
            false => figures.row(
                &format!("{load}: p50 / p99, µs ↓"),
                cells(|row| joined(&row.quantiles_us(), |us| grouped(us, 0))),
            ),
        }
    }
}

impl Row {
    fn has_between(&self) -> bool {
        matches!(self.contestant, Contestant::SteppeRelay | Contestant::Nats)
    }

    fn quantiles_us(&self) -> [f64; 2] {
        [0, 1].map(|at| self.median(|run| micros(run, at)))
    }

    fn all(&self, read: impl Fn(&Run) -> f64) -> Vec<f64> {
        self.runs.iter().map(read).collect()
    }

    fn median(&self, read: impl Fn(&Run) -> f64) -> f64 {
        stats::median(&self.all(read))
    }

    fn failed(&self) -> u64 {
        self.runs.iter().map(|run| run.failed).sum()
    }
}

impl Run {
    /// CPU of caller and worker together, in microseconds an operation.
    fn cpu_us(&self) -> f64 {
        self.caller_us + self.worker_us
    }
}

#[expect(clippy::cast_precision_loss, reason = "no decimals are told")]
fn micros(run: &Run, at: usize) -> f64 {
    run.quantiles_us[at] as f64
}

#[expect(clippy::cast_precision_loss, reason = "no decimals are told")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

pub fn print(records: &[Record], programs: &Programs) {
    println!("{}\n", machine::describe());
    println!(
        "µs: CPU an operation, of an item where it is a stream; to tonic: CPU of caller and worker; HWM: of both.\n"
    );
    for record in records {
        println!("{}\n{}", record.case, record.table());
        for row in &record.rows {
            if let Some(why) = row.contestant.cannot(record.case) {
                println!("n/a {}: {why}", row.contestant.name());
            }
            if let Some(failure) = &row.failure {
                println!("INVALID {}: {failure}", row.contestant.name());
            }
            if row.failed() > 0 {
                println!(
                    "INVALID {}: {} calls failed",
                    row.contestant.name(),
                    row.failed()
                );
            }
        }
        println!();
    }
    if programs.nats.is_none() {
        println!(
            "skipped nats: nats-server is not installed (Debian: apt-get install nats-server)"
        );
    }
    for line in claims(records) {
        println!("{line}");
    }
}

/// The marks of `docs/performance/plane.md`.
pub const MARKS: Marks<'_> = Marks {
    bench: "plane",
    names: &[NAME],
};

const NAME: &str = "plane";

/// Four rows for each load.
pub fn section(records: &[Record], rounds: usize) -> Section {
    let rows = records.first().map_or(&[][..], |record| &record.rows);
    let columns = rows
        .iter()
        .map(|row| (row.contestant.name(), title(row.contestant)));
    let mut figures = Figures::new("", columns.collect(), &[]);
    for record in records {
        record.add_to(&mut figures);
    }
    Section {
        name: NAME,
        rounds,
        tables: vec![figures.into_table()],
    }
}

/// The heading of a column.
fn title(contestant: Contestant) -> String {
    let locked = |package| {
        let version = locked_version(LOCK, package);
        format!("{package} {}", version.unwrap_or_default())
    };
    match contestant {
        Contestant::Steppe => "Steppe".to_owned(),
        Contestant::SteppeRelay => "by its relay".to_owned(),
        Contestant::Tonic => locked("tonic"),
        Contestant::TonicFour => format!("{}, 4 connections", locked("tonic")),
        Contestant::Tarpc => locked("tarpc"),
        Contestant::Nats => "NATS".to_owned(),
        Contestant::Floor => "floor".to_owned(),
    }
}

/// The lock file of the peers, with their versions.
const LOCK: &str = include_str!("../../plane-peers/Cargo.lock");

/// The first two numbers of a package's version.
fn locked_version(lock: &str, package: &str) -> Option<String> {
    let at = lock.find(&format!("name = \"{package}\"\n"))?;
    let version = lock[at..].split("version = \"").nth(1)?.split('"').next()?;
    let parts: Vec<&str> = version.split('.').take(2).collect();
    Some(parts.join("."))
}

/// Steppe's claims beside tonic on one connection, and whether this run confirms them.
fn claims(records: &[Record]) -> Vec<String> {
    let of = |bytes, read: fn(&Run) -> f64| {
        let is_it = |record: &&Record| {
            let case = record.case;
            case.shape == Shape::Unary && (case.bytes, case.concurrency) == (bytes, 96)
        };
        let record = records.iter().find(is_it)?;
        let (ours, theirs) = (
            record.row(Contestant::Steppe)?,
            record.row(Contestant::Tonic)?,
        );
        Some(stats::ratio(&ours.all(read), &theirs.all(read)))
    };
    let judged = |holds| if holds { "reached" } else { "NOT reached" };
    let mut lines = Vec::new();
    if let Some(ratio) = of(1_000_000, |run| run.per_s) {
        let judged = judged(ratio >= 1.0);
        lines.push(format!(
            "throughput at 96 x 1 MB: {ratio:.2} of tonic's, at least 1 is claimed: {judged}"
        ));
    }
    if let Some(ratio) = of(1_000, Run::cpu_us) {
        let judged = judged(ratio <= 0.7);
        lines.push(format!(
            "CPU a call of 1 KB: {ratio:.2} of tonic's, at most 0.7 is claimed: {judged}"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::page::Page;

    fn run(per_s: f64, cpu_us: f64, failed: u64) -> Run {
        Run {
            caller_us: cpu_us / 2.0,
            worker_us: cpu_us / 2.0,
            between_us: 0.0,
            per_s,
            quantiles_us: [1, 2, 3],
            peak_bytes: [1 << 20, 2 << 20],
            between_bytes: 0,
            failed,
        }
    }

    fn record(bytes: u32, ours: Run, theirs: Run) -> Record {
        let case = Case {
            shape: Shape::Unary,
            bytes,
            concurrency: 96,
        };
        let mut record = Record::new(case, &[Contestant::Steppe, Contestant::Tonic]);
        record.take(Contestant::Steppe, ours);
        record.take(Contestant::Tonic, theirs);
        record
    }

    #[test]
    fn claims_are_judged_by_the_run() {
        let good = [
            record(1_000_000, run(20.0, 1.0, 0), run(10.0, 1.0, 0)),
            record(1_000, run(1.0, 2.0, 0), run(1.0, 10.0, 0)),
        ];
        let lines = claims(&good);
        assert!(
            lines[0].contains("2.00") && lines[0].ends_with(": reached"),
            "{lines:?}"
        );
        assert!(
            lines[1].contains("0.20") && lines[1].ends_with(": reached"),
            "{lines:?}"
        );
        let bad = [
            record(1_000_000, run(9.0, 1.0, 0), run(10.0, 1.0, 0)),
            record(1_000, run(1.0, 8.0, 0), run(1.0, 10.0, 0)),
        ];
        assert!(
            claims(&bad)
                .iter()
                .all(|line| line.ends_with("NOT reached"))
        );
        assert!(claims(&[]).is_empty());
    }

    #[test]
    fn calls_that_fail_make_it_invalid() {
        assert!(record(1, run(1.0, 1.0, 0), run(1.0, 1.0, 0)).is_valid());
        assert!(!record(1, run(1.0, 1.0, 1), run(1.0, 1.0, 0)).is_valid());
        let mut record = record(1, run(1.0, 1.0, 0), run(1.0, 1.0, 0));
        record.fail(Contestant::Tonic, "gone".to_owned());
        assert!(!record.is_valid());
    }

    #[test]
    fn the_page_has_rows_for_each_load_that_differ_in_their_unit() {
        let mut slow = run(10.0, 1.5, 0);
        slow.quantiles_us = [44_120, 73_000, 90_000];
        let records = [
            record(1_000, run(271_854.0, 4.7, 0), run(70_374.0, 20.2, 0)),
            record(1_000_000, slow, slow),
        ];
        let section = section(&records, 5);
        let text = section.tables[0].to_markdown();
        let tonic = title(Contestant::Tonic);
        assert!(tonic.starts_with("tonic 0."), "{tonic}");
        let expected = format!(
            "|  | Steppe | {tonic} |\n| --- | ---: | ---: |\n\
             | 1 KB: calls a second ↑ | 271,854 | 70,374 |\n\
             | 1 KB: CPU of caller and worker, µs a call ↓ | 4.70 | 20.2 |\n\
             | 1 KB: p50 / p99, µs ↓ | 1 / 2 | 1 / 2 |\n\
             | 1 MB: calls a second ↑ | 10 | 10 |\n\
             | 1 MB: CPU of caller and worker, µs a call ↓ | 1.50 | 1.50 |\n\
             | 1 MB: p50 / p99, ms ↓ | 44.1 / 73.0 | 44.1 / 73.0 |\n"
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn a_contestant_without_figures_has_a_row() {
        let mut record = record(1_000, run(1.0, 2.0, 0), run(1.0, 10.0, 0));
        record.rows[0].runs.clear();
        let table = record.table().to_string();
        assert!(table.contains("n/a") && table.contains("1.00"), "{table}");
    }

    #[test]
    fn the_committed_page_has_the_marks() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/performance/plane.md");
        Page::open(Path::new(page), &MARKS, MARKS.names).expect("it has all of them");
    }
}
