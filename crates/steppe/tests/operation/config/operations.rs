//! Tables of `docs/operate/` and `docs/reference/` against the binary: each row is true, and none
//! is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use steppe_http::access::AccessField;
use steppe_node::{admin, config};
use steppe_testkit::{NodeConfig, RawOrigin, Steppe};

use super::observability::scrape_of_everything;

const ADMIN: &str = "reference/admin.md";
const ERRORS: &str = "reference/errors.md";
const LOGS: &str = "reference/logs.md";
const METRICS: &str = "reference/metrics.md";
const OPERATE: &str = "operate/README.md";

/// Rows of all tables of one section of a page in `docs/`, their cells without backquotes.
pub(super) fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(page);
    let text = std::fs::read_to_string(path).expect("the page is there");
    let section = text
        .split("\n## ")
        .find(|section| section.lines().next() == Some(heading))
        .unwrap_or_else(|| panic!("docs/{page} has no section {heading}"));
    let lines: Vec<&str> = section
        .lines()
        .filter(|line| line.starts_with('|'))
        .collect();
    let is_rule = |line: &&str| line.starts_with("| ---");
    // Neither the names of the columns nor the rule below them.
    let is_row = |index: &usize| {
        let next = lines.get(index + 1);
        !is_rule(&lines[*index]) && !next.is_some_and(is_rule)
    };
    let cells = |index: usize| {
        let cells = lines[index].trim_matches('|').split('|');
        cells.map(text_of).collect()
    };
    (0..lines.len()).filter(is_row).map(cells).collect()
}

fn text_of(cell: &str) -> String {
    cell.replace('`', "").trim().to_owned()
}

/// Asserts that both sets are equal; reports the names that are in one alone.
#[track_caller]
pub(super) fn assert_same<T: Ord + std::fmt::Debug>(
    what: &str,
    page: &BTreeSet<T>,
    binary: &BTreeSet<T>,
) {
    let missing: Vec<_> = binary.difference(page).collect();
    let extra: Vec<_> = page.difference(binary).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "{what}\n  the page lacks what the binary has: {missing:#?}\n  the page has what the \
         binary lacks: {extra:#?}"
    );
}

/// Families of an exposition, with their type.
fn families(exposition: &str) -> BTreeSet<(String, String)> {
    let types = exposition
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let split = |line: &str| {
        let (name, kind) = line.split_once(' ').expect("a name and a type");
        (name.to_owned(), kind.to_owned())
    };
    types.map(split).collect()
}

/// Names of labels of the samples of each family, without those of the format.
fn labels(exposition: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut family = String::new();
    for line in exposition.lines() {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            kind.split(' ')
                .next()
                .unwrap_or_default()
                .clone_into(&mut family);
        } else if !line.starts_with('#') {
            labels
                .entry(family.clone())
                .or_default()
                .extend(names(line));
        }
    }
    labels
}

/// The names of the labels of a sample: the text before each `="`.
fn names(sample: &str) -> BTreeSet<String> {
    let Some((_, labels)) = sample.split_once('{') else {
        return BTreeSet::new();
    };
    let before = labels
        .split("=\"")
        .map(|part| part.rsplit([',', '"', ' ']).next());
    let names = before
        .flatten()
        .filter(|name| *name != "le")
        .map(str::to_owned);
    let mut names: Vec<_> = names.collect();
    // The text after the last value is no name.
    names.pop();
    names.into_iter().collect()
}

#[test]
fn every_metric_is_in_the_page_with_its_type_and_labels() {
    let origin = RawOrigin::permissive();
    let config = NodeConfig::plain()
        .set("trace.otlp", "http://127.0.0.1:9")
        .set("log.access.file", "{scratch}/access.log");
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    let answer = node.exchange("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    assert_eq!(answer.status(), 200);
    let exposition = node.metrics().text().to_owned();
    let mut page = rows(METRICS, "Metrics");
    if steppe_node::allocator::NAME != "steppe" {
        let of_steppe = ["steppe_allocator_bytes", "steppe_allocator_purged_bytes"];
        page.retain(|row| !of_steppe.contains(&row[0].as_str()));
    }
    let named = page.iter().map(|row| (row[0].clone(), row[1].clone()));
    assert_same(METRICS, &named.collect(), &families(&exposition));
    let told = |row: &Vec<String>| {
        let labels = row[2].split(' ').filter(|label| !label.is_empty());
        (row[0].clone(), labels.map(str::to_owned).collect())
    };
    let told: BTreeMap<String, BTreeSet<String>> = page.iter().map(told).collect();
    for (family, labels) in labels(&exposition) {
        assert_same(&format!("labels of {family}"), &told[&family], &labels);
    }
}

#[test]
fn exit_codes_are_those_of_the_help() {
    let output = Steppe::command().arg("--help").output().expect("it runs");
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, codes) = help.split_once("Exit codes:").expect("the help has them");
    let codes = codes
        .lines()
        .filter_map(|line| line.trim().split_once("  "));
    let codes = codes.map(|(code, _)| code.to_owned()).collect();
    let page = rows(ERRORS, "Exit codes");
    let page = page.into_iter().map(|row| row[0].clone());
    assert_same("exit codes", &page.collect(), &codes);
}

#[test]
fn ports_are_those_of_the_embedded_default() {
    let default = config::read(config::DEFAULT_NAME, config::DEFAULT).config;
    let default = default.expect("the embedded default is valid");
    let mut addresses = BTreeSet::new();
    for listener in &default.http.listeners {
        addresses.insert(listener.address.to_string());
    }
    let forwarders = default.dns.listeners.iter();
    addresses.extend(forwarders.map(|listener| listener.address.to_string()));
    addresses.extend(default.admin.map(|admin| admin.listen.to_string()));
    for upstream in &default.http.upstreams {
        if let steppe_http::config::UpstreamKind::Servers(servers) = &upstream.kind {
            addresses.extend(
                servers
                    .servers
                    .iter()
                    .map(|server| server.address.to_string()),
            );
        }
    }
    let page = rows(OPERATE, "Ports");
    let page = page.into_iter().map(|row| row[0].clone());
    assert_same("ports", &page.collect(), &addresses);
}

