//! `[target]`, `[[service]]`, and the programs that they name.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use steppe_config::choice::Choices;
use steppe_config::form::ANY;
use steppe_config::key::{
    Entry, Key, OptionalKey, boolean, choice, integer, key, list, map, section, text,
};
use steppe_config::keys;
use steppe_config::mistake::{Mistake, Span};
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Needs, Spec, Table};
use steppe_config::typed::{Fields, Node};

use super::super::{
    Collect, LiveBytes, ProfileSource, Program, Ready, Running, Service, Target, TargetProcess,
};
use super::forms::{HTTP_URL, PATH, POINTER, READY, TIME};
use crate::limits::PID_MAX;

/// `[target]`.
pub static TARGET: Table = Table::new(
    "target",
    "The judged server, with all processes that it starts.",
    keys![
        TARGET_CMD,
        PID,
        CGROUP,
        ENV,
        CWD,
        READY_SIGN,
        READY_TIMEOUT,
        STOP_TIMEOUT,
        LIVE_BYTES,
        METRICS,
        COLLECT,
        PROFILE,
    ],
)
.needing(Needs::One(&["cmd", "pid", "cgroup"]));

static TARGET_CMD: OptionalKey<Vec<String>> =
    key("cmd", list(&text(&ANY), 1), "Command line of the server.");

static PID: OptionalKey<u32> = key(
    "pid",
    integer(1, PID_MAX as u64),
    "Judges a running process and its descendants.",
);

static CGROUP: OptionalKey<PathBuf> = key(
    "cgroup",
    text(&PATH),
    "Judges all processes of a control group, given as its folder or as /proc/PID/cgroup names it.",
);

/// Environment of a program.
pub static ENV: Key<Vec<(String, String)>> = key(
    "env",
    map(&ANY, &text(&ANY)),
    "Environment variables, added to those of the lab.",
)
.or(Absent::Table);

/// Working directory of a program.
pub static CWD: OptionalKey<PathBuf> = key(
    "cwd",
    text(&PATH),
    "Working directory. Without it: the folder in which the lab was started.",
);

static READY_SIGN: OptionalKey<Ready> = key(
    "ready",
    text(&READY),
    "Sign that it has started: \"http://HOST:PORT/PATH\", \"tcp://ADDRESS:PORT\", \
     \"log:PATTERN\" or \"after:2s\".",
);

static READY_TIMEOUT: Key<Duration> =
    key("ready_timeout", text(&TIME), "Time to wait for this sign.").or(Absent::Text("30s"));

static STOP_TIMEOUT: Key<Duration> = key(
    "stop_timeout",
    text(&TIME),
    "Time between SIGTERM and SIGKILL.",
)
.or(Absent::Text("10s"));

static METRICS: OptionalKey<String> = key(
    "metrics",
    text(&HTTP_URL),
    "Endpoint with the target's metrics in Prometheus's text format.",
);

static LIVE_BYTES: OptionalKey<LiveBytes> = section("live_bytes", &LIVE, live_bytes);

static LIVE: Table = Table::new(
    "target.live_bytes",
    "Number of bytes that are allocated and not freed.",
    keys![LIVE_URL, LIVE_POINTER],
);

static LIVE_URL: Key<String> =
    key("url", text(&HTTP_URL), "Endpoint that answers with JSON.").required();

static LIVE_POINTER: Key<String> = key(
    "pointer",
    text(&POINTER),
    "Place of the number in that JSON, such as \"/allocator/live_bytes\".",
)
.required();

static COLLECT: OptionalKey<Collect> = section("collect", &COLLECTION, collect);

static COLLECTION: Table = Table::new(
    "target.collect",
    "Forces a garbage collection in each quiet moment, before memory is read.",
    keys![COLLECT_URL, SIGNAL],
)
.needing(Needs::One(&["url", "signal"]));

static COLLECT_URL: OptionalKey<String> =
    key("url", text(&HTTP_URL), "Endpoint whose GET collects.");

static SIGNAL: OptionalKey<Signal> = key(
    "signal",
    choice(&Choices::of(&[
        ("HUP", Signal::HUP),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
    ])),
    "Signal to the target's first process.",
);

static PROFILE: OptionalKey<ProfileSource> = section("profile", &PROFILING, profile);

