//! `[budget]`: what is allowed, and what has to be seen.

use std::time::Duration;

use super::super::mistake::Mistake;
use super::super::table::Table;
use super::super::{Budget, DRIFTS, DayBudget, DriftBudget, GrowthBudget, LIMIT_WITHIN};
use crate::limits::LIMIT_WITHIN_MAX;

/// What `require` may name: what the observer can tell it saw.
pub const CAPABILITIES: [&str; 10] = [
    "rss",
    "smaps",
    "hwm",
    "cpu",
    "syscalls",
    "instructions",
    "sockets",
    "cgroup",
    "cgroup_sock",
    "live_bytes",
];

pub fn budget(table: Table<'_>) -> Budget {
    let number = |key| table.number(key, 0.0).map(|number| number.value);
    let per_epoch = GrowthBudget {
        rss_kib: number("rss_growth_kib_per_epoch"),
        hwm_kib: number("hwm_growth_kib_per_epoch"),
        live_kib: number("live_growth_kib_per_epoch"),
    };
    let per_cycle = GrowthBudget {
        rss_kib: number("rss_growth_kib_per_cycle"),
        hwm_kib: number("hwm_growth_kib_per_cycle"),
        live_kib: number("live_growth_kib_per_cycle"),
    };
    let per_day = DayBudget {
        rss_mib: number("rss_growth_mib_per_day"),
        hwm_mib: number("hwm_growth_mib_per_day"),
        live_mib: number("live_growth_mib_per_day"),
        cgroup_mib: number("cgroup_growth_mib_per_day"),
    };
    refuse_two_units(&table);
    let within = table.duration("limit_within", Duration::from_secs(1), LIMIT_WITHIN_MAX);
    let integer = |key| table.integer(key, 0, u64::MAX).map(|number| number.value);
    let budget = Budget {
        per_epoch,
        per_cycle,
        per_day,
        limit_within: within.unwrap_or(LIMIT_WITHIN),
        drift: drift(&table),
        metrics: table.shares("metrics"),
        rises: table.numbers("rises"),
        rss_mib: number("rss_mib"),
        hwm_mib: number("hwm_mib"),
        load_hwm_mib: number("load_hwm_mib"),
        syscalls_per_op: number("syscalls_per_op"),
        cpu_us_per_op: number("cpu_us_per_op"),
        p50_ms: number("p50_ms"),
        p99_ms: number("p99_ms"),
        p999_ms: number("p999_ms"),
        errors: integer("errors"),
        refused_share: number("refused_share"),
        close_wait_max: integer("close_wait_max"),
        open_files_max: integer("open_files_max"),
        operations_per_s_min: number("operations_per_s_min"),
        limit_mib: number("limit_mib"),
        require: required(&table),
    };
    table.end();
    budget
}

/// A limit on the same growth in two units would leave open which one counts.
fn refuse_two_units(table: &Table<'_>) {
    for of in ["rss", "hwm", "live"] {
        let keys = [
            format!("{of}_growth_kib_per_epoch"),
            format!("{of}_growth_mib_per_day"),
        ];
        if keys.iter().all(|key| table.has(key)) {
            let message = format!("`{}` and `{}` set the same budget", keys[0], keys[1]);
            table.say(Mistake::new(table.span(), message, "one of them is enough"));
        }
    }
}

/// `drift = "off"`, or a table of shares, in which a word switches one off.
fn drift(table: &Table<'_>) -> DriftBudget {
    if table.is_text("drift") {
        let is_off = table.choice("drift", &[("off", true)]).is_some();
        return DriftBudget {
            is_off,
            ..DriftBudget::default()
        };
    }
    let Some(shares) = table.table("drift") else {
        return DriftBudget::default();
    };
    let mut drift = DriftBudget::default();
    for (name, _) in DRIFTS {
        if shares.is_text(name) {
            if shares.choice(name, &[("off", ())]).is_some() {
                drift.shares.insert(name.to_owned(), None);
            }
        } else if let Some(share) = shares.number(name, 0.0) {
            drift.shares.insert(name.to_owned(), Some(share.value));
        }
    }
    shares.end();
    drift
}

fn required(table: &Table<'_>) -> Vec<String> {
    let Some(names) = table.texts("require") else {
        return Vec::new();
    };
    for name in &names.value {
        if !CAPABILITIES.contains(&name.as_str()) {
            let known = format!("known: {}", CAPABILITIES.join(", "));
            let message = format!("`require` names `{name}`");
            let mistake = Mistake::new(names.span.clone(), message, "no such capability");
            table.say(mistake.help(known));
        }
    }
    names.value
}
