//! A full cache, slow compressed downloads and a storm of uploads, all at once in a small budget: stored responses are
//! evicted before a request is refused, and the budget is kept.
//!
//! Uploads that are passed on take little memory, whatever their number; edited ones are held whole. There are both.

use std::time::Duration;

use steppe_testkit::{
    Carrier, Cgroup, FlowOrigin, FlowPlan, Gate, MemoryMeter, NodeConfig, Peer, RawOrigin, Steppe,
    heavy, is_long, raise_file_limit, upload,
};

use super::{noise, records, response};

const BUDGET_BYTES: u64 = 64 << 20;
/// Memory of the process beyond the budget: program, stacks, tables.
const BEYOND_BYTES: u64 = 24 << 20;
/// Bytes in the cache before the storm, which is nearly all that it takes by itself.
const STORED_BYTES: f64 = (43 << 20) as f64;
/// Bytes at which the cache counts as empty: responses that are being read stay.
const REST_BYTES: f64 = (1 << 20) as f64;
const OBJECT_BYTES: usize = 64 << 10;
const DOWNLOAD_BYTES: usize = 1 << 20;
const UPLOAD_BYTES: u64 = 60_000;
/// Uploads that are held at once, and the bytes of each, in a buffer of 128 KiB: more than is free besides the cache,
/// and less than the budget.
const HELD: usize = 200;
const HELD_BYTES: usize = 80_000;
/// Bytes of all uploads that the origin reads a second.
const ORIGIN_BYTES_PER_SECOND: u64 = 20_000_000;

/// Downloads, and uploads that are passed on, at once.
fn crowd() -> (usize, u64) {
    if is_long() {
        (1_000, 2_000)
    } else {
        (150, 1_500)
    }
}

/// Figures of the node at one time.
#[derive(Debug, Clone, Copy)]
struct Told {
    stored_bytes: f64,
    evicted: f64,
    /// Exchanges that ended for want of memory.
    refused: f64,
}

#[test]
fn measured_what_is_stored_gives_way_before_anybody_is_refused() {
    let _alone = heavy();
    let files = raise_file_limit();
    let (downloads, uploads) = crowd();
    assert!(
        files > 4 * (downloads as u64 + uploads),
        "{files} open files"
    );
    let fields = "content-type: application/json\r\ncache-control: public, max-age=3600\r\n";
    let stored = response(fields, &noise(OBJECT_BYTES));
    let packed = response(fields, &records(DOWNLOAD_BYTES, 17));
    let pages = RawOrigin::replying(move |request| {
        let target = request.head.target();
        match target.split('/').nth(1) {
            Some("stored") => stored.clone(),
            Some("packed") => packed.clone(),
            _ => response("", b"taken"),
        }
    });
    let sink = FlowOrigin::start(ORIGIN_BYTES_PER_SECOND);
    // The kernel's buffers are outside of the node's accounts; a control group bounds them if the kernel allows that.
    let cgroup = Cgroup::with_memory(2 * BUDGET_BYTES).ok();
    let builder = Steppe::builder()
        .with("origin", pages.address())
        .with("sink", sink.address());
    let builder = match &cgroup {
        Some(cgroup) => builder.in_cgroup(cgroup),
        None => builder,
    };
    // The subject of the test is readers that stop, not their timeout.
    let config = NodeConfig::plain()
        // The connections stand for many clients.
        .set("node.client_share", "off")
        .listener(|l| l.set("timeouts.write_stall", "5m"))
        .with_toml(FURTHER);
    let mut node = builder.start(&config);
    let meter = MemoryMeter::watch(node.id());
    fill(&node);
    let before = told(&node);
    assert_eq!((before.evicted, before.refused), (0.0, 0.0), "{before:?}");

    let over = Gate::new();
    let plan = plan(&node, uploads);
    let (report, peers, mut watched) = std::thread::scope(|scope| {
        let ended = End(&over);
        let watch = scope.spawn(|| watch(&node, &over));
        let storm = scope.spawn(|| upload(&plan, &sink));
        let mut peers: Vec<Peer> = (0..downloads).map(|at| begin(&node, at)).collect();
        let mut held: Vec<Peer> = (0..HELD).map(|_| hold(&node)).collect();
        let begun = peers.iter_mut().filter_map(Peer::head);
        let mut statuses: Vec<u16> = begun.map(|head| head.status()).collect();
        for peer in &mut held {
            // A connection whose request was refused is closed.
            let _ = peer.try_send(b"}");
            statuses.push(peer.response().status());
        }
        let report = storm.join().expect("the storm ends");
        drop(ended);
        let watched = watch.join().expect("the watch ends");
        (report, (peers, statuses), watched)
    });
    watched.push(told(&node));
    let (peers, statuses) = peers;
    let peak = meter.finish();
    println!("{report:?}\n{peak:?}\n{:?}", watched.last());

    assert!(node.is_running(), "the node ended: {}", node.said());
    assert_eq!(cgroup.map_or(0, |cgroup| cgroup.kills()), 0);
    assert!(
        peak.high_water_bytes <= BUDGET_BYTES + BEYOND_BYTES,
        "{peak:?}"
    );
    let after = watched.last().expect("it was told at the end");
    assert!(after.evicted > 0.0, "nothing gave way: {after:?}");
    assert!(after.stored_bytes < before.stored_bytes / 2.0, "{after:?}");
    // Each time that a request was refused, nothing that could be evicted was left.
    for pair in watched.windows(2) {
        let is_refused = pair[1].refused > pair[0].refused;
        assert!(!is_refused || pair[1].stored_bytes < REST_BYTES, "{pair:?}");
    }
    assert_eq!(report.wrong, 0, "{report:?}");
    if !is_long() {
        // The evicted bytes suffice.
        assert_eq!(after.refused, 0.0, "{after:?}");
        assert_eq!(report.served, uploads, "{report:?}");
        assert_eq!(statuses, vec![200; downloads + HELD]);
    }
    drop(peers);
}

