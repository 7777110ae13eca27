//! Columns and cells that the tables of proxies share.

use super::super::measure::Results;
use super::super::pairs::Pair;
use super::super::report::{idle_bytes, mebibytes, saturated};
use crate::page::{Figures, heading};
use crate::peer::floor::ON_STEPPE_H2;
use crate::peer::steppe::WITH_LOG;
use crate::stats::{extremes, median};
use crate::table::{grouped, joined};

/// A column for each proxy that has results somewhere, with its version.
pub fn columns(all: &[&[Results]]) -> Vec<(&'static str, String)> {
    let mut columns: Vec<(&'static str, String)> = Vec::new();
    for result in all.iter().copied().flatten() {
        let is_new = columns.iter().all(|(name, _)| *name != result.name);
        if is_new && result.name != WITH_LOG {
            let title = match result.name {
                "steppe" => "Steppe".to_owned(),
                "floor" => "floor".to_owned(),
                ON_STEPPE_H2 => "floor on steppe-h2".to_owned(),
                "haproxy" => heading("HAProxy", &result.version, 2),
                "envoy" => heading("Envoy", &result.version, 2),
                "caddy" => heading("Caddy", &result.version, 2),
                "varnish" => heading("Varnish", &result.version, 2),
                other => heading(other, &result.version, 2),
            };
            columns.push((result.name, title));
        }
    }
    columns
}

/// The cell of a proxy; empty where it has no results.
pub fn cells(results: &[Results], write: impl Fn(&Results) -> String) -> impl Fn(&str) -> String {
    move |name: &str| find(results, name).map_or_else(String::new, &write)
}

pub fn find<'r>(results: &'r [Results], name: &str) -> Option<&'r Results> {
    results.iter().find(|result| result.name == name)
}

/// Memory of an idle connection, with as many cells as the table has further columns.
pub fn add_idle(figures: &mut Figures, results: &[Results], further: &[String]) {
    let idle = results.iter().find_map(|result| result.idle.as_ref());
    if let Some(idle) = idle {
        let count = grouped(idle.connections as f64, 0);
        figures.row_with(
            &format!("bytes of an idle connection, of {count} ↓"),
            cells(results, |r| grouped(idle_bytes(r), 0)),
            further,
        );
    }
}

pub fn cpu_us(results: &Results) -> f64 {
    median(&saturated(results, |run| run.cpu_us))
}

pub fn rate(results: &Results) -> String {
    grouped(
        median(&saturated(results, |run| run.requests_per_second)),
        0,
    )
}

pub fn rss(results: &Results) -> String {
    grouped(
        median(&saturated(results, |run| mebibytes(run.rss_bytes))),
        1,
    )
}

/// Medians of microseconds.
pub fn milliseconds(of: &[Vec<f64>]) -> String {
    let medians: Vec<f64> = of.iter().map(|us| median(us) / 1_000.0).collect();
    joined(&medians, |ms| grouped(ms, 1))
}

/// The median and the range of a pair; empty where one of both was not measured.
pub fn spread(pair: Option<&Pair>) -> String {
    pair.map_or_else(String::new, |pair| {
        format!("{} ({})", grouped(pair.median(), 2), range(&pair.ratios))
    })
}

pub fn range(ratios: &[f64]) -> String {
    let (least, most) = extremes(ratios);
    format!("{} to {}", grouped(least, 2), grouped(most, 2))
}