static PROFILING: Table = Table::new(
    "target.profile",
    "Heap profiles of the runtime, after warm-up and at the end.",
    keys![RUNTIME, PPROF_URL],
);

static RUNTIME: Key<Runtime> = key(
    "runtime",
    choice(&Choices::of(&[
        ("go", Runtime::Go),
        ("node", Runtime::Node),
        ("python", Runtime::Python),
        ("java", Runtime::Java),
    ])),
    "The runtime: Go by net/http/pprof, Node.js by its inspector, Python by tracemalloc, Java by jcmd.",
)
.required();

/// Values of `target.profile.runtime`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runtime {
    Go,
    Node,
    Python,
    Java,
}

static PPROF_URL: OptionalKey<String> = key(
    "url",
    text(&HTTP_URL),
    "Base URL of net/http/pprof, such as \"http://127.0.0.1:6060/debug/pprof\". For \"go\" only.",
);

/// `[[service]]`.
pub static SERVICE: Table = Table::new(
    "service",
    "A process beside the target, such as an upstream of a gateway.",
    keys![
        SERVICE_NAME,
        CMD,
        ENV,
        CWD,
        READY_SIGN,
        READY_TIMEOUT,
        SERVICE_STOP,
        AFTER,
        MEASURE,
    ],
);

static SERVICE_NAME: Key<String> =
    key("name", text(&ANY), "Names it in messages and its log.").required();

static SERVICE_STOP: Key<Duration> =
    key("stop_timeout", text(&TIME), STOP_TIMEOUT.spec.doc).or(Absent::Text("5s"));

/// Command line of a program beside the target.
pub static CMD: Key<Vec<String>> =
    key("cmd", list(&text(&ANY), 1), "Command line of the program.").required();

static AFTER: OptionalKey<()> = key(
    "after",
    choice(&Choices::of(&[("target", ())])),
    "Starts it after the target is ready, and ends it before the target.",
);

static MEASURE: Key<bool> = key(
    "measure",
    boolean(),
    "Counts it with the target: memory, CPU, sockets.",
)
.or(Absent::No);

/// The target that a table describes; `None`: a value of it is invalid, and its mistake was reported.
pub fn target(table: &Fields) -> Option<Target> {
    let running = match (table.get(&PID)?, table.get(&CGROUP)?) {
        (Some(pid), _) => Some(Running::Pid(pid)),
        (None, cgroup) => cgroup.map(Running::Cgroup),
    };
    let (process, ready) = match running {
        Some(running) => (
            TargetProcess::Running(running),
            Ready::After(Duration::ZERO),
        ),
        None => {
            let program = Program {
                cmd: table.get(&TARGET_CMD)??,
                env: table.get(&ENV)?.into_iter().collect(),
                cwd: table.get(&CWD)?,
            };
            (TargetProcess::Command(program), table.get(&READY_SIGN)??)
        }
    };
    Some(Target {
        process,
        ready,
        ready_timeout: table.get(&READY_TIMEOUT)?,
        stop_timeout: table.get(&STOP_TIMEOUT)?,
        live_bytes: table.get(&LIVE_BYTES)?,
        metrics: table.get(&METRICS)?,
        collect: table.get(&COLLECT)?,
        profile: table.get(&PROFILE)?,
    })
}

fn live_bytes(table: &Fields) -> Option<LiveBytes> {
    Some(LiveBytes {
        url: table.get(&LIVE_URL)?,
        pointer: table.get(&LIVE_POINTER)?,
    })
}

fn collect(table: &Fields) -> Option<Collect> {
    let url = table.get(&COLLECT_URL)?.map(Collect::Url);
    url.or(table.get(&SIGNAL)?.map(Collect::Signal))
}

fn profile(table: &Fields) -> Option<ProfileSource> {
    let url = table.get(&PPROF_URL)?;
    match table.get(&RUNTIME)? {
        Runtime::Go => url.map(|url| ProfileSource::Go { url }),
        Runtime::Node => Some(ProfileSource::Node),
        Runtime::Python => Some(ProfileSource::Python),
        Runtime::Java => Some(ProfileSource::Java),
    }
}

/// The service that a table describes.
pub fn service(table: &Fields) -> Option<Service> {
    Some(Service {
        name: table.get(&SERVICE_NAME)?,
        command: program(table)?,
        ready: table.get(&READY_SIGN)?,
        ready_timeout: table.get(&READY_TIMEOUT)?,
        stop_timeout: table.get(&SERVICE_STOP)?,
        after_target: table.get(&AFTER)?.is_some(),
        measure: table.get(&MEASURE)?,
    })
}

