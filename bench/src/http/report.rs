//! The tables, and the line of JSON under them.
//!
//! Invariants: a figure is the median over rounds; a ratio to nginx is the median of the ratios
//! within each round.

use serde_json::{Map, Value, json};

use super::fleet::Outcome;
use super::measure::{Results, Saturation, Transfer};
use super::{CONNECTIONS, Plan, TRANSFER_CONNECTIONS, h2, pairs, targets, tls};
use crate::before::comparison::{self, Comparison};
use crate::load::open_loop::Latencies;
use crate::peer::steppe::WITH_LOG;
use crate::stats::{extremes, median, ratio};
use crate::table::{Table, figure};
use crate::{machine, syscalls};

/// The proxy that ratios refer to.
pub const REFERENCE: &str = "nginx";

/// A figure that every round has.
pub struct Metric {
    /// Key in the JSON.
    pub key: &'static str,
    pub label: &'static str,
    pub rounds: fn(&Results) -> Vec<f64>,
}

pub const CPU_PER_REQUEST: Metric = Metric {
    key: "cpu_per_request",
    label: "CPU a request",
    rounds: |r| saturated(r, |s| s.cpu_us),
};

pub const REQUESTS_PER_SECOND: Metric = Metric {
    key: "rps",
    label: "req/s",
    rounds: |r| saturated(r, |s| s.requests_per_second),
};

pub const CPU_PER_GB_DOWN: Metric = Metric {
    key: "cpu_per_gb_down",
    label: "CPU a GB down",
    rounds: |r| cpu_per_gb(&r.download),
};

pub const CPU_PER_GB_UP: Metric = Metric {
    key: "cpu_per_gb_up",
    label: "CPU a GB up",
    rounds: |r| cpu_per_gb(&r.upload),
};

const METRICS: [Metric; 10] = [
    CPU_PER_REQUEST,
    REQUESTS_PER_SECOND,
    Metric {
        key: "p50",
        label: "p50",
        rounds: |r| saturated(r, |s| s.p50_us),
    },
    Metric {
        key: "p99",
        label: "p99",
        rounds: |r| saturated(r, |s| s.p99_us),
    },
    Metric {
        key: "p999",
        label: "p99.9",
        rounds: |r| saturated(r, |s| s.p999_us),
    },
    Metric {
        key: "open_p50",
        label: "open p50",
        rounds: |r| opened(r, |l| l.p50_us),
    },
    Metric {
        key: "open_p99",
        label: "open p99",
        rounds: |r| opened(r, |l| l.p99_us),
    },
    Metric {
        key: "open_p999",
        label: "open p99.9",
        rounds: |r| opened(r, |l| l.p999_us),
    },
    CPU_PER_GB_DOWN,
    CPU_PER_GB_UP,
];

/// Prints everything to standard output.
pub fn print(outcome: &Outcome, skipped: &[String], plan: &Plan, machine: &str) {
    let date = machine::date();
    println!(
        "\nThe gateway, one worker each, same origin; medians of {} rounds",
        plan.rounds
    );
    if !outcome.plain.is_empty() {
        print_plain(&outcome.plain);
    }
    tls::report::print(outcome);
    h2::report::print(outcome);
    print_cached(&outcome.cached);
    print_syscalls(&outcome.plain);
    print_details(outcome);
    print_before(&outcome.comparisons);
    print_targets(outcome);
    for reason in skipped {
        println!("skipped {reason}");
    }
    println!("\n{machine}\n{date}");
    println!("{}", summary(outcome, machine, &date));
}

/// Today's build beside that of another commit, with a verdict on each figure.
fn print_before(comparisons: &[Comparison]) {
    if !comparisons.is_empty() {
        println!(
            "\nOld and new: CPU and instructions an operation, pair by pair within each round"
        );
        print!("{}", comparison::table(comparisons));
        print!("\n{}", comparison::verdicts(comparisons));
    }
}

fn print_targets(outcome: &Outcome) {
    let mut results = outcome.all();
    if results.all(|result| result.name != REFERENCE) {
        return;
    }
    println!("\nTargets (information: nothing depends on them)");
    let mut targets = targets::tls(&outcome.tls);
    targets.extend(targets::cached(&outcome.cached));
    if !outcome.plain.is_empty() {
        targets.splice(..0, targets::all(&outcome.plain));
    }
    print!("{}", targets::table(&targets));
}

