//! One fetch for all clients of a response, whichever of them stays.

use std::time::Duration;

use steppe_testkit::{Gate, OriginPeer, eventually};

use super::*;

/// Answers with 10 bytes at once, and 10 more when the gate is open.
fn in_two(peer: &mut OriginPeer, fields: &str, open: &Gate) {
    while peer.request().is_some() {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}content-length: 20\r\n\r\n0123456789");
        if peer.try_send(head.as_bytes()).is_err() {
            return;
        }
        open.wait();
        if peer.try_send(b"0123456789").is_err() {
            return;
        }
    }
}

#[test]
fn a_cold_name_is_fetched_once_whatever_the_number_of_workers() {
    for protocol in [Protocol::H1, Protocol::H2] {
        let gate = Gate::new();
        let open = gate.clone();
        let origin = RawOrigin::start(move |peer| {
            while peer.request().is_some() {
                open.wait();
                peer.send(ok(FRESH, "content"));
            }
        });
        let site = Site::start(origin, protocol, "", "");
        let clients: Vec<_> = (0..16).map(|_| site.curl("/a").start()).collect();
        eventually("all have asked", || {
            site.node.metrics().sum("steppe_http_connections", &[]) >= 16.0
        });
        gate.open();
        let answers: Vec<_> = clients.into_iter().map(|client| client.finish()).collect();
        assert!(
            answers.iter().all(|got| text(got) == "content"),
            "{answers:?}"
        );
        assert_eq!(site.asked("/a"), 1);
        let collapsed = answers
            .iter()
            .filter(|got| status_of(got).contains("collapsed"));
        assert!(collapsed.count() > 0);
    }
}

#[test]
fn who_follows_reads_while_it_streams_and_stays_when_others_leave() {
    for protocol in [Protocol::H1, Protocol::H2] {
        let gate = Gate::new();
        let open = gate.clone();
        let origin = RawOrigin::start(move |peer| in_two(peer, FRESH, &open));
        let site = Site::start(origin, protocol, "", "");
        let leader = site.curl("/a").start();
        eventually("the first has half", || leader.so_far().body.len() == 10);
        let follower = site.curl("/a").start();
        eventually("the second has half", || follower.so_far().body.len() == 10);
        // The client's process is killed.
        drop(leader);
        let third = site.curl("/a").start();
        eventually("the third has half", || third.so_far().body.len() == 10);
        gate.open();
        for client in [follower, third] {
            assert_eq!(text(&client.finish()), "01234567890123456789");
        }
        assert!(is_hit(&site.get("/a")));
        assert_eq!(site.asked("/a"), 1);
    }
}

