//! `[epochs]`, `[cycles]`, `[ab]` and `[leaks]`: what a command does with the target.

use std::time::Duration;

use super::super::mistake::Mistake;
use super::super::table::Table;
use super::super::{AbGate, AbMetric, AbPlan, CyclePlan, LeakChecker, LeaksPlan, SoakPlan, Until};
use super::{command_line, duration};
use crate::limits::{EPOCHS_MAX, PAIRS_MAX, PAIRS_MIN, RUNS_MAX};
use crate::stats::auto_warmup;

pub fn soak(table: Table<'_>) -> SoakPlan {
    let length = duration(&table, "length", Duration::from_secs(5));
    let quiesce = duration(&table, "quiesce", Duration::from_millis(250));
    if quiesce >= length {
        let mistake = Mistake::new(table.span(), "`quiesce` leaves no time for load", "");
        table.say(mistake.help("the quiet moment is inside an epoch's `length`"));
    }
    let count = table
        .count("count", 2, EPOCHS_MAX)
        .map_or(60, |count| count.value);
    let plan = SoakPlan {
        length,
        count,
        warmup: warmup(&table, count),
        quiesce,
        runs: runs(&table),
        until: table.choice("until", &Until::NAMES).unwrap_or_default(),
    };
    if let Err(message) = plan.check_length() {
        let mistake = Mistake::new(table.span(), message, "too many");
        table.say(mistake.help("fewer and longer epochs are as precise"));
    }
    table.end();
    plan
}

pub fn cycle(table: Table<'_>) -> CyclePlan {
    let count = table
        .count("count", 2, EPOCHS_MAX)
        .map_or(20, |count| count.value);
    let plan = CyclePlan {
        count,
        warmup: warmup(&table, count),
        quiesce: duration(&table, "quiesce", Duration::from_secs(3)),
        length: duration(&table, "length", Duration::from_secs(10)),
        timeout: duration(&table, "timeout", Duration::from_secs(3600)),
        runs: runs(&table),
    };
    table.end();
    plan
}

fn runs(table: &Table<'_>) -> u32 {
    table
        .count("runs", 1, RUNS_MAX)
        .map_or(1, |runs| runs.value)
}

/// `"auto"`, a number, or nothing.
fn warmup(table: &Table<'_>, count: u32) -> u32 {
    if table.is_text("warmup") {
        table.choice("warmup", &[("auto", ())]);
        return auto_warmup(count);
    }
    let most = count.saturating_sub(2);
    table
        .count("warmup", 0, most)
        .map_or_else(|| auto_warmup(count), |warmup| warmup.value)
}

pub fn ab(table: Table<'_>) -> AbPlan {
    let default = AbPlan::default();
    let pairs = table
        .count("pairs", PAIRS_MIN, PAIRS_MAX)
        .map_or(default.pairs, |pairs| pairs.value);
    let plan = AbPlan {
        pairs,
        warmup: duration(&table, "warmup", default.warmup),
        length: duration(&table, "length", default.length),
        gates: gates(&table),
    };
    table.end();
    plan
}

/// `metric` and `limit` of `[ab]` itself, then each `[[ab.gate]]`.
fn gates(table: &Table<'_>) -> Vec<AbGate> {
    let mut gates: Vec<AbGate> = Vec::new();
    gates.extend(gate_of_its_own(table));
    for inner in table.tables("gate") {
        gates.extend(gate(&inner));
        inner.end();
    }
    for (index, gate) in gates.iter().enumerate() {
        if gates[..index]
            .iter()
            .any(|earlier| earlier.metric == gate.metric)
        {
            let message = format!("`{}` has two gates", gate.metric.name());
            table.say(Mistake::new(table.span(), message, "here"));
        }
    }
    gates
}

/// `[ab]` has a gate of its own unless it has others and says nothing of one.
fn gate_of_its_own(table: &Table<'_>) -> Option<AbGate> {
    let is_meant = table.has("metric") || table.has("limit") || !table.has("gate");
    if !is_meant {
        table.text("metric");
        table.text("limit");
        return None;
    }
    gate(table)
}

fn gate(table: &Table<'_>) -> Option<AbGate> {
    let limit = table
        .number("limit", 0.01)
        .map_or(1.05, |limit| limit.value);
    if !table.has("metric") {
        table.required_text("metric", "metric = \"cpu_us_per_op\"");
        return None;
    }
    let words: Vec<_> = AbMetric::ALL
        .iter()
        .map(|metric| (metric.name(), *metric))
        .collect();
    let metric = table.choice("metric", &words)?;
    Some(AbGate { metric, limit })
}

pub fn leaks(table: Table<'_>) -> LeaksPlan {
    let default = LeaksPlan::default();
    let checkers = [
        ("memcheck", LeakChecker::Memcheck),
        ("sanitizer", LeakChecker::Sanitizer),
    ];
    let lost = table.integer("lost_bytes_max", 0, u64::MAX);
    let command = table.texts("cmd").and_then(|cmd| command_line(&table, cmd));
    let plan = LeaksPlan {
        checker: table
            .choice("checker", &checkers)
            .unwrap_or(default.checker),
        length: duration(&table, "length", default.length),
        arguments: table
            .texts("arguments")
            .map(|texts| texts.value)
            .unwrap_or_default(),
        command,
        lost_bytes_max: lost.map_or(default.lost_bytes_max, |bytes| bytes.value),
    };
    table.end();
    plan
}
