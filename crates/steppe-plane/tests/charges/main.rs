//! Connections, streams, calls, messages and services are charged the memory that they take, measured in their largest
//! form: by the live bytes of the relay's thread, in whole size classes, while its peers are on other threads.
//!
//! Each measurement fails if the charge is too small, and if it is a tenth too large.

#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

#[path = "../support/frames.rs"]
mod frames;
#[path = "../support/listening.rs"]
mod listening;
mod peer;

use std::alloc::System;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use steppe_mem::Budget;
use steppe_mem::alloc::{Counted, thread_block_bytes};
use steppe_plane::frame::{FrameHeader, FrameType, Head, Service, write_services};
use steppe_plane::limits::{
    CONNECTION_BYTES, CONNECTION_CREDIT, MESSAGE_BYTES, PARTS_PER_STREAM_MAX, RELAY_CALL_BYTES,
    SEAT_BYTES, STREAM_BYTES, WORKER_CALL_BYTES,
};
use steppe_plane::{Call, Memory, Relay, RelayConfig, Status, Worker};

use frames::{frame, request};
use listening::listen;
use peer::{Peer, control};

#[global_allocator]
static ALLOCATOR: Counted<System> = Counted(System);

/// A relay on this thread.
struct Site {
    relay: Arc<Relay>,
    budget: Budget,
    address: SocketAddr,
}

/// Live bytes and reserved bytes of this thread.
#[derive(Debug, Clone, Copy)]
struct Taken {
    live: i64,
    reserved: i64,
}

impl Site {
    async fn new(queue_wait: Duration) -> Self {
        let budget = Budget::new(1 << 30);
        let memory = Arc::new(Memory::new(budget.root()));
        let config = RelayConfig {
            queue_bytes: 1 << 40,
            queue_wait,
            payload_bytes_max: 1 << 30,
        };
        let relay = Relay::new(&memory, config);
        let address = listen(&relay).await;
        Self {
            relay,
            budget,
            address,
        }
    }

    /// Waits until nothing is reserved.
    async fn is_left(&self) {
        let wait = async {
            while self.budget.root().reserved_bytes() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), wait).await;
        let held = self.budget.root().reserved_bytes();
        assert!(waited.is_ok(), "{held} bytes stay reserved");
    }

    /// Waits until so many calls of unknown services were refused.
    async fn has_refused(&self, count: u64) {
        let refused = || {
            let finished = self.relay.report().calls.finished;
            let of = |(status, count): &(Status, u64)| {
                (*status == Status::UnknownService).then_some(*count)
            };
            finished.iter().find_map(of)
        };
        let wait = async {
            while refused() < Some(count) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), wait).await;
        waited.expect("the peer is served");
    }

    fn now(&self) -> Taken {
        Taken {
            live: thread_block_bytes(),
            reserved: i64::try_from(self.budget.root().reserved_bytes()).expect("small"),
        }
    }

    /// Live and reserved bytes, once they have not changed for a while.
    async fn taken(&self) -> Taken {
        let mut last = self.now();
        let mut same = 0;
        while same < 30 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let next = self.now();
            same = if (next.live, next.reserved) == (last.live, last.reserved) {
                same + 1
            } else {
                0
            };
            last = next;
        }
        last
    }
}

/// Runs a script on a thread of its own. The script stops at each pause, until it is told to go on.
struct Script {
    go: mpsc::Sender<()>,
    done: tokio::sync::mpsc::UnboundedReceiver<()>,
    _thread: JoinHandle<()>,
}

impl Script {
    fn new(run: impl FnOnce(&dyn Fn()) + Send + 'static) -> Self {
        let (go, gone) = mpsc::channel();
        let (tell, done) = tokio::sync::mpsc::unbounded_channel();
        let thread = thread::spawn(move || {
            run(&|| {
                // If the test has dropped its ends of the channels, the script ends soon.
                let _ = tell.send(());
                let _ = gone.recv();
            });
        });
        Self {
            go,
            done,
            _thread: thread,
        }
    }

