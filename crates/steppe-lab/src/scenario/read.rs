//! Which keys a scenario has, and what types they become.
//!
//! Invariant: every key is asked for here and nowhere else; what is not asked for is a mistake
//! (`table.rs`). Left out: whether a command exists or a port is free, which the run finds out.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use toml::de::DeTable;

use super::mistake::{Mistake, ScenarioError};
use super::table::{At, Table};
use super::{
    AbGate, AbMetric, AbPlan, Budget, Collect, CyclePlan, DRIFTS, DayBudget, DriftBudget,
    GrowthBudget, LIMIT_WITHIN, LeakChecker, LeaksPlan, LiveBytes, ProfileSource, Program, Ready,
    Running, Sampling, Scenario, Service, SoakPlan, Target, TargetProcess, Until, Variant, load,
};
use crate::limits::{
    DURATION_MAX, EPOCHS_MAX, LIMIT_WITHIN_MAX, PAIRS_MAX, PAIRS_MIN, PID_MAX, RUNS_MAX,
    SAMPLING_MIN, SCENARIO_BYTES_MAX,
};
use crate::record::{Outcome, file_name};
use crate::stats::auto_warmup;

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
        if !budget.metrics.is_empty() && !is_asked {
            let message = "`budget.metrics` is held against `target.metrics`, which is not there";
            let mistake = Mistake::new(span, message, "of this table");
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
        root.say(
            mistake.help("give `target.cmd`, or leave it out: a running target is soaked as it is"),
        );
    }
    if soak.is_some_and(|soak| soak.runs > 1) {
        let message = "`epochs.runs` counts fresh processes, and a running target is one";
        root.say(Mistake::new(root.span(), message, "").help("leave it out, or give `target.cmd`"));
    }
}

fn target(table: Table<'_>) -> Option<Target> {
    match table.has("pid") || table.has("cgroup") {
        true => running_target(table),
        false => started_target(table),
    }
}

/// One that the lab neither starts nor ends: no key says how.
fn running_target(table: Table<'_>) -> Option<Target> {
    let pid = table.count("pid", 1, PID_MAX);
    let cgroup = table.text("cgroup").and_then(|path| {
        if path.value.is_empty() {
            let expected = "expected a folder, or a name as in /proc/PID/cgroup";
            return table.refuse("cgroup", path.span, expected);
        }
        Some(PathBuf::from(path.value))
    });
    let is_one = table.has("pid") != table.has("cgroup") && !table.has("cmd");
    if !is_one {
        let message = "`target` has one of `cmd`, `pid` and `cgroup`";
        table.say(Mistake::new(table.span(), message, "here"));
        // Said already: not as an unknown key once more.
        table.texts("cmd");
    }
    let (live_bytes, collect) = questions(&table);
    let profile = whole(table.table("profile").map(profile_of_running));
    let metrics = http_url(&table, "metrics");
    let metrics = whole(table.has("metrics").then_some(metrics));
    table.end();
    let pid = pid.map(|pid| Running::Pid(pid.value));
    let cgroup = cgroup.map(Running::Cgroup);
    Some(Target {
        process: TargetProcess::Running(pid.or(cgroup).filter(|_| is_one)?),
        ready: Ready::After(Duration::ZERO),
        ready_timeout: READY_TIMEOUT,
        stop_timeout: STOP_TIMEOUT,
        live_bytes: live_bytes?,
        metrics: metrics?,
        collect: collect?,
        profile: profile?,
    })
}

/// What the target is asked for in quiet moments; the inner `None` is nothing, the outer a mistake.
fn questions(table: &Table<'_>) -> (Option<Option<LiveBytes>>, Option<Option<Collect>>) {
    let live_bytes = table.table("live_bytes").map(live_bytes);
    let collect = table.table("collect").map(collect);
    (whole(live_bytes), whole(collect))
}

/// What is left out is fine; what is wrong is not.
fn whole<T>(asked: Option<Option<T>>) -> Option<Option<T>> {
    match asked {
        Some(None) => None,
        Some(some) => Some(some),
        None => Some(None),
    }
}

