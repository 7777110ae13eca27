//! The request plane of a node: its relay, and routes of the gateway into it.

mod crowd;
mod heads;
mod leaving;
mod refusals;

use std::net::SocketAddr;
use std::process::Output;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use steppe_mem::Budget;
use steppe_plane::frame::Payment;
use steppe_plane::{Failure, Memory, Request, Status, Target, Worker, WorkerStatus};
use steppe_testkit::{
    Chromium, Curl, NodeConfig, Port, Process, Scratch, Steppe, eventually, page_example, skip,
};
use tokio::sync::{oneshot, watch};

const MIB: u64 = 1 << 20;

/// A node with the configuration of `examples/plane.toml`, with other addresses and the change of `edit`; and the
/// address of its plane.
fn node(edit: impl FnOnce(NodeConfig) -> NodeConfig) -> (Steppe, SocketAddr) {
    let plane = Port::free().keep();
    let config = NodeConfig::parse(include_str!("../../../../examples/plane.toml"))
        .workers(2)
        .set("admin.listen", "{admin}")
        .each("plane.listener", |l| l.set("listen", plane))
        .listener_at("127.0.0.1:8080", |l| l.set("listen", "{gateway}"));
    (Steppe::builder().start(edit(config)), plane)
}

fn echo(plane: SocketAddr, arguments: &[&str]) -> Process {
    let mut command = Steppe::command();
    command.args(["plane", "echo", "--register", &plane.to_string()]);
    command.args(arguments);
    let process = Process::start("echo", command);
    eventually("it is registered", || process.said().contains("serves "));
    process
}

fn call(plane: SocketAddr, arguments: &[&str]) -> Output {
    let mut command = Steppe::command();
    command.args(["plane", "call", &plane.to_string()]);
    command.args(arguments).output().expect("it runs")
}

