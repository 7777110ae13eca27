//! The tables of the allocators for `docs/performance/malloc.md`: a row for each case of the run.

use super::case::Case;
use super::peer::{Contestant, Peer};
use super::record::{Record, Records};
use crate::page::{Figures, Marks, Section, heading};
use crate::table::{joined, significant};

/// The marks of the page.
pub const MARKS: Marks<'_> = Marks {
    bench: "malloc",
    names: &[THROUGHPUT, MEMORY, INSTRUCTIONS, IDLE],
};

pub const THROUGHPUT: &str = "malloc throughput";
pub const MEMORY: &str = "malloc memory";
pub const INSTRUCTIONS: &str = "malloc instructions";
pub const IDLE: &str = "malloc idle";

/// All that was measured of these cases.
pub struct Pages<'a> {
    pub cases: &'a [Case],
    pub contestants: &'a [Contestant],
    pub records: &'a Records,
    pub rounds: usize,
}

/// A row of memory: the end of its label, and its figures in MB.
type Memory = (&'static str, fn(&Record) -> Vec<f64>);

impl Pages<'_> {
    /// The sections of these names.
    pub fn sections(&self, names: &[&'static str]) -> Vec<Section> {
        let section = |&name| Section {
            name,
            rounds: self.rounds,
            tables: vec![match name {
                THROUGHPUT => self.throughput().into_table(),
                MEMORY => self.memory().into_table(),
                _ => self.instructions().into_table(),
            }],
        };
        names.iter().map(section).collect()
    }

    fn figures(&self, corner: &str) -> Figures {
        let columns = self.contestants.iter();
        let columns = columns.map(|contestant| (contestant.peer.name(), title(contestant)));
        Figures::new(corner, columns.collect(), &[])
    }

    fn cells(&self, case: Case, write: impl Fn(&Record) -> String) -> impl Fn(&str) -> String {
        move |name: &str| {
            let mut contestants = self.contestants.iter();
            let contestant = contestants.find(|contestant| contestant.peer.name() == name);
            let record = contestant.and_then(|it| self.records.of(case, it.peer));
            record.map_or_else(String::new, &write)
        }
    }

    fn throughput(&self) -> Figures {
        let mut figures = self.figures("operations a second of CPU time ↑");
        for &case in self.cases {
            let records = self.contestants.iter();
            let rates = records.filter_map(|it| Some(self.records.of(case, it.peer)?.rate()));
            let (unit, divisor) = match rates.fold(0.0, f64::max) {
                1e6.. => (", M", 1e6),
                1e3.. => (", k", 1e3),
                _ => ("", 1.0),
            };
            figures.row(
                &format!("{}{unit}", case.label()),
                self.cells(case, |record| significant(record.rate() / divisor)),
            );
        }
        figures
    }

    fn memory(&self) -> Figures {
        let mut figures = self.figures("anonymous resident memory, MB ↓");
        for &case in self.cases {
            for (what, read) in memory(case) {
                figures.row(
                    &format!("{}: {what}", case.label()),
                    self.cells(case, |record| {
                        joined(&read(record), |kib| significant(kib * 1_024.0 / 1e6))
                    }),
                );
            }
        }
        figures
    }

    fn instructions(&self) -> Figures {
        let mut figures = self.figures("instructions an operation ↓");
        for &case in self.cases.iter().filter(|case| !case.is_of_programs()) {
            figures.row(
                case.label(),
                self.cells(case, |record| significant(record.instructions.median())),
            );
        }
        figures
    }
}

fn memory(case: Case) -> &'static [Memory] {
    match case {
        Case::Server => &[
            ("peak", |record| vec![record.peak_kib()]),
            ("2 s after the load", |record| vec![record.idle_kib()]),
            ("all freed", |record| vec![record.mark_kib("freed")]),
        ],
        Case::Compile | Case::Sqlite => {
            &[("peak, files included", |record| vec![record.peak_kib()])]
        }
        Case::Churn => &[("a tenth in / end", |record| {
            vec![record.mark_kib("tenth"), record.held_kib()]
        })],
        _ => &[("held / 2 s idle", |record| {
            vec![record.held_kib(), record.idle_kib()]
        })],
    }
}

/// The heading of a column: a profile, or an allocator with its version.
pub fn title(contestant: &Contestant) -> String {
    let versioned = |product| heading(product, &contestant.version, 3);
    match contestant.peer {
        Peer::SteppeBalanced => "balanced".to_owned(),
        Peer::SteppeSpeed => "speed".to_owned(),
        Peer::SteppeLean => "lean".to_owned(),
        peer if peer.is_mimalloc() => versioned("mimalloc"),
        Peer::JemallocBg => format!("{}, its thread", versioned("jemalloc")),
        Peer::RustyAlloc => versioned("rusty_alloc"),
        peer => versioned(peer.name()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use anyhow::anyhow;

    use super::super::run::Figures as Run;
    use super::*;
    use crate::page::Page;

    fn contestant(peer: Peer, version: &str) -> Contestant {
        Contestant {
            peer,
            version: version.to_owned(),
            library: None,
        }
    }

    #[test]
    fn a_row_has_one_unit_and_what_failed_is_empty() {
        let cases = [Case::Larson, Case::Server];
        let contestants = [
            contestant(Peer::SteppeBalanced, "of this checkout"),
            contestant(Peer::Mimalloc3, "3.3.2"),
        ];
        let mut records = Records::new(&cases, &contestants);
        let run = Run {
            operations: 351_000_000,
            cpu_us: 1_000_000,
            marks_kib: [("live".to_owned(), 3_984), ("idle".to_owned(), 1_250)].into(),
            ..Run::default()
        };
        records.add(Case::Larson, Peer::SteppeBalanced, Ok(run));
        records.add(Case::Larson, Peer::Mimalloc3, Err(anyhow!("crashed")));
        records.add_instructions(Case::Larson, Peer::Mimalloc3, 7_342.0);
        let pages = Pages {
            cases: &cases,
            contestants: &contestants,
            records: &records,
            rounds: 1,
        };
        let sections = pages.sections(&[THROUGHPUT, MEMORY, INSTRUCTIONS]);
        let texts: Vec<String> = sections
            .iter()
            .map(|section| section.tables[0].to_markdown())
            .collect();
        let head = |corner: &str| {
            format!("| {corner} | balanced | mimalloc 3.3.2 |\n| --- | ---: | ---: |\n")
        };
        let throughput = head("operations a second of CPU time ↑");
        assert_eq!(
            texts[0],
            throughput + "| Larson-like, 2 threads, M | 351 |  |\n"
        );
        let memory = head("anonymous resident memory, MB ↓");
        assert_eq!(
            texts[1],
            memory + "| Larson-like, 2 threads: held / 2 s idle | 4.08 / 1.28 |  |\n"
        );
        let instructions = head("instructions an operation ↓");
        assert_eq!(
            texts[2],
            instructions + "| Larson-like, 2 threads |  | 7,342 |\n"
        );
    }

    #[test]
    fn the_committed_page_has_the_marks() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/performance/malloc.md");
        Page::open(Path::new(page), &MARKS, MARKS.names).expect("it has all of them");
    }
}
