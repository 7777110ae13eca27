//! Operation of the cache: purges, metrics, and its share of the budget.

use steppe_testkit::{Scratch, eventually};

use super::*;

#[test]
fn operators_have_it_forget_by_uri_prefix_and_tag() {
    let answer = |request: &Message, count: usize| {
        let tags = match request.target() {
            "/a/1" => "cache-tag: red, green\r\n",
            "/b" => "surrogate-key: blue green\r\n",
            _ => "",
        };
        ok(&format!("{FRESH}{tags}"), &format!("answer {count}"))
    };
    with_each("", answer, |site| {
        let base = site.node.url("");
        let base = base.trim_end_matches('/');
        let fill = || {
            for target in ["/a/1", "/a/2", "/b", "/c"] {
                site.get(target);
            }
        };
        let stored = || {
            let is_there = |target: &&str| {
                let got = site.get_with(target, ["Cache-Control: only-if-cached"]);
                got.head.status() == 200
            };
            let targets = ["/a/1", "/a/2", "/b", "/c"];
            targets
                .iter()
                .filter(|target| is_there(target))
                .copied()
                .collect::<Vec<_>>()
        };
        for (query, count, left) in [
            (format!("uri={base}/a/1"), 1, vec!["/a/2", "/b", "/c"]),
            (format!("prefix={base}/a/"), 2, vec!["/b", "/c"]),
            ("tag=green".to_owned(), 2, vec!["/a/2", "/c"]),
            ("tag=red".to_owned(), 1, vec!["/a/2", "/b", "/c"]),
            ("tag=gree".to_owned(), 0, vec!["/a/1", "/a/2", "/b", "/c"]),
            ("all".to_owned(), 4, vec![]),
        ] {
            fill();
            assert_eq!(site.purge(&query), count, "{query}");
            assert_eq!(stored(), left, "{query}");
        }
        for wrong in ["", "uri=/a", "other=1", "uri=http://a.test/&tag=b"] {
            let got = site.node.admin_post(&format!("/cache/purge?{wrong}"));
            assert_eq!(got.status(), 400, "{wrong}");
        }
    });
}

#[test]
fn metrics_and_admin_tell_what_it_does() {
    let answer = |request: &Message, _| match request.target() {
        "/private" => ok("cache-control: private\r\n", "x"),
        _ => ok(FRESH, "content"),
    };
    with_each("", answer, |site| {
        for _ in 0..3 {
            site.get("/a");
        }
        site.get("/private");
        site.get("/private");
        // A request is counted only after its response was sent.
        eventually("five are counted", || {
            let metrics = site.node.metrics();
            metrics.sum("steppe_http_cache_requests_total", &[]) == 5.0
        });
        let metrics = site.node.metrics();
        let of = |result| {
            let labels = [("filter", "store"), ("result", result)];
            metrics.sum("steppe_http_cache_requests_total", &labels)
        };
        let all = ["hit", "miss", "bypass", "stale", "revalidated"].map(of);
        assert_eq!(
            all.map(|count| count.to_string()),
            ["2", "2", "1", "0", "0"]
        );
        let one = |name| metrics.sum(name, &[("filter", "store")]);
        assert!(one("steppe_http_cache_bytes") > 0.0);
        assert_eq!(one("steppe_http_cache_responses").to_string(), "1");
        assert_eq!(one("steppe_http_cache_stored_total").to_string(), "1");
        let report = site.node.admin_json("/cache");
        let report = &report["caches"][0];
        assert_eq!(
            (&report["name"], &report["responses"]),
            (&"store".into(), &1.into())
        );
        assert_eq!(report["requests"]["hit"], 2);
    });
}

#[test]
fn the_access_log_says_where_a_response_is_from() {
    let scratch = Scratch::new("cache-log");
    let file = scratch.join("access.log");
    let origin = RawOrigin::answering(ok(FRESH, "content"));
    let config = NodeConfig::plain()
        .set("log.access.file", &*file)
        .set("log.access.format", "json")
        .set("log.access.fields", ["path", "cache", "filter"])
        .route("all", |r| r.filters(["store"]))
        .add_filter("store", |f| f.set("kind", "cache"));
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    for request in ["GET", "GET", "POST"] {
        let mut peer = node.connect();
        peer.send(format!(
            "{request} /a HTTP/1.1\r\nHost: a.test\r\ncontent-length: 0\r\n\r\n"
        ));
        peer.response();
    }
    let lines = || std::fs::read_to_string(&file).unwrap_or_default();
    eventually("three lines are written", || lines().lines().count() == 3);
    let want = "{\"path\":\"/a\",\"cache\":\"miss\"}\n{\"path\":\"/a\",\"cache\":\"hit\",\"filter\":\"store\"}\n{\"path\":\"/a\"}\n";
    assert_eq!(lines(), want);
}

