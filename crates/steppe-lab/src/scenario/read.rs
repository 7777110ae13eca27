//! Which keys a scenario has, and what types they become.
//!
//! Invariant: every key is asked for here and nowhere else; what is not asked for is a mistake
//! (`table.rs`). Left out: whether a command exists or a port is free, which the run finds out.

mod budget;
mod plan;
mod target;

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use toml::de::DeTable;

use super::mistake::{Mistake, ScenarioError};
use super::table::Table;
use super::{Sampling, Scenario, SoakPlan, Variant, load};
use crate::limits::{DURATION_MAX, SAMPLING_MIN, SCENARIO_BYTES_MAX};
use crate::record::{Outcome, file_name};

pub use budget::CAPABILITIES;
pub(super) use target::program;

use budget::budget;
use plan::{ab, cycle, leaks, soak};
use target::{command_line, service, target};

impl Scenario {
    /// Reads a file's text. `path` names it in reports, and the scenario where it has no name.
    ///
    /// # Errors
    /// With everything that is wrong, each with its place.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ScenarioError> {
        let name = path.to_string_lossy();
        let fail = |mistakes| ScenarioError::new(&name, text, mistakes);
        if text.len() > SCENARIO_BYTES_MAX {
            let message = format!("the file is longer than {SCENARIO_BYTES_MAX} bytes");
            return Err(fail(vec![Mistake::new(0..0, message, "")]));
        }
        let (root, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            let mistake = |error: &toml::de::Error| {
                let span = error.span().unwrap_or(0..0);
                Mistake::new(span, format!("invalid TOML: {}", error.message()), "here")
            };
            return Err(fail(errors.iter().map(mistake).collect()));
        }
        let mistakes = RefCell::default();
        let root = Table::new("", 0..0, root.get_ref(), &mistakes);
        let scenario = scenario(root, path);
        match (scenario, mistakes.into_inner()) {
            (Some(scenario), mistakes) if mistakes.is_empty() => Ok(scenario),
            (_, mistakes) => Err(fail(mistakes)),
        }
    }
}

fn scenario(root: Table<'_>, path: &Path) -> Option<Scenario> {
    let stem = || {
        path.file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
    };
    let name = root.text("name").map(|name| name.value).or_else(stem);
    let target = root
        .required_table(
            "target",
            "[target] with cmd = [\"my-server\"] and ready = \"tcp://127.0.0.1:8080\"",
        )
        .map(target);
    let services = root
        .tables("service")
        .into_iter()
        .map(service)
        .collect::<Vec<_>>();
    let loads = root.tables("load");
    let loads = loads
        .into_iter()
        .enumerate()
        .map(|(index, table)| load::read(table, index));
    let loads = loads.collect::<Vec<_>>();
    let is_running = target.as_ref().is_some_and(|target| match target {
        Some(target) => target.running().is_some(),
        // What is wrong with it has been said; whether it needs load is not known.
        None => true,
    });
    if loads.is_empty() && !is_running {
        let mistake = Mistake::new(root.span(), "there is no [[load]]", "nothing would happen");
        root.say(mistake.help("for example: [[load]] with kind = \"http\", url and connections"));
    }
    let soak = root.table("epochs").map(soak);
    let cycle = root.table("cycles").map(cycle);
    let ab = root.table("ab").map(ab);
    let leaks = root.table("leaks").map(leaks);
    let variants = variants(&root);
    if ab.is_some() && variants.len() != 2 {
        let mistake = Mistake::new(root.span(), "[ab] compares two variants", "");
        root.say(mistake.help("give exactly two [[variant]] tables"));
    }
    let is_replaced = leaks.as_ref().is_some_and(|leaks| leaks.command.is_some());
    if is_replaced && variants.iter().any(|variant| variant.cmd.is_some()) {
        let mistake = Mistake::new(
            root.span(),
            "`leaks.cmd` and a variant's `cmd` exclude each other",
            "",
        );
        root.say(mistake.help("a sanitizer build can be a variant of its own"));
    }
    if is_running {
        refuse_fresh_processes(&root, soak.as_ref());
    }
    let target_read = target.as_ref().and_then(Option::as_ref);
    // Where it could not be read, what is wrong with it has been said.
    let is_asked = target_read.is_none_or(|target| target.metrics.is_some());
    let budget = root.table("budget").map(|table| {
        let span = table.span();
        let budget = budget(table);
        let needing = [
            ("metrics", !budget.metrics.is_empty()),
            ("rises", !budget.rises.is_empty()),
        ];
        for (key, _) in needing
            .iter()
            .filter(|(_, is_there)| *is_there && !is_asked)
        {
            let message = format!("`budget.{key}` needs `target.metrics`");
            let mistake = Mistake::new(span.clone(), message, "this table");
            root.say(
                mistake.help("for example: target.metrics = \"http://127.0.0.1:9100/metrics\""),
            );
        }
        budget
    });
    let budget = budget.unwrap_or_default();
    let sampling = root.table("sampling").map(sampling).unwrap_or_default();
    let seed = root
        .integer("seed", 0, u64::MAX)
        .map_or(1, |seed| seed.value);
    root.end();
    Some(Scenario {
        name: name?,
        target: target??,
        services: services.into_iter().collect::<Option<_>>()?,
        loads: loads.into_iter().collect::<Option<_>>()?,
        soak,
        cycle,
        ab,
        leaks,
        variants,
        budget,
        sampling,
        seed,
    })
}

