//! Prometheus's text exposition, as far as a soak needs it: series of gauges and counters.
//!
//! Bytes in, readings out; the text formats 0.0.4 of Prometheus and 1.0 of OpenMetrics. Invariant:
//! readings are bounded in number and length, and omissions are counted. Buckets of histograms,
//! quantiles of summaries, exemplars, timestamps and info series are left out: they are no resource.

use std::collections::BTreeMap;

use crate::limits::METRIC_SERIES_LEN_MAX;
use crate::record::{MetricKind, Reading};

/// The series of a text, and counts of what was left out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Exposition {
    /// Readings in the order of the text.
    pub readings: Vec<Reading>,
    /// Series beyond the requested number.
    pub over: usize,
    /// Series with a name that is too long.
    pub long: usize,
    /// Lines that are not of the format.
    pub unreadable: usize,
}

impl Exposition {
    /// Reads a text; at most `series_max` series of it.
    pub fn parse(text: &[u8], series_max: usize) -> Self {
        let text = String::from_utf8_lossy(text);
        let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
        let mut found = Self::default();
        for line in text.lines().map(str::trim) {
            if let Some(comment) = line.strip_prefix('#') {
                let mut words = comment.split_whitespace();
                if words.next() == Some("TYPE")
                    && let (Some(name), Some(kind)) = (words.next(), words.next())
                {
                    kinds.insert(name, kind);
                }
            } else if !line.is_empty() {
                found.sample(line, &kinds, series_max);
            }
        }
        found
    }

    fn sample(&mut self, line: &str, kinds: &BTreeMap<&str, &str>, series_max: usize) {
        let Some((series, name, value)) = split(line) else {
            self.unreadable += 1;
            return;
        };
        let Some(kind) = kind_of(name, series, kinds) else {
            return;
        };
        if !value.is_finite() {
            return;
        }
        if series.len() > METRIC_SERIES_LEN_MAX {
            self.long += 1;
        } else if self.readings.len() >= series_max {
            self.over += 1;
        } else {
            let series = series.to_owned();
            self.readings.push(Reading {
                series,
                kind,
                value,
            });
        }
    }
}

/// The series, its name without labels, and its value; a time or an exemplar may follow.
fn split(line: &str) -> Option<(&str, &str, f64)> {
    let name_len = line.find(|c: char| !is_of_name(c)).unwrap_or(line.len());
    let name = line.get(..name_len).filter(|name| !name.is_empty())?;
    let labels_len = match line[name_len..].starts_with('{') {
        true => labels_len(&line[name_len..])?,
        false => 0,
    };
    let (series, rest) = line.split_at(name_len + labels_len);
    let is_plain = !series.chars().any(char::is_control);
    let value = rest.split_whitespace().next()?;
    // Rust reads `inf` and `NaN` in any case, as the format writes them.
    let value = value.parse().ok().filter(|_| is_plain)?;
    Some((series, name, value))
}

/// Length of the labels up to the closing brace; one within quotes does not close them.
fn labels_len(text: &str) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (index, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '}' if !is_quoted => return Some(index + 1),
            _ => {}
        }
    }
    None
}