#[test]
fn what_is_asked_for_and_left_is_stored_all_the_same() {
    let gate = Gate::new();
    let open = gate.clone();
    let origin = RawOrigin::start(move |peer| {
        while peer.request().is_some() {
            open.wait();
            peer.send(ok(FRESH, "content"));
        }
    });
    let site = Site::start(origin, Protocol::H1, "", "");
    let mut client = site.node.connect();
    client.send("GET /a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    site.origin
        .wait_until("it was asked", |origin| origin.received().contains("/a"));
    client.reset();
    let connections = || site.node.metrics().sum("steppe_http_requests_total", &[]);
    eventually("the client is known to have left", || connections() >= 1.0);
    eventually("its connection is counted out", || {
        site.node.metrics().sum("steppe_http_connections", &[]) < 1.0
    });
    gate.open();
    eventually("it is stored", || {
        site.node.metrics().sum("steppe_http_cache_responses", &[]) >= 1.0
    });
    assert_eq!(site.asked("/a"), 1);
}

#[test]
fn what_is_not_for_others_lets_them_go_on() {
    for protocol in [Protocol::H1, Protocol::H2] {
        let gate = Gate::new();
        let open = gate.clone();
        let (count, counted) = counter();
        let origin = RawOrigin::start(move |peer| {
            while peer.request().is_some() {
                let at = counted.fetch_add(1, Ordering::SeqCst);
                if at == 0 {
                    open.wait();
                }
                peer.send(ok("cache-control: private\r\n", &format!("for {at}")));
            }
        });
        let site = Site::start(origin, protocol, "", "");
        let clients: Vec<_> = (0..4).map(|_| site.curl("/a").start()).collect();
        eventually("all have asked", || {
            site.node.metrics().sum("steppe_http_connections", &[]) >= 4.0
        });
        gate.open();
        let mut answers: Vec<_> = clients
            .into_iter()
            .map(|each| text(&each.finish()))
            .collect();
        answers.sort();
        assert_eq!(answers, ["for 0", "for 1", "for 2", "for 3"]);
        assert_eq!(count.load(Ordering::SeqCst), 4);
    }
}

#[test]
fn who_reads_slowly_holds_nobody_up() {
    let content = "x".repeat(4 << 20);
    let whole = ok(FRESH, &content);
    let origin = RawOrigin::answering(whole);
    let site = Site::start(origin, Protocol::H1, "max_object_bytes = \"8MiB\"", "");
    let mut slow = site.node.connect_narrow(4096);
    let host = site.node.gateway();
    slow.send(format!("GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    // The slow client came first, and reads only its head.
    assert!(slow.head().is_some());
    let got = site.get("/a");
    assert_eq!(got.body.len(), content.len());
    assert_eq!(site.asked("/a"), 1);
}

/// A response too large to be stored, which is known only after that many bytes.
#[test]
fn who_reads_slowly_what_is_too_large_is_left_behind() {
    const PIECES: usize = 1024;
    let piece = [&b"4000\r\n"[..], &[b'x'; 0x4000], b"\r\n"].concat();
    let gate = Gate::new();
    let open = gate.clone();
    let origin = RawOrigin::start(move |peer| {
        while peer.request().is_some() {
            let head = format!("HTTP/1.1 200 OK\r\n{FRESH}transfer-encoding: chunked\r\n\r\n");
            peer.send([head.as_bytes(), &piece].concat());
            open.wait();
            for _ in 1..PIECES {
                if peer.try_send(&piece).is_err() {
                    return;
                }
            }
            peer.send("0\r\n\r\n");
        }
    });
    let site = Site::start(origin, Protocol::H1, "max_object_bytes = \"64KiB\"", "");
    let host = site.node.gateway();
    // One client came first and reads only its head; the other follows, and reads a little now and then.
    let begin = || {
        let mut slow = site.node.connect_narrow(4096);
        slow.send(format!("GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!(slow.head().is_some());
        slow
    };
    let (silent, mut slow) = (begin(), begin());
    let is_over = Gate::new();
    let over = is_over.clone();
    let slow = std::thread::spawn(move || {
        let pause = Duration::from_millis(300);
        while !over.opens_within(pause) && slow.try_bytes(4096).is_some() {}
    });
    let fast = site.curl("/a").start();
    eventually("it has the first piece", || !fast.so_far().body.is_empty());
    gate.open();
    let got = fast.finish();
    assert_eq!((got.exit, got.body.len()), (0, PIECES * 0x4000));
    assert_eq!(site.asked("/a"), 1);
    is_over.open();
    slow.join().expect("it reads no more");
    drop(silent);
}

/// Fetches with a connection to a server each, and without a client.
#[test]
fn so_many_fetches_go_on_that_nobody_waits_for() {
    const CLIENTS: usize = 100;
    const MOST: usize = 64;
    let gate = Gate::new();
    let open = gate.clone();
    let origin = RawOrigin::start(move |peer| {
        while peer.request().is_some() {
            open.wait();
            if peer.try_send(ok(FRESH, "content").as_bytes()).is_err() {
                return;
            }
        }
    });
    let site = Site::start(origin, Protocol::H1, "", "");
    let clients: Vec<_> = (0..CLIENTS)
        .map(|at| {
            let mut client = site.node.connect();
            client.send(format!("GET /{at} HTTP/1.1\r\nHost: a\r\n\r\n"));
            client
        })
        .collect();
    let active = || {
        let upstreams = site.node.admin_json("/upstreams");
        let active = &upstreams["upstreams"][0]["servers"][0]["active"];
        usize::try_from(active.as_u64().expect("a count")).expect("it is small")
    };
    eventually("all are asked for", || active() == CLIENTS);
    clients.into_iter().for_each(|client| client.reset());
    eventually("some are given up", || active() == MOST);
    gate.open();
    eventually("the others are stored", || {
        site.node.metrics().sum("steppe_http_cache_responses", &[]) >= MOST as f64
    });
    assert_eq!(
        site.node.metrics().sum("steppe_http_cache_responses", &[]),
        MOST as f64
    );
}

#[test]
fn content_that_ends_too_early_is_not_stored() {
    for protocol in [Protocol::H1, Protocol::H2] {
        let origin = RawOrigin::start(|peer| {
            while peer.request().is_some() {
                if peer.index == 0 {
                    peer.send(format!(
                        "HTTP/1.1 200 OK\r\n{FRESH}content-length: 20\r\n\r\nhalf"
                    ));
                    return;
                }
                peer.send(ok(FRESH, "whole"));
            }
        });
        let site = Site::start(origin, protocol, "", "");
        let cut = site.curl("/a").run();
        let is_whole = cut.exit == 0 && cut.head.status() == 200;
        assert!(!is_whole, "it is cut for its client, too: {cut:?}");
        assert_eq!(text(&site.get("/a")), "whole");
        assert!(is_hit(&site.get("/a")));
    }
}

#[test]
fn what_is_too_large_is_passed_on_whole() {
    let large = "x".repeat(300_000);
    let known = ok(FRESH, &large);
    let unknown = {
        let mut text = format!("HTTP/1.1 200 OK\r\n{FRESH}transfer-encoding: chunked\r\n\r\n");
        for _ in 0..30 {
            text += &format!("{:x}\r\n{}\r\n", 10_000, "x".repeat(10_000));
        }
        text + "0\r\n\r\n"
    };
    let answer = move |request: &Message, _| match request.target() {
        "/known" => known.clone(),
        "/unknown" => unknown.clone(),
        _ => ok(FRESH, "small"),
    };
    with_each("max_object_bytes = \"100KiB\"", answer, |site| {
        for target in ["/known", "/unknown"] {
            for _ in 0..2 {
                let got = site.get(target);
                assert_eq!((got.body.len(), is_hit(&got)), (300_000, false), "{target}");
            }
            assert_eq!(site.asked(target), 2);
        }
        site.get("/small");
        assert!(is_hit(&site.get("/small")));
    });
}
