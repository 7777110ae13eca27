//! The tables of TLS, and their part of the JSON.

use serde_json::{Map, Value, json};

use super::super::fleet::Outcome;
use super::super::measure::{Handshake, Results};
use super::super::pairs::{self, Pair, pair_by};
use super::super::report::{
    CPU_PER_GB_DOWN, CPU_PER_GB_UP, CPU_PER_REQUEST, Metric, REFERENCE, REQUESTS_PER_SECOND,
    by_name, cpu_per_gb, gb_per_second, has_reference, idle_bytes, ratio_table, ratios, saturated,
    saturation_table,
};
use super::super::{CONNECTIONS, TRANSFER_CONNECTIONS};
use crate::stats::median;
use crate::table::{Table, figure};

/// The metrics of TLS with clients.
const METRICS: [Metric; 8] = [
    CPU_PER_REQUEST,
    REQUESTS_PER_SECOND,
    Metric {
        key: "cpu_per_handshake_p256",
        label: "P-256 handshake",
        rounds: |r| cpu_us(&r.p256),
    },
    Metric {
        key: "cpu_per_handshake_rsa2048",
        label: "RSA-2048 handshake",
        rounds: |r| cpu_us(&r.rsa),
    },
    Metric {
        key: "cpu_per_handshake_x25519mlkem768",
        label: "X25519MLKEM768",
        rounds: |r| cpu_us(&r.post_quantum),
    },
    Metric {
        key: "cpu_per_handshake_resumed",
        label: "resumed handshake",
        rounds: |r| cpu_us(&r.resumed),
    },
    CPU_PER_GB_DOWN,
    CPU_PER_GB_UP,
];

/// Where X25519MLKEM768 is among `METRICS`.
const POST_QUANTUM: usize = 4;

const UPSTREAM_METRICS: [Metric; 2] = [
    Metric {
        label: "CPU a request upstream",
        ..CPU_PER_REQUEST
    },
    Metric {
        label: "req/s upstream",
        ..REQUESTS_PER_SECOND
    },
];

/// Prints the tables of what ran.
pub fn print(outcome: &Outcome) {
    if !outcome.tls.is_empty() {
        println!("\nTLS with clients: small body (1 kB), {CONNECTIONS} connections, at saturation");
        print!("{}", saturation_table(&outcome.tls));
        println!("\nHandshakes a second of the server's CPU time, and CPU µs of each");
        print!("{}", handshake_table(&outcome.tls));
        println!("\nTLS: 1 MB bodies, {TRANSFER_CONNECTIONS} connections; idle connections");
        print!("{}", bodies_table(&outcome.tls));
        if has_reference(&outcome.tls) {
            println!("\nTLS: ratios to {REFERENCE} (within each round, then the median)");
            print!("{}", ratio_table(&outcome.tls, &METRICS));
        }
    }
    if !outcome.tls_upstream.is_empty() {
        println!("\nTLS with the origin: small body, {CONNECTIONS} connections, at saturation");
        print!("{}", saturation_table(&outcome.tls_upstream));
    }
    let pairs: Vec<Pair> = pairs(outcome).into_iter().map(|(_, pair)| pair).collect();
    if !pairs.is_empty() {
        println!("\nTLS: CPU, pair by pair within each round");
        print!("{}", pairs::table(&pairs));
    }
}

