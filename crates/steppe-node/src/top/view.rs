//! The state of `steppe top`, without the screen.

use std::collections::VecDeque;

use serde_json::Value;

use super::feed::Update;
use super::text::{bytes, milliseconds, percent, printable, rate, text};

/// Samples kept: as many as the node's history has.
const SAMPLES_MAX: usize = 600;

/// The last state of the node, and the settings of its display.
#[derive(Debug)]
pub(super) struct View {
    /// The address that it is read from.
    pub(super) admin: String,
    /// The last snapshot; `null` before the first.
    pub(super) node: Value,
    /// The error of a lost connection.
    pub(super) lost: Option<String>,
    /// Requests a second, the newest last.
    pub(super) rates: VecDeque<u64>,
    /// The 99th percentile of latency in microseconds, the newest last; 0 if no request ended.
    pub(super) p99_us: VecDeque<u64>,
    pub(super) panel: Panel,
    pub(super) sort: Sort,
    /// The first row of the table that scrolls.
    pub(super) offset: usize,
    pub(super) shows_help: bool,
}

/// The part of the node that the screen shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Panel {
    /// An overview.
    Overview,
    Routes,
    Upstreams,
    Caches,
    Accounts,
    Warnings,
}

impl Panel {
    const ALL: [Self; 6] = [
        Self::Overview,
        Self::Routes,
        Self::Upstreams,
        Self::Caches,
        Self::Accounts,
        Self::Warnings,
    ];

    pub(super) fn next(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::ALL.len()]
    }
}

/// The order of accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// Children below their parent.
    Tree,
    Reserved,
    Peak,
    Name,
}

impl Sort {
    pub(super) fn next(self) -> Self {
        match self {
            Self::Tree => Self::Reserved,
            Self::Reserved => Self::Peak,
            Self::Peak => Self::Name,
            Self::Name => Self::Tree,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Reserved => "reserved",
            Self::Peak => "peak",
            Self::Name => "name",
        }
    }
}

/// A row of the table of accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AccountRow {
    pub(super) name: String,
    pub(super) depth: usize,
    pub(super) reserved_bytes: u64,
    pub(super) peak_bytes: u64,
    pub(super) limit_bytes: Option<u64>,
    pub(super) refused: u64,
}

impl View {
    pub(super) fn new(admin: String) -> Self {
        Self {
            admin,
            node: Value::Null,
            lost: None,
            rates: VecDeque::new(),
            p99_us: VecDeque::new(),
            panel: Panel::Overview,
            sort: Sort::Tree,
            offset: 0,
            shows_help: false,
        }
    }

    pub(super) fn update(&mut self, update: Update) {
        match update {
            Update::History(history) => self.replace_samples(&history["samples"]),
            Update::Snapshot(node) => {
                self.add_sample(&node["requests_per_second"], &node["p99_ms"]);
                self.node = node;
                self.lost = None;
            }
            Update::Lost(why) => self.lost = Some(why),
        }
    }

    fn replace_samples(&mut self, rows: &Value) {
        self.rates.clear();
        self.p99_us.clear();
        for row in rows.as_array().into_iter().flatten() {
            self.add_sample(&row[3], &row[5]);
        }
    }

    fn add_sample(&mut self, rate: &Value, p99_ms: &Value) {
        let keep = |samples: &mut VecDeque<u64>, value| {
            if samples.len() == SAMPLES_MAX {
                samples.pop_front();
            }
            samples.push_back(value);
        };
        keep(&mut self.rates, whole(rate, 1.0));
        keep(&mut self.p99_us, whole(p99_ms, 1e3));
    }

    /// Scrolls a table of `count` rows, at most to its last row.
    pub(super) fn scroll(&mut self, rows: isize, count: usize) {
        let last = count.saturating_sub(1);
        self.offset = self.offset.saturating_add_signed(rows).min(last);
    }

    /// Shows the next panel from its first row.
    pub(super) fn next_panel(&mut self) {
        self.panel = self.panel.next();
        self.offset = 0;
    }

    /// The accounts in the chosen order.
    pub(super) fn accounts(&self) -> Vec<AccountRow> {
        let mut rows = Vec::new();
        flatten(&self.node["budget"], 0, &mut rows);
        match self.sort {
            Sort::Tree => {}
            Sort::Reserved => rows.sort_by_key(|row| std::cmp::Reverse(row.reserved_bytes)),
            Sort::Peak => rows.sort_by_key(|row| std::cmp::Reverse(row.peak_bytes)),
            Sort::Name => rows.sort_by(|one, other| one.name.cmp(&other.name)),
        }
        rows
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates and latencies are neither negative nor near 2^64, and `as` saturates"
)]
fn whole(value: &Value, factor: f64) -> u64 {
    (value.as_f64().unwrap_or(0.0) * factor).round() as u64
}

fn flatten(account: &Value, depth: usize, rows: &mut Vec<AccountRow>) {
    let Some(name) = account["name"].as_str() else {
        return;
    };
    let number = |key: &str| account[key].as_u64();
    rows.push(AccountRow {
        name: printable(name),
        depth,
        reserved_bytes: number("reserved_bytes").unwrap_or(0),
        peak_bytes: number("peak_bytes").unwrap_or(0),
        limit_bytes: number("limit_bytes"),
        refused: number("refused").unwrap_or(0),
    });
    for child in account["children"].as_array().into_iter().flatten() {
        flatten(child, depth + 1, rows);
    }
}

/// Resident memory, and the figures of the allocator if it has any: free blocks in slabs in use, and
/// free pages before their purge.
pub(super) fn memory(node: &Value) -> String {
    let number = |value: &Value| bytes(value.as_u64().unwrap_or(0));
    let (rss, live) = (&node["rss_bytes"], &node["allocator_live_bytes"]);
    let mut line = format!("resident {}  allocated {}", number(rss), number(live));
    let allocator = &node["allocator"];
    if allocator.is_object() {
        let (retained, dirty) = (&allocator["retained_bytes"], &allocator["dirty_bytes"]);
        line += &format!("  retained {}  dirty {}", number(retained), number(dirty));
    }
    line
}

/// The rate of requests, and the error rate of the last minute.
pub(super) fn requests(node: &Value) -> String {
    let recent = &node["responses"]["last_minute"];
    format!(
        "requests {}/s, error rate {}",
        rate(&node["requests_per_second"]),
        percent(&recent["error_rate"]),
    )
}

/// Latency of the last second.
pub(super) fn latency(node: &Value) -> String {
    let (p50, p99) = (milliseconds(&node["p50_ms"]), milliseconds(&node["p99_ms"]));
    format!("latency p50 {p50}, p99 {p99}")
}

/// The line about connections.
pub(super) fn connections(node: &Value) -> String {
    let connections = &node["connections"];
    format!(
        "clients {}, streams {}  upstream {} active, {} idle, streams {}  tunnels {}",
        text(&connections["downstream"]),
        text(&connections["downstream_streams"]),
        text(&connections["upstream_active"]),
        text(&connections["upstream_idle"]),
        text(&connections["upstream_streams"]),
        text(&connections["tunnels"]),
    )
}

/// Recent warnings and errors, the newest first.
pub(super) fn events(node: &Value) -> Vec<(String, String)> {
    let events = node["events"].as_array().into_iter().flatten();
    let shown = |event: &Value| {
        let times = match event["count"].as_u64() {
            Some(count) if count > 1 => format!(" ({count} times)"),
            _ => String::new(),
        };
        let line = format!(
            "{}: {}{times}",
            text(&event["target"]),
            text(&event["text"])
        );
        (text(&event["level"]), line)
    };
    events.map(shown).collect()
}
