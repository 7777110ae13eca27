//! Callers and workers of the request plane: calls without bodies, storms of RESETs, unused credit, unread responses
//! and frames, services by the hundred.
//!
//! The plane has the whole budget but for the gateway's neighbour. In the case of bodies that never come, the neighbour
//! is a caller of the plane, with large calls.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Arc, Once, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use steppe_mem::Budget;
use steppe_plane::frame::{
    FrameHeader, FrameType, HEADER_BYTES, Head, Hello, Payment, Service, flag, write_services,
};
use steppe_plane::{Memory, Worker, WorkerServer};
use steppe_testkit::{Peer, Port, Steppe, eventually, is_left_to_long_tier};
use tokio::sync::oneshot;

use super::flood::{Crowd, Flood, is_served};

const MIB: u64 = 1 << 20;
const CONNECTIONS: usize = 24;
const CALLS: u32 = 8_000;
/// Bytes that a call of the neighbour sends and receives.
const BODY_BYTES: u32 = 200_000;

/// A listening worker in this process: `sink` receives everything and answers nothing, `echo` sends back, `endless`
/// sends for ever, `short` answers without reading. It ends when this is dropped.
struct Serving {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    fn start() -> Self {
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = mpsc::sync_channel(1);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let server = listen().await;
                tell.send(server.address()).expect("somebody waits");
                let _ = stopped.await;
            });
        });
        Self {
            address: told.recv().expect("it listens"),
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

async fn listen() -> WorkerServer {
    const ANY: usize = 1 << 20;
    let memory = Arc::new(Memory::new(Budget::new(1 << 30).root()));
    let worker = Worker::builder(&memory)
        .stream("sink", ANY, |mut request| async move {
            while request.body.next().await?.is_some() {}
            std::future::pending().await
        })
        .stream("endless", ANY, |mut request| async move {
            request.response.begin(Payment::Standing).await?;
            loop {
                request.response.send(vec![7; 20_000].into()).await?;
            }
        })
        .stream("busy", 0, |_| std::future::pending())
        .stream(
            "short",
            ANY,
            |request| async move { request.response.end() },
        )
        .unary("echo", ANY, |body| async move { Ok(body) });
    worker.build().listen("127.0.0.1:0").await.expect("a port")
}

/// A node whose plane has `plane_mib` of its budget and dials the worker, and the address of the plane.
fn flood(case: &str, (mib, plane_mib): (u64, u64), serving: &Serving) -> (Flood, SocketAddr) {
    let plane = Port::free().keep();
    let toml = format!(
        "[[plane.listener]]\nlisten = \"{plane}\"\n[plane]\nbudget = \"{plane_mib}MiB\"\nqueue.wait = \"2s\"\n\
         [discovery]\nkind = \"static\"\n[discovery.services]\nsink = [\"{at}\"]\nendless = [\"{at}\"]\n\
         short = [\"{at}\"]\nbusy = [\"{at}\"]\necho = [\"{at}\"]\n",
        at = serving.address,
    );
    let flood = Flood::new(&format!("plane, {case}, {mib} MiB"), mib);
    (flood.config(|config| config.with_toml(&toml)), plane)
}

fn frame(mut header: FrameHeader, payload: &[u8]) -> Vec<u8> {
    header.len = u32::try_from(payload.len()).expect("short");
    [&header.to_bytes()[..], payload].concat()
}

fn control(frame_type: FrameType, stream: u32, (code, aux): (u32, u64)) -> Vec<u8> {
    let mut header = FrameHeader::new(frame_type, stream);
    (header.code, header.aux) = (code, aux);
    frame(header, b"")
}

fn request(stream: u32, head: &Head<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    head.write(&mut payload);
    let mut header = FrameHeader::new(FrameType::HEADERS, stream);
    header.flags = head.flags();
    frame(header, &payload)
}

fn hello() -> Vec<u8> {
    let mut bytes = Vec::new();
    let hello = Hello {
        oldest: 1,
        newest: 1,
        streams_max: 65_536,
        stream_credit: 1 << 20,
        connection_credit: 1 << 30,
    };
    hello.write(&mut bytes);
    bytes
}

/// Frames of one connection: for each of so many streams, those that `of` returns.
fn calls(count: u32, of: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    let streams = (0..count).flat_map(|number| of(2 * number + 1));
    hello().into_iter().chain(streams).collect()
}

/// The end of a request.
fn end(stream: u32) -> Vec<u8> {
    control(FrameType::END, stream, (0, 0))
}

/// The budgets of a case, in MiB: the node's, and the plane's part of it.
const BUDGETS: [(u64, u64); 3] = [(64, 56), (16, 8), (256, 240)];

/// Runs a case with [`CONNECTIONS`] that send the same: at 64 MiB always, at other budgets in the long tier.
#[track_caller]
fn run(case: &str, test: &str, sent: impl Fn() -> Vec<u8>) {
    let serving = Serving::start();
    let all = if is_left_to_long_tier(test) {
        1
    } else {
        BUDGETS.len()
    };
    for budgets in &BUDGETS[..all] {
        let (flood, plane) = flood(case, *budgets, &serving);
        // Otherwise the client share would keep one address below the plane's budget.
        let flood = flood.config(|config| config.set("node.client_share", "off"));
        flood.neighbour(once_dialed(is_served)).run(|_| {
            let mut crowd = Crowd::connect(plane, CONNECTIONS);
            crowd.send(&sent());
            crowd
        });
    }
}

/// A neighbour that starts once the worker is dialed: its connection is there when accounts are first read.
fn once_dialed(ask: impl Fn(&Steppe) -> bool) -> impl Fn(&Steppe) -> bool {
    let dialed = Once::new();
    move |node| {
        dialed.call_once(|| is_dialed(node));
        ask(node)
    }
}

fn is_dialed(node: &Steppe) {
    eventually("the worker is dialed", || {
        let report = node.admin_json("/plane");
        report["services"]
            .as_array()
            .is_some_and(|all| all.len() == 5)
    });
}

#[test]
fn calls_without_data_stay_within_the_budget() {
    run("calls without DATA", "calls_without_data", || {
        calls(CALLS, |id| request(id, &Head::request("sink")))
    });
}

#[test]
fn calls_that_wait_for_a_worker_stay_within_the_budget() {
    run("calls that wait", "calls_that_wait", || {
        let head = Head {
            length: Some(0),
            content_type: Some("application/octet-stream"),
            idempotency_key: Some(&[7; 64]),
            ..Head::request("busy")
        };
        calls(CALLS, |id| request(id, &head))
    });
}

#[test]
fn ends_without_data_and_answers_that_are_not_read_stay_within_the_budget() {
    run("END without DATA", "ends_without_data", || {
        calls(CALLS, |id| {
            [request(id, &Head::request("short")), end(id)].concat()
        })
    });
}

#[test]
fn calls_that_are_answered_and_not_ended_stay_within_the_budget() {
    run("answered, not ended", "answered_not_ended", || {
        calls(CALLS, |id| request(id, &Head::request("short")))
    });
}

/// RESETs end all calls of a connection but the first.
#[test]
fn storms_of_resets_stay_within_the_budget() {
    run("storms of RESETs", "storms_of_resets", || {
        let mut bytes = calls(CALLS, |id| request(id, &Head::request("sink")));
        bytes.extend(
            (1..CALLS).flat_map(|number| control(FrameType::RESET, 2 * number + 1, (1, 0))),
        );
        bytes
    });
}

#[test]
fn resets_that_are_not_read_stay_within_the_budget() {
    run("RESETs that are not read", "resets_not_read", || {
        calls(200_000, |id| request(id, &Head::request("none")))
    });
}

#[test]
fn responses_that_are_not_read_stay_within_the_budget() {
    run("responses that are not read", "responses_not_read", || {
        calls(500, |id| {
            [request(id, &Head::request("endless")), end(id)].concat()
        })
    });
}

#[test]
fn credit_for_calls_that_wait_stays_within_the_budget() {
    run("CREDIT", "credit", || {
        calls(1_000, |id| {
            let credit = (1..50).flat_map(|sum| control(FrameType::CREDIT, id, (0, sum)));
            request(id, &Head::request("sink"))
                .into_iter()
                .chain(credit)
                .collect()
        })
    });
}

#[test]
fn small_messages_that_wait_stay_within_the_budget() {
    run("small messages", "small_messages", || {
        calls(500, |id| {
            let message = |at: u32| {
                let mut header = FrameHeader::new(FrameType::DATA, id);
                header.aux = u64::from(at);
                frame(header, b"7")
            };
            request(id, &Head::request("busy"))
                .into_iter()
                .chain((0..100).flat_map(message))
                .collect()
        })
    });
}

/// Workers that name services by the dozen, take calls, and go away with them.
#[test]
fn services_by_the_hundred_stay_within_the_budget() {
    run("services", "services", || {
        let mut bytes = hello();
        for round in 0..200 {
            let names: Vec<_> = (0..30)
                .map(|at| format!("{round:04}{at:02}{}", "x".repeat(110)))
                .collect();
            let services: Vec<_> = names
                .iter()
                .map(|name| Service {
                    name,
                    calls_max: None,
                })
                .collect();
            let mut payload = Vec::new();
            write_services(&services, &mut payload).expect("they fit");
            bytes.extend(frame(FrameHeader::new(FrameType::SERVICES, 0), &payload));
        }
        bytes
    });
}

/// Makes one large call from the neighbour's address, on a new connection; returns true if it was answered.
fn is_echoed(plane: SocketAddr) -> bool {
    let mut peer = Peer::connect_from(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), plane);
    peer.patience(Duration::from_secs(30));
    let head = Head {
        length: Some(u64::from(BODY_BYTES)),
        payment: Payment::Granted,
        ..Head::request("echo")
    };
    let credit = control(FrameType::CREDIT, 1, (0, 1 << 20));
    let opened = [hello(), request(1, &head), credit].concat();
    if peer.try_send(&opened).is_err() {
        return false;
    }
    converse(peer.stream().try_clone().expect("a socket")).is_ok()
}

