//! A guest that takes content as it comes: through the traits of the crate alone.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use steppe_http::config::{
    self, GuestAddress, GuestName, H1, Listener, Route, Target, Upstream as Leads, UpstreamKind,
};
use steppe_http::error::{GatewayError, Resend};
use steppe_http::exchange::{Outgoing, Part, Sink, Source, Upstream};
use steppe_http::guest::{Guest, GuestRequest, Guests};
use steppe_http::head::{ContentLength, ResponseHead};
use steppe_mem::{Budget, Chunk, Lease};
use steppe_net::{ListenAddress, bind};
use steppe_testkit::eventually;

use crate::in_process::{InProcess, Setup};

const GUEST: GuestName = "parrot";
const BUDGET_BYTES: usize = 8 << 20;

/// Says what it hears, a piece at a time.
#[derive(Debug, Default)]
struct Parrot {
    /// Visits that are open.
    open: Arc<AtomicUsize>,
}

struct Visit {
    heard: Option<Chunk>,
    is_over: bool,
    /// Bytes until it breaks off.
    left: usize,
    length: ContentLength,
    lease: Lease,
    waker: Option<Waker>,
    open: Arc<AtomicUsize>,
}

impl Guest for Parrot {
    fn receive(&self, request: GuestRequest<'_>) -> Result<Box<dyn Upstream>, GatewayError> {
        self.open.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Visit {
            heard: None,
            is_over: false,
            left: match request.resource {
                "faithful" => usize::MAX,
                _ => 100_000,
            },
            length: request.head.length,
            lease: request.lease.clone(),
            waker: None,
            open: Arc::clone(&self.open),
        }))
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Sink for Visit {
    fn can_put(&self) -> bool {
        self.heard.is_none()
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        match part {
            Part::Chunk(chunk) => self.heard = Some(chunk),
            Part::End(_) => self.is_over = true,
        }
        self.waker.take().into_iter().for_each(Waker::wake);
        Ok(())
    }

    fn written(&self) -> u64 {
        0
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        if self.heard.is_none() {
            return Poll::Ready(Ok(()));
        }
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Source for Visit {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        if let Some(chunk) = self.heard.take() {
            self.waker.take().into_iter().for_each(Waker::wake);
            return Poll::Ready(match self.left.checked_sub(chunk.len()) {
                Some(left) => {
                    self.left = left;
                    Ok(Part::Chunk(chunk))
                }
                None => Err(GatewayError::cut(Resend::No)),
            });
        }
        if self.is_over {
            return Poll::Ready(Ok(Part::End(None)));
        }
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn is_starved(&self) -> bool {
        false
    }
}

impl Upstream for Visit {
    fn start(&mut self, _: &Outgoing<'_>) -> Result<(), GatewayError> {
        Ok(())
    }

    fn poll_head(&mut self, _: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        Poll::Ready(Ok(ResponseHead::new(200, self.length, &self.lease)?))
    }

    fn start_tunnel(&mut self) {
        unreachable!("it never answers 101");
    }
}

struct Running {
    address: SocketAddr,
    budget: Budget,
    open: Arc<AtomicUsize>,
    _gateway: InProcess,
}

/// A gateway before the parrot; `resource` is what it is asked for.
fn start(resource: &str) -> Running {
    let any = ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
    let bound = bind(&any, 1).expect("binds");
    let ListenAddress::Tcp(address) = *bound[0].address() else {
        unreachable!("it was bound to TCP")
    };
    let mut listener = Listener::of(bound[0].address().clone(), vec![H1]);
    listener.limits.body_bytes = 256 << 20;
    let path = "/{rest*}".parse().expect("valid");
    let config = config::Gateway {
        listeners: vec![listener],
        upstreams: vec![Leads {
            name: "parrot".into(),
            kind: UpstreamKind::Guest(GuestAddress {
                guest: GUEST,
                resource: resource.to_owned(),
            }),
        }],
        routes: vec![Route::of("all", path, Target::Upstream(0))],
        ..config::Gateway::default()
    };
    let parrot = Parrot::default();
    let (budget, open) = (Budget::new(BUDGET_BYTES as u64), Arc::clone(&parrot.open));
    let setup = Setup {
        guests: Guests::default().with(GUEST, Arc::new(parrot)),
        ..Setup::of(&budget, config, bound)
    };
    Running {
        address,
        open,
        _gateway: InProcess::start(setup, || ()),
        budget,
    }
}

impl Running {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).expect("above zero");
        stream
    }

    /// Waits until nobody visits any more.
    fn settle(&self) {
        eventually("nobody visits any more", || {
            self.open.load(Ordering::SeqCst) == 0
        });
    }
}

