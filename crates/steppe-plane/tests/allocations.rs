//! Allocations of a call: none by the protocol, for small and for large bodies; and, over sockets and a
//! relay, none that grows with the body.
//!
//! A binary of its own: the allocator counts for the whole process, by thread.

#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

use std::alloc::System;
use std::hint::black_box;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use steppe_mem::Budget;
use steppe_mem::alloc::{Counted, thread_allocations, thread_asked_bytes, thread_live_bytes};
use steppe_plane::frame::{Head, Payment};
use steppe_plane::limits::SLICES_MAX;
use steppe_plane::{
    Ask, Caller, Config, Connection, Event, Memory, Relay, RelayConfig, Side, Status, Worker,
    WorkerStatus,
};
use tokio::net::TcpListener;
use tokio::sync::Barrier;

#[global_allocator]
static ALLOCATOR: Counted<System> = Counted(System);

static BODY: [u8; 1_000_000] = [7; 1_000_000];

/// One side of a connection, and the memory that its messages are read into.
struct End {
    connection: Connection,
    message: Vec<u8>,
    at: usize,
    is_done: bool,
}

fn end(side: Side, now: Instant) -> End {
    let config = Config {
        side,
        streams_max: 100,
        stream_credit: 128 << 10,
        connection_credit: 256 << 10,
        quiet: Duration::from_secs(5),
        patience: Duration::from_secs(5),
    };
    End {
        connection: Connection::new(config, now),
        message: vec![0; BODY.len()],
        at: 0,
        is_done: false,
    }
}

/// Carries the output of one end to the other, in pieces of 64 KiB as a socket would.
fn carry(from: &mut End, to: &mut End, now: Instant, wire: &mut [u8]) -> bool {
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    let count = from.connection.slices(&mut slices);
    let mut len = 0;
    for slice in &slices[..count] {
        let part = slice.len().min(wire.len() - len);
        wire[len..len + part].copy_from_slice(&slice[..part]);
        len += part;
    }
    from.connection.sent(len);
    let mut rest = &wire[..len];
    loop {
        to.events(now);
        if rest.is_empty() {
            return len > 0;
        }
        let left = to.connection.body_left().map_or(0, |(_, left)| left);
        let room = &mut to.message[to.at..to.at + left];
        let mut read = 0;
        for slice in &mut to.connection.room(room) {
            let part = slice.len().min(rest.len());
            slice[..part].copy_from_slice(&rest[..part]);
            rest = &rest[part..];
            read += part;
        }
        to.at += to.connection.filled(read, now);
    }
}

impl End {
    /// Answers a request with a body of the same length, and notes when a response is complete.
    fn events(&mut self, now: Instant) {
        let Self {
            connection,
            message,
            at,
            is_done,
        } = self;
        loop {
            let left = connection.body_left().map_or(0, |(_, left)| left);
            *at += connection.take_body(&mut message[*at..*at + left]);
            let (stream, len) = match connection.next_event(now).expect("honest") {
                None => return,
                Some(Event::Request { stream, head } | Event::Response { stream, head }) => {
                    (stream, head.length.unwrap_or(0))
                }
                Some(Event::Data(part)) => {
                    *at = usize::try_from(part.offset).expect("small");
                    if part.payment == Payment::Standing {
                        connection.release(part.stream, part.cost);
                    }
                    continue;
                }
                Some(Event::Ended { stream, side, .. }) => {
                    *is_done = side == steppe_plane::HalfLeft::None;
                    if !*is_done {
                        respond(connection, stream, *at);
                    }
                    continue;
                }
                Some(_) => continue,
            };
            // Refused for a body on standing credit.
            let _ = connection.grant(stream, len + 4096);
        }
    }
}

fn respond(connection: &mut Connection, stream: steppe_plane::StreamId, len: usize) {
    let head = Head {
        length: Some(len as u64),
        payment: payment(len),
        ..Head::response()
    };
    connection.respond(stream, &head).expect("first");
    let body = Bytes::from_static(&BODY[..len]);
    connection.send(stream, &body, 0).expect("open");
    connection.end(stream, &Status::Ok.into()).expect("open");
}

fn payment(len: usize) -> Payment {
    if len > 65_536 {
        Payment::Granted
    } else {
        Payment::Standing
    }
}

fn call(ends: &mut [End; 2], len: usize, now: Instant, wire: &mut [u8]) {
    let [caller, worker] = ends;
    let head = Head {
        length: Some(len as u64),
        deadline: Some(Duration::from_secs(1)),
        payment: payment(len),
        ..Head::request("echo")
    };
    caller.is_done = false;
    let stream = caller.connection.open(&head, now).expect("room");
    let body = Bytes::from_static(&BODY[..len]);
    caller.connection.send(stream, &body, 0).expect("open");
    caller
        .connection
        .end(stream, &Status::Ok.into())
        .expect("open");
    while carry(caller, worker, now, wire) | carry(worker, caller, now, wire) {}
    assert!(caller.is_done, "{len} bytes");
}