fn print_plain(results: &[Results]) {
    println!("\nSmall body (1 kB), {CONNECTIONS} keep-alive connections, at saturation");
    print!("{}", saturation_table(results));
    println!("\nThe same at a constant rate of arrivals, latency since the request was due");
    print!("{}", open_loop_table(results));
    println!("\n1 MB bodies, {TRANSFER_CONNECTIONS} connections; memory; system calls");
    print!("{}", bodies_table(results));
    if has_reference(results) {
        println!("\nRatios to {REFERENCE} (within each round, then the median)");
        print!("{}", ratio_table(results, &METRICS));
        println!("\nCPU a request, pair by pair within each round");
        print!("{}", pairs::table(&pairs::all(results)));
    }
    print_log_cost(results);
}

/// True if the reference ran: two builds may run without it.
pub fn has_reference(results: &[Results]) -> bool {
    results.iter().any(|result| result.name == REFERENCE)
}

fn print_cached(results: &[Results]) {
    if results.is_empty() {
        return;
    }
    println!("\nOut of a cache: small body (1 kB), {CONNECTIONS} connections, at saturation");
    print!("{}", saturation_table(results));
    println!("\nOut of a cache: CPU a request, pair by pair within each round");
    print!("{}", pairs::table(&pairs::cached(results)));
}

/// Prints the CPU that an access log adds: the median of the differences within each round.
fn print_log_cost(results: &[Results]) {
    let cpu = |name| {
        let result = results.iter().find(|result| result.name == name)?;
        Some(saturated(result, |run| run.cpu_us))
    };
    let (Some(without), Some(with)) = (cpu("steppe"), cpu(WITH_LOG)) else {
        return;
    };
    let added: Vec<f64> = with.iter().zip(&without).map(|(a, b)| a - b).collect();
    let (least, most) = extremes(&added);
    println!(
        "\nAccess log: {:+.2} µs CPU a request ({least:+.2} to {most:+.2})",
        median(&added)
    );
}

pub fn saturated(results: &Results, figure: fn(&Saturation) -> f64) -> Vec<f64> {
    results.saturation.iter().map(figure).collect()
}

pub fn opened(results: &Results, figure: fn(&Latencies) -> f64) -> Vec<f64> {
    results.open_loop.iter().map(figure).collect()
}

pub fn cpu_per_gb(transfers: &[Transfer]) -> Vec<f64> {
    transfers
        .iter()
        .map(|transfer| transfer.cpu_seconds_per_gb)
        .collect()
}

pub fn gb_per_second(transfers: &[Transfer]) -> f64 {
    median(
        &transfers
            .iter()
            .map(|transfer| transfer.gb_per_second)
            .collect::<Vec<_>>(),
    )
}

pub fn saturation_table(results: &[Results]) -> Table {
    saturation_table_of(results, |result| &result.saturation)
}

/// The table of [`saturation_table`] for other runs of small bodies.
pub fn saturation_table_of(results: &[Results], runs: impl Fn(&Results) -> &[Saturation]) -> Table {
    let mut table = Table::new(&[
        "proxy",
        "req/s",
        "CPU µs",
        "min–max",
        "user",
        "system",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
        "RSS MiB",
    ]);
    for result in results {
        let all =
            |read: fn(&Saturation) -> f64| -> Vec<f64> { runs(result).iter().map(read).collect() };
        let shown = |read, digits| figure(median(&all(read)), digits);
        let (smallest, largest) = extremes(&all(|s| s.cpu_us));
        table.row(vec![
            result.name.to_owned(),
            shown(|s| s.requests_per_second, 0),
            shown(|s| s.cpu_us, 2),
            format!("{}–{}", figure(smallest, 2), figure(largest, 2)),
            shown(|s| s.user_us, 2),
            shown(|s| s.system_us, 2),
            shown(|s| s.p50_us, 0),
            shown(|s| s.p99_us, 0),
            shown(|s| s.p999_us, 0),
            shown(|s| mebibytes(s.rss_bytes), 1),
        ]);
    }
    table
}

fn open_loop_table(results: &[Results]) -> Table {
    let mut table = Table::new(&["proxy", "req/s", "p50 µs", "p99 µs", "p99.9 µs"]);
    for result in results {
        let shown = |read: fn(&Latencies) -> f64| figure(median(&opened(result, read)), 0);
        table.row(vec![
            result.name.to_owned(),
            shown(|run| run.rate),
            shown(|run| run.p50_us),
            shown(|run| run.p99_us),
            shown(|run| run.p999_us),
        ]);
    }
    table
}