#[test]
fn a_full_cache_gives_way_first() {
    let content = "x".repeat(200_000);
    let whole = ok(FRESH, &content);
    let answer = move |_: &Message, _| whole.clone();
    let origin = RawOrigin::replying(move |request| answer(request, 0).into_bytes());
    let site = Site::start(origin, Protocol::H1, "", "");
    // The crowd stands for many clients.
    site.reload(|config| {
        let config = config.set("node.client_share", "off");
        config.filter("store", |f| f.set("bytes", "60MiB"))
    });
    let bytes = || site.node.metrics().sum("steppe_http_cache_bytes", &[]);
    let mut peer = site.node.connect();
    let ask = |peer: &mut steppe_testkit::Peer, at: usize| {
        peer.send(format!("GET /{at} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        peer.response().status()
    };
    (0..400).for_each(|at| assert_eq!(ask(&mut peer, at), 200));
    // The cache leaves an eighth of the budget to others.
    let full = bytes();
    assert!((25e6..60e6).contains(&full), "{full}");
    // Each of them holds a buffer for its head.
    let crowd: Vec<_> = (0..2000)
        .map(|_| {
            let mut peer = site.node.connect();
            peer.send(format!(
                "GET / HTTP/1.1\r\nHost: a.test\r\nx: {}\r\n",
                "y".repeat(8500)
            ));
            peer
        })
        .collect();
    eventually("it has given way", || bytes() < full - 4e6);
    let metrics = site.node.metrics();
    assert_eq!(
        metrics
            .sum("steppe_http_closed_total", &[("reason", "over_budget")])
            .to_string(),
        "0"
    );
    assert!(metrics.sum("steppe_http_cache_evicted_total", &[]) > 0.0);
    drop(crowd);
}

#[test]
fn a_cache_takes_no_more_than_it_may() {
    let whole = ok(FRESH, &"x".repeat(200_000));
    let origin = RawOrigin::replying(move |_| whole.clone().into_bytes());
    let site = Site::start(origin, Protocol::H1, "", "");
    site.reload(|config| config.filter("store", |f| f.set("bytes", "4MiB")));
    (0..100).for_each(|at| assert_eq!(site.get(&format!("/{at}")).head.status(), 200));
    let metrics = site.node.metrics();
    let bytes = metrics.sum("steppe_http_cache_bytes", &[]);
    assert!((1e6..4.2e6).contains(&bytes), "{bytes}");
    assert!(metrics.sum("steppe_http_cache_evicted_total", &[]) > 0.0);
}

#[test]
fn what_is_stored_outlives_a_reload() {
    let origin = RawOrigin::answering(ok(FRESH, "content"));
    let site = Site::start(origin, Protocol::H1, "", "");
    site.get("/a");
    site.reload(|config| {
        config
            .add_filter("more", |f| f.set("kind", "request-id"))
            .route("all", |r| r.filters(["more", "store"]))
    });
    assert!(is_hit(&site.get("/a")));
    assert_eq!(site.asked("/a"), 1);
}

/// A stored response must not tie its clients to a server.
#[test]
fn a_response_of_a_sticky_upstream_is_stored_without_its_cookie() {
    let origin = RawOrigin::replying(|_| ok(FRESH, "one for all").into_bytes());
    let config = config()
        .upstream("origin", |u| u.set("sticky.cookie", "server"))
        .filter("store", |f| f.set("store_set_cookie", true));
    let site = Site::start_with(origin, Protocol::H1, config);
    for _ in 0..2 {
        let got = site.get("/");
        assert_eq!(got.head.field("set-cookie"), None);
        assert_eq!(String::from_utf8_lossy(&got.body), "one for all");
    }
    assert_eq!(site.asked("/"), 1);
    let post = site.curl("/").args(["-X", "POST"]).run();
    assert!(post.head.field("set-cookie").is_some());
}

/// The error log names the request of the client whose fetch failed.
#[test]
fn a_failed_fetch_has_host_and_path_in_the_error_log() {
    let origin = RawOrigin::replying(|_| b"no response".to_vec());
    let site = Site::start(origin, Protocol::H1, "", "");
    assert_eq!(site.get("/there").head.status(), 502);
    eventually("the line has the path", || {
        site.node.said().contains("path=/there ")
    });
}
