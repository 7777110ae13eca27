//! The table of the forwarders for `docs/performance/dns.md`.

use super::contestant::{Contestant, Phase, Run};
use super::peer::Peer;
use crate::page::{Figures, Marks, Section, heading};
use crate::stats::{median, ratio};
use crate::table::{grouped, joined, significant};

/// The marks of the page.
pub const MARKS: Marks<'_> = Marks {
    bench: "dns",
    names: &[NAME],
};

const NAME: &str = "dns";

/// A row for each figure; latencies were measured at `rate` queries a second.
pub fn section(contestants: &[Contestant], rounds: usize, rate: u64) -> Section {
    let columns = contestants.iter();
    let columns = columns.map(|one| (one.peer.name(), title(one.peer, &one.launch.version)));
    let mut figures = Figures::new("", columns.collect(), &[]);
    let cells = |read: fn(&Contestant) -> String| {
        move |name: &str| {
            let found = contestants.iter().find(|one| one.peer.name() == name);
            found.map_or_else(String::new, read)
        }
    };
    let ratios = |phase| {
        move |name: &str| {
            let one = contestants.iter().find(|one| one.peer.name() == name);
            let reference = contestants.iter().find(|one| one.peer == Peer::Unbound);
            let (Some(one), Some(reference)) = (one, reference) else {
                return String::new();
            };
            grouped(ratio(&cpu_us(one, phase), &cpu_us(reference, phase)), 2)
        }
    };
    figures.row(
        "CPU a cached query, µs ↓",
        cells(|one| significant(median(&cpu_us(one, Phase::Cached)))),
    );
    figures.row("ratio to unbound", ratios(Phase::Cached));
    figures.row(
        "CPU a query that is forwarded, µs ↓",
        cells(|one| significant(median(&cpu_us(one, Phase::Miss)))),
    );
    figures.row("ratio to unbound", ratios(Phase::Miss));
    let label = format!(
        "p50 / p99 at {} a second, cached, µs ↓",
        grouped(rate as f64, 0)
    );
    figures.row(
        &label,
        cells(|one| {
            let latency = |read: fn(&Run) -> f64| one.median(Phase::Latency, read);
            joined(
                &[latency(|run| run.p50_us), latency(|run| run.p99_us)],
                |us| grouped(us, 0),
            )
        }),
    );
    figures.row("RSS, MiB ↓", cells(|one| grouped(rss_mib(one), 1)));
    Section {
        name: NAME,
        rounds,
        tables: vec![figures.into_table()],
    }
}

/// The heading of a column: Steppe, or a peer with the version that its program `said`.
fn title(peer: Peer, said: &str) -> String {
    match peer {
        Peer::Steppe => "Steppe".to_owned(),
        Peer::Knot => heading("Knot Resolver", said, 2),
        other => heading(other.name(), said, 2),
    }
}

/// The floor forwards nothing: its misses are queries like others.
fn cpu_us(one: &Contestant, phase: Phase) -> Vec<f64> {
    let forwards = phase != Phase::Miss || one.peer != Peer::Floor;
    match forwards {
        true => one.all(phase, |run| run.cpu_us),
        false => Vec::new(),
    }
}

fn rss_mib(one: &Contestant) -> f64 {
    one.median(Phase::Latency, |run| run.rss_bytes as f64) / 1_048_576.0
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::page::Page;

    #[test]
    fn a_peer_has_its_version_and_steppe_has_none() {
        assert_eq!(title(Peer::Steppe, "steppe 0.1.0"), "Steppe");
        assert_eq!(
            title(Peer::Knot, "Knot Resolver, version 5.6.0"),
            "Knot Resolver 5.6"
        );
        assert_eq!(
            title(Peer::Dnsmasq, "Dnsmasq version 2.90  Copyright"),
            "dnsmasq 2.90"
        );
    }

    #[test]
    fn the_committed_page_has_the_marks() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/performance/dns.md");
        Page::open(Path::new(page), &MARKS, MARKS.names).expect("it has all of them");
    }
}
