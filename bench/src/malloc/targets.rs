//! The allocator's targets, beside the figures of a run.
//!
//! Invariant: nothing depends on a target; a bench prints figures and never fails on them.

use clap::ValueEnum;

use super::case::Case;
use super::peer::Peer;
use super::record::{Record, Records};
use super::unit::megabytes;

/// A line of the summary.
pub struct Target {
    pub case: Case,
    pub name: String,
    pub wanted: String,
    pub measured: String,
    /// `None` where the run lacks a case or an allocator for the target.
    pub is_held: Option<bool>,
}

/// All targets, in the order of the cases.
pub fn all(records: &Records) -> Vec<Target> {
    let mut targets = vec![
        rate(records, Case::Random400, 1.03),
        random_memory(records),
        rate(records, Case::Random8192, 1.0),
        rate(records, Case::Random100000, 1.0),
        rate(records, Case::Larson, 1.0),
        rate(records, Case::Handover, 1.0),
        idle_server(records),
        server_cpu(records),
        churn(records),
        freeing(records),
    ];
    targets.extend(
        Case::value_variants()
            .iter()
            .map(|&case| lean(records, case)),
    );
    targets.extend(
        Case::value_variants()
            .iter()
            .map(|&case| speed(records, case)),
    );
    targets
}

/// The target of a profile in a case; `found` is `None` where the run lacks it.
fn target(
    profile: &str,
    case: Case,
    wanted: impl Into<String>,
    found: Option<(String, bool)>,
) -> Target {
    let (measured, is_held) = found.map_or_else(
        || ("-".to_owned(), None),
        |(measured, is_held)| (measured, Some(is_held)),
    );
    Target {
        case,
        name: format!("{profile}, {}", case.name()),
        wanted: wanted.into(),
        measured,
        is_held,
    }
}

fn rate(records: &Records, case: Case, least: f64) -> Target {
    let ratio = records.to_best_mimalloc(case, Peer::SteppeBalanced);
    target(
        "balanced",
        case,
        format!("rate ≥ {least:.2} × best mimalloc"),
        ratio.map(|ratio| (format!("{:.3}", ratio.median), ratio.median >= least)),
    )
}

fn random_memory(records: &Records) -> Target {
    let held = figure_of(
        records,
        Case::Random400,
        Peer::SteppeBalanced,
        Record::held_kib,
    );
    target(
        "balanced",
        Case::Random400,
        "held ≤ 0.6 MB",
        held.map(|kib| (format!("{} MB", megabytes(kib)), kib * 1024.0 <= 0.6e6)),
    )
}

fn idle_server(records: &Records) -> Target {
    let idle = |peer| figure_of(records, Case::Server, peer, Record::idle_kib);
    let beside = idle(Peer::JemallocBg)
        .map(|kib| format!(" (jemalloc-bg {})", megabytes(kib)))
        .unwrap_or_default();
    target(
        "balanced",
        Case::Server,
        "2 s after load ≤ 22 MB",
        idle(Peer::SteppeBalanced).map(|kib| {
            (
                format!("{} MB{beside}", megabytes(kib)),
                kib * 1024.0 <= 22e6,
            )
        }),
    )
}

fn server_cpu(records: &Records) -> Target {
    let seconds = |peer| figure_of(records, Case::Server, peer, Record::cpu_seconds);
    let fastest = Peer::value_variants()
        .iter()
        .filter_map(|&peer| Some((seconds(peer)?, peer)))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let found = seconds(Peer::SteppeBalanced)
        .zip(fastest)
        .map(|(ours, (least, peer))| {
            let ratio = ours / least;
            (format!("{ratio:.2} × {}", peer.name()), ratio <= 1.2)
        });
    target("balanced", Case::Server, "CPU ≤ 1.2 × the fastest", found)
}

fn churn(records: &Records) -> Target {
    let at = |name| {
        figure_of(records, Case::Churn, Peer::SteppeBalanced, |record| {
            record.mark_kib(name)
        })
    };
    let found = at("tenth").zip(at("live")).map(|(tenth, end)| {
        let ratio = end / tenth;
        (format!("{ratio:.2}"), ratio <= 1.1)
    });
    target("balanced", Case::Churn, "end ≤ 1.1 × first tenth", found)
}

