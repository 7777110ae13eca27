//! The output of `watch` without a terminal: text for people, JSON lines for programs.

use serde_json::{Value, json};

use super::units::{bytes, count, percent, rate, slope};
use super::{End, Watch};
use crate::limits::SLOPE_POINTS_MIN;
use crate::observe::{Slow, Sockets, TcpState};

pub(super) fn head_text(watch: &Watch) -> String {
    let mut text = format!("watching {} ({})", watch.pid, watch.command);
    for lack in watch.missing() {
        text += &format!("\n  not seen: {}: {}", lack.name, lack.detail);
    }
    text
}

pub(super) fn head_json(watch: &Watch) -> String {
    json!({
        "event": "attached",
        "pid": watch.pid,
        "command": watch.command,
        "capabilities": watch.capabilities,
    })
    .to_string()
}

pub(super) fn look_text(watch: &Watch) -> String {
    let Some(look) = watch.history.last() else {
        return String::new();
    };
    let slow = &look.slow;
    let sockets = |state| count(slow.sockets.map(|it| it.count(state)));
    format!(
        "{:6.1} s  rss {}  anon {}  hwm {}  cpu {}  threads {}  files {}  established {}  \
         close-wait {}  syscalls/s {}  slope {}",
        look.at.as_secs_f64(),
        bytes(slow.rss_bytes),
        bytes(slow.anonymous_bytes),
        bytes(slow.hwm_bytes),
        percent(cpu_share(watch)),
        count(slow.threads),
        count(slow.open_files),
        sockets(TcpState::Established),
        sockets(TcpState::CloseWait),
        rate(watch.history.rate(|slow| slow.syscalls)),
        slope(watch.history.slope_kib_per_min()),
    )
}

pub(super) fn look_json(watch: &Watch) -> String {
    let Some(look) = watch.history.last() else {
        return String::new();
    };
    let slow = &look.slow;
    json!({
        "event": "look",
        "at_ms": u64::try_from(look.at.as_millis()).unwrap_or(u64::MAX),
        "rss_bytes": slow.rss_bytes,
        "anonymous_bytes": slow.anonymous_bytes,
        "swap_bytes": slow.swap_bytes,
        "pss_bytes": look.pss_bytes,
        "hwm_bytes": slow.hwm_bytes,
        "cpu_us": slow.cpu_us,
        "minor_faults": slow.minor_faults,
        "major_faults": slow.major_faults,
        "voluntary_switches": slow.voluntary_switches,
        "involuntary_switches": slow.involuntary_switches,
        "processes": slow.processes,
        "threads": slow.threads,
        "open_files": slow.open_files,
        "sockets": slow.sockets.as_ref().map(by_state),
        "syscalls": slow.syscalls,
        "cgroup_bytes": slow.cgroup.and_then(|it| it.bytes),
        "cgroup_sock_bytes": slow.cgroup.and_then(|it| it.sock_bytes),
        "slope_kib_per_min": watch.history.slope_kib_per_min(),
    })
    .to_string()
}

pub(super) fn summary_text(watch: &Watch, end: End) -> String {
    let (Some(first), Some(last)) = (watch.history.first(), watch.history.last()) else {
        return String::new();
    };
    let seconds = last.at.as_secs_f64();
    // Of a target that has ended, the last figures are those from before it ended.
    let final_look = |of: fn(&Slow) -> Option<u64>| {
        let seen = watch.history.looks().iter().rev();
        of(&last.slow).or_else(|| seen.filter_map(|look| of(&look.slow)).next())
    };
    let span = |of: fn(&Slow) -> Option<u64>, show: fn(Option<u64>) -> String| {
        format!("{} → {}", show(of(&first.slow)), show(final_look(of)))
    };
    let state = match end {
        End::Target if last.slow.processes > 0 => format!(
            "it has ended; {} of its descendants have not",
            last.slow.processes
        ),
        End::Target => "it has ended".to_owned(),
        End::Planned | End::Asked => "it still runs".to_owned(),
    };
    let mut text = format!(
        "\nwatched {} for {seconds:.1} s: {state}\n\
         memory   resident {}, anonymous {}, highest {}\n\
         slope    {}\n\
         cpu      {} of a core; {} system calls/s\n\
         files    {}; sockets in CLOSE-WAIT at most {}\n\
         looking  took {} of a core",
        watch.pid,
        span(|it| it.rss_bytes, bytes),
        span(|it| it.anonymous_bytes, bytes),
        bytes(final_look(|it| it.hwm_bytes)),
        trend(watch),
        percent(watch.history.mean_rate(|it| it.cpu_us).map(|us| us / 1e6)),
        rate(watch.history.mean_rate(|it| it.syscalls)),
        span(|it| it.open_files, count),
        count(watch.history.close_wait_max()),
        percent(Some(watch.cost_share())),
    );
    if watch.has_slowed {
        text += &format!(
            ", and would have taken more than 1 %: the interval is {:.0} s now",
            watch.interval.as_secs_f64()
        );
    }
    text
}

fn trend(watch: &Watch) -> String {
    let looks = watch.history.looks().len();
    match watch.history.slope_kib_per_min() {
        None => format!("none yet: it takes {SLOPE_POINTS_MIN} looks"),
        seen => format!(
            "{} (a trend of {looks} looks; `soak` gives a verdict)",
            slope(seen)
        ),
    }
}

pub(super) fn summary_json(watch: &Watch, end: End) -> String {
    let last = watch.history.last();
    json!({
        "event": "summary",
        "ended": end == End::Target,
        "processes": last.map(|look| look.slow.processes),
        "length_ms": last.map(|look| u64::try_from(look.at.as_millis()).unwrap_or(u64::MAX)),
        "slope_kib_per_min": watch.history.slope_kib_per_min(),
        "cpu_share": watch.history.mean_rate(|it| it.cpu_us).map(|us| us / 1e6),
        "syscalls_per_s": watch.history.mean_rate(|it| it.syscalls),
        "close_wait_max": watch.history.close_wait_max(),
        "cost_share": watch.cost_share(),
    })
    .to_string()
}

/// Share of a core that the target used between the last two looks.
pub(super) fn cpu_share(watch: &Watch) -> Option<f64> {
    watch.history.rate(|slow| slow.cpu_us).map(|us| us / 1e6)
}

fn by_state(sockets: &Sockets) -> Value {
    TcpState::ALL
        .into_iter()
        .map(|state| (state.name().to_owned(), json!(sockets.count(state))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