    /// Waits until the script has reached its next pause.
    async fn pauses(&mut self) {
        let paused = tokio::time::timeout(Duration::from_secs(60), self.done.recv()).await;
        paused.expect("in time").expect("it goes on");
    }

    fn go(&self) {
        self.go.send(()).expect("it waits");
    }
}

fn block_on(run: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    runtime.block_on(run);
}

/// Live bytes and charged bytes for each of `count`.
fn each(before: Taken, after: Taken, count: u32) -> (i64, i64) {
    let count = i64::from(count);
    let live = (after.live - before.live + count - 1) / count;
    (live, (after.reserved - before.reserved) / count)
}

/// Checks that the live bytes are charged.
#[track_caller]
fn is_charged(what: &str, (live, reserved): (i64, i64)) {
    println!("{what}: {live} bytes are live of {reserved} charged");
    assert!(
        live <= reserved,
        "{what}: {live} bytes take more than {reserved}"
    );
}

/// Checks also that the charge is not too large by a tenth of `constant`, so that a smaller need is found.
#[track_caller]
fn needs(what: &str, (live, reserved): (i64, i64), constant: usize) {
    is_charged(what, (live, reserved));
    let tenth = i64::try_from(constant / 10).expect("small");
    assert!(
        reserved - live < tenth,
        "{what}: {live} bytes are charged {reserved}"
    );
}

/// Calls: just more than a table has room for before it grows.
const CALLS: u32 = 7_200;
/// Calls that are left: as few as a table may have without being shrunk.
const LEFT: u32 = CALLS / 4;

/// A call with a deadline, of a service that has a queue.
fn head(service: &str) -> Head<'_> {
    Head {
        deadline: Some(Duration::from_secs(3_000)),
        ..Head::request(service)
    }
}

fn services(names: &[String], calls_max: u32) -> Vec<u8> {
    let named = names.iter().map(|name| Service {
        name,
        calls_max: Some(calls_max),
    });
    let mut payload = Vec::new();
    write_services(&named.collect::<Vec<_>>(), &mut payload).expect("they fit");
    frame(FrameHeader::new(FrameType::SERVICES, 0), &payload)
}

/// Small messages of a body.
fn messages(stream: u32, count: u32) -> Vec<u8> {
    let of = |at| {
        let mut header = FrameHeader::new(FrameType::DATA, stream);
        header.aux = u64::from(at);
        frame(header, b"7")
    };
    (0..count).flat_map(of).collect()
}

/// A worker of the service `x`, which accepts `calls` and sends `answer` for each.
fn worker(address: SocketAddr, calls: u32, answer: fn(u32) -> (Vec<u8>, Vec<u8>)) -> Script {
    Script::new(move |pause| {
        let mut peer = Peer::new(address);
        peer.send(&services(&["x".to_owned()], calls));
        peer.read_until(FrameType::HELLO);
        pause();
        for _ in 0..calls {
            let (header, _) = peer.read_until(FrameType::HEADERS);
            let (head, body) = answer(header.stream);
            peer.send(&head);
            peer.send_body(&body);
        }
        pause();
    })
}

/// A caller that opens calls, then resets most of them.
fn caller(address: SocketAddr, body: fn(u32) -> Vec<u8>) -> Script {
    Script::new(move |pause| {
        let mut peer = Peer::new(address);
        peer.read_until(FrameType::HELLO);
        pause();
        let ids = || (0..CALLS).map(|number| 2 * number + 1);
        for id in ids() {
            peer.send(&request(id, &head("x")));
            peer.send_body(&body(id));
        }
        pause();
        for id in ids().skip(LEFT as usize) {
            peer.send(&control(FrameType::RESET, id, 1));
        }
        pause();
    })
}

