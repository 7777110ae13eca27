//! `rate-limit` on the wire beyond a single node's rate: requests at once, and rates that nodes share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use steppe_testkit::{
    Gate, H2Peer, NodeConfig, Peer, RawOrigin, RedisServer, Steppe, eventually, observe_until,
};

use super::{OK, ask};

fn limited(limit: &str) -> NodeConfig {
    NodeConfig::plain()
        .workers(2)
        .protocols(["h1", "h2c"])
        .route("all", |r| r.filters(["limit"]))
        .add_filter("limit", |f| f.set("kind", "rate-limit").with_toml(limit))
}

fn start(origin: &RawOrigin, limit: &str) -> Steppe {
    let builder = Steppe::builder().with("origin", origin.address());
    builder.start(limited(limit))
}

/// The number of requests that pass, of so many.
fn passed(node: &Steppe, count: usize) -> usize {
    let statuses = (0..count).map(|_| ask(node, "GET /", "").status());
    let statuses: Vec<_> = statuses.collect();
    assert!(
        statuses.iter().all(|status| [200, 429].contains(status)),
        "{statuses:?}"
    );
    statuses.iter().filter(|&&status| status == 200).count()
}

fn decisions(node: &Steppe, by: &str) -> f64 {
    let labels = [("filter", "limit"), ("by", by)];
    node.metrics()
        .sum("steppe_http_rate_limit_decisions_total", &labels)
}

#[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
fn await_store(node: &Steppe, is_there: bool) {
    let expected = f64::from(u8::from(is_there));
    eventually("the store is there or away", || {
        node.metrics().sum("steppe_http_rate_limit_store_up", &[]) == expected
    });
}

/// An origin that holds its answers until the gate opens, and counts waiting requests.
struct Slow {
    origin: RawOrigin,
    waiting: Arc<AtomicUsize>,
    may_go: Gate,
}

impl Slow {
    fn start() -> Self {
        let (waiting, may_go) = (Arc::<AtomicUsize>::default(), Gate::new());
        let (counter, gate) = (Arc::clone(&waiting), may_go.clone());
        let origin = RawOrigin::replying(move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
            gate.wait();
            OK.into()
        });
        Self {
            origin,
            waiting,
            may_go,
        }
    }

    fn await_requests(&self, count: usize) {
        eventually("requests are at the origin", || {
            self.waiting.load(Ordering::SeqCst) == count
        });
    }
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn so_many_requests_are_in_flight_of_the_whole_node() {
    let slow = Slow::start();
    let node = start(&slow.origin, "concurrent = 3\nkey = \"route\"");
    let mut held: Vec<Peer> = (0..3)
        .map(|_| {
            let mut peer = node.connect();
            peer.send(GET);
            peer
        })
        .collect();
    slow.await_requests(3);
    // Both workers and both versions are covered.
    for _ in 0..6 {
        let refused = ask(&node, "GET /", "");
        assert_eq!(refused.status(), 429);
        assert_eq!(refused.field("retry-after"), Some("1"));
        let policy = "\"limit\";q=3;qu=\"concurrent-requests\"";
        assert_eq!(refused.field("ratelimit-policy"), Some(policy));
        assert_eq!(refused.field("ratelimit"), Some("\"limit\";r=0;t=1"));
        assert_eq!(H2Peer::connect(node.gateway()).get("/").status, Some(429));
    }
    slow.may_go.open();
    for peer in &mut held {
        assert_eq!(peer.response().status(), 200);
    }
    assert_eq!(passed(&node, 20), 20);
}

#[test]
fn a_client_that_leaves_makes_room() {
    let slow = Slow::start();
    let node = start(&slow.origin, "concurrent = 1");
    let mut first = node.connect();
    first.send(GET);
    slow.await_requests(1);
    assert_eq!(ask(&node, "GET /", "").status(), 429);
    first.reset();
    slow.may_go.open();
    eventually("its place is free", || {
        ask(&node, "GET /", "").status() == 200
    });
}

#[test]
fn what_does_not_get_a_token_holds_no_place() {
    let origin = RawOrigin::answering(OK);
    let node = start(&origin, "rate = 1\nper = \"1h\"\nburst = 2\nconcurrent = 1");
    assert_eq!(passed(&node, 8), 2);
    // A request that passed keeps its place for a moment after its response has arrived.
    let policy = || {
        let refused = ask(&node, "GET /", "");
        refused.field("ratelimit-policy").map(str::to_owned)
    };
    observe_until("a token is what it lacks", policy, |policy| {
        policy.as_deref() == Some("\"limit\";q=2;w=7200")
    });
}

/// Attempts with a store: one late answer, as on a busy machine, makes the node take the store for unavailable for a
/// while.
const CHANCES: usize = 5;

