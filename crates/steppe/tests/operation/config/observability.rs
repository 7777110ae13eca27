//! The Grafana dashboard and the alert rules of `packaging/` against `/metrics`: every metric and
//! label that they name exists, and so does every value that a query compares a label with.
//!
//! Queries are parsed only as far as names need it: selectors, groupings, words. Of YAML, only the
//! lines that make up the rules are parsed.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use steppe_testkit::{Issued, Metrics, Steppe};

/// A gateway with TLS, a cache, health checks, hedging and a circuit breaker; DNS with a list and a
/// query log; the request plane.
const EVERYTHING: &str = r#"
[node]
workers = 1
memory_budget = "96MiB"
[admin]
listen = "{admin}"
[log]
access.file = "{scratch}/access.log"
[trace]
otlp = "http://127.0.0.1:9"
[[http.listener]]
listen = "{gateway}"
[[http.listener]]
listen = "127.0.0.1:{tls}"
tls.certificates = [{ cert = "site.crt", key = "site.key" }]
[http.upstream.hello]
respond = { body = "hello" }
[http.upstream.app]
servers = ["127.0.0.1:9"]
health.path = "/"
hedge = {}
circuit_breaker = {}
[http.upstream.echo]
plane = "echo"
[http.filter.pages]
kind = "cache"
bytes = "8MiB"
[[http.route]]
name = "hello"
upstream = "hello"
filters = ["pages"]
[[http.route]]
name = "app"
path = "/app/{rest*}"
upstream = "app"
[[http.route]]
name = "echo"
path = "/echo"
upstream = "echo"
[[plane.listener]]
listen = "127.0.0.1:{plane}"
[[dns.listener]]
listen = "127.0.0.1:{dns}"
[dns.log]
queries = { file = "{scratch}/queries.log" }
[dns.upstream.public]
servers = ["udp://127.0.0.1:9"]
[dns.list.ads]
files = ["ads.txt"]
[[dns.rule]]
list = "ads"
block = "nxdomain"
[[dns.rule]]
suffix = "."
forward = "public"
"#;

/// A scrape of a node with [`EVERYTHING`].
#[track_caller]
pub(super) fn scrape_of_everything() -> Metrics {
    let issued = Issued::self_signed("127.0.0.1");
    let (builder, _) = Steppe::builder().with_port("tls");
    let (builder, _) = builder.with_port("plane");
    let (builder, _) = builder.with_port("dns");
    let node = builder
        .with_file("site.crt", &issued.cert)
        .with_file("site.key", &issued.key)
        .with_file("ads.txt", "ads.example\n")
        .start(EVERYTHING);
    node.metrics()
}

fn packaging(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    std::fs::read_to_string(folder.join(name)).expect("the file is there")
}

#[test]
fn the_dashboard_names_metrics_and_labels_that_exist() {
    let scrape = scrape_of_everything();
    let dashboard = packaging("grafana/steppe.json");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("JSON");
    let panels = list(&dashboard["panels"]);
    let panels = panels.iter().filter(|panel| panel["type"] != "row");
    let mut queries = 0;
    for panel in panels {
        let title = text(&panel["title"]);
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        let targets = list(&panel["targets"]);
        assert!(!targets.is_empty(), "{title} has no query");
        for target in targets {
            let query = Query::read(text(&target["expr"]));
            query.check(&scrape);
            let legend = text(&target["legendFormat"]);
            for label in between(legend, "{{", "}}") {
                query.check_label(&scrape, label);
            }
            queries += 1;
        }
    }
    assert!(queries > 30, "{queries} queries");
    let variables = list(&dashboard["templating"]["list"]);
    for variable in variables.iter().filter(|each| each["type"] == "query") {
        let definition = text(&variable["definition"]);
        let inner = between(definition, "label_values(", ")");
        let (selector, label) = inner[0].rsplit_once(',').expect("a selector and a label");
        let query = Query::read(selector);
        query.check(&scrape);
        query.check_label(&scrape, label.trim());
    }
}

#[test]
fn alerts_name_metrics_and_labels_that_exist() {
    let scrape = scrape_of_everything();
    let rules = packaging("prometheus/steppe.rules.yml");
    let mut alerts = BTreeSet::new();
    for rule in rules.split("- alert: ").skip(1) {
        let name = rule.lines().next().unwrap_or_default();
        assert!(alerts.insert(name), "{name} stands twice");
        let expression = key(rule, "expr");
        let query = Query::read(&expression);
        query.check(&scrape);
        assert!(key(rule, "for").ends_with(['s', 'm', 'h']), "{name}: for");
        assert!(key(rule, "labels").contains("severity"), "{name}: severity");
        for annotation in ["summary", "description"] {
            let text = key(rule, annotation);
            assert!(!text.is_empty(), "{name}: {annotation}");
            for shown in between(&text, "$labels.", "}}") {
                query.check_label(&scrape, shown.trim());
            }
        }
    }
    assert!(alerts.len() > 10, "{alerts:?}");
}

#[track_caller]
fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

#[track_caller]
fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// The texts between each `opening` and the next `closing`.
fn between<'a>(text: &'a str, opening: &str, closing: &str) -> Vec<&'a str> {
    let parts = text.split(opening).skip(1);
    parts
        .map(|part| part.split(closing).next().unwrap_or(part))
        .collect()
}

