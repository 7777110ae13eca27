//! Compression while memory is short: responses without room for an encoder are sent unencoded, and the budget is kept.

use steppe_testkit::{MemoryMeter, Peer, RawOrigin};

use super::compress::decoded;
use super::{filtered, records, response};

/// `memory_budget` of the node, and memory of its process beyond: program, stacks, tables.
const BUDGET_BYTES: u64 = 64 << 20;
const BEYOND_BYTES: u64 = 24 << 20;

/// Slow downloads at once; with `STEPPE_LONG=1` as many as the documentation names.
fn downloads() -> usize {
    let is_long = std::env::var_os("STEPPE_LONG").is_some_and(|value| value == "1");
    if is_long { 1000 } else { 150 }
}

#[test]
fn measured_slow_compressed_downloads_keep_the_budget() {
    let content = records(1 << 20, 17);
    let whole = response("content-type: application/json\r\n", &content);
    let origin = RawOrigin::answering(whole);
    let node = filtered(&origin, "kind = \"compress\"\nbreach = \"pad\"");
    let meter = MemoryMeter::watch(node.id());
    let codings = ["gzip", "zstd", "br"];
    let mut peers: Vec<(Peer, usize)> = (0..downloads())
        .map(|at| {
            let mut peer = node.connect_narrow(4 << 10);
            let coding = codings[at % codings.len()];
            peer.send(format!(
                "GET / HTTP/1.1\r\nHost: a.example\r\nAccept-Encoding: {coding}\r\nConnection: close\r\n\r\n"
            ));
            (peer, at)
        })
        .collect();
    // Each download has begun, and no client reads on: the responses in flight are all that the node may hold.
    let begun: Vec<bool> = peers
        .iter_mut()
        .map(|(peer, _)| peer.head().is_some_and(|head| head.status() == 200))
        .collect();
    let metrics = node.metrics();
    let unroomy = [("filter", "f"), ("reason", "no_room")];
    let unroomy = metrics.sum("steppe_http_uncompressed_total", &unroomy);
    assert!(unroomy > 0.0, "every download found room: too few to tell");
    assert!(begun.iter().all(|begun| *begun), "some were refused");
    drop(peers.split_off(3));
    drop(peers);
    let peak = meter.finish();
    assert!(
        peak.high_water_bytes <= BUDGET_BYTES + BEYOND_BYTES,
        "{} MiB resident",
        peak.high_water_bytes >> 20
    );
    // With room again, responses are compressed again.
    let mut peer = node.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a.example\r\nAccept-Encoding: gzip\r\n\r\n");
    let answer = peer.response();
    assert_eq!(answer.field("content-encoding"), Some("gzip"));
    assert!(decoded("gzip", &["-dc"], &answer.body) == content);
}