fn freeing(records: &Records) -> Target {
    let held = figure_of(
        records,
        Case::Freeing,
        Peer::SteppeBalanced,
        Record::held_to_live,
    );
    target(
        "balanced",
        Case::Freeing,
        "held ≤ 1.3 × live",
        held.map(|ratio| (format!("{ratio:.2}"), ratio <= 1.3)),
    )
}

/// A figure of a record.
type Of = fn(&Record) -> f64;

/// The mark with the highest ratio of lean's memory to its bound, which depends on glibc's memory.
fn lean(records: &Records, case: Case) -> Target {
    let points: [(&str, Of); 3] = [
        ("held", Record::held_kib),
        ("peak", Record::peak_kib),
        ("idle", Record::idle_kib),
    ];
    let over = |(name, figure): &(&'static str, Of)| {
        let ours = figure_of(records, case, Peer::SteppeLean, figure)?;
        let theirs = figure_of(records, case, Peer::Glibc, figure)?;
        let allowed = (theirs + 512.0).max(theirs * 1.1);
        Some((ours / allowed, *name, ours, theirs))
    };
    let worst = points
        .iter()
        .filter_map(over)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    target(
        "lean",
        case,
        "≤ glibc + 512 KB or × 1.1",
        worst.map(|(share, name, ours, theirs)| {
            let measured = format!("{name} {} MB, glibc {}", megabytes(ours), megabytes(theirs));
            (measured, share <= 1.0)
        }),
    )
}

fn speed(records: &Records, case: Case) -> Target {
    let ratio = records.to_best_mimalloc(case, Peer::SteppeSpeed);
    target(
        "speed",
        case,
        "interval above 0.97 × best mimalloc",
        ratio.map(|ratio| (ratio.to_string(), ratio.low >= 0.97)),
    )
}

fn figure_of(
    records: &Records,
    case: Case,
    peer: Peer,
    figure: impl Fn(&Record) -> f64,
) -> Option<f64> {
    let value = figure(records.of(case, peer)?);
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::malloc::run::Figures;

    fn add(records: &mut Records, peer: Peer, operations: u64, held: u64) {
        let figures = Figures {
            operations,
            cpu_us: 1_000_000,
            peak_kib: held,
            marks_kib: [("live".to_owned(), held)].into(),
            ..Figures::default()
        };
        records.add(Case::Random400, peer, Ok(figures));
    }

    fn found(records: &Records, name: &str, wanted: &str) -> Option<bool> {
        let targets = all(records);
        let mut matching = targets
            .iter()
            .filter(|target| target.name == name && target.wanted.starts_with(wanted));
        matching.next().expect("it is a target").is_held
    }

    #[test]
    fn what_was_not_run_is_neither_held_nor_short() {
        let records = Records::new(&[], &[]);
        assert!(all(&records).iter().all(|target| target.is_held.is_none()));
    }

    #[test]
    fn lean_may_hold_half_a_megabyte_more_than_glibc() {
        let mut records = Records::new(&[], &[]);
        add(&mut records, Peer::Glibc, 100, 400);
        add(&mut records, Peer::SteppeLean, 100, 912);
        assert_eq!(found(&records, "lean, random-400", ""), Some(true));
        add(&mut records, Peer::SteppeLean, 100, 1_500);
        assert_eq!(found(&records, "lean, random-400", ""), Some(false));
    }

    #[test]
    fn a_rate_is_held_against_the_best_mimalloc() {
        let mut records = Records::new(&[], &[]);
        add(&mut records, Peer::Mimalloc2, 90, 500);
        add(&mut records, Peer::Mimalloc3, 100, 4_000);
        add(&mut records, Peer::SteppeBalanced, 102, 500);
        assert_eq!(found(&records, "balanced, random-400", "rate"), Some(false));
        assert_eq!(found(&records, "balanced, random-400", "held"), Some(true));
    }
}
