//! Configuration that changes under load, and changes that are refused.

#![expect(
    clippy::float_cmp,
    clippy::cast_precision_loss,
    reason = "whole numbers, far below 2^53"
)]

use steppe_testkit::{
    Gate, Load, NodeConfig, Port, RawOrigin, Steppe, Wire, eventually, heavy, is_long,
    websocket_connect, websocket_echo,
};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[track_caller]
fn reload(node: &Steppe, config: &NodeConfig) {
    node.set_config(config);
    let answer = node.admin_post("/reload");
    assert_eq!(answer.status(), 200, "{}", answer.text());
}

fn generation(node: &Steppe) -> u64 {
    node.admin_json("/reload")["generation"]
        .as_u64()
        .expect("a number")
}

#[test]
fn reloads_under_load_lose_no_request() {
    let _alone = heavy();
    let origin = RawOrigin::answering(OK);
    let port = Port::free();
    let plain = NodeConfig::plain().workers(2);
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&plain);
    let more = plain
        .clone()
        .add_listener(&port.address().to_string(), |l| l.protocols(["h1"]))
        .add_route("more", |r| r.path("/more").upstream("origin"));
    let reloads = if is_long() { 30 } else { 5 };
    let load = Load::start(&node.url("/"), 64);
    let requests = || node.metrics().sum("steppe_http_requests_total", &[]);
    for number in 0..reloads {
        let before = requests();
        reload(&node, if number % 2 == 0 { &more } else { &plain });
        eventually("it serves on", || requests() >= before + 1_000.0);
    }
    let output = load.stop();
    println!("{reloads} reloads: {output:?}");
    assert_eq!((output.errors, output.refused), (0, 0), "{output:?}");
    assert!(output.requests > 100, "{output:?}");
    // The file is watched too, and each change may have been loaded once more by that.
    assert!(generation(&node) > reloads);
    // Counted over all snapshots; each of wrk's connections may have had one more request under
    // way.
    let counted = requests();
    assert!(counted >= output.requests as f64, "{counted} of {output:?}");
}

#[test]
fn a_file_that_is_wrong_changes_nothing_and_is_told_until_it_is_mended() {
    let origin = RawOrigin::answering(OK);
    let node = Steppe::in_front_of(origin.address());
    let good = NodeConfig::plain();
    node.set_config(good.clone().route("all", |r| r.upstream("orgin")));
    let answer = node.admin_post("/reload");
    assert_eq!(answer.status(), 422);
    assert!(answer.text().contains("orgin"), "{}", answer.text());
    assert_eq!(node.exchange(GET).status(), 200);
    assert_eq!(generation(&node), 1);
    let error = node.admin_json("/reload")["last_error"].clone();
    assert!(
        error.as_str().is_some_and(|error| error.contains("orgin")),
        "{error}"
    );
    eventually("the log says so", || {
        node.said().contains("configuration refused")
    });
    let metrics = node.metrics();
    assert_eq!(
        metrics.sum("steppe_config_last_reload_successful", &[]),
        0.0
    );
    reload(&node, &good);
    assert!(node.admin_json("/reload")["last_error"].is_null());
    assert_eq!(
        node.metrics()
            .sum("steppe_config_last_reload_successful", &[]),
        1.0
    );
}

#[test]
fn what_takes_a_restart_is_refused_by_name() {
    let origin = RawOrigin::answering(OK);
    let node = Steppe::in_front_of(origin.address());
    let good = NodeConfig::plain();
    for (changed, key) in [
        (good.clone().workers(2), "node.workers"),
        (good.clone().memory_budget("65MiB"), "node.memory_budget"),
        (good.clone().set("log.format", "json"), "log.format"),
    ] {
        node.set_config(&changed);
        let answer = node.admin_post("/reload");
        assert_eq!(answer.status(), 422, "{key}");
        assert!(answer.text().starts_with(key), "{}", answer.text());
    }
    reload(&node, &good.set("node.drain_timeout", "9s"));
    let config = node.admin_json("/config");
    assert_eq!(config["node"]["drain_timeout"], "9s");
}

