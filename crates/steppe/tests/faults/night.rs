//! A night in minutes: a steady rate over all protocols, and one fault after the other.
//!
//! The test takes long: with `STEPPE_LONG=1` it is one fault a minute for 30 minutes, or for `STEPPE_NIGHT_MINUTES`, at
//! half of peak rate. With `STEPPE_NIGHT_MINUTES=0` each fault of the list happens once, for a second, at a rate that
//! leaves most of the machine to others. Each second is a line of `night.csv` in the target's `tmp` folder.
//!
//! No request may fail, since each is a GET and at most one server of each protocol is faulty at a time. No connection
//! that its peer has ended is kept. Memory does not grow.

mod diary;
mod site;

use std::time::{Duration, Instant};

use steppe_testkit::{SteadyLoad, Wrk, heavy, is_long, skip};

use crate::bench::{assert_within_retry_budget, retries};
use diary::Diary;
use site::{Fault, Site};

/// Connections of clients.
const CONNECTIONS: u32 = 64;

/// Faults, and their times.
struct Plan {
    faults: Vec<Fault>,
    /// Duration of the gentle faults; the others last half of it.
    lasts: Duration,
    /// Interval of faults.
    every: Duration,
    /// Requests a second; `None`: half of what the node can serve.
    rate: Option<f64>,
}

impl Plan {
    /// The plan of the environment; `None` in the short tier.
    fn from_environment() -> Option<Self> {
        let minutes = std::env::var("STEPPE_NIGHT_MINUTES").ok();
        let minutes = minutes.map(|text| text.parse().expect("minutes are a whole number"));
        let plan = match minutes.or(is_long().then_some(30))? {
            0 => Self {
                faults: Fault::ALL.to_vec(),
                lasts: Duration::from_secs(1),
                every: Duration::from_millis(1500),
                rate: Some(1_000.0),
            },
            minutes => Self {
                faults: Fault::ALL.iter().copied().cycle().take(minutes).collect(),
                lasts: Duration::from_secs(20),
                every: Duration::from_secs(60),
                rate: None,
            },
        };
        Some(plan)
    }
}

#[test]
fn measured_a_night() {
    let Some(plan) = Plan::from_environment() else {
        return skip("measured_a_night", "takes long: STEPPE_LONG=1 runs it");
    };
    let _alone = heavy();
    let mut site = Site::build();
    let rate = plan.rate.unwrap_or_else(|| {
        let peak = Wrk::new(&site.node.url("/"), 64, 3).run();
        peak.requests_per_second / 2.0
    });
    let began_at = Instant::now();
    println!("{rate:.0} requests a second from now on");
    let load = SteadyLoad::start(&site.clients(), rate, CONNECTIONS, site::CONTENT);
    let mut diary = Diary::open(site.node.id(), site.node.admin());
    for (number, fault) in plan.faults.iter().copied().enumerate() {
        let ends_at = Instant::now() + plan.every;
        if site.begin(fault) {
            diary.note_until(
                Instant::now() + plan.lasts * fault.halves() / 2,
                fault,
                &load,
            );
            site.end(fault);
        }
        diary.note_until(ends_at, fault, &load);
        println!("{:2} {fault:?}: {}", number + 1, diary.last());
    }
    let (served, failures) = (load.served(), load.failures());
    site.wait_until_well(&load);
    drop(load);
    println!(
        "{served} served; {:.0} sent again; {diary}",
        retries(&site.node, "tried")
    );
    assert!(failures.is_empty(), "{failures:#?}\n{}", site.node.said());
    assert!(served > 100, "{served}");
    assert_within_retry_budget(&site.node, began_at.elapsed());
    diary.judge();
}
