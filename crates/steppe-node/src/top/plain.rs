//! One snapshot as plain text, for scripts, pipes and people with a notepad.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use super::view::{
    SERVER_COLUMNS, View, bytes, connections, events, memory, milliseconds, servers, text,
};

/// Prints it; a reader that left early has what it wanted.
pub(super) fn print(view: &View) -> io::Result<()> {
    match io::stdout().write_all(render(view).as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// The text. Writing to a string does not fail.
pub(super) fn render(view: &View) -> String {
    let node = &view.node;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "steppe {}  {}",
        text(&node["version"]),
        text(&node["state"])
    );
    let _ = writeln!(out, "up {} s", text(&node["uptime_s"]));
    let _ = writeln!(
        out,
        "requests {}/s  p50 {}  p99 {}",
        text(&node["requests_per_second"]),
        milliseconds(&node["p50_ms"]),
        milliseconds(&node["p99_ms"])
    );
    let _ = writeln!(out, "{}", connections(node));
    let _ = writeln!(out, "{}", memory(node));
    accounts(&mut out, view);
    upstreams(&mut out, view);
    for (level, line) in events(node) {
        let _ = writeln!(out, "{level} {line}");
    }
    out
}

fn accounts(out: &mut String, view: &View) {
    let _ = writeln!(
        out,
        "\n{:<40} {:>12} {:>12} {:>12} {:>8}",
        "account", "reserved", "peak", "limit", "refused"
    );
    for row in view.accounts() {
        let name = format!("{:indent$}{}", "", row.name, indent = row.depth * 2);
        let limit = row.limit_bytes.map_or_else(|| "-".to_owned(), bytes);
        let _ = writeln!(
            out,
            "{name:<40} {:>12} {:>12} {limit:>12} {:>8}",
            bytes(row.reserved_bytes),
            bytes(row.peak_bytes),
            row.refused
        );
    }
    out.push('\n');
}

fn upstreams(out: &mut String, view: &View) {
    let rows = servers(&view.node);
    if rows.is_empty() {
        out.push_str("upstreams: none\n");
        return;
    }
    let heads = SERVER_COLUMNS.map(str::to_owned);
    for [upstream, server, state, active, failures, latency] in std::iter::once(heads).chain(rows) {
        let _ = writeln!(
            out,
            "{upstream:<16} {server:<24} {state:<24} {active:>8} {failures:>8} {latency:>12}"
        );
    }
}