fn body(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

/// A POST of these bytes.
fn post(node: &Steppe, scratch: &Scratch, content: &[u8]) -> Curl {
    let file = scratch.write("content", content);
    let data = format!("@{}", file.display());
    Curl::new(&node.url("/infer/x")).args(["--data-binary", &data])
}

/// Workers are dialed for the services that the configuration names.
#[test]
fn workers_of_the_configuration_are_dialed() {
    let port = Port::free().keep();
    let start = || {
        let mut command = Steppe::command();
        command.args(["plane", "echo", "--listen", &port.to_string()]);
        let process = Process::start("echo", command);
        eventually("it listens", || process.said().contains("serves "));
        process
    };
    let first = start();
    let (node, plane) = node(|config| config.set("discovery.services.echo", [port]));
    let is_there = || {
        let report = node.admin_json("/plane").to_string();
        report.contains(&port.to_string())
    };
    eventually("it is dialed", is_there);
    let called = call(plane, &["echo", "--text", "hello"]);
    assert_eq!(String::from_utf8_lossy(&called.stdout), "hello");
    drop(first);
    eventually("it is gone", || !is_there());
    let _second = start();
    eventually("it is dialed again", is_there);
}

/// A worker in this process, on a thread of its own; it ends when this is dropped.
struct Serving {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// Serves `echo` with `handler`, which streams, within a budget.
    fn start<H, F>(plane: SocketAddr, budget_bytes: u64, handler: H) -> Self
    where
        H: Fn(Request) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = mpsc::sync_channel(1);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let memory = Arc::new(Memory::new(Budget::new(budget_bytes).root()));
                let worker = Worker::builder(&memory)
                    .stream("echo", 100, handler)
                    .build();
                let target = Target::new(plane.to_string());
                let registered = worker.register(target).expect("a target");
                registered.reaches(WorkerStatus::Serving).await;
                ready.send(()).expect("somebody waits");
                let _ = stopped.await;
            });
        });
        is_ready.recv().expect("it serves");
        Self {
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends each part of the request back as it arrives.
async fn stream_back(mut request: Request) -> Result<(), Failure> {
    request.response.begin(Payment::Granted).await?;
    while let Some(part) = request.body.next().await? {
        request.response.send(part.bytes).await?;
    }
    request.response.end()
}

#[test]
fn callers_and_the_gateway_reach_a_worker_by_the_relay() {
    let (mut node, plane) = node(|config| config);
    let _echo = echo(plane, &[]);
    let answer = call(plane, &["echo", "--text", "hello"]);
    assert_eq!(answer.stdout, b"hello", "{answer:?}");
    let scratch = Scratch::new("plane");
    for len in [0, 1, 60_000, 70_000, 3_000_000] {
        let content = body(len);
        let got = post(&node, &scratch, &content).run();
        assert_eq!((got.exit, got.head.status()), (0, 200), "{len}: {got:?}");
        assert!(
            got.body == content,
            "{len} bytes came back as {}",
            got.body.len()
        );
    }
    let got = Curl::new(&node.url("/infer/x")).run();
    assert_eq!((got.head.status(), got.body.len()), (200, 0));
    // Calls of the gateway are counted like the others.
    let calls = node.admin_json("/plane")["calls"].take();
    assert_eq!(
        (&calls["finished"]["ok"], &calls["answered"]),
        (&7.into(), &7.into())
    );
    node.terminate();
    assert!(node.wait().success(), "{}", node.said());
}

#[test]
fn the_configuration_of_the_page_on_the_gateway_works() {
    let plane = Port::free().keep();
    let config = NodeConfig::parse(&page_example("plane/gateway", "Example"))
        .set("admin.listen", "{admin}")
        .each("plane.listener", |l| l.set("listen", plane))
        .listener_at("127.0.0.1:8080", |l| {
            l.set("listen", "{gateway}").protocols(["h1"])
        });
    let node = Steppe::builder().start(&config);
    let _echo = echo(plane, &[]);
    let got = post(&node, &Scratch::new("plane"), b"hello").run();
    assert_eq!(got.head.status(), 200, "{got:?}");
    assert_eq!(got.body, b"hello");
}

#[test]
fn a_body_of_100_mb_goes_there_and_back_within_32_mib() {
    let (node, plane) = node(|config| {
        config
            .memory_budget("32MiB")
            .set("plane.budget", "24MiB")
            .set("plane.queue.bytes", "4MiB")
            .listener(|l| l.set("limits.body_bytes", "256MiB"))
    });
    let _worker = Serving::start(plane, 16 * MIB, stream_back);
    let scratch = Scratch::new("plane");
    let content = body(100_000_000);
    let got = post(&node, &scratch, &content).run();
    assert_eq!(
        (got.exit, got.head.status()),
        (0, 200),
        "{:?} {}",
        got.head,
        got.errors
    );
    assert!(got.body == content, "{} bytes came back", got.body.len());
}

/// A trace context of HTTP's field and of the command's option, by way of the relay.
#[test]
fn a_trace_crosses_all_hops() {
    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let (node, plane) = node(|config| config);
    let _worker = Serving::start(plane, 16 * MIB, |request: Request| async move {
        let trace = request.trace_parent.map(|trace| trace.to_string());
        let said = trace.unwrap_or_else(|| "none".to_owned());
        request.response.send_whole(said.into()).await
    });
    let field = format!("traceparent: {TRACE}");
    let got = Curl::new(&node.url("/infer/x")).args(["-H", &field]).run();
    assert_eq!(String::from_utf8_lossy(&got.body), TRACE);
    let got = Curl::new(&node.url("/infer/x")).args(["-H", "traceparent: 00-1"]);
    assert_eq!(got.run().body, b"none");
    let called = call(plane, &["echo", "--traceparent", TRACE]);
    assert_eq!(String::from_utf8_lossy(&called.stdout), TRACE);
    let refused = call(plane, &["echo", "--traceparent", "00-1"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

#[test]
fn what_goes_wrong_has_a_status() {
    let (node, plane) = node(|config| {
        config
            .set("plane.queue.wait", "200ms")
            .set("plane.max_payload", "1MiB")
    });
    let scratch = Scratch::new("plane");
    let got = post(&node, &scratch, b"x").run();
    assert!(
        matches!(got.head.status(), 502 | 503),
        "nobody serves it: {got:?}"
    );
    let got = post(&node, &scratch, &body(2_000_000)).run();
    assert_eq!(got.head.status(), 413, "{got:?}");
    let got = Curl::new(&node.url("/infer/x")).args(["--head"]).run();
    assert_eq!(got.head.status(), 405);
    let (fail, told) = watch::channel(false);
    let _worker = Serving::start(plane, 16 * MIB, move |mut request: Request| {
        let mut told = told.clone();
        async move {
            let asked = request.body.whole().await?;
            let status = match &*asked {
                b"invalid" => Status::Invalid,
                b"denied" => Status::Denied,
                b"overloaded" => Status::Overloaded,
                b"late" => {
                    request.response.begin(Payment::Standing).await?;
                    request.response.send("some".into()).await?;
                    told.wait_for(|told| *told).await.expect("it is told");
                    Status::Internal
                }
                _ => Status::Internal,
            };
            request
                .response
                .fail(&Failure::new(status, "inner workings"));
            Ok(())
        }
    });
    for (asked, expected) in [
        ("invalid", 400),
        ("denied", 403),
        ("overloaded", 429),
        ("x", 502),
    ] {
        let got = post(&node, &scratch, asked.as_bytes()).run();
        assert_eq!(
            (got.exit, got.head.status()),
            (0, expected),
            "{asked}: {got:?}"
        );
        let said = String::from_utf8_lossy(&got.body);
        assert!(!said.contains("inner"), "{asked}: {said}");
        let is_told_when = got.head.field("retry-after").is_some();
        assert_eq!(is_told_when, expected == 429, "{asked}: {got:?}");
    }
    // A response that fails after its first byte ends as an incomplete one.
    let run = post(&node, &scratch, b"late").start();
    eventually("it begins", || run.so_far().body == b"some");
    fail.send_replace(true);
    let got = run.finish();
    assert_eq!((got.head.status(), &*got.body), (200, &b"some"[..]));
    assert_ne!(got.exit, 0, "curl takes it for whole: {got:?}");
}

/// The outcomes of calls in `/plane`, in metrics and on the page.
#[test]
fn outcomes_are_counted_and_shown() {
    let (node, plane) = node(|config| config);
    let at = plane.to_string();
    let worker = echo(plane, &["--hold", "20ms"]);
    for _ in 0..3 {
        assert!(call(plane, &["echo", "--text", "hello"]).status.success());
    }
    assert_eq!(call(plane, &["other"]).status.code(), Some(14));
    assert_eq!(
        call(plane, &["echo", "--deadline", "1ms"]).status.code(),
        Some(13)
    );
    eventually("all are counted", || {
        let calls = node.admin_json("/plane")["calls"].take();
        calls["finished"]
            == serde_json::json!({ "ok": 3, "deadline exceeded": 1, "unknown service": 1 })
    });
    let calls = node.admin_json("/plane")["calls"].take();
    assert_eq!(calls["answered"], 3);
    // Each was held for 20 ms before its answer began.
    assert!(
        calls["first_byte_seconds"].as_f64().expect("a number") >= 0.06,
        "{calls}"
    );
    let metrics = node.admin_get("/metrics");
    let metrics = String::from_utf8_lossy(&metrics.body);
    for line in [
        "steppe_plane_finished_calls_total{status=\"ok\"} 3",
        "steppe_plane_answered_calls_total 3",
        "steppe_plane_budget_waits_total 0",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    // A call without a worker waits for one.
    drop(worker);
    eventually("it is gone", || {
        !node.admin_json("/plane").to_string().contains("calls_max")
    });
    let waits = call(plane, &["echo", "--deadline", "300ms"]);
    assert_eq!(waits.status.code(), Some(13), "{waits:?}");
    let mut browser = match Chromium::start() {
        Ok(browser) => browser,
        Err(reason) => return skip("outcomes_are_shown", &reason),
    };
    let _worker = echo(plane, &[]);
    browser.go(&format!("http://{}/", node.admin()));
    browser.await_true("byId('plane')?.hidden === false");
    browser.await_true("byId('plane-finished').innerText.includes('unknown service')");
    browser.await_true("byId('plane-services').innerText.includes('127.0.0.1')");
    for width in [1280, 390] {
        browser.resize(width, 800);
        let overhang =
            "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(
            browser.evaluate(overhang),
            serde_json::json!(0),
            "at {width} px"
        );
    }
    assert_eq!(browser.complaints(), Vec::<String>::new(), "{at}");
}