fn bodies_table(results: &[Results]) -> Table {
    let mut table = Table::new(&[
        "proxy",
        "down CPU s/GB",
        "GB/s",
        "up CPU s/GB",
        "GB/s",
        "peak MiB",
        "idle connections",
        "bytes each",
        "system calls a request",
    ]);
    for result in results {
        let idle = result.idle.as_ref();
        table.row(vec![
            result.name.to_owned(),
            figure(median(&cpu_per_gb(&result.download)), 3),
            figure(gb_per_second(&result.download), 2),
            figure(median(&cpu_per_gb(&result.upload)), 3),
            figure(gb_per_second(&result.upload), 2),
            figure(mebibytes(result.peak_bytes), 1),
            idle.map_or_else(|| "-".to_owned(), |idle| idle.connections.to_string()),
            figure(idle_bytes(result), 0),
            figure(calls_per_request(result), 2),
        ]);
    }
    table
}

pub fn ratio_table(results: &[Results], metrics: &[Metric]) -> Table {
    let labels = metrics.iter().map(|metric| metric.label);
    let header: Vec<&str> = ["proxy"].into_iter().chain(labels).collect();
    let mut table = Table::new(&header);
    for result in results.iter().filter(|result| result.name != REFERENCE) {
        let ratios = metrics
            .iter()
            .map(|metric| figure(to_reference(results, result, metric), 2));
        table.row([result.name.to_owned()].into_iter().chain(ratios).collect());
    }
    table
}

fn print_syscalls(results: &[Results]) {
    let counted = |result: &Results| {
        let counted = result.syscalls.as_ref()?;
        let text = syscalls::describe(&counted.counts, counted.requests);
        Some(format!("{:<10} {text}", result.name))
    };
    let lines: Vec<String> = results.iter().filter_map(counted).collect();
    if !lines.is_empty() {
        println!("\nSystem calls a request, by name\n{}", lines.join("\n"));
    }
}

fn print_details(outcome: &Outcome) {
    println!("\nVersions");
    let mut printed = Vec::new();
    for result in outcome.all() {
        if !printed.contains(&result.name) {
            println!("{:<10} {}", result.name, result.version);
            printed.push(result.name);
        }
    }
    for note in outcome.all().flat_map(|result| &result.notes) {
        println!("note: {note}");
    }
    for error in outcome.all().flat_map(|result| &result.errors) {
        println!("INVALID: {error}");
    }
}

/// The line of JSON: Steppe's ratios at the top, every other proxy's under `peers`, absolute figures
/// by name; TLS in the same way under `tls`, HTTP/2 and gRPC under `h2`.
fn summary(outcome: &Outcome, machine: &str, date: &str) -> Value {
    let results = outcome.plain.as_slice();
    let steppe = results.iter().find(|result| result.name == "steppe");
    let mut summary = steppe
        .map(|steppe| ratios(results, steppe, &METRICS))
        .unwrap_or_default();
    let others = results
        .iter()
        .filter(|result| !["steppe", WITH_LOG, REFERENCE].contains(&result.name));
    let peers: Map<String, Value> = others
        .map(|peer| (peer.name.to_owned(), ratios(results, peer, &METRICS).into()))
        .collect();
    let cpu_us = |result: &Results| median(&saturated(result, |s| s.cpu_us));
    let rss = |result: &Results| median(&saturated(result, |s| s.rss_bytes as f64));
    summary.insert("cpu_pairs".into(), pairs::to_json(&pairs::all(results)));
    summary.insert("idle_bytes".into(), by_name(results, 0, idle_bytes));
    summary.insert(
        "syscalls_per_request".into(),
        by_name(results, 2, calls_per_request),
    );
    summary.insert("cpu_us_per_request".into(), by_name(results, 2, cpu_us));
    summary.insert("rss_bytes".into(), by_name(results, 0, rss));
    summary.insert("peers".into(), peers.into());
    summary.insert("tls".into(), tls::report::summary(outcome));
    summary.insert("h2".into(), h2::report::summary(outcome));
    let cached = json!({
        "cpu_us_per_request": by_name(&outcome.cached, 2, cpu_us),
        "cpu_pairs": pairs::to_json(&pairs::cached(&outcome.cached)),
    });
    summary.insert("cached".into(), cached);
    if !outcome.comparisons.is_empty() {
        let before = comparison::to_json(&outcome.comparisons);
        summary.insert("before".into(), before);
    }
    summary.insert("valid".into(), outcome.is_valid().into());
    summary.insert("machine".into(), machine.into());
    summary.insert("date".into(), date.into());
    summary.into()
}

