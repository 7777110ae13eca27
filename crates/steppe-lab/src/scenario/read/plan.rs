//! `[epochs]`, `[cycles]`, `[ab]` and `[leaks]`: the plans of the commands.

use std::time::Duration;

use steppe_config::choice::Choices;
use steppe_config::form::ANY;
use steppe_config::key::{Key, OptionalKey, choice, integer, key, list, of, real, table, text};
use steppe_config::keys;
use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Kind, Needs, Table};
use steppe_config::typed::{Fields, Node};

use super::super::{AbGate, AbMetric, AbPlan, CyclePlan, LeakChecker, LeaksPlan, SoakPlan, Until};
use super::forms::TIME;
use crate::limits::{EPOCHS_MAX, PAIRS_MAX, PAIRS_MIN, RUNS_MAX};
use crate::stats::auto_warmup;

/// `[epochs]`.
pub static EPOCHS: Table = Table::new(
    "epochs",
    "For `soak`: load runs, pauses for `quiesce`, and one point is taken, again and again.",
    keys![
        EPOCH_LENGTH,
        EPOCH_COUNT,
        WARMUP,
        EPOCH_QUIESCE,
        RUNS,
        UNTIL,
    ],
);

static EPOCH_LENGTH: Key<Duration> = key(
    "length",
    text(&TIME),
    "Length of one epoch, its quiet moment included.",
)
.or(Absent::Text("5s"));

static EPOCH_COUNT: Key<u32> = key(
    "count",
    integer(2, EPOCHS_MAX as u64),
    "Epochs of a run, warm-up included.",
)
.or(Absent::Number(60));

static WARMUP: Key<Option<u32>> = key(
    "warmup",
    of(
        Kind::Either(&[Kind::Choice(&["auto"]), Kind::Integer(0, EPOCHS_MAX as u64)]),
        |node| match node.typed.value::<u64>() {
            Some(count) => u32::try_from(*count).ok().map(Some),
            None => node.typed.value::<&str>().map(|_| None),
        },
    ),
    "Epochs or cycles at the start that are not judged; \"auto\" is a sixth, rounded up.",
)
.or(Absent::Text("auto"));

static EPOCH_QUIESCE: Key<Duration> =
    key("quiesce", text(&TIME), "The quiet moment.").or(Absent::Text("250ms"));

/// Fresh processes of a soak.
pub static RUNS: Key<u32> = key(
    "runs",
    integer(1, RUNS_MAX as u64),
    "Fresh processes of each variant.",
)
.or(Absent::Number(1));

static UNTIL: Key<Until> = key(
    "until",
    choice(&Choices::of(&Until::NAMES)),
    "End of the soak: after its epochs, or when every series is decided.",
)
.or(Absent::Text("planned"));

/// `[cycles]`.
pub static CYCLES: Table = Table::new(
    "cycles",
    "For `cycle`: the loads run to their end once a cycle; a quiet moment follows.",
    keys![
        CYCLE_COUNT,
        WARMUP,
        CYCLE_QUIESCE,
        CYCLE_LENGTH,
        CYCLE_TIMEOUT,
        RUNS,
    ],
);

static CYCLE_COUNT: Key<u32> = key(
    "count",
    integer(2, EPOCHS_MAX as u64),
    "Cycles of a run, warm-up included.",
)
.or(Absent::Number(20));

static CYCLE_QUIESCE: Key<Duration> =
    key("quiesce", text(&TIME), "The quiet moment, after the load.").or(Absent::Text("3s"));

static CYCLE_LENGTH: Key<Duration> = key(
    "length",
    text(&TIME),
    "Time of loads without an end of their own.",
)
.or(Absent::Text("10s"));

static CYCLE_TIMEOUT: Key<Duration> = key(
    "timeout",
    text(&TIME),
    "A `command` load that runs for longer has failed.",
)
.or(Absent::Text("1h"));

/// `[ab]`.
pub static AB: Table = Table::new(
    "ab",
    "For `ab` and `calibrate`: two variants against each other.",
    keys![PAIRS, AB_WARMUP, AB_LENGTH, AB_METRIC, LIMIT, GATES,],
)
.needing(Needs::Any(&["metric", "gate"]));