/// Sends the body once it is granted, and reads until the response has ended without an error.
fn converse(mut socket: TcpStream) -> std::io::Result<()> {
    socket.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut sent = 0u32;
    let mut granted = 0;
    loop {
        let mut header = [0; HEADER_BYTES];
        socket.read_exact(&mut header)?;
        let header = FrameHeader::read(&header);
        let mut payload = vec![0; header.len as usize];
        socket.read_exact(&mut payload)?;
        match header.frame_type {
            FrameType::CREDIT if header.stream == 1 => granted = header.aux,
            FrameType::RESET => return Err(std::io::ErrorKind::ConnectionRefused.into()),
            FrameType::END if header.code == 0 => return Ok(()),
            FrameType::END => return Err(std::io::ErrorKind::ConnectionRefused.into()),
            _ => {}
        }
        while sent < BODY_BYTES && granted > u64::from(sent) {
            let left = u32::try_from(granted)
                .unwrap_or(u32::MAX)
                .saturating_sub(sent);
            let len = (BODY_BYTES - sent).min(60_000).min(left);
            let mut data = FrameHeader::new(FrameType::DATA, 1);
            data.flags = flag::ANNOUNCED;
            (data.aux, data.code) = (sent.into(), BODY_BYTES - sent - len);
            socket.write_all(&frame(data, &vec![7; len as usize]))?;
            sent += len;
            if sent == BODY_BYTES {
                socket.write_all(&end(1))?;
            }
        }
    }
}

/// The client share of one address leaves room to callers on other addresses.
#[test]
fn calls_without_data_leave_room_to_other_callers() {
    let serving = Serving::start();
    let (flood, plane) = flood("a caller beside calls without DATA", BUDGETS[0], &serving);
    let neighbour = once_dialed(move |_| is_echoed(plane));
    flood.neighbour(neighbour).run(|_| {
        let mut crowd = Crowd::connect(plane, CONNECTIONS);
        crowd.send(&calls(CALLS, |id| request(id, &Head::request("sink"))));
        crowd
    });
}

/// 300 calls of one caller, as in the middle of uploads: others wait once for the maximum time of a call, and are
/// served then.
#[test]
fn bodies_that_never_come_leave_room_to_others() {
    let serving = Serving::start();
    let (flood, plane) = flood("bodies that never come", (64, 56), &serving);
    flood
        .neighbour(once_dialed(move |_| is_echoed(plane)))
        .run(|_| {
            let head = Head {
                length: Some(10 * MIB),
                payment: Payment::Granted,
                ..Head::request("sink")
            };
            let mut crowd = Crowd::connect(plane, 1);
            crowd.send(&calls(300, |id| request(id, &head)));
            crowd
        });
}
