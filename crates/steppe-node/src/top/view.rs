//! What is on the screen, without the screen.

use std::collections::VecDeque;

use serde_json::Value;

use super::feed::Update;

/// Samples kept: as many as the node's history has.
const SAMPLES_MAX: usize = 600;

/// The node as it was last, and how to show it.
#[derive(Debug)]
pub(super) struct View {
    /// Where it is read from.
    pub(super) admin: String,
    /// The last snapshot; `null` before the first.
    pub(super) node: Value,
    /// Why nothing comes.
    pub(super) lost: Option<String>,
    /// Requests a second, the newest last.
    pub(super) rates: VecDeque<u64>,
    /// The 99th percentile of latency in microseconds, the newest last; 0 where no request ended.
    pub(super) p99_us: VecDeque<u64>,
    pub(super) sort: Sort,
    pub(super) offset: usize,
    pub(super) shows_help: bool,
}

/// The order of accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// As they hang together.
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

    /// Moves the table of accounts; its end is where the last row is seen.
    pub(super) fn scroll(&mut self, rows: isize) {
        let last = self.accounts().len().saturating_sub(1);
        self.offset = self.offset.saturating_add_signed(rows).min(last);
    }

    /// The accounts in the order that was asked for.
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

/// Text that cannot steer a terminal, whoever made it up.
pub(super) fn printable(text: &str) -> String {
    let shown = |part: char| match part.is_control() {
        true => '\u{fffd}',
        false => part,
    };
    text.chars().map(shown).collect()
}

/// A string of the snapshot, fit for a terminal; `-` where there is none.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => printable(text),
        Value::Null => "-".to_owned(),
        other => printable(&other.to_string()),
    }
}

/// Bytes with a unit, three digits or so.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(super) fn bytes(value: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if value < 1 << 10 {
        return format!("{value} B");
    }
    let mut scaled = value as f64 / 1024.0;
    let mut unit = 0;
    while scaled >= 1023.95 && unit < units.len() - 1 {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", units[unit])
}

/// Milliseconds, or `-`.
pub(super) fn milliseconds(value: &Value) -> String {
    value
        .as_f64()
        .map_or_else(|| "-".to_owned(), |ms| format!("{ms:.2} ms"))
}

/// Resident memory, and what the allocator says where it does: blocks that are free
/// among others, and pages that go back in a moment.
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

/// A row a server, with the names of columns first.
pub(super) fn servers(node: &Value) -> Vec<[String; 6]> {
    let mut rows = Vec::new();
    for upstream in node["upstreams"].as_array().into_iter().flatten() {
        for server in upstream["servers"].as_array().into_iter().flatten() {
            let state = match server["reason"].as_str() {
                Some(reason) if !reason.is_empty() => {
                    format!("{} ({})", text(&server["state"]), printable(reason))
                }
                _ => text(&server["state"]),
            };
            rows.push([
                text(&upstream["name"]),
                text(&server["server"]),
                state,
                text(&server["active"]),
                text(&server["failures"]),
                milliseconds(&server["latency_ms"]),
            ]);
        }
    }
    rows
}

pub(super) const SERVER_COLUMNS: [&str; 6] = [
    "upstream", "server", "state", "active", "failures", "latency",
];

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
