//! `[budget]`: limits, and required capabilities.

use std::collections::BTreeMap;
use std::time::Duration;

use steppe_config::form::ANY;
use steppe_config::key::{Key, OptionalKey, Type, integer, key, list, map, of, real, text};
use steppe_config::keys;
use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Kind, Table};
use steppe_config::typed::{Fields, Node};

use super::super::{Budget, DayBudget, DriftBudget, GrowthBudget};
use super::forms::{DRIFT, LIMIT_WITHIN};
use super::target::has_metrics;

/// Names that `require` takes: measurements that the observer reports as available or missing.
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

/// `[budget]`.
pub static BUDGET: Table = Table::new(
    "budget",
    "Limits of growth, of single figures, and measurements without which a run is worth nothing.",
    keys![
        RSS_DAY, HWM_DAY, LIVE_DAY, CGROUP_DAY, RSS_EPOCH, HWM_EPOCH, LIVE_EPOCH, RSS_CYCLE,
        HWM_CYCLE, LIVE_CYCLE, WITHIN, DRIFTS, METRICS, RISES, RSS, HWM, LOAD_HWM, SYSCALLS, CPU,
        P50, P99, P999, ERRORS, REFUSED, CLOSE_WAIT, OPEN_FILES, OPERATIONS, LIMIT, REQUIRE,
    ],
);

const fn most(name: &'static str, doc: &'static str) -> OptionalKey<f64> {
    key(name, real(0.0), doc)
}

const fn most_of(name: &'static str, doc: &'static str) -> OptionalKey<u64> {
    key(name, integer(0, u64::MAX), doc)
}

static RSS_DAY: OptionalKey<f64> = most(
    "rss_growth_mib_per_day",
    "Growth of memory at rest: anonymous and shared memory, in RAM or swapped out.",
);
static HWM_DAY: OptionalKey<f64> = most(
    "hwm_growth_mib_per_day",
    "Growth of the high-water mark, which is reset each epoch.",
);
static LIVE_DAY: OptionalKey<f64> = most(
    "live_growth_mib_per_day",
    "Growth of the live heap, where the target reports it.",
);
static CGROUP_DAY: OptionalKey<f64> = most(
    "cgroup_growth_mib_per_day",
    "Growth of the control group's memory outside its processes.",
);
static RSS_EPOCH: OptionalKey<f64> = most(
    "rss_growth_kib_per_epoch",
    "In KiB an epoch, instead of MiB a day.",
);
static HWM_EPOCH: OptionalKey<f64> = most(
    "hwm_growth_kib_per_epoch",
    "In KiB an epoch, instead of MiB a day.",
);
static LIVE_EPOCH: OptionalKey<f64> = most(
    "live_growth_kib_per_epoch",
    "In KiB an epoch, instead of MiB a day.",
);
static RSS_CYCLE: OptionalKey<f64> = most("rss_growth_kib_per_cycle", "Of a cycle.");
static HWM_CYCLE: OptionalKey<f64> = most("hwm_growth_kib_per_cycle", "Of a cycle.");
static LIVE_CYCLE: OptionalKey<f64> = most("live_growth_kib_per_cycle", "Of a cycle.");

static WITHIN: Key<Duration> = key(
    "limit_within",
    text(&LIMIT_WITHIN),
    "No hard limit may be reached within this time at the measured rate.",
)
.or(Absent::Text("1day"));

static DRIFTS: Key<DriftBudget> = key(
    "drift",
    of(
        Kind::Either(&[OFF, Kind::Map(&DRIFT, &OFF_OR_SHARE)]),
        |node| {
            let is_off = node.chosen().is_some();
            let shares = if is_off {
                Some(BTreeMap::new())
            } else {
                node.entries(share)
            };
            shares.map(|shares| DriftBudget { is_off, shares })
        },
    ),
    "Shares of their levels by which series may change; \"off\" judges none of them.",
)
.or(Absent::Table);

static METRICS: Key<Vec<(String, Option<f64>)>> = key(
    "metrics",
    map(&ANY, &SHARE),
    "The same of series of `target.metrics`, with or without their labels.",
)
.or(Absent::Table);

const OFF: Kind = Kind::Choice(&["off"]);
static OFF_OR_SHARE: Kind = Kind::Either(&[OFF, Kind::Real(0.0)]);
static SHARE: Type<Option<f64>> = of(Kind::Either(&[OFF, Kind::Real(0.0)]), share);

/// A share; `None` is `"off"`.
fn share(node: &Node) -> Option<Option<f64>> {
    match node.chosen() {
        Some(_) => Some(None),
        None => node.typed.value().copied().map(Some),
    }
}

static RISES: Key<Vec<(String, f64)>> = key(
    "rises",
    map(&ANY, &real(f64::MIN_POSITIVE)),
    "Counters of `target.metrics` that must rise by at least so much.",
)
.or(Absent::Table);

static RSS: OptionalKey<f64> = most("rss_mib", "Most resident memory in a quiet moment.");
static HWM: OptionalKey<f64> = most("hwm_mib", "Highest resident memory.");
static LOAD_HWM: OptionalKey<f64> = most(
    "load_hwm_mib",
    "Highest resident memory of the programs of `command` loads.",
);
static SYSCALLS: OptionalKey<f64> =
    most("syscalls_per_op", "System calls per successful operation.");