static PAIRS: Key<u32> = key(
    "pairs",
    integer(PAIRS_MIN as u64, PAIRS_MAX as u64),
    "Pairs of runs.",
)
.or(Absent::Number(10));

static AB_WARMUP: Key<Duration> =
    key("warmup", text(&TIME), "Load before the measurement.").or(Absent::Text("2s"));

static AB_LENGTH: Key<Duration> =
    key("length", text(&TIME), "Measured load.").or(Absent::Text("10s"));

static AB_METRIC: OptionalKey<AbMetric> = key("metric", choice(&METRICS), "The judged metric.");

static GATE_METRIC: Key<AbMetric> =
    key("metric", choice(&METRICS), "The metric of this gate.").required();

static METRICS: Choices<AbMetric> = Choices::of(&AbMetric::NAMES);

static LIMIT: OptionalKey<f64> = key(
    "limit",
    real(0.01),
    "Highest allowed ratio of the second variant to the first. Without it: 1.05.",
);

static GATES: Key<Vec<AbGate>> =
    key("gate", list(&table(&GATE, gate), 0), GATE.doc).or(Absent::Texts(&[]));

fn gate(gate: &Fields) -> Option<AbGate> {
    Some(AbGate {
        metric: gate.get(&GATE_METRIC)?,
        limit: gate.get(&LIMIT)?.unwrap_or(LIMIT_DEFAULT),
    })
}

static GATE: Table = Table::new("ab.gate", "One gate of several.", keys![GATE_METRIC, LIMIT]);

const LIMIT_DEFAULT: f64 = 1.05;

/// `[leaks]`.
pub static LEAKS: Table = Table::new(
    "leaks",
    "For `leaks`: every variant runs once under a leak checker, and is ended with SIGTERM.",
    keys![CHECKER, LEAKS_LENGTH, ARGUMENTS, LEAKS_CMD, LOST_BYTES,],
);

static CHECKER: Key<LeakChecker> = key(
    "checker",
    choice(&Choices::of(&[
        ("memcheck", LeakChecker::Memcheck),
        ("sanitizer", LeakChecker::Sanitizer),
    ])),
    "Valgrind's memcheck, or a build with LeakSanitizer.",
)
.or(Absent::Text("memcheck"));

static LEAKS_LENGTH: Key<Duration> =
    key("length", text(&TIME), "Time of the load.").or(Absent::Text("10s"));

static ARGUMENTS: Key<Vec<String>> = key(
    "arguments",
    list(&text(&ANY), 0),
    "Further arguments for valgrind, or for the program itself.",
)
.or(Absent::Texts(&[]));

/// `leaks.cmd`.
pub static LEAKS_CMD: OptionalKey<Vec<String>> = key(
    "cmd",
    list(&text(&ANY), 1),
    "Replaces the target's command: the build for the checker.",
);

static LOST_BYTES: Key<u64> = key(
    "lost_bytes_max",
    integer(0, u64::MAX),
    "Bytes that may be lost, definitely and indirectly.",
)
.or(Absent::Number(0));

/// The plan of `[epochs]`.
pub fn soak(epochs: &Fields) -> Option<SoakPlan> {
    let count = epochs.get(&EPOCH_COUNT)?;
    Some(SoakPlan {
        length: epochs.get(&EPOCH_LENGTH)?,
        count,
        warmup: warmup(epochs, count)?,
        quiesce: epochs.get(&EPOCH_QUIESCE)?,
        runs: epochs.get(&RUNS)?,
        until: epochs.get(&UNTIL)?,
    })
}

/// The plan of `[cycles]`.
pub fn cycle(cycles: &Fields) -> Option<CyclePlan> {
    let count = cycles.get(&CYCLE_COUNT)?;
    Some(CyclePlan {
        count,
        warmup: warmup(cycles, count)?,
        quiesce: cycles.get(&CYCLE_QUIESCE)?,
        length: cycles.get(&CYCLE_LENGTH)?,
        timeout: cycles.get(&CYCLE_TIMEOUT)?,
        runs: cycles.get(&RUNS)?,
    })
}

fn warmup(table: &Fields, count: u32) -> Option<u32> {
    let warmup = table.get(&WARMUP)?;
    Some(warmup.unwrap_or_else(|| auto_warmup(count)))
}

