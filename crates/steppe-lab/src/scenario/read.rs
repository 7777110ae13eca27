//! Keys of a scenario, and the types that are built of them.
//!
//! Invariant: every key is a constant of a table below [`ROOT`]; a file is read by `steppe-config`, which reports every
//! mistake at once. Left out: checks that a command exists or a port is free, which the run makes.

mod budget;
mod forms;
mod load;
mod plan;
mod target;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::time::Duration;

use steppe_config::choice::Choices;
use steppe_config::form::{self, ANY};
use steppe_config::key::{Key, OptionalKey, choice, integer, key, list, of, section, table, text};
use steppe_config::keys;
use steppe_config::mistake::{Mistake, Span};
use steppe_config::mistakes::Mistakes;
use steppe_config::read::read;
use steppe_config::report::Report;
use steppe_config::table::{Absent, Kind, Table};
use steppe_config::typed::{Fields, Node, Typed};

use super::{AbPlan, Budget, CyclePlan, LeaksPlan, Load, Sampling, Scenario};
use super::{Service, SoakPlan, Target, Variant};
use crate::record::{Outcome, file_name};
use forms::{INTERVAL, PATH};
use target::{CMD, ENV, refuse_for_running};

pub use budget::CAPABILITIES;

/// The whole file.
pub(super) static ROOT: Table = Table::new(
    "scenario",
    "A scenario of steppe-lab.",
    keys![
        NAME, SEED, TARGET, SERVICES, LOADS, EPOCHS, CYCLES, AB, LEAKS, VARIANTS, BUDGET, SAMPLING,
    ],
);

static NAME: OptionalKey<String> = key(
    "name",
    text(&ANY),
    "Names the run in reports, and its folder. Without it: the file's name without its ending.",
);

static SEED: Key<u64> = key(
    "seed",
    integer(0, u64::MAX),
    "Seed of the order of runs, of the bootstrap and of the loads' seeds.",
)
.or(Absent::Number(1));

static TARGET: Key<Target> = key(
    "target",
    table(&target::TARGET, target::target),
    "The judged server: [target] with `cmd` and `ready`, or with `pid` or `cgroup`.",
)
.required();

static SERVICES: Key<Vec<Service>> = key(
    "service",
    list(&table(&target::SERVICE, target::service), 0),
    target::SERVICE.doc,
)
.or(Absent::Texts(&[]));

static LOADS: Key<Vec<Load>> = key(
    "load",
    of(Kind::List(&Kind::Tagged(&load::LOAD), 0), load::loads),
    load::LOAD.doc,
)
.or(Absent::Texts(&[]));

static EPOCHS: OptionalKey<SoakPlan> = section("epochs", &plan::EPOCHS, plan::soak);

static CYCLES: OptionalKey<CyclePlan> = section("cycles", &plan::CYCLES, plan::cycle);

static AB: OptionalKey<AbPlan> = section("ab", &plan::AB, plan::ab);

static LEAKS: OptionalKey<LeaksPlan> = section("leaks", &plan::LEAKS, plan::leaks);

static VARIANTS: Key<Vec<Variant>> =
    key("variant", list(&table(&VARIANT, variant), 0), VARIANT.doc).or(Absent::Texts(&[]));

static VARIANT: Table = Table::new(
    "variant",
    "The target with another command, environment or library.",
    keys![VARIANT_NAME, ENV, VARIANT_CMD, PRELOAD, EXPECT,],
);

static VARIANT_NAME: Key<String> =
    key("name", text(&form::NAME), "Names it in reports.").required();

static VARIANT_CMD: OptionalKey<Vec<String>> = key(
    "cmd",
    list(&text(&ANY), 1),
    "Replaces the target's command.",
);

static PRELOAD: OptionalKey<PathBuf> = key(
    "preload",
    text(&PATH),
    "A library for LD_PRELOAD, such as another allocator.",
);

static EXPECT: OptionalKey<Outcome> = key(
    "expect",
    choice(&Choices::of(&[
        ("STABLE", Outcome::Stable),
        ("GROWING", Outcome::Growing),
        ("UNBOUNDED", Outcome::Unbounded),
        ("LEAK", Outcome::Leak),
    ])),
    "Its expected verdict.",
);

static BUDGET: Key<Budget> = section("budget", &budget::BUDGET, budget::budget).or(Absent::Table);

static SAMPLING: Key<Sampling> = key(
    "sampling",
    table(&INTERVALS, |sampling| {
        Some(Sampling {
            fast: sampling.get(&FAST)?,
            slow: sampling.get(&SLOW)?,
        })
    }),
    INTERVALS.doc,
)
.or(Absent::Table);

static INTERVALS: Table = Table::new(
    "sampling",
    "Intervals of the samples between the points of quiet moments.",
    keys![FAST, SLOW],
);

