//! Callers that leave in each state of a call: the call ends at the worker, and the relay releases all memory.

#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use steppe_mem::Budget;
use steppe_plane::frame::{FrameHeader, FrameType, HEADER_BYTES, Head, Payment, flag};
use steppe_plane::{Failure, Memory, Relay, RelayConfig, Request, Worker, WorkerStatus};

use crate::frames::{frame, request};
use crate::lies::hello;
use crate::listening::listen;

const PATIENCE: Duration = Duration::from_secs(30);

/// State of a call when its caller leaves: the part that was sent, or the behavior of its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The call waits for a worker.
    Waits,
    /// An announced body was granted credit.
    Granted,
    /// Part of an announced body was sent.
    PartOfGranted,
    /// Part of a small body was sent.
    PartOfStanding,
    Runs,
    /// The response is not read.
    Unread,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// FIN; no further data is read.
    Close,
    /// FIN; further data is read.
    HalfClose,
    ResetConnection,
    ResetStream,
}

fn data(flags: u8, len: usize, rest: u32) -> Vec<u8> {
    let mut header = FrameHeader::new(FrameType::DATA, 1);
    (header.flags, header.code) = (flags, rest);
    frame(header, &vec![7; len])
}

/// Reads frames up to the first one of this type.
fn await_frame(socket: &mut TcpStream, frame_type: FrameType) {
    loop {
        let mut header = [0; HEADER_BYTES];
        socket.read_exact(&mut header).expect("a frame");
        let header = FrameHeader::read(&header);
        let mut payload = vec![0; header.len as usize];
        socket.read_exact(&mut payload).expect("it is whole");
        if header.frame_type == frame_type {
            return;
        }
    }
}

/// A caller with a call in this state.
fn caller(address: SocketAddr, state: State) -> TcpStream {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("is set");
    let mut sent = hello();
    let service = match state {
        State::Waits => "busy",
        State::Unread => "endless",
        _ => "sink",
    };
    let payment = match state {
        State::Granted | State::PartOfGranted => Payment::Granted,
        _ => Payment::Standing,
    };
    let head = Head {
        payment,
        length: Some(if payment == Payment::Granted {
            300_000
        } else {
            10
        }),
        ..Head::request(service)
    };
    sent.extend(request(1, &head));
    match state {
        State::Waits | State::Runs | State::Unread => {
            sent.extend(data(0, 10, 0));
            sent.extend(frame(FrameHeader::new(FrameType::END, 1), b""));
        }
        State::PartOfStanding => sent.extend(&data(0, 10, 0)[..HEADER_BYTES + 4]),
        State::Granted | State::PartOfGranted => {}
    }
    socket.write_all(&sent).expect("it reads");
    if payment == Payment::Granted {
        await_frame(&mut socket, FrameType::CREDIT);
    }
    if state == State::PartOfGranted {
        let part = data(flag::ANNOUNCED, 5_000, 295_000);
        socket.write_all(&part[..4_000]).expect("it reads");
    }
    if state == State::Unread {
        await_frame(&mut socket, FrameType::DATA);
    }
    socket
}

fn leave(mut socket: TcpStream, way: Way) -> Option<TcpStream> {
    match way {
        Way::Close => None,
        Way::HalfClose => {
            socket.shutdown(Shutdown::Write).expect("it is open");
            Some(socket)
        }
        Way::ResetConnection => {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().expect("a runtime");
            let _inside = runtime.enter();
            socket.set_nonblocking(true).expect("is set");
            let socket = tokio::net::TcpStream::from_std(socket).expect("a socket");
            socket.set_zero_linger().expect("is set");
            None
        }
        Way::ResetStream => {
            let mut header = FrameHeader::new(FrameType::RESET, 1);
            header.code = 1;
            socket.write_all(&frame(header, b"")).expect("it reads");
            Some(socket)
        }
    }
}

/// A relay with a worker, on a thread of its own.
fn site() -> (Arc<Relay>, Budget, SocketAddr) {
    let (tell, told) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (budget, there) = (Budget::new(64 << 20), Budget::new(64 << 20));
            let config = RelayConfig {
                queue_bytes: 1 << 20,
                queue_wait: Duration::from_secs(600),
                payload_bytes_max: 1 << 30,
            };
            let relay = Relay::new(&Arc::new(Memory::new(budget.root())), config);
            let address = listen(&relay).await;
            let worker = Worker::builder(&Arc::new(Memory::new(there.root())))
                .stream("busy", 0, sink)
                .stream("sink", 10, sink)
                .stream("endless", 10, |mut request| async move {
                    request.response.begin(Payment::Standing).await?;
                    loop {
                        request.response.send(Bytes::from(vec![7; 60_000])).await?;
                    }
                })
                .build();
            let registered = worker.register(address.to_string()).expect("names");
            registered.reaches(WorkerStatus::Serving).await;
            tell.send((relay, budget, address)).expect("somebody waits");
            std::future::pending::<()>().await;
        });
    });
    told.recv_timeout(PATIENCE).expect("it starts")
}

async fn sink(mut request: Request) -> Result<(), Failure> {
    while request.body.next().await?.is_some() {}
    std::future::pending().await
}

/// The number of calls that are open at the worker, and of those that wait for it.
fn open(relay: &Relay) -> (u32, usize) {
    let report = relay.report();
    let workers = report.services.iter().flat_map(|service| &service.workers);
    (workers.map(|worker| worker.calls).sum(), report.queue.calls)
}

fn until(what: &str, holds: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
    begun.elapsed()
}

#[test]
fn a_caller_that_leaves_is_noticed_in_every_state() {
    let (relay, budget, address) = site();
    let idle = || budget.root().reserved_bytes();
    until("its worker is known", || relay.report().services.len() == 3);
    let before = idle();
    for state in [
        State::Waits,
        State::Granted,
        State::PartOfGranted,
        State::PartOfStanding,
        State::Runs,
        State::Unread,
    ] {
        for way in [
            Way::Close,
            Way::HalfClose,
            Way::ResetConnection,
            Way::ResetStream,
        ] {
            let is_within_frame = matches!(state, State::PartOfGranted | State::PartOfStanding);
            if is_within_frame && way == Way::ResetStream {
                continue;
            }
            let what = format!("{state:?}, {way:?}");
            let socket = caller(address, state);
            let expected = if state == State::Waits {
                (0, 1)
            } else {
                (1, 0)
            };
            until(&what, || open(&relay) == expected);
            let left = leave(socket, way);
            let calls = until(&what, || open(&relay) == (0, 0));
            if way == Way::ResetStream {
                // The connection is still open.
                drop(left);
            }
            let all = until(&what, || idle() == before);
            println!("{what}: {calls:?}, {all:?}");
        }
    }
}
