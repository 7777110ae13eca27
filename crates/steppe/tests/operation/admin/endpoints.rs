//! Admin, probes, metrics, logs and the drain, from an operator's view.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use serde_json::Value;
use steppe_testkit::{
    Gate, Metrics, Nginx, NodeConfig, PATIENCE, Peer, RawOrigin, Scratch, Steppe, Wrk, eventually,
    heavy, observe_until,
};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn health_and_readiness_are_told() {
    let origin = RawOrigin::answering(OK);
    let node = Steppe::in_front_of(origin.address());
    assert_eq!(node.admin_get("/healthz").status(), 200);
    assert_eq!(node.admin_get("/readyz").status(), 200);
    assert_eq!(node.admin_get("/nothing").status(), 404);
}

#[test]
fn requests_are_counted_by_route_status_and_upstream() {
    let origin = RawOrigin::replying(|request| {
        let status = if request.target() == "/bad" {
            "500 Oops"
        } else {
            "200 OK"
        };
        format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\nok").into_bytes()
    });
    let node = Steppe::in_front_of(origin.address());
    for _ in 0..7 {
        node.exchange(GET);
    }
    for _ in 0..2 {
        node.exchange("GET /bad HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    // A request is counted after its response was sent, which may be after the client has read
    // that.
    let metrics = scrape_until(&node, |metrics| {
        metrics.sum("steppe_http_requests_total", &[("route", "all")]) >= 9.0
    });
    let count = |status| {
        let labels = [("route", "all"), ("upstream", "origin"), ("status", status)];
        metrics.sum("steppe_http_requests_total", &labels)
    };
    assert_eq!(
        (count("2xx"), count("5xx"), count("4xx")),
        (7.0, 2.0, 0.0),
        "{}",
        metrics.text()
    );
    let lasted = metrics
        .names()
        .into_iter()
        .find(|name| name.starts_with("steppe_http_request_duration") && name.ends_with("_count"))
        .map(|name| metrics.sum(name, &[("route", "all")]));
    assert_eq!(lasted, Some(9.0), "{}", metrics.text());
    for part in ["connections", "bytes", "budget"] {
        assert!(
            metrics.names().iter().any(|name| name.contains(part)),
            "{}",
            metrics.text()
        );
    }
}

#[test]
fn what_ends_early_is_counted_by_its_reason() {
    let origin = RawOrigin::answering(OK);
    let config = NodeConfig::plain().listener(|l| l.set("timeouts.header", "2s"));
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    let mut peer = node.connect();
    assert_eq!(peer.send("GET / HTTP/1.1\r\n").response().status(), 408);
    let closed = |reason: &'static str| {
        let count =
            move |metrics: &Metrics| metrics.sum("steppe_http_closed_total", &[("reason", reason)]);
        count(&scrape_until(&node, |metrics| count(metrics) > 0.0))
    };
    assert_eq!(closed("header_timeout"), 1.0);
    let twice = "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n";
    assert_eq!(node.exchange(twice).status(), 400);
    assert_eq!(closed("bad_request"), 1.0);
}

/// Scrapes until `enough` returns true.
#[track_caller]
fn scrape_until(node: &Steppe, enough: impl Fn(&Metrics) -> bool) -> Metrics {
    observe_until("it is counted", || node.metrics(), enough)
}

/// A configuration whose admin listens at another port, and its probes at the usual address.
fn with_probes_apart() -> NodeConfig {
    NodeConfig::plain()
        .set("admin.listen", "127.0.0.1:{page}")
        .set("admin.probes", "{admin}")
}

#[test]
fn probes_can_stand_alone() {
    let origin = RawOrigin::answering(OK);
    let config = with_probes_apart();
    let (builder, page) = Steppe::builder()
        .with("origin", origin.address())
        .with_port("page");
    let node = builder.start(&config);
    assert_eq!(node.admin_get("/readyz").status(), 200);
    assert_eq!(node.admin_get("/healthz").status(), 200);
    for path in ["/metrics", "/memory", "/config"] {
        assert_eq!(node.admin_get(path).status(), 404, "{path} on probes");
    }
    let get = |path: &str| {
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        Peer::connect(([127, 0, 0, 1], page).into())
            .send(request)
            .response()
            .status()
    };
    assert_eq!(
        (get("/metrics"), get("/readyz"), get("/healthz")),
        (200, 404, 404)
    );
}

/// Opens a connection to admin and sends half a head on it.
fn half_head(node: &Steppe) -> Peer {
    let mut peer = Peer::connect(node.admin());
    peer.send("GET /healthz HTTP/1.1\r\nhost: localhost\r\n");
    peer
}

#[test]
fn half_heads_delay_no_probe() {
    let origin = RawOrigin::answering(OK);
    let node = Steppe::in_front_of(origin.address());
    for count in [64, 1_000] {
        let mut half: Vec<Peer> = (0..count).map(|_| half_head(&node)).collect();
        for path in ["/healthz", "/readyz", "/metrics"] {
            assert_eq!(node.admin_get(path).status(), 200, "{path} beside {count}");
        }
        // The youngest connection is still served, so no deadline had to pass first.
        let last = half.last_mut().expect("there are some");
        assert_eq!(last.send("\r\n").response().status(), 200, "of {count}");
    }
}

#[test]
fn pages_of_other_sites_open_no_event_stream_and_open_ones_lock_nobody_out() {
    let origin = RawOrigin::answering(OK);
    let node = Steppe::in_front_of(origin.address());
    let events = |fields: &str| {
        let host = node.admin();
        let mut peer = Peer::connect(host);
        peer.send(format!(
            "GET /events HTTP/1.1\r\nhost: {host}\r\n{fields}\r\n"
        ));
        let status = peer.head().expect("is answered").status();
        (peer, status)
    };
    for site in ["cross-site", "same-site"] {
        let (_, status) = events(&format!("sec-fetch-site: {site}\r\n"));
        assert_eq!(status, 403, "{site}");
    }
    let open: Vec<(Peer, u16)> = (0..12)
        .map(|_| events("sec-fetch-site: same-origin\r\n"))
        .collect();
    let served = open.iter().filter(|(_, status)| *status == 200).count();
    assert_eq!(served, 8, "as many as docs/reference/admin.md has");
    for path in ["/", "/page.js", "/metrics", "/healthz"] {
        assert_eq!(node.admin_get(path).status(), 200, "{path}");
    }
}

#[test]
fn a_token_guards_everything_but_the_probes() {
    let origin = RawOrigin::answering(OK);
    let config = with_probes_apart().set("admin.token_file", "{scratch}/token");
    let (builder, page) = Steppe::builder()
        .with("origin", origin.address())
        .with_file("token", "s3cret-t0ken-of-some-length\n")
        .with_port("page");
    let node = builder.start(&config);
    let get = |fields: &str| {
        let request = format!(
            "GET /metrics HTTP/1.1\r\nhost: localhost\r\n{fields}connection: close\r\n\r\n"
        );
        Peer::connect(([127, 0, 0, 1], page).into())
            .send(request)
            .response()
    };
    let without = get("");
    assert_eq!(without.status(), 401);
    assert!(
        without
            .field("www-authenticate")
            .is_some_and(|asks| asks.starts_with("Bearer"))
    );
    assert_eq!(
        get("Authorization: Bearer s3cret-t0ken-of-some-lengtH\r\n").status(),
        401
    );
    assert_eq!(get("Authorization: Bearer \r\n").status(), 401);
    assert_eq!(
        get("Authorization: Basic s3cret-t0ken-of-some-length\r\n").status(),
        401
    );
    assert_eq!(
        get("Authorization: Bearer s3cret-t0ken-of-some-length\r\n").status(),
        200
    );
    assert_eq!(node.admin_get("/readyz").status(), 200);
    assert!(!node.said().contains("s3cret"), "{}", node.said());
}

#[test]
fn admin_beyond_loopback_is_refused_without_a_token() {
    let scratch = Scratch::new("check");
    let check = |listen: &str| {
        let config = NodeConfig::plain()
            .set("admin.listen", listen)
            .listener(|l| l.set("listen", "127.0.0.1:8080"))
            .upstream("origin", |u| u.servers(["127.0.0.1:9001"]));
        let file = scratch.write("steppe.toml", config.to_string());
        let output = Steppe::command().arg("check").arg(file).output();
        let output = output.expect("the binary runs");
        let said = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    };
    assert!(check("127.0.0.1:9900").0);
    let (sound, said) = check("0.0.0.0:9900");
    assert!(!sound && said.contains("token_file"), "{said}");
}

#[test]
fn the_effective_configuration_is_told_with_its_defaults() {
    let origin = RawOrigin::answering(OK);
    let node = Steppe::in_front_of(origin.address());
    let config = node.admin_json("/config").to_string();
    for part in [
        origin.address().to_string().as_str(),
        "drain_timeout",
        "header_bytes",
    ] {
        assert!(config.contains(part), "{part}: {config}");
    }
}

#[test]
fn measured_memory_is_explained_under_load() {
    let _alone = heavy();
    let nginx = Nginx::start("location / { return 200 0123456789; }");
    let node = Steppe::in_front_of(nginx.address());
    let url = node.url("/");
    let (ends, ended) = sync_channel(1);
    std::thread::spawn(move || ends.send(Wrk::new(&url, 256, 4).run()));
    let mut explained = Vec::new();
    let load = loop {
        let memory = node.admin_json("/memory");
        let number = |key: &str| {
            memory[key]
                .as_f64()
                .unwrap_or_else(|| panic!("{key}: {memory}"))
        };
        explained.push(number("explained_bytes") / number("anonymous_rss_bytes"));
        match ended.recv_timeout(Duration::from_millis(200)) {
            Err(RecvTimeoutError::Timeout) => {}
            load => break load.expect("wrk ran"),
        }
    };
    assert!(
        load.requests > 0 && load.errors == 0 && load.refused == 0,
        "{load:?}"
    );
    explained.sort_by(f64::total_cmp);
    assert!(explained.len() > 5, "{explained:?}");
    assert!(
        explained[0] >= 0.95,
        "{explained:?}; {}",
        node.admin_json("/memory")
    );
}

#[test]
fn the_budget_tree_adds_up() {
    let origin = RawOrigin::start(|peer| {
        peer.request();
        peer.drain();
    });
    let node = Steppe::in_front_of(origin.address());
    let held: Vec<Peer> = (0..20)
        .map(|_| {
            let mut peer = node.connect();
            peer.send(GET);
            peer
        })
        .collect();
    origin.wait_until("all are forwarded", |origin| origin.accepted() == 20);
    let memory = node.admin_json("/memory");
    let budget = &memory["budget"];
    assert_eq!(budget["limit_bytes"].as_u64(), Some(64 << 20), "{memory}");
    adds_up(budget);
    let reserved = charged(budget);
    assert!(
        reserved > 20 * 1024,
        "20 exchanges hold {reserved} bytes: {memory}"
    );
    drop(held);
    observe_until(
        "some is given back",
        || charged(&node.admin_json("/memory")["budget"]),
        |&now| now < reserved,
    );
}

/// The reserved bytes of all accounts but `uncharged`.
fn charged(budget: &Value) -> u64 {
    let accounts = budget["children"].as_array().expect("accounts");
    let accounts = accounts
        .iter()
        .filter(|account| account["name"] != "uncharged");
    accounts
        .filter_map(|account| account["reserved_bytes"].as_u64())
        .sum()
}

/// Checks an account and its children; returns its reserved bytes.
fn adds_up(account: &Value) -> u64 {
    let number = |key: &str| {
        account[key]
            .as_u64()
            .unwrap_or_else(|| panic!("{key} in {account}"))
    };
    let (reserved, peak) = (number("reserved_bytes"), number("peak_bytes"));
    number("refused");
    assert!(account["name"].is_string(), "{account}");
    assert!(reserved <= peak, "{account}");
    if let Some(limit) = account["limit_bytes"].as_u64() {
        assert!(peak <= limit, "{account}");
    }
    let children = account["children"].as_array().cloned().unwrap_or_default();
    let below: u64 = children.iter().map(adds_up).sum();
    assert!(
        below <= reserved,
        "children hold more than their parent: {account}"
    );
    reserved
}

/// A slow request in flight is answered; new connections are refused; then the process exits with
/// success.
#[test]
fn sigterm_drains() {
    let may_end = Gate::new();
    let gate = may_end.clone();
    let origin = RawOrigin::start(move |peer| {
        while let Some(request) = peer.request() {
            if request.target() == "/slow" {
                gate.wait();
            }
            peer.send(OK);
        }
    });
    let mut node = Steppe::in_front_of(origin.address());
    let mut idle = node.connect();
    assert_eq!(idle.send(GET).response().text(), "ok");
    let mut slow = node.connect();
    slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_until("it is in flight", |origin| {
        origin.received().contains("/slow")
    });
    node.terminate();
    eventually("it is unready", || {
        node.admin_get("/readyz").status() == 503
    });
    assert_eq!(node.admin_get("/healthz").status(), 200);
    idle.expect_close();
    eventually("it accepts no more", || {
        std::net::TcpStream::connect(node.gateway()).is_err()
    });
    may_end.open();
    let answer = slow.response();
    assert_eq!(
        (answer.text().as_str(), answer.field("connection")),
        ("ok", Some("close"))
    );
    slow.expect_close();
    assert!(node.wait().success(), "{}", node.said());
}

#[test]
fn a_drain_ends_at_its_timeout() {
    let origin = RawOrigin::start(|peer| {
        peer.request();
        peer.drain();
    });
    let mut node = Steppe::builder()
        .with("origin", origin.address())
        .start(NodeConfig::plain().set("node.drain_timeout", "500ms"));
    let mut stuck = node.connect();
    stuck.send(GET);
    origin.wait_until("it is in flight", |origin| !origin.received().is_empty());
    node.terminate();
    node.wait();
    let said = String::from_utf8_lossy(&stuck.rest()).into_owned();
    assert!(
        said.is_empty() || said.starts_with("HTTP/1.1 503 "),
        "{said}"
    );
}

#[test]
fn want_of_descriptors_does_not_keep_a_drain_waiting() {
    let origin = RawOrigin::answering(OK);
    let mut node = Steppe::in_front_of(origin.address());
    node.limit_descriptors_left(3);
    // More connections than descriptors: the rest waits in the kernel's accept queue.
    let peers: Vec<_> = (0..12).map(|_| node.connect()).collect();
    observe_until(
        "it accepts no more",
        || node.said(),
        |said| said.contains("cannot accept"),
    );
    node.terminate();
    assert_eq!(node.wait().code(), Some(0), "{}", node.said());
    drop(peers);
}

#[test]
fn a_taken_port_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("some port is free");
    let address = taken
        .local_addr()
        .expect("a bound socket has an address")
        .to_string();
    let scratch = Scratch::new("taken");
    let admin = steppe_testkit::Port::free();
    let config = NodeConfig::plain()
        .set("admin.listen", admin.address())
        .listener(|l| l.set("listen", &address))
        .upstream("origin", |u| u.servers(["127.0.0.1:9"]));
    let file = scratch.write("steppe.toml", config.to_string());
    let mut command = Steppe::command();
    command.arg("run").arg("-c").arg(file);
    let mut process = steppe_testkit::Process::start("steppe", command);
    assert!(!process.wait(PATIENCE).success());
    assert!(process.said().contains(&address), "{}", process.said());
}

