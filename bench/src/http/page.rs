//! The tables of the proxies for `docs/performance/gateway.md`.
//!
//! A table is written when all of its phases ran. Ratios are of CPU within each round: the median, and the range in
//! brackets.

mod cells;
mod h2;
mod tls;

use self::cells::{add_idle, cells, columns, cpu_us, milliseconds, rate, rss};
use super::fleet::Outcome;
use super::measure::{Results, Syscalls};
use super::pairs;
use super::phase::Phase;
use super::report::{
    CPU_PER_REQUEST, REFERENCE, calls_per_request, cpu_per_gb, opened, saturated, to_reference,
};
use super::targets::{CPU_TO_FLOOR_MAX, CPU_TO_REFERENCE_MAX};
use crate::page::{Figures, Marks, Section};
use crate::peer::Proxy;
use crate::stats::{median, median_interval};
use crate::table::{Table, grouped, joined, significant};

/// The marks of the page.
pub const MARKS: Marks<'_> = Marks {
    bench: "http",
    names: &[
        SATURATION,
        FLOOR,
        TLS,
        H2_CLIENTS,
        H2_SERVERS,
        H2_BODIES,
        COSTS,
        COMPRESSION,
        CACHED,
    ],
};

const SATURATION: &str = "http saturation";
const FLOOR: &str = "http floor";
const TLS: &str = "http tls";
const H2_CLIENTS: &str = "http h2-clients";
const H2_SERVERS: &str = "http h2-servers";
const H2_BODIES: &str = "http h2-bodies";
const COSTS: &str = "http costs";
const COMPRESSION: &str = "http compression";
const CACHED: &str = "http cached";

/// The phases that each table needs.
const PHASES: [(&str, &[Phase]); MARKS.names.len()] = [
    (
        SATURATION,
        &[
            Phase::Saturation,
            Phase::OpenLoop,
            Phase::Download,
            Phase::Upload,
        ],
    ),
    (FLOOR, &[Phase::Saturation]),
    (
        TLS,
        &[
            Phase::TlsSaturation,
            Phase::TlsHandshakes,
            Phase::TlsResumed,
            Phase::TlsBodies,
            Phase::TlsUpstream,
        ],
    ),
    (H2_CLIENTS, &[Phase::H2Tls, Phase::H2Clear]),
    (H2_SERVERS, &[Phase::H2Tls, Phase::H2Clear, Phase::H2Grpc]),
    (H2_BODIES, &[Phase::H2Bodies, Phase::H2Upstream]),
    (COSTS, &[Phase::Costs]),
    (COMPRESSION, &[Phase::Compression]),
    (CACHED, &[Phase::Cached]),
];

/// Names of the tables that a run with these phases and proxies measures.
pub fn measured(phases: &[Phase], proxies: &[Proxy]) -> Vec<&'static str> {
    let has_floor = proxies.contains(&Proxy::Floor);
    let all_run = |needed: &[Phase]| needed.iter().all(|phase| phases.contains(phase));
    let tables = PHASES.iter().filter(|(_, needed)| all_run(needed));
    let names = tables.map(|(name, _)| *name);
    names.filter(|name| *name != FLOOR || has_floor).collect()
}