#[test]
fn health_endpoints_answer() {
    let origin = RawOrigin::permissive();
    let node = Steppe::in_front_of(origin.address());
    for row in rows(ADMIN, "Health endpoints") {
        let (path, answer) = (&row[0], node.admin_get(&row[0]));
        assert_eq!(answer.status(), 200, "{path}");
        assert_eq!(row[1].split(' ').next(), Some("200"), "{path}");
    }
}

#[test]
fn limits_have_the_values_that_the_page_tells() {
    macro_rules! constants {
        ($($area:literal $module:path { $($name:ident)* })*) => {
            BTreeSet::from([$($({
                use $module::*;
                (format!("{} {}", $area, stringify!($name)), $name.to_string())
            }),*),*])
        };
    }
    let constants = constants! {
        "http" steppe_http::limits {
            HOST_BYTES_MAX RESPONSE_HEAD_BYTES_MAX RESPONSE_FIELDS_MAX INTERIM_RESPONSES_MAX
            TRAILER_BYTES_MAX TRAILER_FIELDS_MAX CHUNK_EXTENSION_BYTES_MAX FORWARDED_ELEMENTS_MAX
            RESPOND_BYTES_MAX ACCESS_TARGET_BYTES_MAX
            ACCESS_VALUE_BYTES_MAX REPLAY_BYTES_MAX RANGES_MAX
        }
        "net" steppe_net::limits {
            BACKLOG NAME_ADDRESSES_MAX BLOCKING_THREADS_MAX DISK_TASKS_MAX DESCRIPTORS_KEPT
            PROXY_V1_BYTES_MAX PROXY_V2_BYTES_MAX
        }
        "admin" admin::limits {
            CONNECTIONS_MAX EVENT_STREAMS_MAX HEADER_BYTES_MAX HEADER_COUNT_MAX TOKEN_BYTES_MAX
        }
        "config" config::limits { FILE_BYTES_MAX TOKENS_MAX NAME_BYTES_MAX MISTAKES_SHOWN_MAX }
    };
    let page = rows(ERRORS, "Limits")
        .into_iter()
        .map(|row| (row[0].clone(), row[1].clone()));
    assert_same("fixed limits", &page.collect(), &constants);
}

#[test]
fn endpoints_are_those_of_the_index() {
    let origin = RawOrigin::permissive();
    let node = Steppe::in_front_of(origin.address());
    let index = node.admin_get("/").text();
    let mut page = BTreeSet::new();
    for row in rows(ADMIN, "Endpoints") {
        let (_, path) = row[0].split_once(' ').expect("a method and a path");
        page.insert(up_to(path, '?').to_owned());
    }
    for row in rows(ADMIN, "Health endpoints") {
        page.insert(row[0].clone());
    }
    for path in &page {
        assert!(index.contains(path), "{path} is not in the index: {index}");
    }
    for line in index.lines().filter(|line| line.starts_with('/')) {
        let path = up_to(line, ' ');
        assert!(page.contains(path), "{path} is not in docs/{ADMIN}");
    }
}

/// A text up to the first `end`.
fn up_to(text: &str, end: char) -> &str {
    text.split(end).next().unwrap_or(text)
}

/// Metrics, each with the label whose values have a table.
const CLOSED: (&str, &str) = ("steppe_http_closed_total", "reason");
const HANDSHAKES: (&str, &str) = ("steppe_http_tls_handshakes_total", "outcome");
const TROUBLE: (&str, &str) = ("steppe_dns_upstream_trouble_total", "kind");
const EVENTS: (&str, &str) = ("steppe_dns_events_total", "event");

#[test]
fn values_of_labels_are_those_of_the_tables() {
    let scrape = scrape_of_everything();
    let tables = [
        (ERRORS, "Reasons of closed exchanges", CLOSED),
        (METRICS, "Outcomes of TLS handshakes", HANDSHAKES),
        (METRICS, "Kinds of DNS trouble", TROUBLE),
        (METRICS, "Events of DNS queries", EVENTS),
    ];
    for (page, heading, (metric, label)) in tables {
        let mut named = BTreeSet::new();
        for row in rows(page, heading) {
            named.extend(row[0].split(", ").map(str::to_owned));
        }
        assert_same(heading, &named, &values(scrape.text(), metric, label));
    }
}

/// Values of a label among the samples of a metric.
fn values(exposition: &str, metric: &str, label: &str) -> BTreeSet<String> {
    let opening = format!("{label}=\"");
    let samples = exposition
        .lines()
        .filter_map(|line| line.strip_prefix(metric)?.strip_prefix('{'));
    let value = |labels: &str| {
        let (_, after) = labels.split_once(&opening)?;
        Some(up_to(after, '"').to_owned())
    };
    samples.filter_map(value).collect()
}

#[test]
fn fields_of_the_access_log_are_those_of_the_page() {
    let page = rows(LOGS, "Access log");
    let named = page.iter().map(|row| row[0].clone());
    let known = AccessField::ALL.map(|(name, _)| name.to_owned());
    assert_same("fields", &named.collect(), &BTreeSet::from(known));
    let by_default = page.iter().filter(|row| row[1] == "yes");
    let by_default = by_default.map(|row| row[0].clone());
    let default = AccessField::DEFAULT.map(str::to_owned);
    assert_same(
        "default fields",
        &by_default.collect(),
        &BTreeSet::from(default),
    );
}
