//! Tables of a run: one a case, and the targets with what was measured.

use super::case::Case;
use super::peer::{Contestant, Peer};
use super::plan::{Plan, Traced};
use super::record::{Record, Records};
use super::targets;
use super::unit::{megabytes, rate, small};
use crate::before::comparison::{self, Comparison};
use crate::machine;
use crate::table::{Table, figure};

/// Everything that is told.
pub struct Report<'a> {
    pub records: &'a Records,
    pub contestants: &'a [Contestant],
    /// Allocators that could not be had, with the reason.
    pub skipped: &'a [String],
    pub plan: &'a Plan,
    pub machine: &'a str,
}

impl Report<'_> {
    /// For a terminal.
    pub fn print(&self) {
        self.print_header();
        for &case in &self.plan.cases {
            println!("\n{}", case.title());
            println!("{}", self.reference(case));
            println!("\n{}", self.case_table(case));
        }
        let comparisons = self.comparisons();
        if comparisons.is_empty() {
            println!("Targets");
            println!("Information: nothing fails by them.\n");
            println!("{}", self.target_table());
        } else {
            println!("Old and new: CPU and instructions an operation\n");
            println!("{}", comparison::table(&comparisons));
            print!("{}", comparison::verdicts(&comparisons));
        }
        for failure in self.records.failures() {
            println!("FAILED {failure}");
        }
    }

    /// Today's library to that of another commit; empty without `--before`.
    fn comparisons(&self) -> Vec<Comparison> {
        let of_case = |&case: &Case| {
            let peers = self.contestants.iter().map(|contestant| contestant.peer);
            peers.filter_map(move |peer| self.records.to_before(case, peer))
        };
        self.plan.cases.iter().flat_map(of_case).collect()
    }

    fn print_header(&self) {
        println!("{}; {}", machine::date(), self.machine);
        println!(
            "medians of {} interleaved rounds at scale {}; in brackets a 95 % interval of the median \
             ratio (bootstrap over rounds)",
            self.plan.rounds, self.plan.scale
        );
        let named = |contestant: &Contestant| {
            let setting = contestant.peer.setting();
            let setting = setting.map(|(name, value)| format!(", {name}={value}"));
            let (name, version) = (contestant.peer.name(), &contestant.version);
            format!("{name} {version}{}", setting.unwrap_or_default())
        };
        let named: Vec<String> = self.contestants.iter().map(named).collect();
        println!("{}", named.join("; "));
        for reason in self.skipped {
            println!("skipped {reason}");
        }
    }

    fn reference(&self, case: Case) -> String {
        let operation = case.operation();
        match self.records.best_mimalloc(case) {
            Some(best) => format!("one operation: {operation}; best mimalloc: {}", best.name()),
            None => format!("one operation: {operation}; no mimalloc to compare with"),
        }
    }

    fn case_table(&self, case: Case) -> Table {
        let mut header = vec!["allocator", "op/CPU s", "to best mimalloc"];
        if self.plan.traced != Traced::Nothing {
            header.extend(["instr/op", "calls/op"]);
        }
        header.extend(memory_columns(case));
        let mut table = Table::new(&header);
        for contestant in self.contestants {
            let peer = contestant.peer;
            let Some(record) = self.records.of(case, peer) else {
                continue;
            };
            let mut row = vec![
                peer.name().to_owned(),
                rate(record.rate()),
                self.ratio(case, peer),
            ];
            if self.plan.traced != Traced::Nothing {
                row.push(figure(record.instructions.median(), 1));
                row.push(record.syscalls.map_or_else(|| "-".to_owned(), small));
            }
            row.extend(memory_cells(case, record));
            table.row(row);
        }
        table
    }

    fn ratio(&self, case: Case, peer: Peer) -> String {
        let ratio = self.records.to_best_mimalloc(case, peer);
        ratio.map_or_else(|| "-".to_owned(), |ratio| ratio.to_string())
    }

    fn target_table(&self) -> Table {
        let mut table = Table::new(&["target", "wanted", "measured", ""]);
        let of_this_run = |target: &targets::Target| self.plan.cases.contains(&target.case);
        for target in targets::all(self.records).into_iter().filter(of_this_run) {
            let word = match target.is_held {
                Some(true) => "held",
                Some(false) => "short",
                None => "not measured",
            };
            table.row(vec![
                target.name,
                target.wanted,
                target.measured,
                word.to_owned(),
            ]);
        }
        table
    }
}

/// Memory is in MB (10^6 bytes), anonymous and resident.
fn memory_columns(case: Case) -> &'static [&'static str] {
    match case {
        Case::Server => &[
            "peak MB",
            "end of load",
            "idle 2 s",
            "light work",
            "all freed",
            "CPU s",
        ],
        Case::Compile | Case::Sqlite => &["peak MB"],
        Case::Churn => &["first tenth MB", "end", "peak", "idle"],
        Case::Freeing => &["held MB", "held/live", "peak", "idle"],
        _ => &["held MB", "peak", "idle"],
    }
}

fn memory_cells(case: Case, record: &Record) -> Vec<String> {
    let (held, peak) = (megabytes(record.held_kib()), megabytes(record.peak_kib()));
    let idle = megabytes(record.idle_kib());
    match case {
        Case::Server => vec![
            peak,
            held,
            idle,
            megabytes(record.mark_kib("light")),
            megabytes(record.mark_kib("freed")),
            figure(record.cpu_seconds(), 2),
        ],
        Case::Compile | Case::Sqlite => vec![peak],
        Case::Churn => vec![megabytes(record.mark_kib("tenth")), held, peak, idle],
        Case::Freeing => vec![held, figure(record.held_to_live(), 2), peak, idle],
        _ => vec![held, peak, idle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_of_memory_has_its_cell() {
        for case in <Case as clap::ValueEnum>::value_variants() {
            let cells = memory_cells(*case, &Record::default());
            assert_eq!(cells.len(), memory_columns(*case).len(), "{case:?}");
        }
    }
}
