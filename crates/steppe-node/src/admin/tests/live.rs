//! The page's files and its events.

use serde_json::{Value, json};
use steppe_http::metrics::{Answered, RouteLabels};

use super::*;

const EVENTS: &str = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A stream of events that is open.
struct Events {
    stream: TcpStream,
    text: String,
}

impl Events {
    async fn open(admin: &ListenAddress) -> Self {
        Self::open_if_free(admin).await.expect("a place is free")
    }

    async fn open_if_free(admin: &ListenAddress) -> Option<Self> {
        let ListenAddress::Tcp(address) = admin else {
            panic!("a TCP listener")
        };
        let mut stream = TcpStream::connect(address).await.expect("listens");
        stream.write_all(EVENTS.as_bytes()).await.expect("is read");
        let mut events = Self {
            stream,
            text: String::new(),
        };
        let head = events.read_past("\r\n\r\n").await;
        head.starts_with("HTTP/1.1 200 ").then_some(events)
    }

    /// Reads until `mark` comes, and returns the text before it.
    async fn read_past(&mut self, mark: &str) -> String {
        let mut part = [0; 4096];
        loop {
            if let Some((before, after)) = self.text.split_once(mark) {
                let (before, after) = (before.to_owned(), after.to_owned());
                self.text = after;
                return before;
            }
            let count = self.stream.read(&mut part).await.expect("is open");
            assert_ne!(count, 0, "ended before {mark:?}: {}", self.text);
            self.text
                .push_str(std::str::from_utf8(&part[..count]).expect("ASCII"));
        }
    }

    /// The data of the next event of a kind. Chunks end where events do.
    async fn next(&mut self, kind: &str) -> Value {
        self.read_past(&format!("event: {kind}\ndata: ")).await;
        let data = self.read_past("\n\n").await;
        serde_json::from_str(&data).expect("JSON in one line")
    }

    /// Reads to the end; fails on a connection that is cut.
    async fn end(mut self) -> String {
        self.read_past("\r\n0\r\n\r\n").await
    }
}

#[tokio::test]
async fn the_page_and_its_parts_come_with_a_strict_policy() {
    let (admin, _) = start(&settings(), &Readiness::default());
    let html = "Accept: text/html,*/*;q=0.8\r\n";
    let policy = "content-security-policy: default-src 'none'; script-src 'self'; \
        style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
        frame-ancestors 'none'; form-action 'none'\r\n";
    for (target, content_type) in [
        ("/", "content-type: text/html; charset=utf-8\r\n"),
        ("/page.css", "content-type: text/css\r\n"),
        ("/page.js", "content-type: text/javascript\r\n"),
    ] {
        let response = get_with(&admin, target, html).await;
        let fields = [
            policy,
            content_type,
            "referrer-policy: no-referrer\r\n",
            "x-content-type-options: nosniff\r\n",
            "cache-control: no-store\r\n",
        ];
        check(&response, "200", &fields);
    }
    let rebound = "GET / HTTP/1.1\r\nHost: attacker.example\r\nConnection: close\r\n\r\n";
    check(&exchange(&admin, rebound).await, "403", &[]);
}

#[tokio::test]
async fn events_begin_with_the_past_and_go_on() {
    let readiness = Readiness::default();
    readiness.set(State::Ready);
    let (address, _) = start(&settings(), &readiness);
    let mut events = Events::open(&address).await;
    let history = events.next("history").await;
    assert_eq!(history["columns"][1], "rss_bytes");
    assert_eq!(history["columns"][6], "5xx_per_second");
    let first = events.next("snapshot").await;
    assert_eq!(first["state"], "ready");
    assert_eq!(first["budget"]["limit_bytes"], 64 << 20);
    assert_eq!(first["upstreams"], json!([]));
    assert!(first["reload"]["generation"].is_u64(), "{first}");
    let second = events.next("snapshot").await;
    let third = events.next("snapshot").await;
    assert!(third["at_ms"].as_u64() > second["at_ms"].as_u64());
    assert!(third["rss_bytes"].as_u64() > Some(0));
}