static FAST: Key<Duration> = key(
    "fast",
    text(&INTERVAL),
    "RSS and the number of processes, which cost little.",
)
.or(Absent::Text("100ms"));

static SLOW: Key<Duration> = key(
    "slow",
    text(&INTERVAL),
    "CPU, system calls, threads, files, sockets and the control group.",
)
.or(Absent::Text("1s"));

impl Scenario {
    /// Reads a file's text. `path` is its name in reports, and that of a scenario without `name`.
    ///
    /// # Errors
    /// Every mistake in the file, each with its place.
    pub fn parse(path: &Path, text: &str) -> Result<Self, Box<Report>> {
        let mut mistakes = Mistakes::default();
        let name = path.to_string_lossy();
        let read = read((&name, text), &ROOT, &mut mistakes);
        let scenario = read.and_then(|(_, file)| {
            if !mistakes.is_partial() {
                check(&file, &mut mistakes);
            }
            build(&file, path)
        });
        let report = Report::new(&name, text, mistakes);
        match scenario.filter(|_| report.errors() == 0) {
            Some(scenario) => Ok(scenario),
            None => Err(Box::new(report)),
        }
    }
}

fn build(file: &Fields, path: &Path) -> Option<Scenario> {
    let stem = || path.file_stem().map(|stem| stem.to_string_lossy().into());
    let mut variants = file.get(&VARIANTS)?;
    if variants.is_empty() {
        variants.push(Variant {
            name: "default".to_owned(),
            ..Variant::default()
        });
    }
    Some(Scenario {
        name: file.get(&NAME)?.or_else(stem)?,
        target: file.get(&TARGET)?,
        services: file.get(&SERVICES)?,
        loads: file.get(&LOADS)?,
        soak: file.get(&EPOCHS)?,
        cycle: file.get(&CYCLES)?,
        ab: file.get(&AB)?,
        leaks: file.get(&LEAKS)?,
        variants,
        budget: file.get(&BUDGET)?,
        sampling: file.get(&SAMPLING)?,
        seed: file.get(&SEED)?,
    })
}

fn variant(variant: &Fields) -> Option<Variant> {
    Some(Variant {
        name: variant.get(&VARIANT_NAME)?,
        env: variant.get(&ENV)?.into_iter().collect(),
        cmd: variant.get(&VARIANT_CMD)?,
        preload: variant.get(&PRELOAD)?,
        expect: variant.get(&EXPECT)?,
    })
}

/// Finds the mistakes that several keys make together.
fn check(file: &Fields, mistakes: &mut Mistakes) {
    let target = file.within(&TARGET);
    if let Some(target) = target {
        target::check(target, mistakes);
    }
    for service in file.items(&SERVICES).iter().filter_map(Node::fields) {
        target::check_command(service, &CMD, mistakes);
    }
    load::check(file.items(&LOADS), mistakes);
    if let Some(epochs) = file.within(&EPOCHS) {
        plan::check_soak(epochs, mistakes);
    }
    if let Some(cycles) = file.within(&CYCLES) {
        plan::check_cycle(cycles, mistakes);
    }
    if let Some(ab) = file.within(&AB) {
        plan::check_ab(ab, mistakes);
    }
    if let Some(leaks) = file.within(&LEAKS) {
        target::check_command(leaks, &plan::LEAKS_CMD, mistakes);
    }
    if let Some(budget) = file.within(&BUDGET) {
        budget::check(budget, target, mistakes);
    }
    check_variants(file, mistakes);
    if target.is_some_and(target::is_running) {
        refuse_fresh_processes(file, mistakes);
    } else if matches!(file.value(&LOADS.spec), Some(node) if is_empty(node)) {
        let mistake = Mistake::new(file.span, "`scenario` lacks a `[[load]]`");
        let help = "for example: [[load]] with `kind = \"http\"`, `url` and `connections`";
        mistakes.push(mistake.help(help));
    }
}

fn is_empty(node: &Node) -> bool {
    matches!(&node.typed, Typed::List(items) if items.is_empty())
}

/// Refuses plans that a target that runs already can't serve, since they need fresh processes.
fn refuse_fresh_processes(file: &Fields, mistakes: &mut Mistakes) {
    for key in [
        &SERVICES.spec,
        &CYCLES.spec,
        &AB.spec,
        &LEAKS.spec,
        &VARIANTS.spec,
    ] {
        refuse_for_running(file.given(key), &format!("`{}`", key.name), mistakes);
    }
    let epochs = file.within(&EPOCHS);
    let runs = epochs.filter(|epochs| plan::soak(epochs).is_some_and(|plan| plan.runs > 1));
    let runs = runs.and_then(|epochs| epochs.place_of(&plan::RUNS));
    refuse_for_running(runs, "`epochs.runs` counts fresh processes, and", mistakes);
}