fn started_target(table: Table<'_>) -> Option<Target> {
    // Neither is there; an unknown key is answered with them too.
    _ = (table.text("pid"), table.text("cgroup"));
    let command = program(&table);
    let ready = table.required_text("ready", "ready = \"http://127.0.0.1:8080/\"");
    let ready = ready.and_then(|text| ready_when(&table, &text));
    let ready_timeout = duration(&table, "ready_timeout", READY_TIMEOUT);
    let stop_timeout = duration(&table, "stop_timeout", STOP_TIMEOUT);
    let (live_bytes, collect) = questions(&table);
    let profile = whole(table.table("profile").map(profile));
    let metrics = http_url(&table, "metrics");
    let metrics = whole(table.has("metrics").then_some(metrics));
    table.end();
    Some(Target {
        process: TargetProcess::Command(command?),
        ready: ready?,
        ready_timeout,
        stop_timeout,
        live_bytes: live_bytes?,
        metrics: metrics?,
        collect: collect?,
        profile: profile?,
    })
}

fn profile(table: Table<'_>) -> Option<ProfileSource> {
    table.require("runtime", "runtime = \"node\"");
    let runtimes = [
        ("go", Runtime::Go),
        ("node", Runtime::Node),
        ("python", Runtime::Python),
        ("java", Runtime::Java),
    ];
    let runtime = table.choice("runtime", &runtimes);
    // The others have nothing to be asked by: there it is a key that is not known.
    let url = if runtime.is_none_or(|runtime| runtime == Runtime::Go) {
        http_url(&table, "url")
    } else {
        None
    };
    if runtime == Some(Runtime::Go) {
        table.require("url", "url = \"http://127.0.0.1:6060/debug/pprof\"");
    }
    table.end();
    match runtime? {
        Runtime::Go => url.map(|url| ProfileSource::Go { url }),
        Runtime::Node => Some(ProfileSource::Node),
        Runtime::Python => Some(ProfileSource::Python),
        Runtime::Java => Some(ProfileSource::Java),
    }
}

/// Node.js and Python have to be told at their start.
fn profile_of_running(table: Table<'_>) -> Option<ProfileSource> {
    let span = table.span();
    let say = |message: &str, help: &str| Mistake::new(span, message, "").help(help);
    let mistake = say(
        "this runtime has to be started by the lab to be asked",
        "give `target.cmd`; of a running target, go and java can be asked",
    );
    let mistakes = table.mistakes();
    let source = profile(table)?;
    if matches!(source, ProfileSource::Node | ProfileSource::Python) {
        mistakes.borrow_mut().push(mistake);
        return None;
    }
    Some(source)
}

/// Words of `target.profile.runtime`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runtime {
    Go,
    Node,
    Python,
    Java,
}

fn collect(table: Table<'_>) -> Option<Collect> {
    let url = http_url(&table, "url");
    let signals = [
        ("HUP", Signal::HUP),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
    ];
    let signal = table.choice("signal", &signals);
    let is_one = table.has("url") != table.has("signal");
    if !is_one {
        let message = "`target.collect` is either a `url` or a `signal`";
        let mistake = Mistake::new(table.span(), message, "");
        table.say(mistake.help("for example: collect = { signal = \"USR2\" }"));
    }
    table.end();
    url.map(Collect::Url)
        .or(signal.map(Collect::Signal))
        .filter(|_| is_one)
}

/// Of a question of the lab's own.
fn http_url(table: &Table<'_>, key: &'static str) -> Option<String> {
    let url = table.text(key)?;
    if is_http(&url.value) {
        return Some(url.value);
    }
    table.refuse(key, url.span, "expected http://HOST:PORT/PATH")
}

/// It has a host, and a port that is one where it has any.
fn is_http(url: &str) -> bool {
    let Ok(uri) = url.parse::<hyper::Uri>() else {
        return false;
    };
    let Some(authority) = uri.authority() else {
        return false;
    };
    let (host, address) = (authority.host(), authority.as_str());
    let address = address
        .rsplit_once('@')
        .map_or(address, |(_, address)| address);
    let has_port = address.len() > host.len();
    uri.scheme_str() == Some("http")
        && !host.is_empty()
        && (!has_port || authority.port_u16().is_some())
}

