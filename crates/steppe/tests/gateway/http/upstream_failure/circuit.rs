//! The circuit breaker: servers that fail get no more requests, from any worker.
//!
//! The times at which a circuit opens and is tried again are tested in virtual time, in `steppe-http`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use steppe_testkit::{NodeConfig, Port, RawOrigin, Section, Steppe, eventually};

use super::GET;

/// A server that answers 503 while `fails` is set, and counts requests.
struct Sick {
    origin: RawOrigin,
    fails: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

impl Sick {
    fn start() -> Self {
        let fails = Arc::new(AtomicBool::new(true));
        let asked = Arc::new(AtomicUsize::new(0));
        let (is_failing, count) = (Arc::clone(&fails), Arc::clone(&asked));
        let origin = RawOrigin::replying(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            let status = match is_failing.load(Ordering::SeqCst) {
                true => "503 Service Unavailable",
                false => "200 OK",
            };
            format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\nok").into_bytes()
        });
        Self {
            origin,
            fails,
            asked,
        }
    }

    fn node(&self, config: &NodeConfig) -> Steppe {
        let builder = Steppe::builder().with("origin", self.origin.address());
        builder.start(config)
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// A configuration with two workers, whose upstream has this circuit breaker.
fn breaking(breaker: impl FnOnce(Section) -> Section) -> NodeConfig {
    let breaker = breaker(Section::new());
    let upstream = |u: Section| u.set("circuit_breaker", breaker);
    NodeConfig::plain().workers(2).upstream("origin", upstream)
}

/// The statuses of requests, each on a connection of its own, which the kernel spreads over the workers.
fn statuses(node: &Steppe, count: usize) -> Vec<u16> {
    (0..count).map(|_| node.exchange(GET).status()).collect()
}

fn circuit(node: &Steppe) -> String {
    let upstreams = node.admin_json("/upstreams");
    let circuit = upstreams["upstreams"][0]["circuit"].as_str();
    circuit.expect("it has a circuit breaker").to_owned()
}

#[test]
fn servers_that_fail_are_left_alone_by_the_whole_node() {
    let sick = Sick::start();
    let config = breaking(|b| {
        b.set("min_requests", 10)
            .set("open_for", "1m")
            .set("fallback", "sorry")
    });
    let node = sick.node(&config.add_upstream("sorry", |u| {
        u.set("respond.status", 503)
            .set("respond.body", "back soon")
            .set("respond.headers.retry-after", "7")
    }));
    assert_eq!(statuses(&node, 40), [503; 40]);
    assert_eq!(sick.asked(), 10);
    assert_eq!(circuit(&node), "open");
    let answer = node.exchange(GET);
    assert_eq!(
        (answer.text(), answer.field("retry-after")),
        ("back soon".to_owned(), Some("7"))
    );
    let metrics = node.admin_get("/metrics").text();
    assert!(metrics.contains("steppe_http_upstream_circuit_opened_total{upstream=\"origin\"} 1\n"));
}

/// Two circuits with different times: the one that opened first is still open when the other has closed.
#[test]
fn a_circuit_is_open_for_as_long_as_it_is_told() {
    let (long, short) = (Sick::start(), Sick::start());
    let config = breaking(|b| b.set("min_requests", 4).set("open_for", "1m"))
        .add_upstream("short", |u| {
            u.servers([short.origin.address()])
                .set("circuit_breaker.min_requests", 4)
                .set("circuit_breaker.open_for", "100ms")
        })
        .add_route("short", |r| r.path("/short").upstream("short"));
    let node = long.node(&config);
    let ask = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        node.exchange(request).status()
    };
    for path in ["/", "/short"] {
        (0..4).for_each(|_| assert_eq!(ask(path), 503, "{path}"));
    }
    for sick in [&long, &short] {
        sick.fails.store(false, Ordering::SeqCst);
    }
    eventually("the short one is over", || ask("/short") == 200);
    (0..20).for_each(|_| assert_eq!(ask("/short"), 200));
    assert_eq!((ask("/"), long.asked()), (503, 4));
}

#[test]
fn few_failures_and_few_requests_open_nothing() {
    let sick = Sick::start();
    let node = sick.node(&breaking(|b| {
        b.set("min_requests", 10)
            .set("failure_ratio", "60%")
            .set("open_for", "1m")
    }));
    assert_eq!(statuses(&node, 9), [503; 9]);
    assert_eq!(circuit(&node), "closed");
    sick.fails.store(false, Ordering::SeqCst);
    assert_eq!(statuses(&node, 9), [200; 9]);
    sick.fails.store(true, Ordering::SeqCst);
    // 11 of 20 have failed.
    assert_eq!(statuses(&node, 2), [503; 2]);
    assert_eq!((circuit(&node), sick.asked()), ("closed".to_owned(), 20));
    // 14 of 23.
    assert_eq!(statuses(&node, 10), [503; 10]);
    assert_eq!(circuit(&node), "open");
}

#[test]
fn servers_that_take_no_connection_open_it() {
    let port = Port::free();
    let config = breaking(|b| b.set("min_requests", 3).set("open_for", "1m")).workers(1);
    let node = Steppe::builder()
        .with("origin", port.address())
        .start(&config);
    assert_eq!(statuses(&node, 6), [502, 502, 502, 503, 503, 503]);
    let metrics = node.admin_get("/metrics").text();
    assert!(
        metrics.contains("steppe_http_closed_total{reason=\"circuit_open\"} 3\n"),
        "{metrics}"
    );
}

/// Failures before the window do not count with those in it.
#[test]
fn failures_are_counted_in_a_window() {
    let sick = Sick::start();
    let node = sick.node(&breaking(|b| {
        b.set("window", "1s")
            .set("min_requests", 6)
            .set("open_for", "1m")
    }));
    assert_eq!(statuses(&node, 5), [503; 5]);
    // No event marks the end of the window, and no shorter one may be configured.
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(statuses(&node, 1), [503]);
    assert_eq!((circuit(&node), sick.asked()), ("closed".to_owned(), 6));
}

/// A request whose further attempts the circuit denies is answered with the failure of the last that it had: 503 and
/// `fallback` are for requests that were not sent at all.
#[test]
fn a_retry_that_the_circuit_denies_leaves_the_failure_of_the_attempt() {
    let silent = || RawOrigin::start(|peer| peer.drain());
    let closing = || RawOrigin::start(|peer| _ = peer.request());
    let garbled = || RawOrigin::answering("HTTP/9 who knows\r\n\r\n");
    let sorry = || RawOrigin::answering("HTTP/1.1 503 No\r\ncontent-length: 3\r\n\r\nown");
    type Start<'a> = &'a dyn Fn() -> RawOrigin;
    /// The end of an attempt, its servers, the condition of `retry`, and the response.
    type Row<'a> = (&'a str, Start<'a>, &'a str, (u16, Option<&'a str>));
    let rows: [Row<'_>; 4] = [
        ("silence", &silent, "timeout", (504, None)),
        ("a reset", &closing, "reset", (502, None)),
        ("garbage", &garbled, "reset", (502, None)),
        ("its own 503", &sorry, "503", (503, Some("own"))),
    ];
    for (what, start, on, (status, text)) in rows {
        for has_fallback in [false, true] {
            let servers = [start(), start()];
            let breaker = Section::new().set("min_requests", 3).set("open_for", "1h");
            let breaker = match has_fallback {
                true => breaker.set("fallback", "sorry"),
                false => breaker,
            };
            let upstream = |u: Section| {
                u.servers(servers.each_ref().map(RawOrigin::address))
                    .set("circuit_breaker", breaker)
                    .set("timeouts.first_byte", "200ms")
                    .set("retry.attempts", 8)
                    .set("retry.on", [on])
                    .set("retry.budget", "100%")
            };
            let config = NodeConfig::plain()
                .upstream("origin", upstream)
                .add_upstream("sorry", |u| u.set("respond.body", "back soon"))
                .add_route("sorry", |r| r.path("/sorry").upstream("sorry"));
            let node = Steppe::builder().start(&config);
            let first = node.exchange(GET);
            assert_eq!(first.status(), status, "{what}");
            assert!(text.is_none_or(|text| first.text() == text), "{what}");
            let attempts = servers.iter().map(RawOrigin::received);
            let attempts = attempts.map(|received| received.matches("GET / ").count());
            assert_eq!(attempts.sum::<usize>(), 3, "{what}");
            assert_eq!(circuit(&node), "open", "{what}");
            // The next request is not sent.
            let next = node.exchange(GET);
            let expected = if has_fallback { 200 } else { 503 };
            assert_eq!(next.status(), expected, "{what}");
            let denied = [("reason", "circuit_open")];
            let denied = node.metrics().sum("steppe_http_closed_total", &denied);
            assert_eq!(denied, if has_fallback { 0.0 } else { 1.0 }, "{what}");
        }
    }
}