#[test]
fn as_many_workers_run_as_are_asked_for() {
    let origin = RawOrigin::answering(OK);
    for count in [1, 3] {
        let node = Steppe::builder()
            .with("origin", origin.address())
            .start(NodeConfig::plain().workers(count));
        let tasks = std::fs::read_dir(format!("/proc/{}/task", node.id())).expect("it runs");
        let names = tasks.map(|task| {
            let path = task.expect("a thread").path().join("comm");
            std::fs::read_to_string(path).unwrap_or_default()
        });
        let workers = names.filter(|name| name.starts_with("worker-")).count();
        assert_eq!(workers, count);
    }
}

#[test]
fn a_level_leaves_out_what_is_below_it() {
    let origin = RawOrigin::answering(OK);
    let said = |level: &str| {
        let mut node = Steppe::builder()
            .with("origin", origin.address())
            .start(NodeConfig::plain().set("log.level", level));
        node.terminate();
        node.wait();
        node.said()
    };
    assert!(said("info").contains("INFO"), "{}", said("info"));
    assert!(!said("error").contains("INFO"), "{}", said("error"));
}

#[test]
fn logs_are_json_with_a_level_where_that_is_asked() {
    let origin = RawOrigin::answering(OK);
    let mut node = Steppe::builder()
        .with("origin", origin.address())
        .start(NodeConfig::plain().set("log.format", "json"));
    node.terminate();
    node.wait();
    let said = node.said();
    let lines: Vec<Value> = said
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    assert!(
        !lines.is_empty() && lines.iter().all(|line| line["level"].is_string()),
        "{said}"
    );
}