/// A budget, and its memory.
fn side() -> (Budget, Arc<Memory>) {
    let budget = Budget::new(32 << 20);
    let memory = Arc::new(Memory::new(budget.root()));
    (budget, memory)
}

/// Peak bytes of the bodies in one direction.
fn peak(budget: &Budget, way: &str) -> u64 {
    let report = budget.report();
    let bodies = report.children.iter().find(|child| child.name == "bodies");
    let ways = &bodies.expect("it is there").children;
    let way = ways.iter().find(|child| child.name == way);
    way.expect("it is there").peak_bytes
}

/// Caller, relay and worker run on one thread, so that the allocations of all are counted. Buffers for bodies are the
/// pool's: their bytes show in the budgets.
#[test]
fn a_large_body_takes_one_buffer_a_hop() {
    const CALLS: u64 = 50;
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let [(here, caller), (between, relay), (there, worker)] = [side(), side(), side()];
        let config = RelayConfig {
            queue_bytes: 1 << 20,
            queue_wait: Duration::from_secs(5),
            payload_bytes_max: 1 << 30,
        };
        let relay = Relay::new(&relay, config);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("a port").to_string();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(relay.serve(socket).expect("room for a connection"));
            }
        });
        let worker = Worker::builder(&worker).unary("echo", 10, |body| async move { Ok(body) });
        let registered = worker.build().register(address.as_str()).expect("a name");
        registered.reaches(WorkerStatus::Serving).await;
        let caller = Caller::connect(address, &caller).await.expect("it listens");
        let (mut allocations, mut asked) = (0, 0);
        for call in 0..2 * CALLS {
            if call == CALLS {
                // Tables, queues and the pool have reached their size.
                (allocations, asked) = (thread_allocations(), thread_asked_bytes());
            }
            let body = Bytes::from_static(&BODY);
            let answer = caller.unary(&Ask::new("echo"), body).await;
            assert!(answer.expect("an answer") == BODY[..]);
        }
        let allocations = (thread_allocations() - allocations) / CALLS;
        let asked = (thread_asked_bytes() - asked) / CALLS;
        let held = [
            peak(&here, "responses"),
            peak(&between, "requests"),
            peak(&between, "responses"),
            peak(&there, "requests"),
        ];
        println!("{allocations} allocations of {asked} bytes a call; {held:?} held");
        assert!(asked < 64 << 10, "{asked} bytes a call");
        // One buffer of 1 MiB at either end, and the bytes that may lie free in a budget; windows between them.
        for held in held {
            assert!((256 << 10..3 << 19).contains(&held), "{held}");
        }
    });
}

#[test]
fn what_a_crowd_needed_is_not_kept() {
    const CALLS: usize = 3_000;
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let [(_, caller), (_, worker)] = [side(), side()];
        let all = Arc::new(Barrier::new(CALLS));
        let worker = Worker::builder(&worker).unary("meet", 10_000, move |body: Bytes| {
            let all = Arc::clone(&all);
            async move {
                if !body.is_empty() {
                    all.wait().await;
                }
                Ok(body)
            }
        });
        let server = worker.build().listen("127.0.0.1:0").await.expect("a port");
        let caller = Caller::connect(server.address(), &caller).await;
        let caller = caller.expect("it listens");
        let first = caller.unary(&Ask::new("meet"), Bytes::new()).await;
        assert!(first.expect("an answer").is_empty());
        let before = thread_live_bytes();
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..CALLS {
            let caller = caller.clone();
            calls.spawn(async move {
                let body = Bytes::from_static(b"all");
                caller.unary(&Ask::new("meet"), body).await
            });
        }
        while let Some(answer) = calls.join_next().await {
            assert_eq!(answer.expect("no panic").expect("an answer"), "all");
        }
        drop(calls);
        // The worker receives the last ENDs a little later.
        for _ in 0..6_000 {
            if thread_live_bytes() - before < 512 << 10 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let kept = thread_live_bytes() - before;
        println!("{kept} bytes are kept of {CALLS} calls");
        assert!(kept < 512 << 10, "{kept} bytes");
    });
}

#[test]
fn calls_allocate_nothing() {
    let counted = |run: &mut dyn FnMut()| {
        let before = thread_allocations();
        run();
        thread_allocations() - before
    };
    let planted = counted(&mut || drop(black_box(vec![1])));
    assert_eq!(planted, 1, "the counter counts");
    let now = Instant::now();
    let mut ends = [end(Side::Dialer, now), end(Side::Acceptor, now)];
    let mut wire = vec![0; 64 << 10];
    let [dialer, acceptor] = &mut ends;
    while carry(dialer, acceptor, now, &mut wire) | carry(acceptor, dialer, now, &mut wire) {}
    for len in [0, 100, 65_536, 1_000_000] {
        let mut calls = |count| {
            counted(&mut || {
                for _ in 0..count {
                    call(&mut ends, len, now, &mut wire);
                }
            })
        };
        // Tables and queues reach their size.
        calls(1200);
        assert_eq!(calls(500), 0, "calls of {len} bytes");
    }
}