/// The program of `cmd`, `env` and `cwd`, the keys of services and command loads.
pub fn program(table: &Fields) -> Option<Program> {
    Some(Program {
        cmd: table.get(&CMD)?,
        env: table.get(&ENV)?.into_iter().collect(),
        cwd: table.get(&CWD)?,
    })
}

/// Finds the mistakes that the target's keys make together.
pub fn check(table: &Fields, mistakes: &mut Mistakes) {
    check_command(table, &TARGET_CMD, mistakes);
    let is_unsure = is_two(table, mistakes);
    if let Some(collect) = table.within(&COLLECT) {
        is_two(collect, mistakes);
    }
    let profile = table.within(&PROFILE);
    if is_unsure {
        // Either key may be the one that is meant.
    } else if is_running(table) {
        for key in [
            &ENV.spec,
            &CWD.spec,
            &READY_SIGN.spec,
            &READY_TIMEOUT.spec,
            &STOP_TIMEOUT.spec,
        ] {
            refuse_for_running(table.given(key), &format!("`{}`", key.name), mistakes);
        }
        let runtime = profile.and_then(|profile| profile.get(&RUNTIME));
        if matches!(runtime, Some(Runtime::Node | Runtime::Python)) {
            let at = table.place_of(&PROFILE);
            refuse_for_running(at, "a profile of this runtime", mistakes);
        }
    } else if table.place_of(&TARGET_CMD).is_some() && table.place_of(&READY_SIGN).is_none() {
        lacks(table, &READY_SIGN.spec, mistakes);
    }
    if let Some(profile) = profile {
        match (profile.get(&RUNTIME), profile.place_of(&PPROF_URL)) {
            (Some(Runtime::Go), None) => lacks(profile, &PPROF_URL.spec, mistakes),
            (Some(Runtime::Go) | None, _) | (_, None) => {}
            (Some(_), Some(at)) => {
                let mistake = Mistake::new(at, "`url` has no effect without `runtime = \"go\"`");
                mistakes.push(mistake.help("take it out"));
            }
        }
    }
}

/// True if a table has two of the keys of which it needs one; the mistake was reported.
fn is_two(table: &Fields, mistakes: &mut Mistakes) -> bool {
    let names = table.table.needs.names();
    let given = names
        .iter()
        .filter_map(|name| table.given(table.table.key(name)?));
    let [first, second, ..] = *given.collect::<Vec<_>>() else {
        return false;
    };
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    let message = format!("`{}` takes one of {}", table.table.name, names.join(", "));
    let mistake = Mistake::new(second, message).label("another one here");
    mistakes.push(mistake.also(first, "one here"));
    true
}

/// True if the lab does not start the target.
pub fn is_running(table: &Fields) -> bool {
    table.place_of(&PID).or(table.place_of(&CGROUP)).is_some()
}

/// True if the target has metrics, valid ones or not.
pub fn has_metrics(table: &Fields) -> bool {
    table.place_of(&METRICS).is_some()
}

/// Refuses a setting at this place for a target that runs already.
pub fn refuse_for_running(at: Option<Span>, what: &str, mistakes: &mut Mistakes) {
    if let Some(at) = at {
        let message = format!("{what} needs a target that the lab starts");
        let help = "give `target.cmd` instead of `pid` or `cgroup`, or take this out";
        mistakes.push(Mistake::new(at, message).help(help));
    }
}

fn lacks(table: &Fields, key: &Spec, mistakes: &mut Mistakes) {
    let message = format!("`{}` lacks the key `{}`", table.table.name, key.name);
    let mistake = Mistake::new(table.span, message).label("in this table");
    mistakes.push(mistake.help(format!("{}: {}", key.name, key.doc)));
}

/// Refuses a command line without a program.
pub fn check_command<K: Entry>(table: &Fields, cmd: &'static K, mistakes: &mut Mistakes) {
    let program = table.items(cmd).first();
    let is_empty = |node: &&Node| node.typed.value().is_some_and(String::is_empty);
    if let Some(node) = program.filter(is_empty) {
        let mistake = Mistake::new(node.span, "`cmd` has no program");
        mistakes.push(mistake.help("its first item names the program"));
    }
}