#[test]
fn the_level_of_the_log_changes_with_a_reload() {
    let origin = RawOrigin::answering(OK);
    // A watched file would cause reloads of its own.
    let quiet = NodeConfig::plain().set("node.watch", false);
    let quiet = quiet.set("log.level", "error");
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&quiet);
    let count = || node.said().matches("configuration reloaded").count();
    reload(&node, &quiet.clone().set("node.drain_timeout", "8s"));
    assert_eq!(count(), 0, "{}", node.said());
    let talkative = quiet.clone().set("log.level", "info");
    reload(&node, &talkative);
    reload(&node, &talkative.clone().set("node.drain_timeout", "9s"));
    reload(&node, &quiet);
    // A level takes effect once its reload is logged: the reload to `info` is not logged, the one
    // back to `error` is.
    eventually("two reloads are logged", || count() == 2);
    node.set_config(quiet.set("node.drain_timeout", "7s"));
    node.hang_up();
    eventually("the file is read again", || generation(&node) == 6);
    reload(&node, &talkative);
    reload(&node, &talkative.clone().set("node.drain_timeout", "6s"));
    eventually("a third reload is logged", || count() == 3);
    assert!(!node.said().contains("generation=6"), "{}", node.said());
}

/// The lines of a log in the folder of a node.
fn lines(node: &Steppe, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(node.scratch().join(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// A request in flight is logged to the old file; requests after the reload to the new one.
#[test]
fn the_access_log_changes_with_a_reload() {
    let may_end = Gate::new();
    let gate = may_end.clone();
    let origin = RawOrigin::start(move |peer| {
        while let Some(request) = peer.request() {
            if request.start.contains("/slow") {
                gate.wait();
            }
            peer.send(OK);
        }
    });
    let off = NodeConfig::plain();
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&off);
    let ask = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(node.exchange(request).status(), 200);
    };
    let counted = || node.metrics().sum("steppe_access_log_lines_total", &[]);
    ask("/unlogged");
    let json = off
        .clone()
        .set("log.access.file", "{scratch}/json.log")
        .set("log.access.format", "json")
        .set("log.access.fields", ["path", "status"]);
    reload(&node, &json);
    ask("/first");
    let first = r#"{"path":"/first","status":200}"#;
    eventually("the first line", || lines(&node, "json.log") == [first]);
    let mut slow = node.connect();
    slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("it is in flight", || origin.received().contains("/slow"));
    let combined = off.clone().set("log.access.file", "{scratch}/combined.log");
    reload(&node, &combined);
    ask("/second");
    eventually("a combined line", || {
        let lines = lines(&node, "combined.log");
        lines.len() == 1 && lines[0].contains("\"GET /second HTTP/1.1\" 200")
    });
    may_end.open();
    assert_eq!(slow.response().status(), 200);
    let last = r#"{"path":"/slow","status":200}"#;
    eventually("the last line of the first log", || {
        lines(&node, "json.log") == [first, last]
    });
    // A configuration that is refused changes nothing.
    node.set_config(
        off.clone()
            .set("log.access.file", "{scratch}/no/folder/access.log"),
    );
    let refused = node.admin_post("/reload");
    assert_eq!(refused.status(), 422);
    assert!(
        refused.text().contains("log.access.file"),
        "{}",
        refused.text()
    );
    ask("/third");
    eventually("it is logged on", || {
        lines(&node, "combined.log").len() == 2
    });
    // The same log goes on.
    reload(&node, &combined.clone().set("node.drain_timeout", "9s"));
    ask("/fourth");
    eventually("it goes on", || lines(&node, "combined.log").len() == 3);
    eventually("counts go on", || counted() == 5.0);
    reload(&node, &off);
    ask("/unlogged");
    reload(&node, &json);
    ask("/fifth");
    eventually("it is on again", || lines(&node, "json.log").len() == 3);
    assert_eq!(lines(&node, "combined.log").len(), 3);
    eventually("counts go on", || counted() == 6.0);
}

#[test]
fn changes_of_the_access_log_lose_no_line() {
    let _alone = heavy();
    let origin = RawOrigin::answering(OK);
    let logging = |name: &str| {
        let file = format!("{{scratch}}/{name}.log");
        let config = NodeConfig::plain().workers(2);
        config.set("log.access.file", file)
    };
    let (a, b) = (logging("a"), logging("b"));
    let node = Steppe::builder().with("origin", origin.address()).start(&a);
    let load = Load::start(&node.url("/"), 16);
    let requests = || node.metrics().sum("steppe_http_requests_total", &[]);
    for number in 0..6 {
        let before = requests();
        eventually("it is under load", || requests() >= before + 200.0);
        reload(&node, if number % 2 == 0 { &b } else { &a });
    }
    let output = load.stop();
    assert_eq!((output.errors, output.refused), (0, 0), "{output:?}");
    let dropped = || node.metrics().sum("steppe_access_log_dropped_total", &[]);
    let logged = || (lines(&node, "a.log").len() + lines(&node, "b.log").len()) as f64;
    eventually("each request has a line", || {
        logged() + dropped() == requests()
    });
    assert_eq!(dropped(), 0.0);
    assert!(!lines(&node, "a.log").is_empty() && !lines(&node, "b.log").is_empty());
}

#[test]
fn a_file_that_is_not_watched_is_read_when_asked() {
    let origin = RawOrigin::answering(OK);
    let unwatched = NodeConfig::plain().set("node.watch", false);
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&unwatched);
    // A watched file is checked twice a second, so each of these changes would be loaded.
    for (before, path) in [(1, "/one"), (2, "/two")] {
        node.set_config(unwatched.clone().route("all", |r| r.path(path)));
        std::thread::sleep(std::time::Duration::from_millis(1500));
        assert_eq!(generation(&node), before);
        node.hang_up();
        eventually("SIGHUP is heard", || generation(&node) == before + 1);
    }
    assert_eq!(node.exchange(GET).status(), 404);
    let watched = unwatched.clone().set("node.watch", true);
    reload(&node, &watched);
    node.set_config(watched.clone().set("node.drain_timeout", "7s"));
    eventually("the file is watched", || {
        node.admin_json("/config")["node"]["drain_timeout"] == "7s"
    });
    reload(&node, &unwatched);
    let last = generation(&node);
    node.set_config(&watched);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(generation(&node), last, "it is watched no more");
}