/// The kind of a series; `None`: it is not kept.
fn kind_of(name: &str, series: &str, kinds: &BTreeMap<&str, &str>) -> Option<MetricKind> {
    let ends = ["_bucket", "_sum", "_count", "_total", "_created", "_info"];
    let end = ends.into_iter().find(|end| name.ends_with(end));
    let family = end.map_or(name, |end| name.strip_suffix(end).unwrap_or(name));
    let kind = kinds.get(name).or_else(|| kinds.get(family)).copied();
    let is_part = end.is_some_and(|end| ["_sum", "_count"].contains(&end));
    match (kind.unwrap_or("untyped"), end) {
        ("info" | "stateset" | "gaugehistogram", _)
        | (_, Some("_bucket" | "_created" | "_info")) => None,
        ("gauge", _) => Some(MetricKind::Gauge),
        ("counter", _) => Some(MetricKind::Counter),
        ("histogram" | "summary", _) => is_part.then_some(MetricKind::Counter),
        _ if series.contains("quantile=\"") => None,
        (_, Some(_)) => Some(MetricKind::Counter),
        _ => Some(MetricKind::Gauge),
    }
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> String {
        let found = Exposition::parse(text.as_bytes(), 100);
        let line = |it: &Reading| format!("{:?} {} = {}\n", it.kind, it.series, it.value);
        let lines: String = found.readings.iter().map(line).collect();
        format!(
            "{lines}over {}, long {}, unreadable {}",
            found.over, found.long, found.unreadable
        )
    }

    #[test]
    fn kinds_follow_types_and_names() {
        let text = "# HELP a_total Help with TYPE a_total gauge in it\n# TYPE a_total counter\na_total{p=\"x} y\\\"\"} 3 1700000000000\n\
            # TYPE h histogram\nh_bucket{le=\"+Inf\"} 2\nh_sum 0.5\nh_count 2\n\
            # TYPE s summary\ns{quantile=\"0.5\"} 1\ns_sum 4\n\
            # TYPE om counter\n# UNIT held_bytes bytes\n# TYPE held_bytes gauge\nheld_bytes{by=\"x\"} 18446744073709551615\nom_total 7 # {trace_id=\"x\"} 1 2\nom_created 1.7e9\n\
            free 12\nsome_total 4\nbuild_info{v=\"1\"} 1\nnothing NaN\nendless +Inf\n\
            {labels=\"only\"} 3\nno_value\nopen{x=\"} 3\n# EOF\n";
        expect![[r#"
            Counter a_total{p="x} y\""} = 3
            Counter h_sum = 0.5
            Counter h_count = 2
            Counter s_sum = 4
            Gauge held_bytes{by="x"} = 18446744073709552000
            Counter om_total = 7
            Gauge free = 12
            Counter some_total = 4
            over 0, long 0, unreadable 3"#]]
        .assert_eq(&shown(text));
    }

    #[test]
    fn what_is_over_a_bound_is_counted() {
        let long = "x".repeat(METRIC_SERIES_LEN_MAX + 1);
        let text = format!("{long} 1\na 1\nb 2\nc 3\n");
        let found = Exposition::parse(text.as_bytes(), 2);
        assert_eq!((found.readings.len(), found.over, found.long), (2, 1, 1));
    }

    #[test]
    fn a_page_of_the_client_of_go_is_read() {
        let text = include_str!("../../testdata/metrics/go-client.txt");
        let found = Exposition::parse(text.as_bytes(), 1_000);
        let of = |series: &str| {
            let reading = found.readings.iter().find(|it| it.series == series);
            reading.map(|it| (it.kind, it.value > 0.0))
        };
        assert_eq!((found.over, found.long, found.unreadable), (0, 0, 0));
        let gauges = [
            "go_goroutines",
            "go_threads",
            "process_open_fds",
            "app_cache_entries",
        ];
        for series in gauges.into_iter().chain(["go_memstats_heap_inuse_bytes"]) {
            assert_eq!(of(series), Some((MetricKind::Gauge, true)), "{series}");
        }
        let labeled = r#"app_requests_total{path="/a \"quoted\" \\ path\nline",status="200"}"#;
        for series in [
            labeled,
            "app_request_seconds_count",
            "process_cpu_seconds_total",
        ] {
            assert_eq!(
                of(series).map(|it| it.0),
                Some(MetricKind::Counter),
                "{series}"
            );
        }
        let is_part =
            |it: &&Reading| it.series.contains("_bucket") || it.series.contains("quantile");
        assert_eq!(found.readings.iter().find(is_part), None);
    }

    #[test]
    fn a_page_of_a_node_exporter_is_read() {
        let text = include_str!("../../testdata/metrics/node-exporter.txt");
        assert_eq!(
            shown(text),
            "Counter node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} = 154821.31\n\
             Gauge node_filesystem_avail_bytes{device=\"/dev/vda1\",fstype=\"ext4\",mountpoint=\"/\"} = 48310272000\n\
             Gauge node_load1 = 0.42\n\
             Gauge node_memory_MemAvailable_bytes = 3204890624\n\
             Gauge node_filefd_allocated = 1696\n\
             Gauge node_time_seconds = 1732366799.123\n\
             Counter node_vmstat_pgfault = 81237711\n\
             over 0, long 0, unreadable 0"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_keep_too_much(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let found = Exposition::parse(&bytes, 5);
            prop_assert!(found.readings.len() <= 5);
            prop_assert!(found.readings.iter().all(|it| it.value.is_finite()));
        }

        #[test]
        fn what_is_written_is_read(name in "[a-z_:][a-z0-9_:]{0,20}x", value in -1e12..1e12f64) {
            let text = format!("# TYPE {name} gauge\n{name}{{l=\"\\\"}}\"}} {value}\n");
            let found = Exposition::parse(text.as_bytes(), 5);
            prop_assert_eq!(found.readings.len(), 1);
            prop_assert_eq!(found.readings[0].value, value);
        }
    }
}