/// Tables besides the route of [`NodeConfig::plain`], which no request matches.
const FURTHER: &str = r#"
[http.upstream.sink]
servers = ["{sink}"]
[http.filter.store]
kind = "cache"
bytes = "64MiB"
[http.filter.pack]
kind = "compress"
[[http.route]]
name = "stored"
path = "/stored/{rest*}"
filters = ["store"]
upstream = "origin"
[[http.route]]
name = "packed"
path = "/packed/{rest*}"
filters = ["pack"]
upstream = "origin"
[http.filter.edit]
kind = "transform"
request_json = { remove = ["extra"] }
[[http.route]]
name = "edited"
path = "/edited/{rest*}"
filters = ["edit"]
upstream = "origin"
[[http.route]]
name = "upload"
path = "/upload/{rest*}"
upstream = "sink"
"#;

/// Fills the cache with responses that are not requested again.
fn fill(node: &Steppe) {
    let mut peer = node.connect();
    for number in 0.. {
        peer.send(format!(
            "GET /stored/{number} HTTP/1.1\r\nHost: a.example\r\n\r\n"
        ));
        let answer = peer.response();
        assert_eq!(answer.body.len(), OBJECT_BYTES);
        if number % 50 == 0 && told(node).stored_bytes >= STORED_BYTES {
            return;
        }
        assert!(number < 2_000, "it does not fill: {:?}", told(node));
    }
}

/// A reader that takes the head of a response and no more.
fn begin(node: &Steppe, at: usize) -> Peer {
    const CODINGS: [&str; 3] = ["gzip", "zstd", "br"];
    let coding = CODINGS[at % CODINGS.len()];
    let mut peer = node.connect_narrow(4 << 10);
    peer.send(format!(
        "GET /packed/{at} HTTP/1.1\r\nHost: a.example\r\nAccept-Encoding: {coding}\r\nConnection: close\r\n\r\n"
    ));
    peer
}

/// An upload that is edited, without its last byte.
fn hold(node: &Steppe) -> Peer {
    let mut peer = node.connect();
    let text = "x".repeat(HELD_BYTES - "{\"a\":\"\"}".len());
    peer.send(format!(
        "POST /edited/a HTTP/1.1\r\nHost: a.example\r\nContent-Type: application/json\r\nContent-Length: {HELD_BYTES}\r\n\r\n\
         {{\"a\":\"{text}\""
    ));
    peer
}

fn plan(node: &Steppe, uploads: u64) -> FlowPlan {
    FlowPlan {
        gateway: node.gateway(),
        connections: uploads,
        carrier: Carrier::Http1,
        bytes_each: UPLOAD_BYTES,
        reader_bytes_per_second: 0,
        patience: Duration::from_secs(120),
    }
}

/// Ends the watch, however its scope ends.
struct End<'a>(&'a Gate);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

fn watch(node: &Steppe, over: &Gate) -> Vec<Told> {
    let mut all = vec![told(node)];
    while !over.opens_within(Duration::from_millis(20)) {
        all.push(told(node));
    }
    all
}

fn told(node: &Steppe) -> Told {
    let metrics = node.metrics();
    let sum = |name: &str, labels: &[(&str, &str)]| metrics.sum(name, labels);
    Told {
        stored_bytes: sum("steppe_http_cache_bytes", &[("filter", "store")]),
        evicted: sum("steppe_http_cache_evicted_total", &[("filter", "store")]),
        refused: sum("steppe_http_closed_total", &[("reason", "over_budget")]),
    }
}
