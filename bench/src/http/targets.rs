//! The gateway's targets, beside the figures of a run.
//!
//! Invariant: nothing depends on a target; a bench prints figures and never fails on them.

use super::measure::{Results, Syscalls};
use super::pairs::{pair, pair_by};
use super::report::{REFERENCE, cpu_per_gb, idle_bytes, saturated};
use super::tls::report::cpu_us;
use crate::table::Table;

/// CPU a request to the reference's.
pub const CPU_TO_REFERENCE_MAX: f64 = 0.88;
/// CPU a request to the floor's: the cost of a gateway beyond forwarding.
pub const CPU_TO_FLOOR_MAX: f64 = 1.2;
/// Memory of an idle kept-alive connection.
const IDLE_BYTES_MAX: f64 = 2_000.0;
/// CPU a request over TLS to the reference's.
pub const TLS_CPU_TO_REFERENCE_MAX: f64 = 0.85;
/// CPU a full handshake to the reference's.
pub const HANDSHAKE_TO_REFERENCE_MAX: f64 = 0.9;
/// CPU a GB over TLS to the reference's.
pub const TLS_BODIES_TO_REFERENCE_MAX: f64 = 1.0;
/// Memory of an idle connection with TLS: a session's keys and state come to a plain one's.
pub const TLS_IDLE_BYTES_MAX: f64 = 12.0 * 1024.0;
/// Receives a request, and sends a request: one on either side.
const CALLS_EACH_MAX: f64 = 2.0;
/// wrk does not count the requests in flight at its end, and new connections are among the calls.
const CALLS_TOLERANCE: f64 = 0.05;

/// CPU of a cache hit to that of another cache.
const HIT_TO_OTHERS_MAX: f64 = 0.8;

/// A line of the summary.
pub struct Target {
    name: &'static str,
    most: f64,
    digits: usize,
    /// `None` if the run lacks the figure.
    measured: Option<f64>,
    tolerance: f64,
}

/// The targets of plain HTTP, for Steppe without an access log.
pub fn all(results: &[Results]) -> [Target; 5] {
    let steppe = results.iter().find(|result| result.name == "steppe");
    let cpu = |to| pair(results, "steppe", to).map(|pair| pair.median());
    let calls = |names: &[&str]| Some(steppe?.syscalls.as_ref()?.of(names));
    let target = |name, most, digits, measured| Target {
        name,
        most,
        digits,
        measured,
        tolerance: 0.0,
    };
    let call = |name, measured| Target {
        tolerance: CALLS_TOLERANCE,
        ..target(name, CALLS_EACH_MAX, 2, measured)
    };
    let idle = steppe.map(idle_bytes).filter(|bytes| bytes.is_finite());
    [
        target(
            "CPU a request ÷ nginx",
            CPU_TO_REFERENCE_MAX,
            2,
            cpu(REFERENCE),
        ),
        target("CPU a request ÷ floor", CPU_TO_FLOOR_MAX, 2, cpu("floor")),
        call("receives a request", calls(Syscalls::RECEIVES)),
        call("sends a request", calls(Syscalls::SENDS)),
        target("bytes an idle connection", IDLE_BYTES_MAX, 0, idle),
    ]
}

/// The targets of TLS with clients; none if nothing ran with TLS.
pub fn tls(results: &[Results]) -> Vec<Target> {
    if results.is_empty() {
        return Vec::new();
    }
    let target = |name, most, measured| Target {
        name,
        most,
        digits: 2,
        measured,
        tolerance: 0.0,
    };
    let cost = |name, most, read: fn(&Results) -> Vec<f64>| {
        let pair = pair_by(results, "", ("steppe", REFERENCE), read);
        target(name, most, pair.map(|pair| pair.median()))
    };
    let handshake = HANDSHAKE_TO_REFERENCE_MAX;
    let bodies = TLS_BODIES_TO_REFERENCE_MAX;
    let steppe = results.iter().find(|result| result.name == "steppe");
    let idle = steppe.map(idle_bytes).filter(|bytes| bytes.is_finite());
    vec![
        cost(
            "TLS: CPU a request ÷ nginx",
            TLS_CPU_TO_REFERENCE_MAX,
            |r| saturated(r, |run| run.cpu_us),
        ),
        cost("TLS: CPU a P-256 handshake ÷ nginx", handshake, |r| {
            cpu_us(&r.p256)
        }),
        cost("TLS: CPU an RSA-2048 handshake ÷ nginx", handshake, |r| {
            cpu_us(&r.rsa)
        }),
        cost("TLS: CPU a GB down ÷ nginx", bodies, |r| {
            cpu_per_gb(&r.download)
        }),
        cost("TLS: CPU a GB up ÷ nginx", bodies, |r| {
            cpu_per_gb(&r.upload)
        }),
        Target {
            digits: 0,
            ..target("TLS: bytes an idle connection", TLS_IDLE_BYTES_MAX, idle)
        },
    ]
}

/// The targets of cache hits; none if nothing ran with a cache.
pub fn cached(results: &[Results]) -> Vec<Target> {
    let target = |name, to| Target {
        name,
        most: HIT_TO_OTHERS_MAX,
        digits: 2,
        measured: pair(results, "steppe", to).map(|pair| pair.median()),
        tolerance: 0.0,
    };
    match results.is_empty() {
        true => Vec::new(),
        false => vec![
            target("cached: CPU a request ÷ nginx", REFERENCE),
            target("cached: CPU a request ÷ Varnish", "varnish"),
        ],
    }
}

impl Target {
    fn verdict(&self) -> &'static str {
        match self.measured {
            Some(measured) if measured <= self.most + self.tolerance => "held",
            Some(_) => "short",
            None => "-",
        }
    }
}

pub fn table(targets: &[Target]) -> Table {
    let mut table = Table::new(&["target", "at most", "measured", ""]);
    for target in targets {
        let shown = |value| format!("{value:.digits$}", digits = target.digits);
        table.row(vec![
            target.name.to_owned(),
            shown(target.most),
            target.measured.map_or_else(|| "-".to_owned(), shown),
            target.verdict().to_owned(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::measure::Idle;
    use super::super::report::tests::result;
    use super::*;

    #[test]
    fn each_target_stands_beside_its_figure() {
        let mut steppe = result("steppe", [8.0, 9.0, 8.0]);
        steppe.idle = Some(Idle {
            connections: 10,
            bytes_each: 2_965.4,
        });
        let counts = [("recvfrom", 2_004), ("writev", 2_500), ("epoll_wait", 90)];
        steppe.syscalls = Some(Syscalls {
            counts: counts.map(|(name, count)| (name.to_owned(), count)).into(),
            requests: 1_000,
        });
        let results = [
            steppe,
            result("nginx", [10.0; 3]),
            result("floor", [6.0; 3]),
        ];
        let verdicts = all(&results).map(|target| target.verdict());
        assert_eq!(verdicts, ["held", "short", "held", "short", "short"]);
        let text = table(&all(&results)).to_string();
        assert!(text.contains("2000") && text.contains("2965"), "{text}");
        assert_eq!(all(&[]).map(|target| target.verdict()), ["-"; 5]);
    }
}