/// The value of a key of a rule: the rest of its line, or the lines below `|`.
#[track_caller]
fn key(rule: &str, name: &str) -> String {
    let prefix = format!("{name}: ");
    let mut lines = rule.lines();
    let line = lines
        .find(|line| line.trim_start().starts_with(&prefix))
        .unwrap_or_else(|| panic!("no {name} in {rule}"));
    let indent = |line: &str| line.len() - line.trim_start().len();
    let value = &line.trim_start()[prefix.len()..];
    if value != "|" {
        return value.to_owned();
    }
    let block: Vec<&str> = lines
        .take_while(|below| indent(below) > indent(line))
        .collect();
    block.join("\n")
}

/// Labels that Prometheus adds to scraped samples, and the bound of a bucket.
const ADDED: [&str; 3] = ["job", "instance", "le"];

/// A metric that Prometheus makes for each scrape.
const UP: &str = "up";

/// Words of the query language that the files use.
const WORDS: [&str; 10] = [
    "and",
    "changes",
    "histogram_quantile",
    "increase",
    "max",
    "min",
    "or",
    "rate",
    "sum",
    "time",
];

/// The names in a query.
#[derive(Debug, Default)]
struct Query<'a> {
    text: &'a str,
    selectors: Vec<Selector<'a>>,
    /// Labels of `by (…)`.
    grouped: Vec<&'a str>,
}

/// A metric, and the matchers in its braces.
#[derive(Debug)]
struct Selector<'a> {
    metric: &'a str,
    matchers: Vec<Matcher<'a>>,
}

#[derive(Debug)]
struct Matcher<'a> {
    label: &'a str,
    operator: &'a str,
    value: &'a str,
}

impl<'a> Query<'a> {
    #[track_caller]
    fn read(text: &'a str) -> Self {
        let mut query = Self {
            text,
            ..Self::default()
        };
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            rest = match first {
                '[' => after(rest, ']'),
                '0'..='9' => rest.trim_start_matches(is_of_number),
                'a'..='z' => query.word(rest),
                _ => &rest[first.len_utf8()..],
            };
        }
        assert!(!query.selectors.is_empty(), "no metric in {text}");
        query
    }

    /// Reads a word, with its labels or matchers, and returns the rest.
    #[track_caller]
    fn word(&mut self, text: &'a str) -> &'a str {
        let rest = text.trim_start_matches(is_of_word);
        let word = &text[..text.len() - rest.len()];
        let is_metric = word.starts_with("steppe_") || word.starts_with("process_") || word == UP;
        if word == "by" {
            let (labels, rest) = enclosed(rest, '(', ')');
            self.grouped.extend(labels.split(',').map(str::trim));
            return rest;
        }
        if !is_metric {
            assert!(WORDS.contains(&word), "{word} in {}", self.text);
            return rest;
        }
        let (matchers, rest) = match rest.starts_with('{') {
            true => enclosed(rest, '{', '}'),
            false => ("", rest),
        };
        let matchers = matchers.split(',').filter(|each| !each.is_empty());
        self.selectors.push(Selector {
            metric: word,
            matchers: matchers.map(Matcher::read).collect(),
        });
        rest
    }

    /// Asserts that each metric, label and compared value is in the scrape.
    #[track_caller]
    fn check(&self, scrape: &Metrics) {
        for selector in &self.selectors {
            selector.check(scrape);
        }
        for label in &self.grouped {
            self.check_label(scrape, label);
        }
    }

    /// Asserts that some metric of the query has this label of its result.
    #[track_caller]
    fn check_label(&self, scrape: &Metrics, label: &str) {
        let mut metrics = self.selectors.iter().map(|selector| selector.metric);
        let is_there = ADDED.contains(&label) || metrics.any(|metric| has(scrape, metric, label));
        assert!(is_there, "no metric has the label {label}: {}", self.text);
    }
}

impl Selector<'_> {
    #[track_caller]
    fn check(&self, scrape: &Metrics) {
        let metric = self.metric;
        let is_there = metric == UP || scrape.names().contains(metric);
        assert!(is_there, "no metric {metric}");
        for matcher in &self.matchers {
            let Matcher { label, value, .. } = matcher;
            if ADDED.contains(label) {
                continue;
            }
            assert!(has(scrape, metric, label), "{metric} has no {label}");
            // Variables of a dashboard, and patterns, stand for several values.
            let is_value = matcher.operator == "=" && !value.contains('$');
            let is_there = !is_value || scrape.has(metric, &[(*label, *value)]);
            assert!(is_there, "{metric} has no {label}=\"{value}\"");
        }
    }
}

impl<'a> Matcher<'a> {
    #[track_caller]
    fn read(text: &'a str) -> Self {
        let text = text.trim();
        let at = text.find(['=', '!']).expect("an operator");
        let (label, rest) = text.split_at(at);
        let (operator, value) = rest.split_once('"').expect("a value in quotes");
        Self {
            label: label.trim(),
            operator: operator.trim(),
            value: value.trim_end_matches('"'),
        }
    }
}

fn is_of_number(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '.'
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// True if a sample of `metric` has `label`.
fn has(scrape: &Metrics, metric: &str, label: &str) -> bool {
    let (first, later) = (format!("{label}=\""), format!(",{label}=\""));
    let samples = scrape.text().lines();
    let mut labels = samples.filter_map(|line| line.strip_prefix(metric)?.strip_prefix('{'));
    labels.any(|labels| labels.starts_with(&first) || labels.contains(&later))
}

/// The text in the next parentheses or braces, and the text after them.
#[track_caller]
fn enclosed(text: &str, opening: char, closing: char) -> (&str, &str) {
    let (_, inner) = text.split_once(opening).expect("it is opened");
    inner.split_once(closing).expect("it is closed")
}

fn after(text: &str, end: char) -> &str {
    text.split_once(end).map_or("", |(_, rest)| rest)
}