fn live_bytes(table: Table<'_>) -> Option<LiveBytes> {
    table.require("url", "url = \"http://127.0.0.1:9900/memory\"");
    let url = http_url(&table, "url");
    let pointer = table.required_text("pointer", "pointer = \"/allocator/live_bytes\"");
    let pointer = pointer.and_then(|pointer| {
        if pointer.value.is_empty() || pointer.value.starts_with('/') {
            return Some(pointer.value);
        }
        table.refuse(
            "pointer",
            pointer.span,
            "a JSON pointer begins with a slash",
        )
    });
    table.end();
    Some(LiveBytes {
        url: url?,
        pointer: pointer?,
    })
}

fn service(table: Table<'_>) -> Option<Service> {
    let name = table.required_text("name", "name = \"origin\"");
    let command = program(&table);
    let ready = table.text("ready").map(|text| ready_when(&table, &text));
    let ready_timeout = duration(&table, "ready_timeout", READY_TIMEOUT);
    let after_target = table.choice("after", &[("target", true)]).unwrap_or(false);
    let measure = table.flag("measure").unwrap_or(false);
    table.end();
    let ready = match ready {
        Some(ready) => Some(ready?),
        None => None,
    };
    Some(Service {
        name: name?.value,
        command: command?,
        ready,
        ready_timeout,
        after_target,
        measure,
    })
}

/// `cmd`, `env` and `cwd`, which targets, services and command loads have.
pub(super) fn program(table: &Table<'_>) -> Option<Program> {
    // All are asked for, whatever is missing: a key that is not asked for is said to be unknown.
    let env = table.map("env");
    let cwd = table.text("cwd").map(|cwd| cwd.value.into());
    if !table.has("cmd") {
        table.required_text("cmd", "cmd = [\"my-server\", \"--port\", \"8080\"]");
        return None;
    }
    let cmd = command_line(table, table.texts("cmd")?)?;
    Some(Program { cmd, env, cwd })
}

fn command_line(table: &Table<'_>, cmd: At<Vec<String>>) -> Option<Vec<String>> {
    if cmd.value.first().is_none_or(String::is_empty) {
        return table.refuse("cmd", cmd.span, "the first item names the program");
    }
    Some(cmd.value)
}

fn ready_when(table: &Table<'_>, text: &At<String>) -> Option<Ready> {
    let value = text.value.as_str();
    if is_http(value) {
        return Some(Ready::Http(value.to_owned()));
    }
    if let Some(address) = value.strip_prefix("tcp://") {
        return match address.parse() {
            Ok(address) => Some(Ready::Tcp(address)),
            Err(_) => table.refuse("ready", text.span.clone(), "expected tcp://ADDRESS:PORT"),
        };
    }
    if let Some(pattern) = value.strip_prefix("log:") {
        return match regex::Regex::new(pattern) {
            Ok(_) => Some(Ready::Log(pattern.to_owned())),
            Err(_) => table.refuse("ready", text.span.clone(), "not a regular expression"),
        };
    }
    if let Some(Ok(time)) = value.strip_prefix("after:").map(humantime::parse_duration) {
        return Some(Ready::After(time));
    }
    let forms = "expected http://…, tcp://ADDRESS:PORT, log:PATTERN or after:2s";
    table.refuse("ready", text.span.clone(), forms)
}

fn soak(table: Table<'_>) -> SoakPlan {
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
        let mistake = Mistake::new(table.span(), message, "too long to go on");
        table.say(mistake.help("fewer and longer epochs say as much"));
    }
    table.end();
    plan
}

fn cycle(table: Table<'_>) -> CyclePlan {
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

fn ab(table: Table<'_>) -> AbPlan {
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

fn leaks(table: Table<'_>) -> LeaksPlan {
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

fn budget(table: Table<'_>) -> Budget {
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
        rss_mib: number("rss_mib"),
        hwm_mib: number("hwm_mib"),
        syscalls_per_op: number("syscalls_per_op"),
        cpu_us_per_op: number("cpu_us_per_op"),
        p50_ms: number("p50_ms"),
        p99_ms: number("p99_ms"),
        p999_ms: number("p999_ms"),
        errors: integer("errors"),
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
            let message = format!("`{}` and `{}` say the same", keys[0], keys[1]);
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

const READY_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
