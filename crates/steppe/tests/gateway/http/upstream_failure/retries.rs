//! Retries: which requests are sent again, how often, and which are not.

use steppe_testkit::{Gate, NodeConfig, Port, RawOrigin, Section, Steppe, eventually};

use super::{
    GET, OK, address, answering, failures, node, resetting, retries, silent, states, statuses,
};

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
        // Short if the deadline has to pass; long otherwise, since a server that is well must not
        // be late.
        let first_byte = if on == "timeout" { "2s" } else { "20s" };
        let node_of = |on: &[&str]| {
            node(&servers, |u| {
                u.set("timeouts.first_byte", first_byte).set("retry.on", on)
            })
        };
        let node = node_of(&[on]);
        assert_eq!(statuses(&node, 4), [200; 4], "{on}");
        assert_eq!(retries(&node, "tried"), 2.0, "{on}");
        let others = ["connect", "502", "503", "504", "reset", "timeout"];
        let others = others.iter().filter(|other| **other != on);
        let others: Vec<_> = others.copied().collect();
        let node = node_of(&others);
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
    let with = node(&servers, |u| u.set("retry.on", ["connect"]));
    assert_eq!(statuses(&with, 4), [200; 4]);
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    for _ in 0..2 {
        assert_eq!(with.exchange(post).status(), 200, "nothing of it was sent");
    }
    let without = node(&servers, |u| u.set("retry.on", ["503"]));
    assert_eq!(failures(&without, 4), 2);
}

#[test]
fn there_are_no_more_tries_than_allowed_and_each_goes_elsewhere() {
    for (attempts, passes) in [(0, false), (1, false), (2, true)] {
        let origins = [answering(503), answering(503), RawOrigin::answering(OK)];
        let servers = origins.each_ref().map(address);
        let node = node(&servers, |u| u.set("retry.attempts", attempts));
        let status = node.exchange(GET).status();
        assert_eq!(status == 200, passes, "{attempts}: {status}");
        let asked = origins.iter().filter(|origin| origin.accepted() == 1);
        assert_eq!(asked.count(), attempts + 1, "each server once");
    }
}

/// Content is sent again in full, or the part that is out and then the rest, in its original
/// framing.
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
    // An origin that reads everything and answers 503, one that resets, and one that answers before
    // the content is complete.
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
            let node = node(&origins.each_ref().map(address), |u| {
                u.set("retry.on", ["503", "reset"])
            });
            let sum = if request == chunked { "7" } else { "" };
            for _ in 0..2 {
                // In two pieces, the second once the first has reached a server.
                let mut peer = node.connect();
                let (first, second) = request.split_at(request.len() - 1);
                let before = received(&origins);
                peer.send(first);
                eventually("it is on its way", || received(&origins) > before);
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

/// The bytes that all the origins have received so far.
fn received(origins: &[RawOrigin]) -> usize {
    origins.iter().map(|origin| origin.received().len()).sum()
}

/// More content than is kept, and content that the budget has no memory for.
#[test]
fn content_that_was_not_kept_is_not_sent_again() {
    let chunks = |count: usize| {
        let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
        let head = "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        format!("{head}{}0\r\n\r\n", chunk.repeat(count))
    };
    for (count, budget, passes) in [
        (8, None, true),
        (32, None, false),
        (8, Some("256KiB"), false),
    ] {
        let origins = [answering(503), RawOrigin::answering(OK)];
        let servers = origins.each_ref().map(RawOrigin::address);
        let config = NodeConfig::plain()
            .upstream("origin", |u| {
                u.servers(servers).set("retry", Section::new())
            })
            .route("all", |r| match budget {
                Some(budget) => r.set("budget", budget),
                None => r,
            });
        let node = Steppe::builder().start(&config);
        let seen: Vec<u16> = (0..2)
            .map(|_| node.exchange(chunks(count)).status())
            .collect();
        assert_eq!(!seen.contains(&503), passes, "{count} {budget:?}: {seen:?}");
        assert!(seen.contains(&200), "{seen:?}");
    }
}

#[test]
fn what_is_not_idempotent_is_not_sent_again() {
    let origins = [answering(503), answering(503)];
    let node = node(&origins.each_ref().map(address), |u| {
        u.set("retry", Section::new())
    });
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
        let node = node(&origins.each_ref().map(address), |u| {
            u.set("retry", Section::new())
        });
        let answer = node.exchange(GET);
        assert_eq!(answer.interim.len(), 1);
        assert!(answer.status() >= 502, "{answer:?}");
        assert_eq!(origins.iter().map(RawOrigin::accepted).sum::<usize>(), 1);
    }
    let is_seen = Gate::new();
    let cut = || {
        let is_seen = is_seen.clone();
        RawOrigin::start(move |peer| {
            peer.request();
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello");
            // A response that the client has not seen could still be replaced.
            is_seen.wait();
        })
    };
    let origins = [cut(), cut()];
    let node = node(&origins.each_ref().map(address), |u| {
        u.set("retry", Section::new())
    });
    let mut peer = node.connect();
    assert_eq!(peer.send(GET).head().map(|head| head.status()), Some(200));
    let seen = peer.bytes(5);
    is_seen.open();
    assert_eq!((seen, peer.rest()), (b"hello".to_vec(), Vec::new()));
    assert_eq!(origins.iter().map(RawOrigin::accepted).sum::<usize>(), 1);
}

