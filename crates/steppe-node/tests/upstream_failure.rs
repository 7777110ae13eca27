//! Servers that fail: what clients notice, who is left out, and for how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use steppe_testkit::{Message, Nginx, PATIENCE, Peer, Port, RawOrigin, Steppe, Wrk};

const STEPPE: &str = env!("CARGO_BIN_EXE_steppe");
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn node(servers: &[String], lines: &str) -> Steppe {
    let toml = Steppe::PLAIN.replace("[[http.route]]", &format!("{lines}\n[[http.route]]"));
    Steppe::builder(STEPPE)
        .with("origin", servers.join("\", \""))
        .start(&toml)
}

fn address(origin: &RawOrigin) -> String {
    origin.address().to_string()
}

fn answering(status: u16) -> RawOrigin {
    RawOrigin::answering(format!(
        "HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\nno"
    ))
}

/// Reads a request and goes away.
fn resetting() -> RawOrigin {
    RawOrigin::start(|peer| {
        peer.request();
    })
}

/// Reads a request and says nothing.
fn silent() -> RawOrigin {
    RawOrigin::start(|peer| peer.drain())
}

fn statuses(node: &Steppe, count: usize) -> Vec<u16> {
    (0..count).map(|_| node.exchange(GET).status()).collect()
}

fn failures(node: &Steppe, count: usize) -> usize {
    let statuses = statuses(node, count);
    statuses.iter().filter(|status| **status != 200).count()
}

/// What `/upstreams` says of the servers.
fn servers(node: &Steppe) -> Vec<Value> {
    let report = node.admin_json("/upstreams");
    let servers = report["upstreams"][0]["servers"].as_array();
    servers.expect("a list of servers").clone()
}

fn states(node: &Steppe) -> Vec<String> {
    let servers = servers(node);
    let states = servers.iter().map(|server| server["state"].as_str());
    states
        .map(|state| state.expect("text").to_owned())
        .collect()
}