static CPU: OptionalKey<f64> = most(
    "cpu_us_per_op",
    "CPU time, user and system, per successful operation.",
);
static P50: OptionalKey<f64> = most("p50_ms", "Median response time.");
static P99: OptionalKey<f64> = most("p99_ms", "Response time that 99 % keep.");
static P999: OptionalKey<f64> = most("p999_ms", "Response time that 99.9 % keep.");
static ERRORS: OptionalKey<u64> = most_of("errors", "Failed operations of the whole run.");
static REFUSED: OptionalKey<f64> = most(
    "refused_share",
    "Share of all operations that may be refused.",
);
static CLOSE_WAIT: OptionalKey<u64> =
    most_of("close_wait_max", "Sockets in CLOSE_WAIT, at any sample.");
static OPEN_FILES: OptionalKey<u64> = most_of("open_files_max", "Open files in a quiet moment.");
static OPERATIONS: OptionalKey<f64> = most(
    "operations_per_s_min",
    "Operations a second, while load runs.",
);
static LIMIT: OptionalKey<f64> = most(
    "limit_mib",
    "Memory at which the target would be killed: growth is told as time until then.",
);

static REQUIRE: Key<Vec<String>> = key(
    "require",
    list(
        &of(Kind::Choice(&CAPABILITIES), |node| {
            node.chosen().map(str::to_owned)
        }),
        0,
    ),
    "Required measurements. If one is missing, the run ends at its start.",
)
.or(Absent::Texts(&[]));

/// The budget that a table describes; `None`: a value of it is invalid, and its mistake was reported.
pub fn budget(budget: &Fields) -> Option<Budget> {
    Some(Budget {
        per_epoch: GrowthBudget {
            rss_kib: budget.get(&RSS_EPOCH)?,
            hwm_kib: budget.get(&HWM_EPOCH)?,
            live_kib: budget.get(&LIVE_EPOCH)?,
        },
        per_cycle: GrowthBudget {
            rss_kib: budget.get(&RSS_CYCLE)?,
            hwm_kib: budget.get(&HWM_CYCLE)?,
            live_kib: budget.get(&LIVE_CYCLE)?,
        },
        per_day: DayBudget {
            rss_mib: budget.get(&RSS_DAY)?,
            hwm_mib: budget.get(&HWM_DAY)?,
            live_mib: budget.get(&LIVE_DAY)?,
            cgroup_mib: budget.get(&CGROUP_DAY)?,
        },
        limit_within: budget.get(&WITHIN)?,
        drift: budget.get(&DRIFTS)?,
        metrics: budget.get(&METRICS)?.into_iter().collect(),
        rises: budget.get(&RISES)?.into_iter().collect(),
        rss_mib: budget.get(&RSS)?,
        hwm_mib: budget.get(&HWM)?,
        load_hwm_mib: budget.get(&LOAD_HWM)?,
        syscalls_per_op: budget.get(&SYSCALLS)?,
        cpu_us_per_op: budget.get(&CPU)?,
        p50_ms: budget.get(&P50)?,
        p99_ms: budget.get(&P99)?,
        p999_ms: budget.get(&P999)?,
        errors: budget.get(&ERRORS)?,
        refused_share: budget.get(&REFUSED)?,
        close_wait_max: budget.get(&CLOSE_WAIT)?,
        open_files_max: budget.get(&OPEN_FILES)?,
        operations_per_s_min: budget.get(&OPERATIONS)?,
        limit_mib: budget.get(&LIMIT)?,
        require: budget.get(&REQUIRE)?,
    })
}

/// Finds the mistakes that the budget's keys make together, and with the target.
pub fn check(budget: &Fields, target: Option<&Fields>, mistakes: &mut Mistakes) {
    // A limit on one growth in two units would be ambiguous.
    for of in ["rss", "hwm", "live"] {
        let units = ["kib_per_epoch", "mib_per_day"].map(|unit| format!("{of}_growth_{unit}"));
        if let [Some(epoch), Some(day)] = units
            .each_ref()
            .map(|name| budget.given(budget.table.key(name)?))
        {
            let message = format!("`{}` and `{}` set the same budget", units[0], units[1]);
            let mistake = Mistake::new(epoch, message).label("one of them is enough");
            mistakes.push(mistake.also(day, "the other"));
        }
    }
    if target.is_none_or(has_metrics) {
        return;
    }
    for (name, entries, at) in [
        (
            "metrics",
            budget.entries(&METRICS),
            budget.place_of(&METRICS),
        ),
        ("rises", budget.entries(&RISES), budget.place_of(&RISES)),
    ] {
        if let Some(at) = at.filter(|_| !entries.is_empty()) {
            let message = format!("`budget.{name}` needs `target.metrics`");
            let help = "for example: target.metrics = \"http://127.0.0.1:9100/metrics\"";
            mistakes.push(Mistake::new(at, message).help(help));
        }
    }
}
