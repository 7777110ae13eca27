//! Loads against real servers, and against scripted servers that misbehave.

#![expect(
    clippy::unwrap_used,
    reason = "a test that can't be set up fails; the lint spares test functions, and not their helpers"
)]

mod command;
mod dns;
mod http;
mod http2;
mod servers;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use steppe_lab::load::{Burst, Driver, Interval};
use steppe_lab::scenario::{Expect, HttpLoad, Load, LoadKind, Pace};

/// Longer than any test takes, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

fn load(kind: LoadKind, pace: Pace) -> Load {
    Load {
        name: "it".to_owned(),
        pace,
        ramp: Duration::ZERO,
        seed: 7,
        threads: 1,
        timeout: Duration::from_secs(20),
        kind,
    }
}

fn http(url: &str, connections: u32) -> HttpLoad {
    HttpLoad {
        url: url.to_owned(),
        method: "GET".to_owned(),
        headers: Vec::new(),
        body_bytes: 0,
        expect: vec![Expect { from: 200, to: 299 }],
        connections,
        streams: 1,
        ca: None,
        verify: true,
    }
}

fn open(rate_per_s: f64) -> Pace {
    Pace::Open { rate_per_s }
}

fn burst(epoch: u32) -> Burst {
    Burst {
        length: Duration::from_secs(1),
        epoch,
        to_end: false,
    }
}

fn start(load: &Load) -> Driver {
    let logs = |_: &str| PathBuf::from("/dev/null");
    Driver::start(std::slice::from_ref(load), 1, Instant::now(), logs).unwrap()
}

/// One burst of this length, with nothing in flight at its end.
fn run(load: &Load, length: Duration) -> Interval {
    let mut driver = start(load);
    driver.resume(burst(0));
    std::thread::sleep(length);
    assert!(driver.pause(PATIENCE));
    let interval = driver.take().remove(0);
    driver.stop();
    interval
}

/// Runs the load until its result is enough, and pauses it.
fn run_until(driver: &mut Driver, epoch: u32, is_enough: impl Fn(&Interval) -> bool) -> Interval {
    driver.resume(burst(epoch));
    let end = Instant::now() + PATIENCE;
    let mut sum: Option<Interval> = None;
    loop {
        std::thread::sleep(Duration::from_millis(10));
        add(&mut sum, driver.take().remove(0));
        if sum.as_ref().is_some_and(&is_enough) {
            break;
        }
        assert!(Instant::now() < end, "{sum:?}, {:?}", driver.failures());
    }
    assert!(driver.pause(PATIENCE));
    add(&mut sum, driver.take().remove(0));
    sum.unwrap()
}

fn add(sum: &mut Option<Interval>, next: Interval) {
    let Some(sum) = sum else {
        *sum = Some(next);
        return;
    };
    sum.operations += next.operations;
    sum.errors += next.errors;
    sum.refused += next.refused;
    sum.dropped += next.dropped;
    sum.intended = match (sum.intended, next.intended) {
        (Some(one), Some(two)) => Some(one + two),
        (one, two) => one.or(two),
    };
    sum.response.add(&next.response).unwrap();
    sum.service.add(&next.service).unwrap();
    for (kind, count) in next.error_kinds {
        match sum.error_kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, known)) => *known += count,
            None => sum.error_kinds.push((kind, count)),
        }
    }
}

/// The number of errors of a kind.
fn errors_of(interval: &Interval, kind: &str) -> u64 {
    let of_kind = interval.error_kinds.iter().find(|(name, _)| name == kind);
    of_kind.map_or(0, |(_, count)| *count)
}
