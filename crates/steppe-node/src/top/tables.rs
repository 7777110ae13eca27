//! The tables of a view: columns and rows of text, for the screen and for plain text.

use serde_json::Value;

use super::text::{bytes, milliseconds, percent, printable, rate, text};
use super::view::{Panel, Sort, View, events};

/// A column's head, and its share of the width.
#[derive(Debug, Clone, Copy)]
pub(super) enum Column {
    /// Text on the left. Columns of names share, by weight, the width that numbers leave.
    Name(&'static str, u16),
    /// Text on the right, in so many cells.
    Number(&'static str, u16),
}

/// A table of the view.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) columns: &'static [Column],
    pub(super) rows: Vec<Row>,
    /// Text in place of rows, if there are none.
    pub(super) empty: &'static str,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) cells: Vec<String>,
    pub(super) look: Look,
}

/// The color of a row, the most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Look {
    Bad,
    Warning,
    Good,
    Plain,
}

impl Column {
    pub(super) fn head(self) -> &'static str {
        match self {
            Self::Name(head, _) | Self::Number(head, _) => head,
        }
    }
}

const ROUTES: &[Column] = &[
    Column::Name("route", 1),
    Column::Number("requests/s", 10),
    Column::Number("4xx", 7),
    Column::Number("5xx", 7),
    Column::Number("error rate", 10),
    Column::Number("4xx total", 9),
    Column::Number("5xx total", 9),
];

/// Responses by route. Counts without "total" are those of the last minute.
pub(super) fn routes(node: &Value) -> Table {
    let row = |route: &Value| {
        let recent = &route["last_minute"];
        let name = match route["name"].as_str() {
            Some("-") => "(no matching route)".to_owned(),
            _ => text(&route["name"]),
        };
        let cells = vec![
            name,
            rate(&recent["requests_per_second"]),
            text(&recent["4xx"]),
            text(&recent["5xx"]),
            percent(&recent["error_rate"]),
            text(&route["4xx"]),
            text(&route["5xx"]),
        ];
        let look = errors_look(&recent["5xx"]);
        Row { cells, look }
    };
    let responses = &node["responses"];
    Table {
        title: titled(
            "responses by route, last minute",
            &responses["routes_left_off"],
        ),
        columns: ROUTES,
        rows: rows(&responses["routes"], row),
        empty: "no routes",
    }
}

const UPSTREAMS: &[Column] = &[
    Column::Name("upstream", 1),
    Column::Number("responses/s", 11),
    Column::Number("4xx", 7),
    Column::Number("5xx", 7),
    Column::Number("gateway 5xx", 11),
    Column::Number("error rate", 10),
    Column::Number("5xx total", 9),
];

/// Responses by upstream, and the 5xx of the gateway itself on routes to it.
pub(super) fn upstreams(node: &Value) -> Table {
    let row = |upstream: &Value| {
        let recent = &upstream["last_minute"];
        let cells = vec![
            text(&upstream["name"]),
            rate(&recent["responses_per_second"]),
            text(&recent["4xx"]),
            text(&recent["5xx"]),
            text(&recent["gateway_5xx"]),
            percent(&recent["error_rate"]),
            text(&upstream["5xx"]),
        ];
        let look = match errors_look(&recent["5xx"]) {
            Look::Plain => errors_look(&recent["gateway_5xx"]),
            look => look,
        };
        Row { cells, look }
    };
    let responses = &node["responses"];
    Table {
        title: titled(
            "responses by upstream, last minute",
            &responses["upstreams_left_off"],
        ),
        columns: UPSTREAMS,
        rows: rows(&responses["upstreams"], row),
        empty: "no upstreams",
    }
}

const SERVERS: &[Column] = &[
    Column::Name("upstream", 1),
    Column::Name("server", 2),
    Column::Name("state", 2),
    Column::Number("active", 7),
    Column::Number("failures", 9),
    Column::Number("latency", 11),
];