/// What a target that runs already can't be asked for.
fn refuse_fresh_processes(root: &Table<'_>, soak: Option<&SoakPlan>) {
    let started = ["service", "cycles", "ab", "leaks", "variant"];
    for key in started.into_iter().filter(|key| root.has(key)) {
        let message = format!("`{key}` needs a target that the lab starts");
        let mistake = Mistake::new(root.span(), message, "");
        root.say(mistake.help("give `target.cmd`, or leave this section out"));
    }
    if soak.is_some_and(|soak| soak.runs > 1) {
        let message = "`epochs.runs` counts fresh processes, and a running target is one";
        root.say(Mistake::new(root.span(), message, "").help("leave it out, or give `target.cmd`"));
    }
}

fn variants(root: &Table<'_>) -> Vec<Variant> {
    let mut variants: Vec<Variant> = Vec::new();
    for table in root.tables("variant") {
        let span = table.span();
        let Some(variant) = variant(table) else {
            continue;
        };
        let file = file_name(&variant.name);
        if let Some(other) = variants.iter().find(|other| file_name(&other.name) == file) {
            let (name, other) = (&variant.name, &other.name);
            let message = format!("`{name}` and `{other}` would write to the same files");
            root.say(Mistake::new(span, message, "the second"));
        }
        variants.push(variant);
    }
    if variants.is_empty() {
        variants.push(Variant {
            name: "default".to_owned(),
            ..Variant::default()
        });
    }
    variants
}

fn variant(table: Table<'_>) -> Option<Variant> {
    let name = table.required_text("name", "name = \"two arenas\"");
    let expected = [
        ("STABLE", Outcome::Stable),
        ("GROWING", Outcome::Growing),
        ("UNBOUNDED", Outcome::Unbounded),
        ("LEAK", Outcome::Leak),
    ];
    let variant = Variant {
        name: name.map(|name| name.value).unwrap_or_default(),
        env: table.map("env"),
        cmd: table.texts("cmd").and_then(|cmd| command_line(&table, cmd)),
        preload: table.text("preload").map(|path| path.value.into()),
        expect: table.choice("expect", &expected),
    };
    table.end();
    (!variant.name.is_empty()).then_some(variant)
}

fn sampling(table: Table<'_>) -> Sampling {
    let default = Sampling::default();
    let fast = table.duration("fast", SAMPLING_MIN, DURATION_MAX);
    let slow = table.duration("slow", SAMPLING_MIN, DURATION_MAX);
    table.end();
    Sampling {
        fast: fast.unwrap_or(default.fast),
        slow: slow.unwrap_or(default.slow),
    }
}

/// A length of time of at least a millisecond.
fn duration(table: &Table<'_>, key: &'static str, default: Duration) -> Duration {
    table
        .duration(key, Duration::from_millis(1), DURATION_MAX)
        .unwrap_or(default)
}