fn check_variants(file: &Fields, mistakes: &mut Mistakes) {
    let variants = file.items(&VARIANTS).iter().filter_map(Node::fields);
    let replaced = file
        .within(&LEAKS)
        .and_then(|leaks| leaks.place_of(&plan::LEAKS_CMD));
    let mut named: BTreeMap<String, (String, Span)> = BTreeMap::new();
    for variant in variants {
        target::check_command(variant, &VARIANT_CMD, mistakes);
        if let (Some(own), Some(leaks)) = (variant.place_of(&VARIANT_CMD), replaced) {
            let message = "`leaks.cmd` and a variant's `cmd` exclude each other";
            let mistake = Mistake::new(own, message).also(leaks, "`leaks.cmd`");
            mistakes.push(mistake.help("a sanitizer build can be a variant of its own"));
        }
        let at = variant.place_of(&VARIANT_NAME);
        let (Some(name), Some(at)) = (variant.get(&VARIANT_NAME), at) else {
            continue;
        };
        match named.entry(file_name(&name)) {
            Entry::Vacant(free) => _ = free.insert((name, at)),
            Entry::Occupied(taken) => {
                let (other, first) = taken.get();
                let message = format!("`{name}` and `{other}` would write to the same files");
                let mistake = Mistake::new(at, message).label("the second");
                mistakes.push(mistake.also(*first, "the first"));
            }
        }
    }
    let count = file.items(&VARIANTS).len();
    if let Some(at) = file.place_of(&AB).filter(|_| count != 2) {
        let mistake = Mistake::new(
            at,
            format!("`ab` compares two variants, and there are {count}"),
        );
        mistakes.push(mistake.help("give exactly two `[[variant]]` tables"));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use steppe_config::table::Support;
    use steppe_config::taken;

    use super::super::DRIFTS;
    use super::*;

    /// Collects every key below a table, as [`taken`] names it.
    fn keys_of(table: &'static Table, found: &mut BTreeSet<String>) {
        for key in table.keys {
            let Support::Served { kind, .. } = &key.support else {
                panic!("`{}` is not served", key.name);
            };
            found.insert(taken::full_name(table, key));
            kind.tables()
                .into_iter()
                .for_each(|each| keys_of(each, found));
        }
    }

    fn keys() -> BTreeSet<String> {
        let mut keys = BTreeSet::new();
        keys_of(&ROOT, &mut keys);
        keys
    }

    /// A key that is read and then not used would be ignored silently.
    #[test]
    fn every_key_is_taken() {
        let text = "[target]\ncmd = [\"x\"]\nready = \"after:1s\"\ncollect = { signal = \"HUP\" }\n\
                    live_bytes = { url = \"http://x/\", pointer = \"\" }\nprofile = { runtime = \"node\" }\n\
                    [[service]]\nname = \"x\"\ncmd = [\"x\"]\n\
                    [[load]]\nkind = \"h2\"\nurl = \"http://x/\"\n\
                    [[load]]\nkind = \"dns\"\nserver = \"127.0.0.1:53\"\nnames = [\"x.\"]\n\
                    [[load]]\nkind = \"command\"\ncmd = [\"x\"]\n\
                    [epochs]\n[cycles]\n[[ab.gate]]\nmetric = \"p50\"\n[leaks]\n\
                    [[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\n[budget]\n[sampling]\n";
        let taken = taken::during(|| {
            let read = Scenario::parse(Path::new("full.toml"), text);
            read.unwrap_or_else(|report| panic!("{report}"));
        });
        let ignored: Vec<_> = keys().difference(&taken).cloned().collect();
        assert!(ignored.is_empty(), "nothing takes {ignored:?}");
    }

    #[test]
    fn every_key_is_documented() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab/scenarios.md");
        let text = std::fs::read_to_string(path).unwrap();
        let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
        let names = rows.filter_map(|row| row.split('`').next());
        let documented: BTreeSet<String> = names.map(str::to_owned).collect();
        let known = keys();
        let known = known
            .iter()
            .map(|key| key.trim_start_matches("scenario.").to_owned());
        let mut known: BTreeSet<String> = known.collect();
        known.insert("load.kind".to_owned());
        known.extend(DRIFTS.map(|(name, _)| format!("budget.drift.{name}")));
        // A table has a section of its own on the page.
        let is_section = |key: &String| {
            let start = format!("{key}.");
            ROOT.key(key)
                .is_some_and(|_| key != "name" && key != "seed")
                || known.iter().any(|other| other.starts_with(&start))
                || matches!(key.as_str(), "budget.metrics" | "budget.rises")
        };
        let lacking = known.difference(&documented).filter(|key| !is_section(key));
        assert_eq!(lacking.collect::<Vec<_>>(), Vec::<&String>::new());
        let invented = documented
            .difference(&known)
            .filter(|key| key.contains('.'));
        assert_eq!(invented.collect::<Vec<_>>(), Vec::<&String>::new());
    }
}
