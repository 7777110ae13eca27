//! What queries cost in allocations on the real sockets.
//!
//! A binary of its own: the allocator counts by thread, and a worker's thread says what it counted.

#[path = "support/client.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod client;
#[path = "support/messages.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod messages;
#[path = "support/node.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod node;
#[path = "support/server.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod server;

#[path = "support/streams.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod streams;

use std::alloc::System;
use std::sync::atomic::{AtomicU64, Ordering};

use client::{Client, answers, forwarder, query};
use node::Node;
use server::{Server, answered};
use steppe_mem::alloc::{Counted, thread_allocations};
use steppe_testkit::{Peer, Port};
use streams::ask;

#[global_allocator]
static ALLOCATOR: Counted<System> = Counted(System);

/// Allocations of the worker's thread, as of its last housekeeping.
static COUNTED: AtomicU64 = AtomicU64::new(0);
/// How often it was told.
static TOLD: AtomicU64 = AtomicU64::new(0);

fn tell() {
    COUNTED.store(thread_allocations(), Ordering::SeqCst);
    TOLD.fetch_add(1, Ordering::SeqCst);
}

/// What the worker has allocated by now: it says so every second.
fn counted() -> u64 {
    let before = TOLD.load(Ordering::SeqCst);
    while TOLD.load(Ordering::SeqCst) == before {
        std::thread::yield_now();
    }
    COUNTED.load(Ordering::SeqCst)
}

#[test]
fn a_hit_allocates_nothing() {
    let server = Server::start(|asked| vec![answered(&asked.bytes, 0, &[(1, 3600, &[7; 4])])]);
    let listen = Port::free().keep();
    let _node = Node::start_beside(forwarder(listen, &[server.address]), 1, tell);
    let client = Client::of(listen);
    let start = counted();
    assert_eq!(answers(&client.ask_for("a.example.org")), 1);
    let (asked, missed) = (query("a.example.org", 1), counted());
    assert!(missed > start, "the counter counts: a socket was opened");
    // Until the sockets of the miss are closed, which takes their time, all is warm.
    const HITS: u64 = 20_000;
    for _ in 0..HITS {
        assert_eq!(answers(&client.ask(&asked)), 1);
    }
    let hits = counted() - missed;
    assert_eq!(
        hits, 0,
        "allocations for {HITS} hits, and the housekeeping meanwhile"
    );
    let mut peer = Peer::connect(listen);
    assert_eq!(answers(&ask(&mut peer, &asked)), 1);
    let connected = counted();
    for _ in 0..HITS {
        assert_eq!(answers(&ask(&mut peer, &asked)), 1);
    }
    let hits = counted() - connected;
    // What is counted beside them is the housekeeping of a few seconds.
    assert!(
        hits < HITS / 100,
        "{hits} allocations for {HITS} hits by TCP"
    );
}