/// The tables of these names, but for those of [`Own`].
pub fn sections(names: &[&'static str], outcome: &Outcome, rounds: usize) -> Vec<Section> {
    let tables = |name| {
        Some(match name {
            SATURATION => vec![saturation(&outcome.plain)],
            FLOOR => floor(&outcome.plain),
            TLS => vec![tls::table(outcome)],
            H2_CLIENTS => vec![h2::clients(&outcome.http2)],
            H2_SERVERS => vec![h2::servers(outcome)],
            H2_BODIES => vec![h2::bodies(outcome)],
            CACHED => vec![cached(&outcome.cached)],
            _ => return None,
        })
    };
    let section = |&name| {
        Some(Section {
            name,
            rounds,
            tables: tables(name)?,
        })
    };
    names.iter().filter_map(section).collect()
}

/// Tables of phases with processes and rounds of their own, each with its rounds.
#[derive(Default)]
pub struct Own {
    pub costs: Option<(usize, Table)>,
    pub compression: Option<(usize, Table)>,
}

impl Own {
    pub fn sections(self) -> Vec<Section> {
        let both = [(COSTS, self.costs), (COMPRESSION, self.compression)];
        let section = |(name, measured): (&'static str, Option<(usize, Table)>)| {
            let (rounds, table) = measured?;
            Some(Section {
                name,
                rounds,
                tables: vec![table],
            })
        };
        both.into_iter().filter_map(section).collect()
    }
}

fn saturation(results: &[Results]) -> Table {
    let columns = columns(&[results]).into_iter();
    let columns = columns.filter(|(name, _)| *name != Proxy::Floor.name());
    let mut figures = Figures::new("", columns.collect(), &[]);
    figures.row(
        "CPU a request, µs ↓",
        cells(results, |r| significant(cpu_us(r))),
    );
    figures.row(
        "CPU a request, ratio to nginx",
        cells(results, |r| {
            grouped(to_reference(results, r, &CPU_PER_REQUEST), 2)
        }),
    );
    figures.row("requests a second ↑", cells(results, rate));
    figures.row(
        "p50 / p99 / p99.9 at saturation, ms ↓",
        cells(results, |r| {
            let p50 = saturated(r, |run| run.p50_us);
            let p99 = saturated(r, |run| run.p99_us);
            let p999 = saturated(r, |run| run.p999_us);
            milliseconds(&[p50, p99, p999])
        }),
    );
    figures.row(
        "p99 at half of the saturation rate, open loop, ms ↓",
        cells(results, |r| milliseconds(&[opened(r, |run| run.p99_us)])),
    );
    figures.row(
        "CPU seconds a GB, 1 MB down / up ↓",
        cells(results, |r| {
            let ways = [&r.download, &r.upload];
            let cpu = ways.map(|way| median(&cpu_per_gb(way)));
            joined(&cpu, |cpu| grouped(cpu, 2))
        }),
    );
    figures.row(
        "system calls a request ↓",
        cells(results, |r| grouped(calls_per_request(r), 1)),
    );
    figures.row("RSS under load, MiB ↓", cells(results, rss));
    add_idle(&mut figures, results, &[]);
    figures.into_table()
}

/// Beside the minimal proxy and nginx: the split of the CPU, and ratios with their intervals.
fn floor(results: &[Results]) -> Vec<Table> {
    let near = ["steppe", REFERENCE, "floor"];
    let columns = columns(&[results]).into_iter();
    let columns = columns.filter(|(name, _)| near.contains(name));
    let mut figures = Figures::new("", columns.collect(), &[]);
    figures.row(
        "CPU a request, µs (user + system) ↓",
        cells(results, |r| {
            let user = median(&saturated(r, |run| run.user_us));
            let system = median(&saturated(r, |run| run.system_us));
            let cpu = cpu_us(r);
            let [cpu, user, system] = [cpu, user, system].map(|us| grouped(us, 1));
            format!("{cpu} ({user} + {system})")
        }),
    );
    figures.row(
        "system calls a request: receives / sends ↓",
        cells(results, |r| {
            let kinds = [Syscalls::RECEIVES, Syscalls::SENDS];
            let calls = r.syscalls.as_ref();
            let calls = kinds.map(|kind| calls.map_or(f64::NAN, |calls| calls.of(kind)));
            joined(&calls, |calls| grouped(calls, 2))
        }),
    );
    let mut ratios = Table::new(&["CPU a request", "median", "95 % of it", "aim"]);
    let rows = [
        (
            "Steppe ÷ nginx",
            ("steppe", REFERENCE),
            Some(CPU_TO_REFERENCE_MAX),
        ),
        (
            "Steppe ÷ floor",
            ("steppe", "floor"),
            Some(CPU_TO_FLOOR_MAX),
        ),
        ("floor ÷ nginx", ("floor", REFERENCE), None),
    ];
    for (label, (of, to), aim) in rows {
        let Some(pair) = pairs::pair(results, of, to) else {
            continue;
        };
        let (low, high) = median_interval(&pair.ratios);
        let judged = |aim: f64| match pair.median() <= aim {
            true => format!("{aim:.2}, reached"),
            false => format!("{aim:.2}, not reached"),
        };
        ratios.row(vec![
            label.to_owned(),
            grouped(pair.median(), 2),
            format!("{} to {}", grouped(low, 2), grouped(high, 2)),
            aim.map_or_else(String::new, judged),
        ]);
    }
    vec![figures.into_table(), ratios]
}

fn cached(results: &[Results]) -> Table {
    let mut figures = Figures::new("", columns(&[results]), &[]);
    figures.row(
        "CPU a hit, µs ↓",
        cells(results, |r| significant(cpu_us(r))),
    );
    figures.row(
        "Steppe's, as a ratio to it",
        cells(results, |r| match r.name {
            "steppe" => String::new(),
            name => {
                let pair = pairs::pair(results, "steppe", name);
                pair.map_or_else(String::new, |pair| grouped(pair.median(), 2))
            }
        }),
    );
    figures.row("requests a second ↑", cells(results, rate));
    figures.row(
        "p50 / p99, ms ↓",
        cells(results, |r| {
            let p50 = saturated(r, |run| run.p50_us);
            let p99 = saturated(r, |run| run.p99_us);
            milliseconds(&[p50, p99])
        }),
    );
    figures.row("RSS, MiB ↓", cells(results, rss));
    figures.into_table()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::ValueEnum;

    use super::super::measure::Idle;
    use super::super::report::tests::result;
    use super::*;
    use crate::page::Page;

    #[test]
    fn a_table_needs_all_of_its_phases() {
        let proxies = [Proxy::Steppe, Proxy::Nginx, Proxy::Floor];
        assert_eq!(measured(Phase::value_variants(), &proxies), MARKS.names);
        assert_eq!(measured(&[Phase::Saturation], &proxies), [FLOOR]);
        assert!(measured(&[Phase::Saturation], &proxies[..2]).is_empty());
        let both = [Phase::Costs, Phase::Cached, Phase::H2Tls];
        assert_eq!(measured(&both, &proxies), [COSTS, CACHED]);
    }

    #[test]
    fn rows_have_a_figure_of_each_proxy_with_its_version() {
        let mut steppe = result("steppe", [8.0, 9.0, 8.0]);
        steppe.idle = Some(Idle {
            connections: 9_000,
            bytes_each: 1_445.2,
        });
        let mut nginx = result("nginx", [10.0; 3]);
        nginx.version = "nginx version: nginx/1.22.1".to_owned();
        let results = [
            steppe,
            result("steppe+log", [9.0; 3]),
            result("floor", [4.0; 3]),
            nginx,
        ];
        let expected = "|  | Steppe | nginx 1.22 |\n| --- | ---: | ---: |\n\
             | CPU a request, µs ↓ | 8.00 | 10.0 |\n\
             | CPU a request, ratio to nginx | 0.80 | 1.00 |\n\
             | requests a second ↑ | 125,000 | 100,000 |\n\
             | p50 / p99 / p99.9 at saturation, ms ↓ | 0.1 / 0.2 / 0.3 | 0.1 / 0.2 / 0.3 |\n\
             | RSS under load, MiB ↓ | 3.0 | 3.0 |\n\
             | bytes of an idle connection, of 9,000 ↓ | 1,445 |  |\n";
        assert_eq!(saturation(&results).to_markdown(), expected);
        let [figures, ratios] = &floor(&results)[..] else {
            panic!("two tables");
        };
        let expected = "|  | Steppe | floor | nginx 1.22 |\n| --- | ---: | ---: | ---: |\n\
             | CPU a request, µs (user + system) ↓ | 8.0 (2.0 + 6.0) | 4.0 (1.0 + 3.0) | 10.0 (2.5 + 7.5) |\n";
        assert_eq!(figures.to_markdown(), expected);
        let ratios = ratios.to_markdown();
        let first = "| Steppe ÷ nginx | 0.80 | 0.80 to 0.90 | 0.88, reached |\n\
                     | Steppe ÷ floor | 2.00 | 2.00 to 2.25 | 1.20, not reached |\n";
        assert!(ratios.contains(first), "{ratios}");
    }

    #[test]
    fn a_proxy_without_a_group_or_a_phase_has_no_figure() {
        let outcome = Outcome {
            tls: vec![result("steppe", [8.0; 3]), result("nginx", [10.0; 3])],
            h2c_upstream: vec![result("steppe", [9.0; 3])],
            grpc: vec![result("steppe", [20.0; 3]), result("haproxy", [50.0; 3])],
            ..Outcome::default()
        };
        let text = tls::table(&outcome).to_markdown();
        let request =
            "| CPU a request kept alive, 1 kB, µs ↓ | 8.00 | 10.0 | 0.80 (0.80 to 0.80) | 0.85 |\n";
        assert!(text.contains(request), "{text}");
        let group = "X25519MLKEM768 ↑ | not offered | not offered |  |  |\n";
        assert!(text.contains(group) && !text.contains("idle"), "{text}");
        let text = h2::servers(&outcome).to_markdown();
        let calls =
            "| gRPC unary by ghz, µs a call ↓ | 20.0 | 50.0 | 0.40 (0.40 to 0.40) |  | 0.90 |\n";
        assert!(text.ends_with(calls) && !text.contains("streams"), "{text}");
    }

    #[test]
    fn the_committed_page_has_the_marks() {
        let page = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../docs/performance/gateway.md"
        );
        Page::open(Path::new(page), &MARKS, MARKS.names).expect("it has all of them");
    }
}