#[tokio::test]
async fn errors_and_cache_requests_of_the_last_minute_are_in_the_events() {
    let content = content(&Readiness::default());
    let metrics = content.memory.http.relabel(Labels {
        routes: vec![RouteLabels {
            name: "api".to_owned(),
            upstream: Some(0),
        }],
        upstreams: vec!["origin".to_owned()],
        ..Labels::default()
    });
    let admin = Admin::bind(&settings(), &Inherited::default()).expect("loopback can be bound");
    let address = admin.address().clone();
    tokio::spawn(admin.serve(content).expect("within a runtime"));
    let mut events = Events::open(&address).await;
    events.next("snapshot").await;
    // The second snapshot follows a mark of the totals.
    let first = events.next("snapshot").await;
    assert_eq!(first["responses"]["routes"][0]["5xx"], 0);
    assert_eq!(
        first["caches"],
        json!({ "filters": [], "filters_left_off": 0 })
    );
    {
        let worker = metrics.worker(0);
        let route = worker.route(Some(0));
        for (answered, status) in [
            (Answered::Upstream, 200),
            (Answered::Upstream, 404),
            (Answered::Upstream, 500),
            (Answered::Gateway, 502),
        ] {
            route.request(answered, status, std::time::Duration::ZERO);
        }
    }
    let mut rates = Vec::new();
    let node = loop {
        let node = events.next("snapshot").await;
        rates.push(node["5xx_per_second"].as_f64().expect("a rate"));
        if node["requests"] == 4 {
            break node;
        }
    };
    let responses = &node["responses"];
    let route = &responses["routes"][0];
    assert_eq!((&route["4xx"], &route["5xx"]), (&json!(1), &json!(2)));
    assert_eq!(route["last_minute"]["error_rate"], 0.5, "{responses}");
    let upstream = &responses["upstreams"][0];
    assert_eq!(upstream["name"], "origin");
    let recent = &upstream["last_minute"];
    assert_eq!(
        (&recent["5xx"], &recent["gateway_5xx"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(responses["last_minute"]["5xx"], 2);
    assert!(rates.iter().any(|&rate| rate > 0.0), "{rates:?}");
}

#[tokio::test]
async fn streams_beyond_the_limit_are_refused_and_a_place_comes_free() {
    let (admin, _) = start(&settings(), &Readiness::default());
    let mut open = Vec::new();
    for _ in 0..limits::EVENT_STREAMS_MAX {
        open.push(Events::open(&admin).await);
    }
    check(&get(&admin, "/events").await, "503", &["streams"]);
    // The streams leave places for all other requests.
    for target in ["/", "/metrics", "/healthz"] {
        check(&get(&admin, target).await, "200", &[]);
    }
    drop(open.pop());
    // The place comes free when the node notices the close, at the latest with the next event.
    for _ in 0..600 {
        let mut again = Events::open_if_free(&admin).await;
        if let Some(again) = &mut again {
            again.next("history").await;
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("no place came free");
}

#[tokio::test]
async fn a_drain_ends_streams_and_refuses_new_ones() {
    let readiness = Readiness::default();
    let (admin, _) = start(&settings(), &readiness);
    let mut events = Events::open(&admin).await;
    events.next("snapshot").await;
    readiness.set(State::Draining);
    let last = events.end().await;
    assert!(last.contains("\"state\":\"draining\""), "{last}");
    check(&get(&admin, "/events").await, "503", &["draining"]);
}

#[tokio::test]
async fn a_budget_without_room_refuses_streams() {
    let readiness = Readiness::default();
    let content = content(&readiness);
    let root = content.memory.budget.root().clone();
    let admin = Admin::bind(&settings(), &Inherited::default()).expect("loopback can be bound");
    let address = admin.address().clone();
    tokio::spawn(admin.serve(content).expect("within a runtime"));
    let rest = usize::try_from(root.headroom_bytes()).expect("64 MiB");
    let held = root.lease().try_reserve(rest - (8 << 10)).expect("is free");
    check(&get(&address, "/events").await, "503", &["budget"]);
    drop(held);
    Events::open(&address).await.next("history").await;
}

#[tokio::test]
async fn streams_keep_their_places_however_many_others_come() {
    let (admin, _) = start(&settings(), &Readiness::default());
    let mut events = Events::open(&admin).await;
    let mut half = Vec::new();
    for _ in 0..2 * limits::CONNECTIONS_MAX {
        half.push(open(&admin, "GET / HTTP/1.1\r\n").await);
    }
    check(&get(&admin, "/healthz").await, "200", &[]);
    for _ in 0..3 {
        events.next("snapshot").await;
    }
}

#[tokio::test]
async fn a_page_of_another_site_gets_no_stream() {
    let (admin, _) = start(&settings(), &Readiness::default());
    for _ in 0..2 * limits::EVENT_STREAMS_MAX {
        let response = get_with(&admin, "/events", "Sec-Fetch-Site: cross-site\r\n").await;
        check(&response, "403", &[]);
    }
    Events::open(&admin).await.next("history").await;
}
