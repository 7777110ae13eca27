//! The figures of `/memory` about steppe-malloc are right: one test in a process of its own, since it allocates memory
//! and reads figures of the whole process.

use std::sync::{Arc, mpsc};

use serde_json::Value;
use steppe_http::metrics::{HttpMetrics, Labels};
use steppe_mem::Budget;
use steppe_node::allocator;
use steppe_node::memory::{self, Sources};
use steppe_testkit::observe_until;

const MIB: u64 = 1 << 20;
/// A request for the size class of 1,024 bytes.
const BLOCK_BYTES: usize = 1_000;
const BLOCKS: usize = 32 << 10;
const PLANTED: u64 = 32 * MIB;
/// Memory that the report and the test itself hold for a moment.
const NOISE: u64 = MIB;

/// The section `allocator` of the report.
fn now() -> Value {
    let sources = Sources {
        budget: Budget::new(64 << 20),
        figures: Arc::default(),
        http: HttpMetrics::new(Labels::default(), 1),
    };
    let mut report = memory::report(&sources).expect("/proc is mounted");
    report["allocator"].take()
}

#[track_caller]
fn figure(section: &Value, key: &str) -> u64 {
    let value = section["details"][key].as_u64();
    value.unwrap_or_else(|| panic!("{key} in {section}"))
}

#[track_caller]
fn blocks_of_1024(section: &Value) -> u64 {
    let classes = section["details"]["classes"].as_array();
    let class = classes
        .into_iter()
        .flatten()
        .find(|class| class["block_bytes"] == 1024);
    class.map_or(0, |class| class["live_blocks"].as_u64().expect("a count"))
}

/// The sum of all free memory: blocks that were allocated and freed must be in it.
fn freed(section: &Value) -> u64 {
    ["retained_bytes", "dirty_bytes", "purged_bytes"]
        .iter()
        .map(|key| figure(section, key))
        .sum()
}

/// Reads the report until `is_so`; the thread calls `allocator::rest` each time, as a worker does every second.
#[track_caller]
fn await_so(what: &str, is_so: impl Fn(&Value) -> bool) {
    let look = || {
        allocator::rest();
        now()
    };
    observe_until(what, look, is_so);
}

#[test]
fn what_is_planted_is_live_then_free_then_gone() {
    const TEST: &str = "what_is_planted_is_live_then_free_then_gone";
    crate::in_own_process(module_path!(), TEST, planted_memory_is_told);
}

fn planted_memory_is_told() {
    let first = now();
    assert_eq!(first["name"], allocator::NAME);
    if allocator::NAME != "steppe" {
        assert_eq!(first["details"], Value::Null, "others say nothing");
        return;
    }
    let live = figure(&first, "live_bytes");
    let resident = first["resident_bytes"].as_u64().expect("bytes");

    let mut planted: Vec<Option<Vec<u8>>> = vec![Some(vec![1; BLOCK_BYTES]); BLOCKS];
    let full = now();
    let grown = figure(&full, "live_bytes") - live;
    assert!((PLANTED..PLANTED + 2 * NOISE).contains(&grown), "{full:#}");
    assert!(blocks_of_1024(&full) >= BLOCKS as u64, "{full:#}");
    assert!(full["live_bytes"].as_u64() >= Some(BLOCKS as u64 * BLOCK_BYTES as u64));
    let resident_full = full["resident_bytes"].as_u64().expect("bytes");
    assert!(resident_full - resident >= PLANTED - NOISE, "{full:#}");

    // Every other one: no page becomes free, so this half stays resident.
    planted
        .iter_mut()
        .step_by(2)
        .for_each(|block| drop(block.take()));
    let half = now();
    let left = figure(&half, "live_bytes") - live;
    assert!(left < PLANTED / 2 + 2 * NOISE, "{half:#}");
    let retained = figure(&half, "retained_bytes") - figure(&full, "retained_bytes");
    assert!(retained >= PLANTED / 2 - NOISE, "{half:#}");

    drop(planted);
    let empty = now();
    assert!(figure(&empty, "live_bytes") < live + 2 * NOISE, "{empty:#}");
    assert!(freed(&empty) - freed(&full) >= PLANTED - NOISE, "{empty:#}");
    let before = figure(&first, "purged_bytes");
    await_so("free memory goes back", |section| {
        let resident_now = section["resident_bytes"].as_u64().expect("bytes");
        // A purge is counted when all of it is done, a moment after its pages are gone.
        let purged = figure(section, "purged_bytes") - before;
        let is_gone = figure(section, "dirty_bytes") < NOISE && resident_now < resident + 3 * NOISE;
        is_gone && purged >= PLANTED - NOISE
    });

    one_large_block();
    a_thread_by_its_name();
}

fn one_large_block() {
    let before = figure(&now(), "huge_bytes");
    let large = vec![1_u8; 64 << 20];
    let full = now();
    assert!(figure(&full, "huge_bytes") - before >= 64 * MIB, "{full:#}");
    drop(large);
    let empty = now();
    assert_eq!(figure(&empty, "huge_bytes"), before, "{empty:#}");
    assert!(
        freed(&empty) - freed(&full) >= 64 * MIB - NOISE,
        "{empty:#}"
    );
    await_so("a mapping goes back", |section| {
        figure(section, "dirty_bytes") < NOISE
    });
}

fn a_thread_by_its_name() {
    let (tell, told) = mpsc::sync_channel::<()>(1);
    let (end, ended) = mpsc::sync_channel::<()>(1);
    let planter = std::thread::Builder::new().name("planter".to_owned());
    let planter = planter.spawn(move || {
        drop(vec![vec![1_u8; 500]; 20]);
        tell.send(()).expect("the test waits");
        ended.recv().expect("the test ends");
    });
    let planter = planter.expect("a thread");
    told.recv().expect("the thread runs");
    let section = now();
    let heaps = section["details"]["heaps"].as_array().expect("a list");
    let heap = heaps.iter().find(|heap| heap["name"] == "planter");
    let binned = heap.and_then(|heap| heap["binned_bytes"].as_u64());
    assert!(binned >= Some(20 * 500), "{section:#}");
    end.send(()).expect("the thread waits");
    planter.join().expect("it does not panic");
}