/// Servers of upstreams. Servers that take no requests come first.
pub(super) fn servers(node: &Value) -> Table {
    let upstreams = node["upstreams"].as_array().into_iter().flatten();
    let rows = upstreams.flat_map(|upstream| {
        let row = |server: &Value| server_row(&upstream["name"], server);
        rows(&upstream["servers"], row)
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|row| row.look);
    Table {
        title: "servers".to_owned(),
        columns: SERVERS,
        rows,
        empty: "no servers",
    }
}

fn server_row(upstream: &Value, server: &Value) -> Row {
    let state = text(&server["state"]);
    let reason = server["reason"]
        .as_str()
        .filter(|reason| !reason.is_empty());
    let look = match state.as_str() {
        "healthy" if reason.is_none() => Look::Good,
        // A healthy server has a reason if its last request failed.
        "healthy" | "draining" | "unresolved" => Look::Warning,
        _ => Look::Bad,
    };
    let state = match reason {
        Some(reason) => format!("{state} ({})", printable(reason)),
        None => state,
    };
    let cells = vec![
        text(upstream),
        text(&server["server"]),
        state,
        text(&server["active"]),
        text(&server["failures"]),
        milliseconds(&server["latency_ms"]),
    ];
    Row { cells, look }
}

const CACHES: &[Column] = &[
    Column::Name("cache", 1),
    Column::Number("hit ratio", 9),
    Column::Number("total", 8),
    Column::Number("responses", 9),
    Column::Number("stored", 9),
    Column::Number("evictions", 9),
    Column::Number("memory", 10),
    Column::Number("limit", 10),
];

/// Caches: the hit ratio of the last minute and that since the start, responses that are in the
/// cache, and how many were stored and evicted so far.
pub(super) fn caches(node: &Value) -> Table {
    let size = |value: &Value| bytes(value.as_u64().unwrap_or(0));
    let row = |cache: &Value| Row {
        cells: vec![
            text(&cache["name"]),
            percent(&cache["last_minute"]["hit_ratio"]),
            percent(&cache["hit_ratio"]),
            text(&cache["responses"]),
            text(&cache["stored"]),
            text(&cache["evicted"]),
            size(&cache["bytes"]),
            size(&cache["bytes_max"]),
        ],
        look: Look::Plain,
    };
    let caches = &node["caches"];
    Table {
        title: titled(
            "caches, hit ratio of the last minute",
            &caches["filters_left_off"],
        ),
        columns: CACHES,
        rows: rows(&caches["filters"], row),
        empty: "no caches",
    }
}

const ACCOUNTS: &[Column] = &[
    Column::Name("account", 1),
    Column::Number("reserved", 10),
    Column::Number("peak", 10),
    Column::Number("limit", 10),
    Column::Number("refused", 8),
];

/// Accounts of the memory budget, in the order of the view.
pub(super) fn accounts(view: &View) -> Table {
    let is_tree = view.sort == Sort::Tree;
    let rows = view.accounts().into_iter().map(|account| {
        let depth = if is_tree { account.depth * 2 } else { 0 };
        let cells = vec![
            format!("{:depth$}{}", "", account.name),
            bytes(account.reserved_bytes),
            bytes(account.peak_bytes),
            account.limit_bytes.map_or_else(|| "-".to_owned(), bytes),
            account.refused.to_string(),
        ];
        let look = Look::Plain;
        Row { cells, look }
    });
    Table {
        title: format!("memory budget by account, sorted by {}", view.sort.name()),
        columns: ACCOUNTS,
        rows: rows.collect(),
        empty: "no accounts",
    }
}

/// Rows of the table that scrolls in the view's panel.
pub(super) fn rows_that_scroll(view: &View) -> usize {
    match view.panel {
        Panel::Overview | Panel::Accounts => view.accounts().len(),
        Panel::Routes => routes(&view.node).rows.len(),
        Panel::Upstreams => servers(&view.node).rows.len(),
        Panel::Caches => caches(&view.node).rows.len(),
        Panel::Warnings => events(&view.node).len(),
    }
}

fn rows(list: &Value, row: impl Fn(&Value) -> Row) -> Vec<Row> {
    list.as_array().into_iter().flatten().map(row).collect()
}

/// A title, with the number of rows that the node left off.
fn titled(title: &str, left_off: &Value) -> String {
    match left_off.as_u64() {
        Some(count) if count > 0 => format!("{title}, {count} more in /metrics"),
        _ => title.to_owned(),
    }
}

fn errors_look(count: &Value) -> Look {
    match count.as_u64() {
        Some(1..) => Look::Bad,
        _ => Look::Plain,
    }
}
