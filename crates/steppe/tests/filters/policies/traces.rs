//! `[trace]` on the wire: the fields that servers receive, and the spans that a collector receives.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use steppe_testkit::{
    Document, FieldSection, Gate, H2Frame, H2Peer, H2Server, NodeConfig, RawOrigin, Steppe,
    eventually,
};

use super::{OK, ask};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

/// A collector that keeps the batches that it receives.
struct Collector {
    origin: RawOrigin,
    batches: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    fn start(answer: &'static str) -> Self {
        let batches = Arc::<Mutex<Vec<Value>>>::default();
        let kept = Arc::clone(&batches);
        let origin = RawOrigin::replying(move |request| {
            assert_eq!(request.start, "POST /v1/traces HTTP/1.1");
            assert_eq!(request.field("content-type"), Some("application/json"));
            let batch = serde_json::from_slice(&request.body).expect("JSON");
            kept.lock().expect("no panic").push(batch);
            answer.into()
        });
        Self { origin, batches }
    }

    fn spans(&self) -> Vec<Value> {
        let batches = self.batches.lock().expect("no panic");
        let spans = batches.iter().flat_map(|batch| {
            assert_eq!(
                attribute(&batch["resourceSpans"][0]["resource"], "service.name"),
                "steppe"
            );
            let spans = &batch["resourceSpans"][0]["scopeSpans"][0]["spans"];
            spans.as_array().expect("a list").clone()
        });
        spans.collect()
    }

    fn await_spans(&self, count: usize) -> Vec<Value> {
        eventually("spans arrive", || self.spans().len() >= count);
        self.spans()
    }
}

fn attribute<'a>(of: &'a Value, name: &str) -> &'a Value {
    let all = of["attributes"].as_array().expect("a list");
    let found = all.iter().find(|each| each["key"] == name);
    found.map_or(&Value::Null, |found| {
        let value = found["value"].as_object().expect("an object");
        value.values().next().expect("a value")
    })
}

const TAKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";

fn traced(collector: &RawOrigin, sample: &str) -> NodeConfig {
    let otlp = collector.address();
    NodeConfig::plain()
        .set("trace.otlp", format!("http://{otlp}"))
        .set("trace.sample", sample)
}

fn start(collector: &Collector, origin: &RawOrigin, sample: &str) -> Steppe {
    Steppe::builder()
        .with("origin", origin.address())
        .start(traced(&collector.origin, sample).protocols(["h1", "h2c"]))
}

/// The parts of the `traceparent` of the origin's last request.
fn told(origin: &RawOrigin) -> Vec<String> {
    let received = origin.received().to_ascii_lowercase();
    let lines = received
        .lines()
        .filter_map(|line| line.strip_prefix("traceparent: "));
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines.len(), 1, "{received}");
    origin.forget();
    lines[0].trim().split('-').map(ToOwned::to_owned).collect()
}

fn parent(flags: &str) -> String {
    format!("traceparent: 00-{TRACE}-{SPAN}-{flags}\r\ntracestate: a=1\r\n")
}

#[test]
fn a_trace_goes_on_with_a_span_of_its_own() {
    let (collector, origin) = (Collector::start(TAKEN), RawOrigin::answering(OK));
    let node = start(&collector, &origin, "100%");
    assert_eq!(ask(&node, "GET /a?secret", &parent("01")).status(), 200);
    assert!(
        origin
            .received()
            .to_ascii_lowercase()
            .contains("tracestate: a=1\r\n")
    );
    let told = told(&origin);
    assert_eq!((&*told[0], &*told[1], &*told[3]), ("00", TRACE, "01"));
    assert_ne!(told[2], SPAN);
    let spans = collector.await_spans(1);
    let span = &spans[0];
    assert_eq!(span["traceId"], TRACE);
    assert_eq!(span["parentSpanId"], SPAN);
    assert_eq!(span["spanId"], told[2]);
    assert_eq!(span["traceState"], "a=1");
    assert_eq!(span["name"], "GET all");
    for (name, value) in [
        ("http.request.method", "GET"),
        ("url.path", "/a"),
        ("url.scheme", "http"),
        ("http.response.status_code", "200"),
        ("network.protocol.version", "1.1"),
        ("steppe.route", "all"),
        ("steppe.upstream", "origin"),
        ("steppe.server", &origin.address().to_string()),
    ] {
        assert_eq!(attribute(span, name), value, "{name}");
    }
    assert_eq!(attribute(span, "steppe.filter"), &Value::Null);
    assert!(!span.to_string().contains("secret"), "{span}");
    eventually("it is counted", || {
        node.metrics().sum("steppe_trace_spans_exported_total", &[]) == 1.0
    });
}