/// The part of TLS in `report::summary`; `None` where nothing ran with TLS.
pub fn summary(outcome: &Outcome) -> Value {
    let of = |name: &str| {
        let find = |results: &[Results], metrics: &[Metric]| {
            let result = results.iter().find(|result| result.name == name);
            result.map_or_else(Map::new, |result| ratios(results, result, metrics))
        };
        let mut all = find(&outcome.tls, &METRICS);
        let upstream = find(&outcome.tls_upstream, &UPSTREAM_METRICS);
        all.extend(
            upstream
                .into_iter()
                .map(|(key, value)| (format!("upstream_{key}"), value)),
        );
        all
    };
    let mut summary = of("steppe");
    let mut peers = Map::new();
    for result in outcome.tls.iter().chain(&outcome.tls_upstream) {
        if !["steppe", REFERENCE].contains(&result.name) {
            peers.insert(result.name.to_owned(), of(result.name).into());
        }
    }
    let cpu = |result: &Results| median(&saturated(result, |s| s.cpu_us));
    let absolute = json!({
        "pairs": pairs_to_json(&pairs(outcome)),
        "idle_bytes": by_name(&outcome.tls, 0, idle_bytes),
        "cpu_us_per_request": by_name(&outcome.tls, 2, cpu),
        "upstream_cpu_us_per_request": by_name(&outcome.tls_upstream, 2, cpu),
        "handshakes_per_cpu_second": {
            "p256": by_name(&outcome.tls, 0, |r| rate(&r.p256)),
            "rsa2048": by_name(&outcome.tls, 0, |r| rate(&r.rsa)),
            "x25519mlkem768": by_name(&outcome.tls, 0, |r| rate(&r.post_quantum)),
            "resumed": by_name(&outcome.tls, 0, |r| rate(&r.resumed)),
        },
        "peers": peers,
    });
    if let Value::Object(absolute) = absolute {
        summary.extend(absolute);
    }
    summary.into()
}

/// CPU time of each handshake, a figure a round.
pub fn cpu_us(handshakes: &[Handshake]) -> Vec<f64> {
    handshakes
        .iter()
        .map(|handshake| handshake.cpu_us)
        .collect()
}

pub fn rate(handshakes: &[Handshake]) -> f64 {
    let rates: Vec<f64> = handshakes
        .iter()
        .map(|handshake| handshake.per_cpu_second)
        .collect();
    median(&rates)
}

fn handshake_table(results: &[Results]) -> Table {
    let mut table = Table::new(&[
        "proxy", "P-256", "µs", "RSA-2048", "µs", "P-256 PQ", "µs", "resumed", "µs", "agreed",
    ]);
    for result in results {
        let kinds = [
            &result.p256,
            &result.rsa,
            &result.post_quantum,
            &result.resumed,
        ];
        let figures = kinds
            .into_iter()
            .flat_map(|kind| [figure(rate(kind), 0), figure(median(&cpu_us(kind)), 1)]);
        let agreed = result.agreed.map(|agreed| agreed.to_string());
        table.row(
            [result.name.to_owned()]
                .into_iter()
                .chain(figures)
                .chain([agreed.unwrap_or_else(|| "-".to_owned())])
                .collect(),
        );
    }
    table
}

pub fn bodies_table(results: &[Results]) -> Table {
    let mut table = Table::new(&[
        "proxy",
        "down CPU s/GB",
        "GB/s",
        "up CPU s/GB",
        "GB/s",
        "idle connections",
        "bytes each",
    ]);
    for result in results {
        let idle = result.idle.as_ref();
        table.row(vec![
            result.name.to_owned(),
            figure(median(&cpu_per_gb(&result.download)), 3),
            figure(gb_per_second(&result.download), 2),
            figure(median(&cpu_per_gb(&result.upload)), 3),
            figure(gb_per_second(&result.upload), 2),
            idle.map_or_else(|| "-".to_owned(), |idle| idle.connections.to_string()),
            figure(idle_bytes(result), 0),
        ]);
    }
    table
}

/// Everybody's costs to the reference's, each with its key in the JSON. X25519MLKEM768 is none of
/// them where the reference lacks it: Steppe's stands beside those who have it.
fn pairs(outcome: &Outcome) -> Vec<(String, Pair)> {
    let costs = METRICS.iter().filter(|metric| metric.key != "rps");
    let mut pairs: Vec<_> = costs
        .flat_map(|metric| to_reference(&outcome.tls, metric, ""))
        .collect();
    for to in ["envoy", "caddy"] {
        let metric = &METRICS[POST_QUANTUM];
        let pair = pair_by(&outcome.tls, metric.label, ("steppe", to), metric.rounds);
        pairs.extend(pair.map(|pair| (metric.key.to_owned(), pair)));
    }
    let upstream = &UPSTREAM_METRICS[0];
    pairs.extend(to_reference(&outcome.tls_upstream, upstream, "upstream_"));
    pairs
}

fn to_reference(results: &[Results], metric: &Metric, prefix: &str) -> Vec<(String, Pair)> {
    let others = results.iter().filter(|result| result.name != REFERENCE);
    let pairs =
        others.filter_map(|of| pair_by(results, metric.label, (of.name, REFERENCE), metric.rounds));
    pairs
        .map(|pair| (format!("{prefix}{}", metric.key), pair))
        .collect()
}

