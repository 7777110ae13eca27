//! Interim looks at a run with `until = "decided"`: a decided series stays decided, and an open one goes on.
//!
//! Invariant: an outcome is never better than the last look allows. A series that was STABLE at a look stays
//! STABLE only while all points so far are STABLE at the level of that look, and the slopes of the whole and of
//! the last half are within the limit: only the wider intervals of a later look may be the reason that the series
//! is open. [`crate::stats::Look`] has the level of each look. Left out: when a look is due (`run`).

use std::collections::BTreeMap;

use crate::record::{Finding, LookOutcome, Outcome, VariantVerdict};
use crate::stats::Look;

use super::worst;

/// Outcomes of the looks at one variant so far.
#[derive(Debug, Default)]
pub struct Looked {
    outcomes: Vec<LookOutcome>,
    /// Number of the look that found a series STABLE, by metric.
    stable_since: BTreeMap<String, u32>,
}

/// Decision of a look: to go on or to end the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// A series is open, and more epochs may decide it.
    Open,
    /// Every series is decided.
    Decided,
    /// The metric with this name has failed for good: further epochs can't make the verdict better.
    Failed(String),
}

impl Looked {
    /// Number of looks so far.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.outcomes.len()).unwrap_or(u32::MAX)
    }

    /// Takes the verdict of a single look, and turns it into that of all looks so far. `judge` returns the verdict of
    /// an earlier look on all measurements until now.
    pub fn take(
        &mut self,
        (look, epochs): (Look, u64),
        verdict: &mut VariantVerdict,
        judge: impl Fn(Look) -> Option<VariantVerdict>,
    ) -> Decision {
        let mut again = BTreeMap::new();
        for finding in verdict.findings.iter_mut().filter(|it| is_tested(it)) {
            self.carry(look, finding, |earlier, metric| {
                let verdict = again
                    .entry(earlier.number)
                    .or_insert_with(|| judge(earlier));
                let findings = &verdict.as_ref()?.findings;
                findings.iter().find(|it| it.metric == metric).cloned()
            });
        }
        verdict.outcome = worst(&verdict.findings);
        let open: Vec<String> = verdict
            .findings
            .iter()
            .filter(|finding| is_tested(finding) && is_open(finding))
            .map(|finding| finding.metric.clone())
            .collect();
        let failed = verdict.findings.iter().find(|finding| is_final(finding));
        let decision = match failed {
            Some(finding) => Decision::Failed(finding.metric.clone()),
            None if open.is_empty() => Decision::Decided,
            None => Decision::Open,
        };
        self.outcomes.push(LookOutcome {
            number: look.number,
            of: look.of,
            epochs,
            runs: verdict.runs,
            outcome: verdict.outcome,
            open,
        });
        verdict.looks.clone_from(&self.outcomes);
        decision
    }

    /// Keeps a series STABLE that an earlier look found STABLE, unless another reason than the level of this look has
    /// opened it.
    fn carry(
        &mut self,
        look: Look,
        finding: &mut Finding,
        mut judge: impl FnMut(Look, &str) -> Option<Finding>,
    ) {
        if finding.outcome == Outcome::Stable {
            self.stable_since
                .entry(finding.metric.clone())
                .or_insert(look.number);
            return;
        }
        let since = self.stable_since.get(&finding.metric);
        let since =
            since.filter(|_| finding.outcome == Outcome::Inconclusive && is_within(finding));
        let kept = since.and_then(|since| {
            let earlier = Look {
                number: *since,
                of: look.of,
            };
            let mut kept = judge(earlier, &finding.metric)?;
            kept.notes
                .push(format!("decided at look {since} of {}", look.of));
            Some(kept).filter(|kept| kept.outcome == Outcome::Stable)
        });
        match kept {
            Some(kept) => *finding = kept,
            None => _ = self.stable_since.remove(&finding.metric),
        }
    }
}

/// True for a finding on drift that has a value and a limit.
fn is_tested(finding: &Finding) -> bool {
    finding.is_drift() && finding.limit.is_some() && finding.value.is_some()
}

fn is_open(finding: &Finding) -> bool {
    [Outcome::Inconclusive, Outcome::Growing].contains(&finding.outcome)
}

/// True if the estimated slopes are within the limit, however wide their intervals.
fn is_within(finding: &Finding) -> bool {
    let slopes = [finding.value, finding.last_half];
    finding
        .limit
        .is_some_and(|limit| slopes.iter().flatten().all(|it| it.estimate <= limit))
}

/// True for drift that is an alarm, and for a figure over its limit that can only rise.
fn is_final(finding: &Finding) -> bool {
    match finding.outcome {
        Outcome::Unbounded | Outcome::Leak => true,
        Outcome::NoGo => MOST.contains(&finding.metric.as_str()),
        _ => false,
    }
}

/// Figures that can only rise during a run: counts and peaks.
const MOST: [&str; 6] = [
    "rss",
    "hwm",
    "load_hwm",
    "errors",
    "close_wait",
    "open_files",
];

#[cfg(test)]
mod tests {
    use super::super::{exactly, figure};
    use super::*;

    fn look(number: u32) -> Look {
        Look { number, of: 5 }
    }

