//! Rounds of all cases under all allocators, and the counts after them.

use anyhow::Result;

use super::case::Case;
use super::peer::Contestant;
use super::plan::{Plan, Traced};
use super::record::{Record, Records};
use super::run::{Figures, Launcher};
use super::trace;
use crate::before::schedule::Schedule;

/// The rounds' common arguments.
pub struct Rounds<'a> {
    pub launcher: &'a Launcher,
    pub contestants: &'a [Contestant],
    pub plan: &'a Plan,
}

impl Rounds<'_> {
    /// Each case runs all allocators before the next begins: pairs are as close in time as can be.
    pub async fn run(&self, mut schedule: Schedule, records: &mut Records) {
        for round in 0..self.plan.rounds {
            for &case in &self.plan.cases {
                let order = schedule.order(self.contestants.len(), round);
                for contestant in order.into_iter().map(|index| &self.contestants[index]) {
                    let outcome = self.run_one(contestant, case, round).await;
                    records.add(case, contestant.peer, outcome);
                }
            }
        }
    }

    async fn run_one(&self, contestant: &Contestant, case: Case, round: usize) -> Result<Figures> {
        let (plan, name) = (self.plan, contestant.peer.name());
        let (count, case_name) = (plan.rounds, case.name());
        eprint!(
            "round {} of {count}: {case_name:<14} {name:<16} ",
            round + 1
        );
        // Waiting for idle memory takes seconds: once is enough where it is not the case itself.
        let is_measured = round == 0 || case.is_about_silence();
        let pause = if is_measured { PAUSE_MS } else { 0 };
        let units = case.units(plan.scale);
        let outcome = self.launcher.run(contestant, case, units, pause).await;
        match &outcome {
            Ok(figures) => eprintln!("{}", figures.describe()),
            Err(error) => eprintln!("{error:#}"),
        }
        outcome
    }

    /// Counts what each case does, after the rounds.
    pub async fn count(&self, records: &mut Records) {
        let cases = self.plan.cases.iter();
        for &case in cases.filter(|case| !case.is_of_programs()) {
            if self.plan.traced != Traced::Nothing {
                self.count_instructions(case, records).await;
            }
            if self.plan.traced == Traced::InstructionsAndSyscalls {
                self.count_syscalls(case, records).await;
            }
        }
    }

    /// Once, or for a verdict on two builds until the counts of each allocator have settled.
    async fn count_instructions(&self, case: Case, records: &mut Records) {
        let mut left: Vec<&Contestant> = self.contestants.iter().collect();
        while !left.is_empty() {
            let mut again = Vec::new();
            for contestant in left {
                let (peer, case_name) = (contestant.peer, case.name());
                eprint!("counting: {case_name:<14} {:<16} ", peer.name());
                let counted = trace::instructions(self.launcher, contestant, case).await;
                eprintln!("{}", said(&counted, "instructions"));
                let Ok(count) = counted else {
                    continue;
                };
                records.add_instructions(case, peer, count);
                let is_settled = records.of(case, peer).is_none_or(Record::is_settled);
                if self.plan.traced == Traced::Instructions && !is_settled {
                    again.push(contestant);
                }
            }
            left = again;
        }
    }

    async fn count_syscalls(&self, case: Case, records: &mut Records) {
        for contestant in self.contestants {
            let (peer, case_name) = (contestant.peer, case.name());
            eprint!("counting: {case_name:<14} {:<16} ", peer.name());
            let counted = trace::syscalls(self.launcher, contestant, case, self.plan.scale).await;
            eprintln!("{}", said(&counted, "calls"));
            if let Ok(count) = counted {
                records.add_syscalls(case, peer, count);
            }
        }
    }
}

/// Between the end of work and the reading of idle memory.
const PAUSE_MS: u64 = 2_000;

fn said(counted: &Result<f64>, what: &str) -> String {
    match counted {
        Ok(each) => format!("{each:.3e} {what} an operation"),
        Err(error) => format!("no {what}: {error:#}"),
    }
}