/// Sends a request with so much content, from a thread of its own.
fn send(stream: &TcpStream, bytes: usize) -> thread::JoinHandle<()> {
    let mut stream = stream.try_clone().expect("a descriptor");
    thread::spawn(move || {
        let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {bytes}\r\n\r\n");
        let block: Vec<u8> = (0..=250).cycle().take(251 * 200).collect();
        let mut left = bytes;
        let mut sent = stream.write_all(head.as_bytes());
        while sent.is_ok() && left > 0 {
            let count = left.min(block.len());
            sent = stream.write_all(&block[..count]);
            left -= count;
        }
    })
}

/// Reads a head, and what came behind it.
fn head(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    loop {
        let mut room = [0; 4096];
        let count = stream.read(&mut room).expect("an answer");
        assert!(count > 0, "closed before a head");
        bytes.extend_from_slice(&room[..count]);
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = bytes.split_off(at + 4);
            return (String::from_utf8(bytes).expect("ASCII"), rest);
        }
    }
}

#[test]
fn content_that_is_larger_than_the_budget_goes_there_and_back() {
    const BYTES: usize = 5 * BUDGET_BYTES;
    let gateway = start("faithful");
    let mut stream = gateway.connect();
    let sending = send(&stream, BYTES);
    let (head, mut got) = head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(
        head.contains(&format!("ontent-length: {BYTES}\r\n")),
        "{head}"
    );
    let mut at = 0_usize;
    let mut room = vec![0; 1 << 16];
    loop {
        for byte in got.drain(..) {
            assert_eq!(usize::from(byte), at % 251, "at {at}");
            at += 1;
        }
        if at == BYTES {
            break;
        }
        let count = stream.read(&mut room).expect("more");
        assert!(count > 0, "closed at {at}");
        got.extend_from_slice(&room[..count]);
    }
    sending.join().expect("it sent");
    gateway.settle();
    drop(stream);
}

#[test]
fn an_answer_that_breaks_off_is_seen_to_be_incomplete() {
    let gateway = start("forgetful");
    let mut stream = gateway.connect();
    let sending = send(&stream, 1 << 20);
    let (head, rest) = head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let mut got = rest.len();
    let mut room = vec![0; 1 << 16];
    loop {
        match stream.read(&mut room) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("neither an end nor content: {error}"),
        }
    }
    assert!(got <= 100_000, "{got} bytes of content");
    sending.join().expect("it sent what it could");
    gateway.settle();
}

#[test]
fn a_client_that_leaves_ends_the_visit() {
    let gateway = start("faithful");
    let mut stream = gateway.connect();
    let request = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\nabc";
    stream.write_all(request.as_bytes()).expect("sent");
    head(&mut stream);
    assert_eq!(gateway.open.load(Ordering::SeqCst), 1);
    drop(stream);
    gateway.settle();
    let exchanges = gateway.budget.report();
    let exchanges = exchanges.children.iter().filter(|each| each.name != "pool");
    let held: u64 = exchanges.map(|each| each.reserved_bytes).sum();
    assert!(held < 1 << 20, "{held} bytes are held for nobody");
}
