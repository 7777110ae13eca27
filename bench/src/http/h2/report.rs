//! The tables of HTTP/2 and gRPC, and their part of the JSON.

use serde_json::{Map, Value, json};

use super::super::TRANSFER_CONNECTIONS;
use super::super::fleet::Outcome;
use super::super::measure::{Results, Saturation};
use super::super::pairs::{self, Pair, pair_by};
use super::super::report::{
    REFERENCE, by_name, cpu_per_gb, idle_bytes, rounded, saturated, saturation_table_of,
};
use super::super::tls::report::bodies_table;
use super::{CONNECTIONS, SHAPES, Wire};
use crate::peer::floor::ON_STEPPE_H2;
use crate::stats::{extremes, median, ratios};
use crate::table::{Table, figure};

/// The reference of ratios with h2c upstreams, which [`REFERENCE`] does not support.
const H2C_REFERENCE: &str = "envoy";

/// Keys of `SHAPES` in the JSON.
const KEYS: [&str; SHAPES.len()] = ["tls_10", "tls_100", "h2c_10", "h2c_100"];
/// Labels of `SHAPES` in tables.
const LABELS: [&str; SHAPES.len()] = [
    "TLS × 10 streams",
    "TLS × 100 streams",
    "h2c × 10 streams",
    "h2c × 100 streams",
];

/// Prints the tables of the phases that ran.
pub fn print(outcome: &Outcome) {
    print_streams(&outcome.http2, "HTTP/1.1");
    print_streams(&outcome.h2c_upstream, "HTTP/2 without TLS");
    let moved = |result: &Results| !result.download.is_empty() || result.idle.is_some();
    if outcome.http2.iter().any(moved) {
        println!("\nHTTP/2 over TLS: 1 MB bodies, {TRANSFER_CONNECTIONS} connections; idle ones");
        print!("{}", bodies_table(&outcome.http2));
    }
    let rows = upstreams(outcome);
    if !rows.is_empty() {
        println!(
            "\nHTTP/1.1 with clients, 64 connections: CPU µs a request by what the origin speaks"
        );
        print!("{}", upstream_table(&rows));
    }
    if !outcome.grpc.is_empty() {
        println!("\ngRPC: unary calls, 64 at a time over 32 connections, 1 kB of content");
        print!(
            "{}",
            saturation_table_of(&outcome.grpc, |result| &result.saturation)
        );
    }
    let pairs: Vec<Pair> = pairs(outcome).into_iter().map(|(_, pair)| pair).collect();
    if !pairs.is_empty() {
        println!("\nHTTP/2 and gRPC: CPU, pair by pair within each round");
        print!("{}", pairs::table(&pairs));
    }
}

fn print_streams(results: &[Results], origin: &str) {
    for (place, shape) in SHAPES.iter().enumerate() {
        if results
            .iter()
            .all(|result| result.streams[place].is_empty())
        {
            continue;
        }
        let wire = match shape.wire {
            Wire::Tls => "over TLS",
            Wire::Clear => "without TLS",
        };
        let streams = shape.streams;
        println!(
            "\nHTTP/2 {wire}, {CONNECTIONS} connections × {streams} streams, {origin} to the origin"
        );
        print!(
            "{}",
            saturation_table_of(results, |result| &result.streams[place])
        );
    }
}