#[test]
fn a_signal_and_a_changed_file_are_enough() {
    let origin = RawOrigin::answering(OK);
    let node = Steppe::in_front_of(origin.address());
    node.set_config(NodeConfig::plain().route("all", |r| r.path("/only")));
    eventually("the file is watched", || node.exchange(GET).status() == 404);
    // The routes are published a moment before the generation is.
    eventually("it is told", || generation(&node) == 2);
    node.hang_up();
    eventually("SIGHUP is heard", || generation(&node) == 3);
}

#[test]
fn listeners_come_and_go_and_tunnels_stay() {
    if Wire::of_run() == Wire::Tls {
        // The second listener is without TLS in any run.
        return;
    }
    let origin = websocket_echo();
    let (first, second) = (Port::free(), Port::free());
    let with = |port: &Port| {
        let address = port.address().to_string();
        NodeConfig::plain().add_listener(&address, |l| l.protocols(["h1"]))
    };
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(with(&first));
    let (mut socket, _) = websocket_connect(first.address(), "/chat");
    let mut idle = steppe_testkit::Peer::connect(first.address());
    let waiting = idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").response();
    reload(&node, &with(&second));
    // The origin may answer a plain GET with any status; its connection is closed after that.
    assert!(waiting.status() >= 200);
    idle.expect_close();
    assert!(
        std::net::TcpStream::connect(first.address()).is_err(),
        "it is gone"
    );
    assert!(
        std::net::TcpStream::connect(second.address()).is_ok(),
        "it is there"
    );
    socket
        .send("still there?".into())
        .expect("the tunnel is open");
    let echo = socket.read().expect("the tunnel is open");
    assert_eq!(echo.into_text().expect("text").as_str(), "still there?");
    reload(&node, &with(&first));
    assert!(
        std::net::TcpStream::connect(first.address()).is_ok(),
        "it is back"
    );
}