#[test]
fn whoever_began_a_trace_says_whether_it_is_kept() {
    let (collector, origin) = (Collector::start(TAKEN), RawOrigin::answering(OK));
    let node = start(&collector, &origin, "100%");
    ask(&node, "GET /", &parent("00"));
    assert_eq!(told(&origin)[3], "00");
    // A later span is kept, and is the only one.
    ask(&node, "GET /", "");
    let told = told(&origin);
    assert_eq!(told[3], "01");
    let spans = collector.await_spans(1);
    assert_eq!(
        (spans.len(), &spans[0]["traceId"]),
        (1, &told[1].clone().into())
    );
    assert_eq!(spans[0]["parentSpanId"], Value::Null);
}

#[test]
fn what_is_no_traceparent_begins_a_trace_and_its_state_goes() {
    let (collector, origin) = (Collector::start(TAKEN), RawOrigin::answering(OK));
    // A sampling rate so low that no trace is kept.
    let node = start(&collector, &origin, "0.000001%");
    let upper = format!(
        "traceparent: 00-{}-{SPAN}-01\r\ntracestate: a=1\r\n",
        TRACE.to_uppercase()
    );
    let twice = parent("01") + &parent("01");
    for fields in [&*upper, &twice, "tracestate: a=1\r\n"] {
        ask(&node, "GET /", fields);
        assert!(
            !origin
                .received()
                .to_ascii_lowercase()
                .contains("tracestate")
        );
        let told = told(&origin);
        assert_ne!(told[1], TRACE);
        assert_eq!((told[1].len(), told[2].len(), &*told[3]), (32, 16, "00"));
    }
    let wrong = format!("traceparent: 00-{TRACE}-{SPAN}-00\r\ntracestate: A=1\r\n");
    ask(&node, "GET /", &wrong);
    assert!(
        !origin
            .received()
            .to_ascii_lowercase()
            .contains("tracestate")
    );
    assert_eq!(told(&origin)[1], TRACE);
    assert_eq!(collector.spans(), [Value::Null; 0]);
}

#[test]
fn a_trace_goes_on_over_http2_on_both_sides() {
    let collector = Collector::start(TAKEN);
    let origin = RawOrigin::start(move |peer| {
        let Some(mut server) = H2Server::begin(peer, &[]) else {
            return;
        };
        while let Some(stream) = server.request() {
            server.send(&[H2Frame::ok(stream), H2Frame::last_data(stream, "ok")]);
        }
    });
    let config = traced(&collector.origin, "1%")
        .protocols(["h2c"])
        .upstream("origin", |u| u.set("protocol", "h2c"));
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    let mut client = H2Peer::connect(node.gateway());
    let traceparent = format!("00-{TRACE}-{SPAN}-01");
    let fields = FieldSection::of("GET", "/b").field("traceparent", traceparent);
    assert_eq!(client.exchange(&fields).status, Some(200));
    let spans = collector.await_spans(1);
    assert_eq!(spans[0]["traceId"], TRACE);
    assert_eq!(attribute(&spans[0], "network.protocol.version"), "2");
    assert_eq!(attribute(&spans[0], "url.path"), "/b");
}

#[test]
fn a_span_names_the_filter_that_answered_and_so_does_the_access_log() {
    let (collector, origin) = (Collector::start(TAKEN), RawOrigin::answering(OK));
    let config = traced(&collector.origin, "100%")
        .set("log.access.file", "access.log")
        .set("log.access.format", "json")
        .set("log.access.fields", ["status", "filter"])
        .route("all", |r| r.filters(["door"]))
        .add_filter("door", |f| f.set("kind", "ip").set("deny", ["127.0.0.1"]));
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    assert_eq!(ask(&node, "GET /", "").status(), 403);
    let span = &collector.await_spans(1)[0];
    assert_eq!(attribute(span, "steppe.filter"), "door");
    assert_eq!(attribute(span, "http.response.status_code"), "403");
    assert_eq!(span["status"], Value::Null);
    let log = node.scratch().path().join("access.log");
    let line = "{\"status\":403,\"filter\":\"door\"}\n";
    eventually("the line is written", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text == line)
    });
}

/// A cache answers from its store; a fetch of its own is answered by the server.
#[test]
fn a_span_names_the_cache_that_answered() {
    let collector = Collector::start(TAKEN);
    let origin = RawOrigin::answering(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 2\r\n\r\nok",
    );
    let config = traced(&collector.origin, "100%")
        .route("all", |r| r.filters(["store"]))
        .add_filter("store", |f| f.set("kind", "cache"));
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    for (count, filter) in [(1, Value::Null), (2, "store".into())] {
        assert_eq!(ask(&node, "GET /", "").status(), 200);
        let spans = collector.await_spans(count);
        let mut named = spans.iter().map(|span| attribute(span, "steppe.filter"));
        assert_eq!(named.next_back(), Some(&filter));
    }
    let labels = [("filter", "store")];
    let answers = (node.metrics()).sum("steppe_http_filter_answers_total", &labels);
    assert_eq!(answers, 1.0);
}