/// The part of HTTP/2 and gRPC in `report::summary`; empty where nothing ran.
pub fn summary(outcome: &Outcome) -> Value {
    let of = |results: &[Results]| {
        let shapes = KEYS.iter().enumerate().map(|(place, key)| {
            let figures = |read: fn(&Saturation) -> f64, digits| {
                by_name(results, digits, |result| {
                    let runs: Vec<f64> = result.streams[place].iter().map(read).collect();
                    median(&runs)
                })
            };
            let value = json!({
                "cpu_us_per_request": figures(|run| run.cpu_us, 2),
                "rps": figures(|run| run.requests_per_second, 0),
                "p99_us": figures(|run| run.p99_us, 0),
            });
            ((*key).to_owned(), value)
        });
        Value::Object(shapes.collect::<Map<_, _>>())
    };
    let mut by_key: Map<String, Value> = Map::new();
    for (key, pair) in pairs(outcome) {
        let one = pairs::to_json(std::slice::from_ref(&pair));
        let group = by_key.entry(key).or_insert_with(|| json!({}));
        if let (Value::Object(group), Value::Object(one)) = (group, one) {
            group.extend(one);
        }
    }
    let upstream = upstreams(outcome).into_iter().map(|row| {
        let ratio = rounded(median(&row.ratios), 3);
        (row.name.to_owned(), ratio)
    });
    json!({
        "to_h1": of(&outcome.http2),
        "to_h2c": of(&outcome.h2c_upstream),
        "cpu_per_gb_down": by_name(&outcome.http2, 3, |r| median(&cpu_per_gb(&r.download))),
        "cpu_per_gb_up": by_name(&outcome.http2, 3, |r| median(&cpu_per_gb(&r.upload))),
        "idle_bytes": by_name(&outcome.http2, 0, idle_bytes),
        "h2c_to_h1_upstream": Value::Object(upstream.collect::<Map<_, _>>()),
        "grpc_cpu_us_per_call": by_name(&outcome.grpc, 2, |r| median(&saturated(r, |s| s.cpu_us))),
        "pairs": by_key,
    })
}

/// CPU of a proxy's requests with an upstream of HTTP/1.1, and with one of h2c.
struct Row {
    name: &'static str,
    h1_us: f64,
    h2c_us: f64,
    /// Ratios of h2c to HTTP/1.1, in each round.
    ratios: Vec<f64>,
}

fn upstreams(outcome: &Outcome) -> Vec<Row> {
    let cpu_us = |result: &Results| saturated(result, |run| run.cpu_us);
    let row = |h2c: &Results| {
        let h1 = outcome.http2.iter().find(|h1| h1.name == h2c.name)?;
        let (h1, ours) = (cpu_us(h1), cpu_us(h2c));
        let ratios = ratios(&ours, &h1);
        (!ratios.is_empty()).then(|| Row {
            name: h2c.name,
            h1_us: median(&h1),
            h2c_us: median(&ours),
            ratios,
        })
    };
    outcome.h2c_upstream.iter().filter_map(row).collect()
}

fn upstream_table(rows: &[Row]) -> Table {
    let mut table = Table::new(&["proxy", "HTTP/1.1", "h2c", "h2c ÷ HTTP/1.1", "min–max"]);
    for row in rows {
        let (least, most) = extremes(&row.ratios);
        table.row(vec![
            row.name.to_owned(),
            figure(row.h1_us, 2),
            figure(row.h2c_us, 2),
            figure(median(&row.ratios), 3),
            format!("{}–{}", figure(least, 3), figure(most, 3)),
        ]);
    }
    table
}

