//! A snapshot as plain text, for scripts and pipes.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use super::tables::{self, Column, Table};
use super::text::text;
use super::view::{View, connections, events, latency, memory, requests};

/// Prints the text; a reader that closed the pipe early is no error.
pub(super) fn print(view: &View) -> io::Result<()> {
    match io::stdout().write_all(render(view).as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// The text of a snapshot. Writing to a string does not fail.
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
    for line in [
        requests(node),
        latency(node),
        connections(node),
        memory(node),
    ] {
        let _ = writeln!(out, "{line}");
    }
    for shown in [
        tables::routes(node),
        tables::upstreams(node),
        tables::servers(node),
        tables::caches(node),
        tables::accounts(view),
    ] {
        table(&mut out, &shown);
    }
    out.push_str("\nrecent warnings and errors\n");
    let events = events(node);
    if events.is_empty() {
        out.push_str("no warnings or errors since the node started\n");
    }
    for (level, line) in events {
        let _ = writeln!(out, "{level} {line}");
    }
    out
}

/// Writes a table; a column is as wide as its widest cell.
fn table(out: &mut String, table: &Table) {
    let _ = writeln!(out, "\n{}", table.title);
    if table.rows.is_empty() {
        let _ = writeln!(out, "{}", table.empty);
        return;
    }
    let heads: Vec<_> = table.columns.iter().map(|column| column.head()).collect();
    let rows = table.rows.iter().map(|row| row.cells.iter());
    let rows: Vec<Vec<_>> = rows
        .map(|cells| cells.map(String::as_str).collect())
        .collect();
    let width = |index: usize| {
        let cells = rows.iter().map(|row| row[index]);
        let lengths = cells.chain([heads[index]]).map(|cell| cell.chars().count());
        lengths.max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..heads.len()).map(width).collect();
    for row in [&heads].into_iter().chain(&rows) {
        let cells = row.iter().zip(table.columns).zip(&widths);
        let cells = cells.map(|((cell, column), width)| match column {
            Column::Name(..) => format!("{cell:<width$}"),
            Column::Number(..) => format!("{cell:>width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(out, "{}", line.trim_end());
    }
}