/// Bytes of each call: while all are open, and after most of them have ended.
async fn calls(
    workers: u32,
    body: fn(u32) -> Vec<u8>,
    answer: fn(u32) -> (Vec<u8>, Vec<u8>),
) -> [(i64, i64); 2] {
    let site = Site::new(Duration::from_secs(3_000)).await;
    let mut worker = worker(site.address, workers, answer);
    let mut caller = caller(site.address, body);
    caller.pauses().await;
    worker.pauses().await;
    let before = site.taken().await;
    worker.go();
    caller.go();
    caller.pauses().await;
    worker.pauses().await;
    let all = each(before, site.taken().await, CALLS);
    caller.go();
    caller.pauses().await;
    let left = each(before, site.taken().await, LEFT);
    worker.go();
    caller.go();
    site.is_left().await;
    [all, left]
}

#[test]
fn a_call_that_waits_is_charged_what_it_takes() {
    block_on(async {
        let [all, left] = calls(0, |_| Vec::new(), |_| (Vec::new(), Vec::new())).await;
        is_charged("a call that waits", all);
        needs("the same, most gone", left, STREAM_BYTES + RELAY_CALL_BYTES);
    });
}

/// Bodies in both directions that are not read.
#[test]
fn a_call_that_runs_is_charged_what_it_takes() {
    block_on(async {
        let answer = |id| {
            let response = request(id, &Head::response());
            (response, messages(id, 13))
        };
        let [all, left] = calls(CALLS, |id| messages(id, 13), answer).await;
        is_charged("a call that runs", all);
        is_charged("the same, most gone", left);
    });
}

/// A call as the gateway opens it, with a request for which its worker grants no credit.
#[test]
fn a_stream_is_charged_what_it_takes() {
    block_on(async {
        let site = Site::new(Duration::from_secs(3_000)).await;
        let mut worker = worker(site.address, CALLS, |_| (Vec::new(), Vec::new()));
        worker.pauses().await;
        let before = site.taken().await;
        worker.go();
        let mut calls = Vec::with_capacity(CALLS as usize);
        let of_calls = i64::try_from(calls.capacity() * size_of::<Call>()).expect("small");
        for _ in 0..CALLS {
            let mut call = site.relay.call(&head("x")).await.expect("room");
            let part = Bytes::from_static(b"7");
            for _ in 0..PARTS_PER_STREAM_MAX {
                call.request.send_part(&part, 0).await.expect("room");
            }
            calls.push(call);
        }
        worker.pauses().await;
        let (live, reserved) = each(before, site.taken().await, CALLS);
        is_charged("a stream", (live - of_calls / i64::from(CALLS), reserved));
        calls.truncate(LEFT as usize);
        let (live, reserved) = each(before, site.taken().await, LEFT);
        needs(
            "the same, most gone",
            (live - of_calls / i64::from(LEFT), reserved),
            STREAM_BYTES,
        );
        drop(calls);
        worker.go();
        site.is_left().await;
    });
}

/// A handler that holds nothing, and bodies in both directions that are not read.
#[test]
fn a_call_at_a_worker_is_charged_what_it_takes() {
    block_on(async {
        let budget = Budget::new(1 << 30);
        let memory = Arc::new(Memory::new(budget.root()));
        let worker = Worker::builder(&memory);
        let worker = worker.stream("x", CALLS as usize, |mut request| async move {
            loop {
                request.response.send(Bytes::from_static(b"7")).await?;
            }
        });
        let server = worker.build().listen("127.0.0.1:0").await.expect("a port");
        let (site, _) = (Site::new(Duration::ZERO).await, &server);
        let site = Site { budget, ..site };
        let mut caller = caller(server.address(), |id| messages(id, 13));
        caller.pauses().await;
        let before = site.taken().await;
        caller.go();
        caller.pauses().await;
        is_charged(
            "a call at a worker",
            each(before, site.taken().await, CALLS),
        );
        caller.go();
        caller.pauses().await;
        let left = each(before, site.taken().await, LEFT);
        needs(
            "the same, most gone",
            left,
            STREAM_BYTES + WORKER_CALL_BYTES,
        );
        caller.go();
        site.is_left().await;
    });
}