/// Ratios of each proxy's cost to the reference's, and of Steppe's to the floor's, each with its key.
fn pairs(outcome: &Outcome) -> Vec<(String, Pair)> {
    let mut all = Vec::new();
    for place in 0..SHAPES.len() {
        let cpu_us = |r: &Results| r.streams[place].iter().map(|run| run.cpu_us).collect();
        let (key, label) = (KEYS[place], LABELS[place]);
        let to_h1 = compared(&outcome.http2, REFERENCE, label, cpu_us);
        let to = |results, floor| pair_by(results, label, ("steppe", floor), cpu_us);
        let to_floors = ["floor", ON_STEPPE_H2].map(|floor| to(&outcome.http2, floor));
        let to_h2c = compared(&outcome.h2c_upstream, H2C_REFERENCE, label, cpu_us);
        all.extend(
            to_h1
                .into_iter()
                .chain(to_floors.into_iter().flatten())
                .map(|pair| (key.to_owned(), pair)),
        );
        let to_floor = to(&outcome.h2c_upstream, ON_STEPPE_H2);
        all.extend(to_h2c.into_iter().chain(to_floor).map(|mut pair| {
            pair.further = " to h2c";
            (format!("{key}_to_h2c"), pair)
        }));
    }
    let down = |r: &Results| cpu_per_gb(&r.download);
    let up = |r: &Results| cpu_per_gb(&r.upload);
    let calls = |r: &Results| saturated(r, |run| run.cpu_us);
    let bodies = [
        ("down", compared(&outcome.http2, REFERENCE, "GB down", down)),
        ("up", compared(&outcome.http2, REFERENCE, "GB up", up)),
        (
            "grpc",
            compared(&outcome.grpc, H2C_REFERENCE, "gRPC", calls),
        ),
    ];
    let to_floor = pair_by(&outcome.grpc, "gRPC", ("steppe", ON_STEPPE_H2), calls);
    all.extend(to_floor.map(|pair| ("grpc".to_owned(), pair)));
    for (key, pairs) in bodies {
        all.extend(pairs.into_iter().map(|pair| (key.to_owned(), pair)));
    }
    all
}

fn compared(
    results: &[Results],
    to: &'static str,
    what: &'static str,
    read: impl Fn(&Results) -> Vec<f64>,
) -> Vec<Pair> {
    let others = results.iter().filter(|result| result.name != to);
    others
        .filter_map(|of| pair_by(results, what, (of.name, to), &read))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::report::tests::result;
    use super::*;

    fn with_streams(name: &'static str, cpu_us: f64) -> Results {
        let mut result = result(name, [cpu_us; 3]);
        result.streams[1] = result.saturation.clone();
        result
    }

    fn outcome() -> Outcome {
        Outcome {
            http2: vec![
                with_streams("steppe", 12.0),
                with_streams("nginx", 20.0),
                with_streams("floor", 10.0),
                with_streams(ON_STEPPE_H2, 8.0),
            ],
            h2c_upstream: vec![with_streams("steppe", 18.0), with_streams("envoy", 36.0)],
            grpc: vec![
                result("steppe", [20.0; 3]),
                result("envoy", [50.0; 3]),
                result(ON_STEPPE_H2, [10.0; 3]),
            ],
            ..Outcome::default()
        }
    }

    #[test]
    fn json_holds_each_shape_and_the_pairs_of_it() {
        let summary = summary(&outcome());
        assert_eq!(
            summary["to_h1"]["tls_100"]["cpu_us_per_request"]["nginx"],
            20.0
        );
        assert_eq!(summary["to_h1"]["h2c_10"]["rps"]["nginx"], Value::Null);
        let pairs = &summary["pairs"];
        assert_eq!(pairs["tls_100"]["steppe/nginx"]["median"], 0.6);
        assert_eq!(pairs["tls_100"]["steppe/floor"]["median"], 1.2);
        assert_eq!(pairs["tls_100"]["steppe/floor-steppe-h2"]["median"], 1.5);
        assert_eq!(pairs["tls_100_to_h2c"]["steppe/envoy"]["median"], 0.5);
        assert_eq!(pairs["grpc"]["steppe/envoy"]["median"], 0.4);
        assert_eq!(pairs["grpc"]["steppe/floor-steppe-h2"]["median"], 2.0);
        assert_eq!(pairs["tls_10"], Value::Null, "it did not run");
        assert_eq!(summary["h2c_to_h1_upstream"], json!({"steppe": 1.5}));
    }

    #[test]
    fn an_upstreams_cost_stands_beside_the_others() {
        let text = upstream_table(&upstreams(&outcome())).to_string();
        let steppe = text.lines().find(|line| line.starts_with("steppe"));
        let steppe: Vec<&str> = steppe.expect("it has both").split_whitespace().collect();
        assert_eq!(steppe, ["steppe", "12.00", "18.00", "1.500", "1.500–1.500"]);
        assert!(!text.contains("envoy"), "it has one of them: {text}");
    }
}