#[track_caller]
fn wait_until(node: &Steppe, what: &str, holds: impl Fn(&[Value]) -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds(&servers(node)) {
        assert!(
            Instant::now() < end,
            "not in time: {what}: {:#?}",
            servers(node)
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn retries(node: &Steppe, outcome: &str) -> f64 {
    let labels = [("upstream", "origin"), ("outcome", outcome)];
    node.metrics()
        .sum("steppe_http_upstream_retries_total", &labels)
}

#[test]
fn a_dead_server_of_three_costs_no_client_an_error_and_is_ejected() {
    let (port, live) = (Port::free(), [answering(200), answering(200)]);
    let dead = port.address().to_string();
    let node = node(&[address(&live[0]), dead, address(&live[1])], "");
    assert_eq!(failures(&node, 60), 0);
    assert_eq!(states(&node), ["healthy", "ejected", "healthy"]);
    let dead = &servers(&node)[1];
    assert_eq!(dead["ejections"], 1);
    assert_eq!(dead["failures"], 5, "from then on it is not asked: {dead}");
    let reason = dead["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("connection refused"), "{reason}");
    let metrics = node.metrics();
    let labels = [
        ("upstream", "origin"),
        ("server", dead["server"].as_str().expect("text")),
    ];
    let sum = |name| metrics.sum(name, &labels);
    assert_eq!(sum("steppe_http_upstream_server_healthy"), 0.0);
    assert_eq!(sum("steppe_http_upstream_server_ejections_total"), 1.0);
    assert_eq!(sum("steppe_http_upstream_server_failures_total"), 5.0);
}

#[test]
fn a_server_that_dies_under_load_costs_no_client_an_error() {
    let body = "location / { return 200 hello; }";
    let mut nginx: Vec<_> = (0..3).map(|_| Nginx::start(body)).collect();
    let servers: Vec<_> = nginx
        .iter()
        .map(|each| each.address().to_string())
        .collect();
    let node = node(
        &servers,
        "retry = { on = [\"connect\", \"reset\"] }\noutlier = {}",
    );
    let url = node.url("/");
    let load = std::thread::spawn(move || Wrk::new(&url, 32, 3).run());
    std::thread::sleep(Duration::from_secs(1));
    nginx[1].kill();
    let output = load.join().expect("wrk ends");
    assert!(output.requests > 100, "{output:?}");
    assert_eq!((output.refused, output.errors), (0, 0), "{output:?}");
    assert_eq!(states(&node)[1], "ejected");
}

// Passive ejection.

#[test]
fn a_server_that_hangs_is_ejected_and_returns() {
    let nginx = [0; 2].map(|_| Nginx::start("location / { return 200 hello; }"));
    let servers = nginx.each_ref().map(|each| each.address().to_string());
    let node = node(
        &servers,
        "timeouts = { first_byte = \"200ms\" }\n\
         outlier = { consecutive_failures = 2, ejection = \"1s\" }\n\
         retry = { on = [\"timeout\"] }",
    );
    assert_eq!(failures(&node, 4), 0);
    nginx[0].hang();
    assert_eq!(failures(&node, 12), 0, "another server lives");
    wait_until(&node, "it is ejected", |servers| {
        servers[0]["ejections"] != 0
    });
    nginx[0].go_on();
    wait_until(&node, "it is back", |servers| {
        servers[0]["state"] == "healthy"
    });
    let before = servers_requests(&node, 0);
    assert_eq!(failures(&node, 10), 0);
    assert!(
        servers_requests(&node, 0) > before,
        "it has its share again"
    );
}

fn servers_requests(node: &Steppe, at: usize) -> u64 {
    servers(node)[at]["requests"].as_u64().expect("a number")
}

#[test]
fn so_many_failures_in_a_row_eject() {
    let origins = [answering(503), answering(200)];
    let servers = origins.each_ref().map(address);
    let node = node(
        &servers,
        "outlier = { consecutive_failures = 3, ejection = \"1h\" }",
    );
    assert_eq!(failures(&node, 4), 2);
    assert_eq!(states(&node), ["healthy"; 2]);
    assert_eq!(failures(&node, 10), 1);
    assert_eq!(states(&node), ["ejected", "healthy"]);
    let reason = self::servers(&node)[0]["reason"].to_string();
    assert!(
        reason.contains("3 failures in a row, the last: status 503"),
        "{reason}"
    );
    assert!(reason.contains("back in 3"), "an hour: {reason}");
}

#[test]
fn without_outlier_a_status_ejects_nobody() {
    let origins = [answering(503), answering(200)];
    let node = node(&origins.each_ref().map(address), "");
    assert_eq!(failures(&node, 40), 20);
    assert_eq!(states(&node), ["healthy"; 2]);
}

#[test]
fn no_more_than_the_share_is_ejected() {
    for (share, ejected) in [("25%", 1), ("75%", 3)] {
        let origins = [0; 4].map(|_| answering(502));
        let servers = origins.each_ref().map(address);
        let lines = format!(
            "outlier = {{ consecutive_failures = 1, ejection = \"1h\", max_ejected = \"{share}\" }}"
        );
        let node = node(&servers, &lines);
        assert_eq!(failures(&node, 12), 12);
        let states = states(&node);
        let count = states.iter().filter(|state| *state == "ejected").count();
        assert_eq!(count, ejected, "{share}: {states:?}");
    }
}

/// Fails until it is told to be well.
fn switched() -> (RawOrigin, Arc<AtomicBool>) {
    let is_well = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&is_well);
    let origin = RawOrigin::replying(move |_| {
        let status = if switch.load(Ordering::Acquire) {
            200
        } else {
            503
        };
        format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n").into_bytes()
    });
    (origin, is_well)
}

#[test]
fn a_server_that_returns_starts_slowly() {
    for (lines, is_slow) in [("", false), ("slow_start = \"1h\"", true)] {
        let ((origin, is_well), other) = (switched(), answering(200));
        let lines =
            format!("{lines}\noutlier = {{ consecutive_failures = 1, ejection = \"100ms\" }}");
        let node = node(&[address(&origin), address(&other)], &lines);
        assert_eq!(failures(&node, 2), 1);
        is_well.store(true, Ordering::Release);
        wait_until(&node, "it is back", |servers| {
            servers[0]["state"] == "healthy"
        });
        let before = servers_requests(&node, 0);
        assert_eq!(failures(&node, 44), 0);
        let had = servers_requests(&node, 0) - before;
        assert_eq!(had, if is_slow { 4 } else { 22 });
    }
}

// Retries.

#[test]
fn each_failure_is_retried_where_its_condition_is_listed() {
    type Bad = fn() -> RawOrigin;
    let conditions: [(&str, Bad, u16); 5] = [
        ("502", || answering(502), 502),
        ("503", || answering(503), 503),
        ("504", || answering(504), 504),
        ("reset", resetting, 502),
        ("timeout", silent, 504),
    ];
    for (on, bad, status) in conditions {
        let origins = [bad(), RawOrigin::answering(OK)];
        let servers = origins.each_ref().map(address);
        let timeouts = "timeouts = { first_byte = \"200ms\" }";
        let node_of = |on: &str| node(&servers, &format!("{timeouts}\nretry = {{ on = [{on}] }}"));
        let node = node_of(&format!("\"{on}\""));
        assert_eq!(statuses(&node, 4), [200; 4], "{on}");
        assert_eq!(retries(&node, "tried"), 2.0, "{on}");
        let others = ["connect", "502", "503", "504", "reset", "timeout"];
        let others = others.iter().filter(|other| **other != on);
        let others: Vec<_> = others.map(|other| format!("\"{other}\"")).collect();
        let node = node_of(&others.join(", "));
        let seen = statuses(&node, 2);
        assert!(
            seen.contains(&status) && seen.contains(&200),
            "{on}: {seen:?}"
        );
    }
}

#[test]
fn a_refused_connection_is_passed_over_where_its_condition_is_listed() {
    let (port, live) = (Port::free(), RawOrigin::answering(OK));
    let servers = [port.address().to_string(), address(&live)];
    let with = node(&servers, "retry = { on = [\"connect\"] }");
    assert_eq!(statuses(&with, 4), [200; 4]);
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    for _ in 0..2 {
        assert_eq!(with.exchange(post).status(), 200, "nothing of it was sent");
    }
    let without = node(&servers, "retry = { on = [\"503\"] }");
    assert_eq!(failures(&without, 4), 2);
}

#[test]
fn there_are_no_more_tries_than_allowed_and_each_goes_elsewhere() {
    for (attempts, passes) in [(0, false), (1, false), (2, true)] {
        let origins = [answering(503), answering(503), RawOrigin::answering(OK)];
        let servers = origins.each_ref().map(address);
        let node = node(&servers, &format!("retry = {{ attempts = {attempts} }}"));
        let status = node.exchange(GET).status();
        assert_eq!(status == 200, passes, "{attempts}: {status}");
        let asked = origins.iter().filter(|origin| origin.accepted() == 1);
        assert_eq!(asked.count(), attempts + 1, "each server once");
    }
}

/// With all of its content, or the part that is out and then the rest, in the framing it had.
#[test]
fn content_is_sent_again_from_what_was_kept() {
    let body = "0123456789abcdef".repeat(3 << 10);
    let trailers = "PUT /in HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n\
                    5\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 7\r\n\r\n";
    let known = format!(
        "PUT /in HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let small = "DELETE /in HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    let (chunked, small, known) = (trailers.as_bytes(), small.as_bytes(), known.as_bytes());
    type Bad = fn() -> RawOrigin;
    // One that reads everything and says no, one that resets, and one that answers before
    // the content has come.
    let kinds: [Bad; 3] = [
        || answering(503),
        resetting,
        || {
            RawOrigin::start(|peer| {
                peer.some();
                peer.send("HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n");
            })
        },
    ];
    for bad in kinds {
        for (request, content) in [
            (chunked, "hello world"),
            (small, "hi"),
            (known, body.as_str()),
        ] {
            let good = RawOrigin::replying(|request| {
                let sum = request.trailers.iter().map(|(_, value)| value.as_str());
                let body = [request.body.as_slice(), sum.collect::<String>().as_bytes()].concat();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                [head.as_bytes(), &body].concat()
            });
            let origins = [bad(), good];
            let node = node(
                &origins.each_ref().map(address),
                "retry = { on = [\"503\", \"reset\"] }",
            );
            let sum = if request == chunked { "7" } else { "" };
            for _ in 0..2 {
                // In two pieces, the second when the first is on its way.
                let mut peer = node.connect();
                let (first, second) = request.split_at(request.len() - 1);
                peer.send(first);
                std::thread::sleep(Duration::from_millis(20));
                let answer = peer.send(second).response();
                assert_eq!(answer.status(), 200);
                assert_eq!(answer.text(), format!("{content}{sum}"));
            }
            assert_eq!(retries(&node, "tried"), 1.0);
            let ends = origins[1].received().matches("\r\n0\r\n").count();
            assert_eq!(ends, if request == chunked { 2 } else { 0 });
        }
    }
}

/// More content than is kept, and content that the budget has no room for.
#[test]
fn content_that_was_not_kept_is_not_sent_again() {
    let chunks = |count: usize| {
        let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
        let head = "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        format!("{head}{}0\r\n\r\n", chunk.repeat(count))
    };
    for (count, budget, passes) in [
        (8, "", true),
        (32, "", false),
        (8, "budget = \"256KiB\"", false),
    ] {
        let origins = [answering(503), RawOrigin::answering(OK)];
        let servers = origins
            .each_ref()
            .map(|origin| format!("\"{}\"", address(origin)));
        let toml = Steppe::PLAIN
            .replace(
                "[\"{origin}\"]",
                &format!("[{}]\nretry = {{}}", servers.join(", ")),
            )
            .replace(
                "upstream = \"origin\"",
                &format!("upstream = \"origin\"\n{budget}"),
            );
        let node = Steppe::builder(STEPPE).start(&toml);
        let seen: Vec<u16> = (0..2)
            .map(|_| node.exchange(chunks(count)).status())
            .collect();
        assert_eq!(!seen.contains(&503), passes, "{count} {budget}: {seen:?}");
        assert!(seen.contains(&200), "{seen:?}");
    }
}

#[test]
fn what_is_not_idempotent_is_not_sent_again() {
    let origins = [answering(503), answering(503)];
    let node = node(&origins.each_ref().map(address), "retry = {}");
    for request in [
        "POST /once HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /once HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
    ] {
        assert_eq!(node.exchange(request).status(), 503);
    }
    let received = origins.each_ref().map(RawOrigin::received).concat();
    assert_eq!(received.matches("POST /once").count(), 2, "{received}");
    assert_eq!(retries(&node, "tried"), 0.0);
}

#[test]
fn nothing_is_sent_again_once_the_client_has_seen_some() {
    let interim = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    for end in ["HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n", ""] {
        let text = format!("{interim}{end}");
        let origin = move || {
            let text = text.clone();
            RawOrigin::start(move |peer| {
                peer.request();
                peer.send(&text);
            })
        };
        let origins = [origin(), origin()];
        let node = node(&origins.each_ref().map(address), "retry = {}");
        let answer = node.exchange(GET);
        assert_eq!(answer.interim.len(), 1);
        assert!(answer.status() >= 502, "{answer:?}");
        assert_eq!(origins.iter().map(RawOrigin::accepted).sum::<usize>(), 1);
    }
    let cut = || {
        RawOrigin::start(|peer| {
            peer.request();
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello");
            // Until the client has it: what nobody saw could be taken back.
            std::thread::sleep(Duration::from_millis(200));
        })
    };
    let origins = [cut(), cut()];
    let node = node(&origins.each_ref().map(address), "retry = {}");
    let mut peer = node.connect();
    assert!(String::from_utf8_lossy(&peer.send(GET).rest()).ends_with("\r\n\r\nhello"));
    assert_eq!(origins.iter().map(RawOrigin::accepted).sum::<usize>(), 1);
}

#[test]
fn the_retry_budget_is_never_exceeded() {
    const REQUESTS: usize = 300;
    for (budget, least, most) in [("20%", 30.0, 60.0), ("100%", 300.0, 300.0)] {
        let origins = [answering(503), answering(503)];
        let servers = origins.each_ref().map(address);
        let node = node(
            &servers,
            &format!("retry = {{ attempts = 1, budget = \"{budget}\" }}"),
        );
        let mut peer = node.connect();
        for _ in 0..REQUESTS {
            assert_eq!(peer.send(GET).response().status(), 503);
        }
        let (tried, denied) = (retries(&node, "tried"), retries(&node, "denied"));
        assert_eq!(tried + denied, REQUESTS as f64);
        assert!((least..=most).contains(&tried), "{budget}: {tried}");
        let received: usize = origins
            .iter()
            .map(|o| o.received().matches("GET /").count())
            .sum();
        assert_eq!(received as f64, REQUESTS as f64 + tried);
        let report = node.admin_json("/upstreams");
        assert_eq!(
            report["upstreams"][0]["retries"]["tried"].as_f64(),
            Some(tried)
        );
    }
}

/// Answers requests, and probes by `script`, its last word for good; counts probes.
fn probed(script: &'static str) -> (RawOrigin, Arc<AtomicUsize>) {
    let probes = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&probes);
    let origin = RawOrigin::start(move |peer| {
        while let Some(request) = peer.request() {
            if request.head.target() != "/probe?x=1" {
                peer.send(OK);
                continue;
            }
            assert_eq!(request.field("user-agent"), Some("steppe-probe"));
            let at = count.fetch_add(1, Ordering::AcqRel).min(script.len() - 1);
            match &script[at..=at] {
                "." => peer.send(OK),
                "!" => peer.send("HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"),
                "3" => peer.send("HTTP/1.1 302 No\r\ncontent-length: 0\r\n\r\n"),
                _ => {
                    std::thread::sleep(Duration::from_millis(300));
                    peer.send(OK)
                }
            };
        }
    });
    (origin, probes)
}

/// A node that probes two servers, the second of which is always well.
fn probing(script: &'static str, lines: &str) -> (Steppe, [RawOrigin; 2], Arc<AtomicUsize>) {
    let ((origin, probes), (other, _)) = (probed(script), probed("."));
    let lines = format!("health = {{ path = \"/probe?x=1\", interval = \"20ms\"{lines} }}");
    let node = node(&[address(&origin), address(&other)], &lines);
    (node, [origin, other], probes)
}

fn wait_for_probes(probes: &AtomicUsize, count: usize) {
    let end = Instant::now() + PATIENCE;
    while probes.load(Ordering::Acquire) < count {
        assert!(Instant::now() < end, "too few probes");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn probes_mark_a_server_unhealthy_and_back() {
    let (node, origins, _) = probing("!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!.", "");
    wait_until(&node, "it is out", |servers| {
        servers[0]["state"] == "unhealthy"
    });
    let first = servers(&node)[0].clone();
    assert!(first["probe"]["failed"].as_u64() >= Some(3), "{first}");
    assert!(
        first["reason"].to_string().contains("probes fail"),
        "{first}"
    );
    let requests = |origin: &RawOrigin| origin.received().matches("GET / ").count();
    assert_eq!(failures(&node, 6), 0);
    if servers(&node)[0]["state"] == "unhealthy" {
        assert_eq!(requests(&origins[0]), 0, "it is asked nothing");
    }
    wait_until(&node, "it is back", |servers| {
        servers[0]["state"] == "healthy"
    });
    assert_eq!(failures(&node, 6), 0);
    assert!(requests(&origins[0]) >= 3);
    let first = &servers(&node)[0];
    assert_eq!(first["probe"]["last"], "200");
    let labels = |result| [("upstream", "origin"), ("result", result)];
    let metrics = node.metrics();
    let probes = |result| metrics.sum("steppe_http_upstream_probes_total", &labels(result));
    assert!(
        probes("failed") >= 30.0 && probes("passed") >= 2.0,
        "{}",
        metrics.text()
    );
}

const OUT: &str = "server is unhealthy";
const BACK: &str = "server is healthy again";

#[test]
fn so_many_probes_in_a_row_decide() {
    let (node, _origins, probes) = probing("!!.!!.!!!.", ", unhealthy_after = 4");
    wait_for_probes(&probes, 14);
    assert!(!node.said().contains(OUT), "{}", node.said());
    let (node, _origins, probes) = probing("!!.!!.!!!.", ", unhealthy_after = 3");
    wait_for_probes(&probes, 14);
    assert!(node.said().contains(OUT) && node.said().contains(BACK));
    let (node, _origins, probes) = probing("!!!..!...!..!...!", ", healthy_after = 4");
    wait_for_probes(&probes, 20);
    assert!(node.said().contains(OUT) && !node.said().contains(BACK));
    let (node, _origins, probes) = probing("!!!..!...!..!...!", ", healthy_after = 3");
    wait_for_probes(&probes, 20);
    assert!(node.said().contains(BACK), "{}", node.said());
}

#[test]
fn the_statuses_that_are_expected_are_good() {
    for (expect, is_good) in [("2xx", false), ("200-399", true), ("200, 302", true)] {
        let (node, _origins, probes) = probing("3", &format!(", expect = \"{expect}\""));
        wait_for_probes(&probes, 6);
        assert_eq!(
            !node.said().contains(OUT),
            is_good,
            "{expect}: {}",
            node.said()
        );
    }
}

#[test]
fn a_probe_waits_as_long_as_told() {
    let (node, _origins, _) = probing("~", ", timeout = \"50ms\", unhealthy_after = 2");
    wait_until(&node, "it is out", |servers| {
        servers[0]["state"] == "unhealthy"
    });
    assert_eq!(servers(&node)[0]["probe"]["last"], "no answer in time");
    let (node, _origins, _) = probing("~", ", timeout = \"10s\", unhealthy_after = 1");
    wait_until(&node, "it is asked", |servers| {
        servers[0]["probe"]["passed"].as_u64() > Some(2)
    });
    assert!(!node.said().contains(OUT), "{}", node.said());
}

#[test]
fn where_none_is_well_all_are_asked() {
    let ((one, _), (other, _)) = (probed("!"), probed("!"));
    let lines = "health = { path = \"/probe?x=1\", interval = \"20ms\" }";
    let node = node(&[address(&one), address(&other)], lines);
    wait_until(&node, "both are out", |servers| {
        servers.iter().all(|server| server["state"] == "unhealthy")
    });
    assert_eq!(failures(&node, 4), 0);
}

// Taking servers out of service.

fn admin(node: &Steppe, method: &str, path: &str, more: &str) -> Message {
    let host = node.admin();
    let request =
        format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n{more}connection: close\r\n\r\n");
    Peer::connect(node.admin())
        .send(request)
        .response_to(method)
}

#[test]
fn a_drained_server_ends_what_it_has_and_gets_no_more() {
    let go_on = Arc::new(AtomicBool::new(false));
    let signal = Arc::clone(&go_on);
    let slow = RawOrigin::start(move |peer| {
        while peer.request().is_some() {
            while !signal.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(5));
            }
            peer.send(OK);
        }
    });
    let other = RawOrigin::answering(OK);
    let node = node(&[address(&slow), address(&other)], "");
    let mut under_way = node.connect();
    under_way.send(GET);
    slow.wait_until("it arrives", |origin| !origin.received().is_empty());
    assert_eq!(servers(&node)[0]["active"], 1);
    let path = format!("/upstreams/origin/{}", address(&slow));
    let drained = admin(&node, "POST", &format!("{path}/drain"), "");
    assert_eq!(drained.status(), 200, "{drained:?}");
    assert_eq!(states(&node), ["draining", "healthy"]);
    assert_eq!(failures(&node, 6), 0);
    assert_eq!(
        slow.received().matches("GET ").count(),
        1,
        "only what was there"
    );
    go_on.store(true, Ordering::Release);
    assert_eq!(under_way.response().text(), "ok");
    for (method, path) in [
        ("DELETE", format!("{path}/drain")),
        ("POST", format!("{path}/undrain")),
    ] {
        assert_eq!(admin(&node, method, &path, "").status(), 200);
        assert_eq!(states(&node), ["healthy"; 2]);
        let before = servers_requests(&node, 0);
        assert_eq!(failures(&node, 4), 0);
        assert_eq!(servers_requests(&node, 0) - before, 2);
        let drain = format!("/upstreams/origin/{}/drain", address(&slow));
        assert_eq!(admin(&node, "POST", &drain, "").status(), 200);
    }
}

#[test]
fn a_drain_names_a_server_and_comes_from_no_page_of_another_site() {
    let origin = RawOrigin::answering(OK);
    let node = node(&[address(&origin)], "");
    let path = format!("/upstreams/origin/{}/drain", address(&origin));
    for elsewhere in [
        "/upstreams/other/a:1/drain",
        "/upstreams/origin/127.0.0.1:1/drain",
    ] {
        assert_eq!(admin(&node, "POST", elsewhere, "").status(), 404);
    }
    let foreign = admin(&node, "POST", &path, "origin: https://attacker.example\r\n");
    assert_eq!(foreign.status(), 403);
    assert_eq!(failures(&node, 1), 0);
    assert_eq!(admin(&node, "POST", &path, "").status(), 200);
    assert_eq!(statuses(&node, 1), [503], "there is nobody left to ask");
}