#[test]
fn a_span_says_what_went_wrong() {
    let collector = Collector::start(TAKEN);
    let origin = RawOrigin::answering("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    let other = RawOrigin::answering("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    let config = traced(&collector.origin, "100%").upstream("origin", |u| {
        u.servers([origin.address(), other.address()])
            .set("retry.attempts", 1)
            .set("retry.on", ["503"])
    });
    let node = Steppe::builder().start(&config);
    assert_eq!(ask(&node, "GET /", "").status(), 503);
    let span = &collector.await_spans(1)[0];
    assert_eq!(span["status"]["code"], 2);
    assert_eq!(attribute(span, "http.request.resend_count"), "1");
}

/// A collector that rejects, and one that is not there: lost spans are counted.
#[test]
fn spans_that_are_lost_are_counted() {
    let rejecting = Collector::start(
        "HTTP/1.1 200 OK\r\nContent-Length: 40\r\nConnection: close\r\n\r\n{\"partialSuccess\":{\"rejectedSpans\":\"1\"}}",
    );
    let origin = RawOrigin::answering(OK);
    let node = start(&rejecting, &origin, "100%");
    ask(&node, "GET /", "");
    let dropped = |node: &Steppe, reason| {
        node.metrics()
            .sum("steppe_trace_spans_dropped_total", &[("reason", reason)])
    };
    eventually("one is rejected", || dropped(&node, "rejected") == 1.0);
    let refusing = Collector::start("HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n");
    let node = start(&refusing, &origin, "100%");
    ask(&node, "GET /", "");
    eventually("one is lost", || dropped(&node, "unreachable") == 1.0);
    eventually("the log says so", || {
        node.said().contains("cannot export spans to the collector")
    });
}

/// Spans in the queue are sent before the node stops.
#[test]
fn the_last_spans_are_sent() {
    let (collector, origin) = (Collector::start(TAKEN), RawOrigin::answering(OK));
    let node = start(&collector, &origin, "100%");
    ask(&node, "GET /", "");
    node.stop();
    assert_eq!(collector.spans().len(), 1);
}

/// The first configuration of the page, with other addresses.
#[test]
fn the_pages_configuration_sends_spans() {
    let collector = Collector::start(TAKEN);
    let otlp = format!("http://{}", collector.origin.address());
    let config = NodeConfig::parse(Document::named("docs/gateway/traces.md").toml())
        .set("admin.listen", "{admin}")
        .set("trace.otlp", otlp)
        .listener_at("127.0.0.1:8080", |l| l.set("listen", "{gateway}"));
    let node = Steppe::builder().start(&config);
    assert_eq!(node.admin_json("/config")["trace"]["sample"], "100%");
    assert_eq!(ask(&node, "GET /a", "").status(), 200);
    assert_eq!(collector.await_spans(1)[0]["name"], "GET hello");
}

/// A request in flight belongs to the collector at the time of its begin.
#[test]
fn a_reload_changes_the_collector() {
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
    let (first, second) = (Collector::start(TAKEN), Collector::start(TAKEN));
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(NodeConfig::plain());
    let reload = |config: &NodeConfig| {
        node.set_config(config);
        let answer = node.admin_post("/reload");
        assert_eq!(answer.status(), 200, "{}", answer.text());
    };
    assert_eq!(ask(&node, "GET /untraced", "").status(), 200);
    assert!(
        !origin
            .received()
            .to_ascii_lowercase()
            .contains("traceparent")
    );
    reload(&traced(&first.origin, "100%"));
    assert_eq!(ask(&node, "GET /a", "").status(), 200);
    let path = |span: &Value| attribute(span, "url.path").clone();
    assert_eq!(path(&first.await_spans(1)[0]), "/a");
    let mut slow = node.connect();
    slow.send("GET /slow HTTP/1.1\r\nHost: a.example\r\n\r\n");
    eventually("it is in flight", || origin.received().contains("/slow"));
    reload(&traced(&second.origin, "100%"));
    assert_eq!(ask(&node, "GET /b", "").status(), 200);
    assert_eq!(path(&second.await_spans(1)[0]), "/b");
    may_end.open();
    assert_eq!(slow.response().status(), 200);
    assert_eq!(path(&first.await_spans(2)[1]), "/slow");
    let exported = || {
        let metrics = node.metrics();
        metrics.sum("steppe_trace_spans_exported_total", &[])
    };
    eventually("counts go on", || exported() == 3.0);
    // At a rate near zero none of the node's own traces is kept.
    reload(&traced(&second.origin, "0.000001%"));
    assert_eq!(ask(&node, "GET /c", "").status(), 200);
    reload(&NodeConfig::plain());
    origin.forget();
    assert_eq!(ask(&node, "GET /untraced", "").status(), 200);
    assert!(
        !origin
            .received()
            .to_ascii_lowercase()
            .contains("traceparent")
    );
    assert_eq!((first.spans().len(), second.spans().len()), (2, 1));
}
