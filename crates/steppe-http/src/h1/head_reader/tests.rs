//! Requests that come in one piece or several, late, or not at all, of a gateway with one worker.

#[path = "../../../tests/support/in_process.rs"]
mod in_process;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use steppe_mem::Budget;
use steppe_net::{ListenAddress, Phase, bind};

use super::*;
use crate::config::{
    self, H1, Listener, ListenerLimits, ListenerTimeouts, Respond, Route, Target, Upstream,
    UpstreamKind,
};
use crate::guest::Guests;
use in_process::{InProcess, Setup};

const HEADER_BYTES: usize = 1024;
/// Long enough for what comes in pieces.
const HEADER_TIMEOUT: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(60);

/// A gateway that answers everything with 204.
struct Running {
    address: SocketAddr,
    gateway: InProcess,
}

impl Running {
    fn start(idle: Duration) -> Self {
        Self::with_timeouts(HEADER_TIMEOUT, idle)
    }

    fn with_timeouts(header: Duration, idle: Duration) -> Self {
        let any = ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        let bound = bind(&any, 1).expect("binds");
        let ListenAddress::Tcp(address) = *bound[0].address() else {
            unreachable!("it was bound to TCP");
        };
        let listener = Listener {
            limits: ListenerLimits {
                header_bytes: HEADER_BYTES,
                ..ListenerLimits::default()
            },
            timeouts: ListenerTimeouts {
                header,
                idle,
                ..ListenerTimeouts::default()
            },
            ..Listener::of(bound[0].address().clone(), vec![H1])
        };
        let respond = Respond {
            status: 204,
            body: Vec::new(),
            fields: Vec::new(),
        };
        let all = "/{rest*}".parse().expect("a path");
        let config = config::Gateway {
            listeners: vec![listener],
            upstreams: vec![Upstream {
                name: "canned".to_owned(),
                kind: UpstreamKind::Respond(respond),
            }],
            routes: vec![Route::of("all", all, Target::Upstream(0))],
            ..config::Gateway::default()
        };
        let setup = Setup {
            budget: &Budget::new(64 << 20),
            config,
            bound,
            codecs: crate::codecs(),
            access: None,
            tracer: None,
            guests: Guests::default(),
        };
        let gateway = InProcess::start(setup, || ());
        Self { address, gateway }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        // An answer that does not come fails the test.
        let bound = Some(LONG);
        stream.set_read_timeout(bound).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        stream
    }

    /// The statuses of all answers to what is sent in these pieces, until the connection ends.
    fn statuses(&self, pieces: &[&str]) -> Vec<u16> {
        Self::statuses_of(self.sent(pieces))
    }

    /// A connection that sent these pieces.
    fn sent(&self, pieces: &[&str]) -> TcpStream {
        let mut stream = self.connect();
        for piece in pieces {
            stream.write_all(piece.as_bytes()).expect("it reads");
            std::thread::sleep(Duration::from_millis(20));
        }
        stream
    }

    fn statuses_of(mut stream: TcpStream) -> Vec<u16> {
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("an end");
        let answers = said.split("HTTP/1.1 ").skip(1);
        let status = |answer: &str| answer[..3].parse().expect("a status");
        answers.map(status).collect()
    }
}

/// One answer without content.
fn answer(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    while !said.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        said.push(byte[0]);
    }
    String::from_utf8(said).expect("ASCII")
}

const LAST: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const NEXT: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn heads_are_read_however_they_come() {
    let running = Running::with_timeouts(LONG, LONG);
    assert_eq!(running.statuses(&[LAST]), [204]);
    assert_eq!(
        running.statuses(&[&LAST[..9], &LAST[9..40], &LAST[40..]]),
        [204]
    );
    // Several at once, and the next one in part.
    let several = format!("{NEXT}{NEXT}{}", &LAST[..20]);
    assert_eq!(running.statuses(&[&several, &LAST[20..]]), [204, 204, 204]);
    // An empty line before it is skipped, in pieces too.
    let after_line = format!("\r\n{LAST}");
    assert_eq!(running.statuses(&[&after_line]), [204]);
    assert_eq!(running.statuses(&["\r\n", LAST]), [204]);
    assert_eq!(running.statuses(&["\r", "\n", LAST]), [204]);
    let after_line = format!("{NEXT}\r\n");
    assert_eq!(running.statuses(&[&after_line, LAST]), [204, 204]);
}

#[test]
fn a_head_that_can_not_be_one_is_refused_before_its_end() {
    let running = Running::with_timeouts(LONG, LONG);
    assert_eq!(running.statuses(&["GET  "]), [400]);
    assert_eq!(running.statuses(&["GET / HTTP/2.0"]), [505]);
    let long = format!("A: {}", "a".repeat(HEADER_BYTES));
    assert_eq!(running.statuses(&["GET / HTTP/1.1\r\n", &long]), [431]);
}

#[test]
fn a_head_that_does_not_end_is_waited_for_in_vain() {
    let running = Running::start(LONG);
    let both = [
        running.sent(&["GET / HT"]),
        running.sent(&[NEXT, "GET / HT"]),
    ];
    assert_eq!(both.map(Running::statuses_of), [vec![408], vec![204, 408]]);
}

#[test]
fn half_an_empty_line_is_no_request_and_told_nothing() {
    let running = Running::start(Duration::from_millis(700));
    let after_line = format!("{NEXT}\r\n");
    // Their times pass together.
    let all = ["", "\r\n", "\r", &after_line].map(|said| running.sent(&[said]));
    let answered = all.map(Running::statuses_of);
    assert_eq!(answered, [vec![], vec![], vec![], vec![204]]);
}

#[test]
fn a_drain_ends_connections_that_were_served_and_lets_new_ones_ask() {
    let running = Running::start(LONG);
    let (mut served, mut new) = (running.connect(), running.connect());
    for _ in 0..2 {
        served.write_all(NEXT.as_bytes()).expect("it reads");
        assert!(answer(&mut served).starts_with("HTTP/1.1 204"));
        // It is kept though nothing comes for a while.
        std::thread::sleep(Duration::from_millis(50));
    }
    running.gateway.drain.enter(Phase::Draining);
    assert_eq!(served.read(&mut [0]).expect("an end"), 0);
    new.write_all(NEXT.as_bytes()).expect("it reads");
    let said = answer(&mut new);
    assert!(said.contains("\r\nconnection: close\r\n"), "{said}");
}

#[test]
fn so_many_starved_heads_wait_and_who_leaves_makes_room() {
    let places = Rc::default();
    let mut waiting: Vec<_> = (0..STARVED_HEADS_MAX)
        .map(|_| StarvedHead::new(&places).expect("room"))
        .collect();
    assert!(StarvedHead::new(&places).is_none());
    waiting.pop();
    assert!(StarvedHead::new(&places).is_some());
    drop(waiting);
    assert_eq!(places.get(), 0);
}