    fn variant(findings: Vec<Finding>) -> VariantVerdict {
        VariantVerdict {
            name: "default".to_owned(),
            outcome: Outcome::Inconclusive,
            expect: None,
            runs: 1,
            findings,
            leaks: Vec::new(),
            growing: Vec::new(),
            looks: Vec::new(),
        }
    }

    /// A `judge` that must not be called.
    fn never(look: Look) -> Option<VariantVerdict> {
        panic!("nothing is to be judged again, as at look {}", look.number)
    }

    fn finding(metric: &str, outcome: Outcome, slope: f64) -> Finding {
        Finding {
            outcome,
            last_half: Some(exactly(slope)),
            ..figure(metric, "MiB/day", Some(slope), Some(10.0))
        }
    }

    #[test]
    fn it_goes_on_while_a_series_is_open_and_each_look_is_kept() {
        let mut looked = Looked::default();
        let mut first = variant(vec![
            finding("rss_growth", Outcome::Stable, 1.0),
            finding("p50_growth", Outcome::Inconclusive, 8.0),
        ]);
        assert_eq!(
            looked.take((look(1), 50), &mut first, never),
            Decision::Open
        );
        assert_eq!(first.looks[0].open, ["p50_growth"]);
        // A decided series is not opened again by a bound at the level of another look.
        let mut second = variant(vec![
            finding("rss_growth", Outcome::Inconclusive, 2.0),
            finding("p50_growth", Outcome::Stable, 3.0),
        ]);
        let at_the_first = |earlier| {
            assert_eq!(earlier, look(1));
            let told = Finding {
                notes: vec!["it is told".to_owned()],
                ..finding("rss_growth", Outcome::Stable, 2.0)
            };
            Some(variant(vec![told]))
        };
        assert_eq!(
            looked.take((look(2), 110), &mut second, at_the_first),
            Decision::Decided
        );
        assert_eq!(second.outcome, Outcome::Stable);
        assert_eq!(
            second.findings[0].notes,
            ["it is told", "decided at look 1 of 5"]
        );
        let told: Vec<_> = second
            .looks
            .iter()
            .map(|it| (it.number, it.epochs))
            .collect();
        assert_eq!(told, [(1, 50), (2, 110)]);
        assert_eq!(looked.count(), 2);
    }

    #[test]
    fn what_grows_after_it_was_stable_is_open_again() {
        let mut looked = Looked::default();
        let mut first = variant(vec![finding("rss_growth", Outcome::Stable, 1.0)]);
        assert_eq!(
            looked.take((look(1), 50), &mut first, never),
            Decision::Decided
        );
        let late = Finding {
            last_half: Some(exactly(30.0)),
            ..finding("rss_growth", Outcome::Inconclusive, 9.0)
        };
        let mut second = variant(vec![late]);
        assert_eq!(
            looked.take((look(2), 100), &mut second, never),
            Decision::Open
        );
        assert_eq!(second.outcome, Outcome::Inconclusive);
    }

    /// Such a series has risen, its growth was too small to detect, its alarm was withdrawn, or the machine changed.
    #[test]
    fn what_is_open_at_the_level_of_its_look_as_well_is_open_again() {
        let mut looked = Looked::default();
        let mut first = variant(vec![finding("rss_growth", Outcome::Stable, 1.0)]);
        assert_eq!(
            looked.take((look(1), 50), &mut first, never),
            Decision::Decided
        );
        let open = Finding {
            notes: vec!["why".to_owned()],
            ..finding("rss_growth", Outcome::Inconclusive, 0.0)
        };
        let mut second = variant(vec![open.clone()]);
        let again = |_| Some(variant(vec![open.clone()]));
        assert_eq!(
            looked.take((look(2), 100), &mut second, again),
            Decision::Open
        );
        assert_eq!(second.findings[0].outcome, Outcome::Inconclusive);
        assert_eq!(second.findings[0].notes, ["why"]);
    }

    #[test]
    fn it_ends_at_what_nothing_makes_better() {
        let end =
            |finding| Looked::default().take((look(1), 50), &mut variant(vec![finding]), never);
        let failed = |metric: &str| Decision::Failed(metric.to_owned());
        let of = |metric, outcome| end(finding(metric, outcome, 20.0));
        assert_eq!(of("rss_growth", Outcome::Unbounded), failed("rss_growth"));
        assert_eq!(of("live_growth", Outcome::Leak), failed("live_growth"));
        assert_eq!(of("errors", Outcome::NoGo), failed("errors"));
        // A percentile may fall again, and growth may stop.
        assert_eq!(of("p99", Outcome::NoGo), Decision::Decided);
        assert_eq!(of("rss_growth", Outcome::Growing), Decision::Open);
    }

    #[test]
    fn what_can_not_be_seen_is_not_waited_for() {
        let unseen = figure("live_growth", "MiB/day", None, Some(10.0));
        let unseen = Finding {
            outcome: Outcome::Inconclusive,
            ..unseen
        };
        let mut verdict = variant(vec![unseen]);
        assert_eq!(
            Looked::default().take((look(1), 50), &mut verdict, never),
            Decision::Decided
        );
        assert_eq!(verdict.outcome, Outcome::Inconclusive);
    }
}
