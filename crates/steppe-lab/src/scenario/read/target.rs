//! `[target]`, `[[service]]`, and the programs that they name.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use super::super::mistake::Mistake;
use super::super::table::{At, Table};
use super::super::{
    Collect, LiveBytes, ProfileSource, Program, Ready, Running, Service, Target, TargetProcess,
};
use super::duration;
use crate::limits::PID_MAX;

const READY_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

pub fn target(table: Table<'_>) -> Option<Target> {
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
        "a profile of this runtime needs a target that the lab starts",
        "give `target.cmd`; only go and java can be profiled while running",
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

pub fn service(table: Table<'_>) -> Option<Service> {
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
pub fn program(table: &Table<'_>) -> Option<Program> {
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

pub fn command_line(table: &Table<'_>, cmd: At<Vec<String>>) -> Option<Vec<String>> {
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