/// Messages on one stream, as many as its credit allows: just more than its queue has room for.
#[test]
fn a_small_message_is_charged_what_it_takes() {
    const MESSAGES: u32 = 4_200;
    block_on(async {
        let site = Site::new(Duration::from_secs(3_000)).await;
        let mut worker = worker(site.address, 0, |_| (Vec::new(), Vec::new()));
        worker.pauses().await;
        site.taken().await;
        let mut caller = Script::new({
            let address = site.address;
            move |pause| {
                let mut peer = Peer::new(address);
                peer.read_until(FrameType::HELLO);
                peer.send(&request(1, &head("x")));
                pause();
                peer.send(&messages(1, MESSAGES));
                pause();
            }
        });
        caller.pauses().await;
        let before = site.taken().await;
        caller.go();
        caller.pauses().await;
        let message = each(before, site.taken().await, MESSAGES);
        needs("a small message", message, MESSAGE_BYTES);
        caller.go();
        worker.go();
        worker.pauses().await;
        worker.go();
        site.is_left().await;
    });
}

#[test]
fn a_service_is_charged_what_it_takes() {
    /// Workers: just more than a table has room for before it grows.
    const WORKERS: u32 = 50;
    const SERVICES: u32 = 36;
    block_on(async {
        let site = Site::new(Duration::from_secs(3_000)).await;
        let workers: Vec<_> = (0..WORKERS)
            .map(|number| {
                let address = site.address;
                Script::new(move |pause| {
                    let mut peer = Peer::new(address);
                    peer.read_until(FrameType::HELLO);
                    pause();
                    let names: Vec<_> = (0..SERVICES)
                        .map(|at| format!("{number:02}{at:02}{}", "x".repeat(96)))
                        .collect();
                    peer.send(&services(&names, 7));
                    pause();
                })
            })
            .collect();
        let mut workers = workers;
        for worker in &mut workers {
            worker.pauses().await;
        }
        let before = site.taken().await;
        for worker in &mut workers {
            worker.go();
            worker.pauses().await;
        }
        let service = each(before, site.taken().await, WORKERS * SERVICES);
        needs("a service", service, SEAT_BYTES);
        for worker in &workers {
            worker.go();
        }
        site.is_left().await;
    });
}

/// Streams of unknown services: each is reset.
fn unknown(round: u32, count: u32) -> Vec<u8> {
    let ids = (0..count).map(|number| 2 * (round * count + number) + 1);
    ids.flat_map(|id| request(id, &head("none"))).collect()
}

/// Includes the memory that crowds have left behind, and RESETs that the peer does not read.
#[test]
fn a_connection_is_charged_what_it_takes() {
    const UNREAD: i64 = 64 << 10;
    const CROWD: u32 = 2_000;
    block_on(async {
        let site = Site::new(Duration::from_secs(3_000)).await;
        let address = site.address;
        // The runtime's queue has grown before the measurement.
        let mut first = Script::new(move |pause| {
            let mut peer = Peer::new(address);
            peer.send(&unknown(0, CROWD));
            (0..CROWD).for_each(|_| _ = peer.read_until(FrameType::RESET));
            pause();
        });
        first.pauses().await;
        first.go();
        site.is_left().await;
        let before = site.taken().await;
        let mut peer = Script::new(move |pause| {
            let mut peer = Peer::narrow(address);
            for round in 0.. {
                pause();
                let sent = peer.socket.write_all(&unknown(round, CROWD));
                if sent.is_err() {
                    break;
                }
            }
        });
        peer.pauses().await;
        let connection = each(before, site.taken().await, 1);
        for round in 1..1_000 {
            peer.go();
            peer.pauses().await;
            site.has_refused((1 + round) * u64::from(CROWD)).await;
            if each(before, site.now(), 1).1 > connection.1 + UNREAD {
                break;
            }
        }
        let (live, reserved) = each(before, site.taken().await, 1);
        assert!(reserved > connection.1 + UNREAD, "it waits: {reserved}");
        let credit = i64::from(CONNECTION_CREDIT);
        needs("a connection", (live, reserved - credit), CONNECTION_BYTES);
        drop(peer);
        site.is_left().await;
    });
}