/// The plan of `[ab]`.
pub fn ab(ab: &Fields) -> Option<AbPlan> {
    let limit = ab.get(&LIMIT)?.unwrap_or(LIMIT_DEFAULT);
    let own = ab.get(&AB_METRIC)?;
    let own = own.map(|metric| AbGate { metric, limit });
    Some(AbPlan {
        pairs: ab.get(&PAIRS)?,
        warmup: ab.get(&AB_WARMUP)?,
        length: ab.get(&AB_LENGTH)?,
        gates: own.into_iter().chain(ab.get(&GATES)?).collect(),
    })
}

/// The plan of `[leaks]`.
pub fn leaks(leaks: &Fields) -> Option<LeaksPlan> {
    Some(LeaksPlan {
        checker: leaks.get(&CHECKER)?,
        length: leaks.get(&LEAKS_LENGTH)?,
        arguments: leaks.get(&ARGUMENTS)?,
        command: leaks.get(&LEAKS_CMD)?,
        lost_bytes_max: leaks.get(&LOST_BYTES)?,
    })
}

/// Finds the mistakes that the keys of `[epochs]` make together.
pub fn check_soak(epochs: &Fields, mistakes: &mut Mistakes) {
    check_warmup(epochs, epochs.get(&EPOCH_COUNT), mistakes);
    let times = epochs.get(&EPOCH_QUIESCE).zip(epochs.get(&EPOCH_LENGTH));
    if times.is_some_and(|(quiesce, length)| quiesce >= length) {
        let at = epochs.place_of(&EPOCH_QUIESCE).unwrap_or(epochs.span);
        let mistake = Mistake::new(at, "`quiesce` leaves no time for load");
        mistakes.push(mistake.help("the quiet moment is a part of an epoch's `length`"));
    }
    if let Some(Err(message)) = soak(epochs).map(|plan| plan.check_length()) {
        let at = epochs.place_of(&EPOCH_COUNT).unwrap_or(epochs.span);
        let mistake = Mistake::new(at, message).label("too many");
        mistakes.push(mistake.help("fewer and longer epochs are as precise"));
    }
}

/// Finds the mistakes that the keys of `[cycles]` make together.
pub fn check_cycle(cycles: &Fields, mistakes: &mut Mistakes) {
    check_warmup(cycles, cycles.get(&CYCLE_COUNT), mistakes);
}

fn check_warmup(table: &Fields, count: Option<u32>, mistakes: &mut Mistakes) {
    let (Some(at), Some(Some(warmup)), Some(count)) =
        (table.place_of(&WARMUP), table.get(&WARMUP), count)
    else {
        return;
    };
    if warmup > count.saturating_sub(2) {
        let message = format!("`warmup` leaves less than two of {count} to be judged");
        let help = format!(
            "it takes \"auto\" and values from 0 to {}",
            count.saturating_sub(2)
        );
        mistakes.push(Mistake::new(at, message).help(help));
    }
}

/// Finds the mistakes that the keys of `[ab]` make together.
pub fn check_ab(ab: &Fields, mistakes: &mut Mistakes) {
    if let Some(at) = ab
        .place_of(&LIMIT)
        .filter(|_| ab.place_of(&AB_METRIC).is_none())
    {
        let mistake = Mistake::new(at, "`limit` has no effect without `metric`");
        mistakes.push(mistake.help("give `metric`, or the `limit` of each gate"));
    }
    let own = ab.place_of(&AB_METRIC).zip(ab.get(&AB_METRIC).flatten());
    let own = own.map(|(at, metric)| (metric, at));
    let gates = ab.items(&GATES).iter().filter_map(Node::fields);
    let gates = gates.filter_map(|gate| gate.get(&GATE_METRIC).zip(gate.place_of(&GATE_METRIC)));
    let gates: Vec<_> = own.into_iter().chain(gates).collect();
    for (index, (metric, again)) in gates.iter().enumerate() {
        let first = gates
            .iter()
            .take(index)
            .find(|(earlier, _)| earlier == metric);
        if let Some((_, first)) = first {
            let message = format!("`{}` has two gates", metric.name());
            let mistake = Mistake::new(*again, message).label("again here");
            mistakes.push(mistake.also(*first, "first here"));
        }
    }
}
