//! What a call costs in allocations: none, for small and for large bodies.
//!
//! A binary of its own: the allocator counts for the whole process, by thread.

use std::alloc::System;
use std::hint::black_box;
use std::io::IoSlice;
use std::time::{Duration, Instant};

use bytes::Bytes;
use steppe_mem::alloc::{Counted, thread_allocations};
use steppe_plane::frame::{Head, Payment};
use steppe_plane::limits::SLICES_MAX;
use steppe_plane::{Config, Connection, Event, Side, Status};

#[global_allocator]
static ALLOCATOR: Counted<System> = Counted(System);

static BODY: [u8; 1_000_000] = [7; 1_000_000];

/// A side, and the memory that its messages are read into.
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

/// Carries what one end has to write, as a socket of 64 KiB would.
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
    /// Answers a request with what it had, and says when a response was whole.
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
            // Of a body on standing credit this is refused.
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