/// Ratios to the reference, by the keys of `metrics`.
pub fn ratios(results: &[Results], of: &Results, metrics: &[Metric]) -> Map<String, Value> {
    let value = |metric| rounded(to_reference(results, of, metric), 3);
    metrics
        .iter()
        .map(|metric| (metric.key.to_owned(), value(metric)))
        .collect()
}

pub fn to_reference(results: &[Results], of: &Results, metric: &Metric) -> f64 {
    let reference = results.iter().find(|result| result.name == REFERENCE);
    reference.map_or(f64::NAN, |reference| {
        ratio(&(metric.rounds)(of), &(metric.rounds)(reference))
    })
}

pub fn by_name(results: &[Results], digits: i32, read: impl Fn(&Results) -> f64) -> Value {
    let pairs = results
        .iter()
        .map(|result| (result.name.to_owned(), rounded(read(result), digits)));
    Value::Object(pairs.collect())
}

/// Rounds to so many decimals; `null` where nothing was measured.
pub fn rounded(value: f64, digits: i32) -> Value {
    let scale = 10_f64.powi(digits);
    if value.is_finite() {
        json!((value * scale).round() / scale)
    } else {
        Value::Null
    }
}

pub fn idle_bytes(result: &Results) -> f64 {
    result
        .idle
        .as_ref()
        .map_or(f64::NAN, |idle| idle.bytes_each)
}

pub fn calls_per_request(result: &Results) -> f64 {
    result
        .syscalls
        .as_ref()
        .map_or(f64::NAN, |counted| counted.per_request())
}

pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
pub mod tests {
    use super::super::measure::{Idle, Syscalls};
    use super::*;

    pub fn result(name: &'static str, cpu_us: [f64; 3]) -> Results {
        let saturation = |cpu_us| Saturation {
            requests_per_second: 1e6 / cpu_us,
            cpu_us,
            user_us: cpu_us / 4.0,
            system_us: cpu_us * 0.75,
            p50_us: 100.0,
            p99_us: 200.0,
            p999_us: 300.0,
            rss_bytes: 3 << 20,
        };
        Results {
            name,
            saturation: cpu_us.map(saturation).into(),
            ..Results::default()
        }
    }

    #[test]
    fn json_holds_steppes_ratios_at_the_top_and_the_others_under_peers() {
        let mut steppe = result("steppe", [8.0, 9.0, 5.0]);
        steppe.idle = Some(Idle {
            connections: 10,
            bytes_each: 3_000.4,
        });
        let counts = [("recvfrom".to_owned(), 41)].into();
        steppe.syscalls = Some(Syscalls {
            counts,
            requests: 10,
        });
        let plain = vec![
            steppe,
            result("nginx", [10.0, 10.0, 10.0]),
            result("haproxy", [10.0, 11.0, 12.0]),
        ];
        let outcome = Outcome {
            plain,
            ..Outcome::default()
        };
        let summary = summary(&outcome, "a machine", "today");
        assert_eq!(summary["cpu_per_request"], 0.8);
        assert_eq!(summary["rps"], 1.25);
        assert_eq!(summary["p99"], 1.0);
        assert_eq!(summary["cpu_per_gb_up"], Value::Null);
        assert_eq!(
            summary["idle_bytes"],
            json!({"steppe": 3000.0, "nginx": null, "haproxy": null})
        );
        assert_eq!(summary["syscalls_per_request"]["steppe"], 4.1);
        assert_eq!(summary["peers"]["haproxy"]["cpu_per_request"], 1.1);
        assert_eq!(summary["peers"].as_object().map(Map::len), Some(1));
        assert_eq!(summary["valid"], true);
        assert!(!summary.to_string().contains('\n'));
    }

    #[test]
    fn an_error_makes_the_run_invalid() {
        let mut nginx = result("nginx", [1.0; 3]);
        nginx
            .errors
            .push("nginx at saturation: 1 read errors".into());
        let mut outcome = Outcome::default();
        assert_eq!(summary(&outcome, "", "")["valid"], true);
        outcome.tls_upstream.push(nginx);
        assert_eq!(summary(&outcome, "", "")["valid"], false);
    }

    #[test]
    fn the_table_shows_the_median_and_the_spread() {
        let table = saturation_table(&[result("nginx", [9.0, 12.0, 10.0])]).to_string();
        assert!(table.contains("10.00  9.00–12.00"), "{table}");
    }
}