#[test]
fn the_retry_budget_is_never_exceeded() {
    const REQUESTS: usize = 300;
    for (budget, least, most) in [("20%", 30.0, 60.0), ("100%", 300.0, 300.0)] {
        let origins = [answering(503), answering(503)];
        let servers = origins.each_ref().map(address);
        let node = node(&servers, |u| {
            u.set("retry.attempts", 1).set("retry.budget", budget)
        });
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

/// A request that the node answers itself asks no server, and allows no retries.
#[test]
fn the_retry_budget_is_a_share_of_what_servers_are_asked() {
    const REQUESTS: usize = 200;
    let origins = [answering(503), answering(503)];
    let servers = origins.each_ref().map(address);
    let config = NodeConfig::plain()
        .upstream("origin", |u| {
            u.servers(&servers[..])
                .set("retry.attempts", 1)
                .set("retry.budget", "20%")
        })
        .route("all", |r| r.filters(["browsers"]))
        .add_filter("browsers", |f| {
            f.with_toml("kind = \"cors\"\norigins = [\"https://app.example.com\"]")
        });
    let node = Steppe::builder().start(&config);
    let mut peer = node.connect();
    let refused = "OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: https://evil.example\r\n\
                   Access-Control-Request-Method: PUT\r\n\r\n";
    for _ in 0..10 * REQUESTS {
        assert_eq!(peer.send(refused).response().status(), 403);
    }
    for _ in 0..REQUESTS {
        assert_eq!(peer.send(GET).response().status(), 503);
    }
    let tried = retries(&node, "tried");
    assert!((20.0..=60.0).contains(&tried), "{tried} of {REQUESTS}");
}

#[test]
fn who_just_failed_is_not_asked_again_at_once() {
    let only = answering(503);
    let node = node(&[address(&only)], |u| u.set("retry.attempts", 3));
    assert_eq!(node.exchange(GET).status(), 503);
    assert_eq!(only.received().matches("GET /").count(), 1);
    assert_eq!(
        (retries(&node, "tried"), retries(&node, "denied")),
        (0.0, 0.0)
    );
}

/// A total deadline that passes is a failure of that one server, and no other server gets the
/// request.
#[test]
fn a_request_whose_time_is_over_is_not_sent_again() {
    let origins = [silent(), RawOrigin::answering(OK), RawOrigin::answering(OK)];
    let node = node(&origins.each_ref().map(address), |u| {
        u.set("timeouts.total", "2s")
            .set("outlier.consecutive_failures", 2)
            .set("outlier.max_ejected", "100%")
            .set("retry.attempts", 3)
            .set("retry.on", ["timeout"])
            .set("retry.budget", "100%")
    });
    let mut seen = statuses(&node, 6);
    seen.sort_unstable();
    assert_eq!(seen, [200, 200, 200, 200, 504, 504]);
    assert_eq!(retries(&node, "tried"), 0.0);
    assert_eq!(states(&node), ["ejected", "healthy", "healthy"]);
}
