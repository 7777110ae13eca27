//! Weaknesses of HTTP/2 that reviews found, tested from the outside: each test is named after an
//! attack.
//!
//! Servers behind the node speak HTTP/1.1, so that the tests compare the bytes that reach them.

mod floods;
mod frames;
mod heads;
mod injection;
mod windows;

use steppe_testkit::{
    FieldSection, H2Answer, H2Frame, H2Peer, MemoryMeter, NodeConfig, RawOrigin, Section, Steppe,
    eventually, resident_bytes,
};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// RFC 9113 §7.
const PROTOCOL_ERROR: u32 = 0x1;
const STREAM_CLOSED: u32 = 0x5;
const COMPRESSION_ERROR: u32 = 0x9;
const ENHANCE_YOUR_CALM: u32 = 0xb;

const MIB: u64 = 1 << 20;
const BUDGET: u64 = 64 * MIB;
/// The memory of a node beyond its budget, at most.
const OVERHEAD: u64 = 24 * MIB;

/// A node that speaks HTTP/2 without TLS.
fn node(origin: &RawOrigin) -> Steppe {
    node_with(origin, |l| l)
}

/// The same with this change to its listener.
fn node_with(origin: &RawOrigin, change: impl FnOnce(Section) -> Section) -> Steppe {
    let config = NodeConfig::plain().listener(|l| change(l.protocols(["h2c"])));
    start(origin, &config)
}

fn start(origin: &RawOrigin, config: &NodeConfig) -> Steppe {
    let builder = Steppe::builder().with("origin", origin.address());
    builder.start(config)
}

fn connect(node: &Steppe) -> H2Peer {
    H2Peer::connect(node.gateway())
}

/// Asserts that another client is served, on a connection of its own.
#[track_caller]
fn expect_served(node: &Steppe) {
    let answer = connect(node).get("/good");
    assert_eq!((answer.status, answer.reset), (Some(200), None));
}

/// The number of connections that ended for this reason so far.
fn closed(node: &Steppe, reason: &str) -> f64 {
    let metrics = node.metrics();
    metrics.sum("steppe_http_closed_total", &[("reason", reason)])
}

/// Memory of a node under attack.
struct Memory {
    meter: MemoryMeter,
    before: u64,
}

impl Memory {
    fn of(node: &Steppe) -> Self {
        let [before, _] = resident_bytes(node.id());
        Self {
            meter: MemoryMeter::watch(node.id()),
            before,
        }
    }

    /// Asserts that the node never held more than its budget and [`OVERHEAD`], nor `grown` bytes
    /// more than before.
    #[track_caller]
    fn expect_grown_less(self, grown: u64) {
        let peak = self.meter.finish();
        let more = peak.high_water_bytes.saturating_sub(self.before);
        println!("{more} bytes more, {peak:?}");
        assert!(peak.high_water_bytes <= BUDGET + OVERHEAD, "{peak:?}");
        assert!(more < grown, "{more} bytes more than before: {peak:?}");
    }
}