/// The inodes of the sockets that listen on a port.
fn listening(node: &Steppe, port: u16) -> Vec<String> {
    const LISTEN: &str = "0A";
    let table = std::fs::read_to_string(format!("/proc/{}/net/tcp", node.id()));
    let table = table.expect("the node runs");
    let rows = table.lines().map(|line| line.split_whitespace().collect());
    let is_meant = |row: &Vec<&str>| row[1].ends_with(&format!(":{port:04X}")) && row[3] == LISTEN;
    let mut inodes: Vec<_> = rows.filter(is_meant).map(|row| row[9].to_owned()).collect();
    inodes.sort();
    inodes
}

#[test]
fn listeners_that_change_places_keep_their_sockets_and_limits() {
    if Wire::of_run() == Wire::Tls {
        // The second listener is without TLS in any run.
        return;
    }
    let origin = RawOrigin::answering(OK);
    let (strict, more) = (Port::free(), Port::free());
    let lax = NodeConfig::plain().workers(2);
    let add_strict = |config: NodeConfig, port: &Port| {
        let address = port.address().to_string();
        config.add_listener(&address, |l| l.set("limits.body_bytes", "1KiB"))
    };
    let strict_first = add_strict(lax.clone().remove_listener("{gateway}"), &strict)
        .add_listener("{gateway}", |l| l.protocols(["h1"]));
    let lax_first = add_strict(add_strict(lax, &strict), &more);
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&strict_first);
    let gateway = node.gateway();
    let sockets = || [strict.number(), gateway.port()].map(|port| listening(&node, port));
    let at_start = sockets();
    assert_eq!(at_start.each_ref().map(Vec::len), [2, 2], "one a worker");
    let post = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2048\r\n\r\n{}",
        "x".repeat(2048)
    );
    let status = |address| {
        let response = steppe_testkit::Peer::connect(address)
            .send(&post)
            .response();
        response.status()
    };
    for config in [None, Some(&lax_first), Some(&strict_first)] {
        config.into_iter().for_each(|config| reload(&node, config));
        assert_eq!(status(strict.address()), 413);
        assert_eq!(status(gateway), 200);
        assert_eq!(sockets(), at_start, "nothing was bound again");
        if config == Some(&lax_first) {
            // The socket of `more` is the only new one, and its listener the last.
            assert_eq!(status(more.address()), 413);
        }
    }
}

#[test]
fn a_port_that_is_taken_refuses_the_whole_file() {
    let origin = RawOrigin::answering(OK);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = taken.local_addr().expect("bound");
    let node = Steppe::in_front_of(origin.address());
    let wrong = NodeConfig::plain()
        .route("all", |r| r.path("/only"))
        .add_listener(&address.to_string(), |l| l.protocols(["h1"]));
    node.set_config(&wrong);
    let answer = node.admin_post("/reload");
    assert_eq!(answer.status(), 422);
    assert!(
        answer.text().contains(&address.to_string()),
        "{}",
        answer.text()
    );
    assert_eq!(node.exchange(GET).status(), 200, "the route is as it was");
}

#[test]
fn limits_hold_for_connections_that_are_open_already() {
    let origin = RawOrigin::answering(OK);
    let node = Steppe::in_front_of(origin.address());
    let mut peer = node.connect();
    assert_eq!(peer.send(GET).response().status(), 200);
    let strict = NodeConfig::plain().listener(|l| l.set("limits.body_bytes", "1KiB"));
    reload(&node, &strict);
    assert_eq!(
        peer.send(GET).response().status(),
        200,
        "takes the snapshot over"
    );
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2048\r\n\r\n";
    assert_eq!(peer.send(post).response().status(), 413);
}
