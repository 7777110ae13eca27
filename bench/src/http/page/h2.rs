//! The tables of HTTP/2 and gRPC.

use super::super::fleet::Outcome;
use super::super::h2::SHAPES;
use super::super::measure::Results;
use super::super::pairs::pair_by;
use super::super::report::{REFERENCE, cpu_per_gb, idle_bytes, saturated};
use super::cells::{cells, columns, cpu_us, find, range, spread};
use crate::page::Figures;
use crate::peer::floor::ON_STEPPE_H2;
use crate::stats::{median, ratios};
use crate::table::{Table, grouped, significant};

/// The proxy that ratios are taken to where nginx has no HTTP/2.
const H2C_REFERENCE: &str = "haproxy";

/// The client's side of `SHAPES`, and what CPU is aimed at: to nginx's with a server of HTTP/1.1, to HAProxy's with one
/// of HTTP/2.
const CLIENTS: [(&str, &str, &str); SHAPES.len()] = [
    ("h2 over TLS, 10 streams", "0.50", "0.95"),
    ("h2 over TLS, 100 streams", "0.55", "1.00"),
    ("h2c, 10 streams", "0.50", "1.00"),
    ("h2c, 100 streams", "0.55", "1.00"),
];
/// Costs of a proxy, by round.
type Costs = fn(&Results) -> Vec<f64>;

const GRPC_AIM: &str = "0.90";
/// CPU of bodies to nginx's.
const BODIES_AIM: &str = "1.00";
/// Memory of an idle connection to the floor's.
const IDLE_AIM: &str = "1.25";

/// HTTP/1.1 to the server.
pub fn clients(results: &[Results]) -> Table {
    let further = ["Steppe ÷ nginx", "floor on steppe-h2 ÷ nginx", "aim"];
    let mut figures = Figures::new("client → server", columns(&[results]), &further);
    for (place, (client, aim, _)) in CLIENTS.iter().enumerate() {
        let cost = move |r: &Results| streams_us(r, place);
        let ratio = |of| spread(pair_by(results, "", (of, REFERENCE), cost).as_ref());
        figures.row_with(
            &format!("{client} → h1, µs ↓"),
            cells(results, |r| significant(median(&cost(r)))),
            &[ratio("steppe"), ratio(ON_STEPPE_H2), (*aim).to_owned()],
        );
    }
    figures.into_table()
}

/// HTTP/2 to the server, gRPC among it.
pub fn servers(outcome: &Outcome) -> Table {
    let (h2c, grpc) = (&outcome.h2c_upstream[..], &outcome.grpc[..]);
    let further = ["Steppe ÷ HAProxy", "Steppe ÷ floor on steppe-h2", "aim"];
    let mut figures = Figures::new("client → server", columns(&[h2c, grpc]), &further);
    for (place, (client, _, aim)) in CLIENTS.iter().enumerate() {
        let cost = move |r: &Results| streams_us(r, place);
        let ratio = |to| spread(pair_by(h2c, "", ("steppe", to), cost).as_ref());
        figures.row_with(
            &format!("{client} → h2c, µs ↓"),
            cells(h2c, |r| significant(median(&cost(r)))),
            &[ratio(H2C_REFERENCE), ratio(ON_STEPPE_H2), (*aim).to_owned()],
        );
    }
    let cost = |r: &Results| saturated(r, |run| run.cpu_us);
    let ratio = |to| spread(pair_by(grpc, "", ("steppe", to), cost).as_ref());
    figures.row_with(
        "gRPC unary by ghz, µs a call ↓",
        cells(grpc, |r| significant(cpu_us(r))),
        &[
            ratio(H2C_REFERENCE),
            ratio(ON_STEPPE_H2),
            GRPC_AIM.to_owned(),
        ],
    );
    figures.into_table()
}

/// Content, idle connections, and the cost of either protocol of the server.
pub fn bodies(outcome: &Outcome) -> Table {
    let (http2, h2c) = (&outcome.http2[..], &outcome.h2c_upstream[..]);
    let mut figures = Figures::new("", columns(&[http2, h2c]), &["ratio", "aim"]);
    let down = |r: &Results| cpu_per_gb(&r.download);
    let up = |r: &Results| cpu_per_gb(&r.upload);
    let ways: [(&str, Costs); 2] = [("down", down), ("up", up)];
    for (way, cost) in ways {
        let pair = pair_by(http2, "", ("steppe", REFERENCE), cost);
        let ratio = pair.map_or_else(String::new, |pair| {
            let median = grouped(pair.median(), 2);
            format!("{median} of nginx ({})", range(&pair.ratios))
        });
        figures.row_with(
            &format!("CPU seconds a GB, 1 MB bodies {way} ↓"),
            cells(http2, |r| grouped(median(&cost(r)), 2)),
            &[ratio, BODIES_AIM.to_owned()],
        );
    }
    let idle = |name| find(http2, name).map_or(f64::NAN, idle_bytes);
    let ratio = idle("steppe") / idle("floor");
    let ratio = match ratio.is_finite() {
        true => format!("{ratio:.2} of the floor"),
        false => String::new(),
    };
    let connections = http2.iter().find_map(|result| result.idle.as_ref());
    let connections = connections.map_or(0, |idle| idle.connections);
    figures.row_with(
        &format!("bytes of an idle connection over TLS, of {connections} ↓"),
        cells(http2, |r| grouped(idle_bytes(r), 0)),
        &[ratio, IDLE_AIM.to_owned()],
    );
    let both = find(http2, "steppe").zip(find(h2c, "steppe"));
    let ratios = both.map_or_else(Vec::new, |(h1, h2c)| {
        let [h1, h2c] = [h1, h2c].map(|r| saturated(r, |run| run.cpu_us));
        ratios(&h2c, &h1)
    });
    figures.row_with(
        "CPU a request, HTTP/1.1 → h2c, 64 connections, µs ↓",
        cells(h2c, |r| significant(cpu_us(r))),
        &[
            format!(
                "{} of HTTP/1.1 → HTTP/1.1 ({})",
                grouped(median(&ratios), 2),
                range(&ratios)
            ),
            "below 1".to_owned(),
        ],
    );
    figures.into_table()
}

/// CPU a request in one of `SHAPES`, by round.
fn streams_us(results: &Results, place: usize) -> Vec<f64> {
    results.streams[place]
        .iter()
        .map(|run| run.cpu_us)
        .collect()
}