fn pairs_to_json(all: &[(String, Pair)]) -> Value {
    let mut by_key: Map<String, Value> = Map::new();
    for (key, pair) in all {
        let one = pairs::to_json(std::slice::from_ref(pair));
        let group = by_key.entry(key).or_insert_with(|| json!({}));
        if let (Value::Object(group), Value::Object(one)) = (group, one) {
            group.extend(one);
        }
    }
    by_key.into()
}

#[cfg(test)]
mod tests {
    use super::super::super::measure::Idle;
    use super::super::super::report::tests::result;
    use super::super::super::targets;
    use super::*;

    fn with_handshakes(name: &'static str, cpu_us: f64) -> Results {
        let handshake = |cpu_us| Handshake {
            cpu_us,
            per_cpu_second: 1e6 / cpu_us,
        };
        Results {
            p256: vec![handshake(cpu_us); 3],
            rsa: vec![handshake(cpu_us * 5.0); 3],
            resumed: vec![handshake(cpu_us / 2.0); 3],
            ..result(name, [cpu_us / 10.0; 3])
        }
    }

    fn outcome() -> Outcome {
        let mut steppe = with_handshakes("steppe", 80.0);
        steppe.post_quantum = steppe.resumed.clone();
        steppe.idle = Some(Idle {
            connections: 10,
            bytes_each: 13_000.0,
        });
        let mut envoy = with_handshakes("envoy", 100.0);
        envoy.post_quantum = envoy.resumed.clone();
        Outcome {
            tls: vec![steppe, with_handshakes("nginx", 100.0), envoy],
            tls_upstream: vec![result("steppe", [9.0; 3]), result("nginx", [10.0; 3])],
            ..Outcome::default()
        }
    }

    #[test]
    fn a_group_that_the_reference_lacks_is_compared_with_those_who_have_it() {
        let pairs = pairs(&outcome());
        let hybrid: Vec<_> = pairs
            .iter()
            .filter(|(key, _)| key == "cpu_per_handshake_x25519mlkem768")
            .map(|(_, pair)| (pair.of, pair.to, pair.median()))
            .collect();
        assert_eq!(hybrid, [("steppe", "envoy", 0.8)]);
    }

    #[test]
    fn json_holds_ratios_and_absolute_figures() {
        let summary = summary(&outcome());
        assert_eq!(summary["cpu_per_handshake_p256"], 0.8);
        assert_eq!(summary["upstream_cpu_per_request"], 0.9);
        assert_eq!(
            summary["cpu_per_handshake_x25519mlkem768"],
            Value::Null,
            "nginx has none"
        );
        assert_eq!(summary["peers"]["envoy"]["cpu_per_handshake_rsa2048"], 1.0);
        assert_eq!(
            summary["handshakes_per_cpu_second"]["p256"]["nginx"],
            10_000.0
        );
        assert_eq!(
            summary["pairs"]["cpu_per_handshake_resumed"]["steppe/nginx"]["median"],
            0.8
        );
        assert_eq!(
            summary["pairs"]["upstream_cpu_per_request"]["steppe/nginx"]["rounds"],
            3
        );
    }

    #[test]
    fn targets_of_tls_stand_beside_their_figures() {
        let text = targets::table(&targets::tls(&outcome().tls)).to_string();
        let verdict = |name: &str| {
            let line = text.lines().find(|line| line.contains(name));
            line.and_then(|line| line.split_whitespace().last())
        };
        assert_eq!(verdict("a request"), Some("held"));
        assert_eq!(verdict("P-256"), Some("held"));
        assert_eq!(verdict("a GB up"), Some("-"), "not measured: {text}");
        assert_eq!(verdict("idle"), Some("short"));
    }

    #[test]
    fn handshakes_without_a_figure_are_dashes() {
        let table = handshake_table(&outcome().tls).to_string();
        let nginx = table.lines().find(|line| line.starts_with("nginx"));
        let nginx: Vec<&str> = nginx.expect("it is there").split_whitespace().collect();
        let expected = [
            "nginx", "10000", "100.0", "2000", "500.0", "-", "-", "20000", "50.0", "-",
        ];
        assert_eq!(nginx, expected);
    }
}