/// A store, two nodes of two workers that share a limit of 100 there, and the number of 160 requests that they let
/// pass.
fn shared(origin: &RawOrigin) -> (RedisServer, [Steppe; 2], usize) {
    let redis = RedisServer::start();
    let limit = format!(
        "rate = 1\nper = \"1h\"\nburst = 100\nkey = \"route\"\nstore = \"{}\"",
        redis.url()
    );
    let nodes = [start(origin, &limit), start(origin, &limit)];
    nodes.iter().for_each(|node| await_store(node, true));
    let passes = Mutex::new(0);
    std::thread::scope(|scope| {
        for node in nodes.iter().chain(&nodes) {
            scope.spawn(|| *passes.lock().expect("no panic") += passed(node, 40));
        }
    });
    let passes = passes.into_inner().expect("no panic");
    (redis, nodes, passes)
}

/// A limit of 100 that two nodes of two workers share lets exactly 100 pass, on any of the nodes.
#[test]
fn nodes_that_share_a_store_share_a_limit() {
    let origin = RawOrigin::answering(OK);
    let by_both = |nodes: &[Steppe; 2], by| decisions(&nodes[0], by) + decisions(&nodes[1], by);
    let mut chances = (0..CHANCES).map(|_| shared(&origin));
    let (redis, nodes, passes) = chances
        .find(|(_, nodes, _)| by_both(nodes, "node") == 0.0)
        .expect("the store is in time for once");
    assert_eq!((passes, by_both(&nodes, "store")), (100, 160.0));
    let refused = ask(&nodes[1], "GET /", "");
    assert_eq!(refused.status(), 429);
    let after: u64 = refused
        .field("retry-after")
        .expect("it is there")
        .parse()
        .expect("a number");
    assert!((1..=3600).contains(&after), "{after}");
    // One round trip a request: the script was sent once or twice, and then called by its digest.
    let stats = redis.ask("INFO commandstats");
    let calls = |name: &str| {
        let line = stats
            .lines()
            .find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
        line.map_or(0, |line| {
            line.split(',')
                .next()
                .and_then(|calls| calls.parse().ok())
                .unwrap_or(0)
        })
    };
    let asked: u64 = calls("evalsha");
    assert!((161..=170).contains(&asked), "{stats}");
    // The store keeps a digest of a client, for as long as its bucket is not full.
    let keys = redis.ask("KEYS *");
    assert!(keys.contains("steppe:limit:limit:"), "{keys}");
    assert!(!redis.ask("INFO keyspace").contains("expires=0"));
}

#[test]
fn a_store_that_is_away_leaves_each_node_its_own_limit() {
    let mut redis = RedisServer::start();
    let origin = RawOrigin::answering(OK);
    let limit = format!(
        "rate = 1\nper = \"1h\"\nburst = 5\nkey = \"header:x-key\"\nstore = \"{}\"",
        redis.url()
    );
    let node = start(&origin, &limit);
    let passed = |key: &str| {
        let field = format!("X-Key: {key}\r\n");
        let statuses = (0..8).map(|_| ask(&node, "GET /", &field).status());
        statuses.filter(|&status| status == 200).count()
    };
    // Decisions of the store: for eight requests with an unused key.
    let mut keys = 0..;
    let mut passed_by_store = || {
        let mut chances = (0..CHANCES).map(|_| {
            await_store(&node, true);
            let before = decisions(&node, "store");
            let count = passed(&format!("key{}", keys.next().unwrap_or(0)));
            (count, decisions(&node, "store") - before)
        });
        let in_time = chances.find(|(_, decisions)| *decisions == 8.0);
        in_time.expect("the store is in time for once").0
    };
    assert_eq!(passed_by_store(), 5);
    redis.kill();
    // The first request finds the store unavailable, and is decided here.
    assert_eq!(passed("b"), 5);
    await_store(&node, false);
    assert!(decisions(&node, "node") >= 7.0);
    eventually("the log says so", || {
        node.said().contains("rate limit store unreachable")
    });
    redis.restart();
    // The store has forgotten the script, and all clients.
    assert_eq!(passed_by_store(), 5);
}

/// A store that accepts connections and never answers: requests wait for a bounded time, and others go on.
#[test]
fn a_store_that_hangs_holds_nobody_up_for_long() {
    let redis = RedisServer::start();
    let origin = RawOrigin::answering(OK);
    let limit = format!(
        "rate = 1\nper = \"1h\"\nburst = 5\nkey = \"route\"\nstore = \"{}\"",
        redis.url()
    );
    let node = start(&origin, &limit);
    await_store(&node, true);
    redis.pause();
    assert_eq!(passed(&node, 12), 5);
    await_store(&node, false);
    assert!(decisions(&node, "node") > 0.0);
    redis.resume();
    await_store(&node, true);
}

#[test]
fn a_store_that_is_no_store_is_refused_and_not_shown() {
    for (limit, expected) in [
        (
            "rate = 1\nstore = \"rediss://a:secret@b\"",
            "not the URL of a Valkey or Redis database",
        ),
        (
            "concurrent = 1\nstore = \"redis://b\"",
            "`store` without `rate`",
        ),
        ("concurrent = 1\nburst = 2", "`burst` without `rate`"),
        ("key = \"ip\"", "rate"),
    ] {
        let builder = Steppe::builder().with("origin", "127.0.0.1:1");
        let (status, said) = builder.run(&["check"], limited(limit));
        assert!(!status.success(), "{limit}");
        assert!(said.contains(expected), "{limit}: {said}");
    }
}
