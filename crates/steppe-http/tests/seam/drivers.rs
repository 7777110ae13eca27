//! The spike of ADR 0014: drivers other than a socket, under a codec that does not know.
//!
//! Each is put under HTTP/1 on both sides by a codec that wraps it: a client speaks
//! plain HTTP/1 to a gateway, which speaks through the driver to another, which asks
//! a plain server. One more gateway has a worker that chooses a driver for all of its sockets.

mod completions;
mod records;

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use steppe_http::codec::DownstreamCodec;
use steppe_http::codecs::Codecs;
use steppe_http::config::H1;
use steppe_http::gateway::Accepted;
use steppe_http::h1::Http1;
use steppe_http::upstream::channel::{Channel, Established, UpstreamCodec};
use steppe_mem::{Budget, Buffer, Chunk, Lease};
use steppe_net::{
    Accept, BoundListener, Connecting, Driver, Io, PeerAddress, Readiness, ServerSocket, Stream,
    Transport,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::gateway::{Running, Setup, servers};
use crate::peers::{Server, ask_h1};
use completions::Completions;
use records::Records;

/// HTTP/1 over a driver.
const DRIVEN: &str = "driven";

type Wrap = fn(Transport, Lease) -> Box<dyn Driver>;

/// Puts a driver under HTTP/1, and counts connections that were accepted so.
#[derive(Debug, Clone)]
struct Driven {
    wrap: Wrap,
    accepted: Arc<AtomicUsize>,
}

impl DownstreamCodec for Driven {
    fn serve(&self, accepted: Accepted) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let lease = accepted.client.settings().lease.clone();
        let driver = (self.wrap)(accepted.transport, lease);
        Http1.serve(Accepted {
            transport: Transport::with_driver(driver),
            ..accepted
        });
    }

    fn no_room(&self) -> &'static [u8] {
        b""
    }
}

impl UpstreamCodec for Driven {
    fn open(&self, connection: Established) -> Box<dyn Channel> {
        let lease = connection.lease.clone();
        let driver = (self.wrap)(connection.transport, lease);
        Http1.open(Established {
            transport: Transport::with_driver(driver),
            ..connection
        })
    }
}

const WRAPS: [Wrap; 2] = [
    |transport, lease| Box::new(Records::new(transport, lease)),
    |transport, lease| Box::new(Completions::new(transport, lease)),
];

#[test]
fn http1_runs_over_any_driver() {
    for wrap in WRAPS {
        let driven = Driven {
            wrap,
            accepted: Arc::default(),
        };
        let setup = |protocol, servers| Setup {
            codecs: Codecs::default()
                .with_downstream(H1, Arc::new(Http1))
                .with_upstream(H1, Arc::new(Http1))
                .with_downstream(DRIVEN, Arc::new(driven.clone()))
                .with_upstream(DRIVEN, Arc::new(driven.clone())),
            protocols: vec![protocol],
            servers,
            filters: Vec::new(),
        };
        let server = Server::h1(answer());
        let second = Running::start(setup(DRIVEN, servers(H1, [server.address])));
        let first = Running::start(setup(H1, servers(DRIVEN, [second.addresses[0]])));
        let mut client = TcpStream::connect(first.addresses[0]).expect("connects");
        let content = "y".repeat(CONTENT_BYTES);
        for number in 0..20 {
            let request = format!(
                "PUT /at/{number} HTTP/1.1\r\nHost: a\r\nContent-Length: {CONTENT_BYTES}\r\n\r\n\
                 {content}"
            );
            let answered = ask_h1(&mut client, &request);
            assert!(
                answered.starts_with("HTTP/1.1 200 OK\r\n"),
                "{answered:.100}"
            );
            let (_, answered) = answered.split_once("\r\n\r\n").expect("content");
            assert!(answered == "z".repeat(CONTENT_BYTES), "{answered:.100}");
            let asked = server.requests().pop().expect("it was asked");
            assert!(
                asked.starts_with(&format!("PUT /at/{number} ")),
                "{asked:.100}"
            );
            assert!(asked.ends_with(&content), "{asked:.100}");
        }
        // What comes between two exchanges is not for the codec: the connection is kept.
        assert_eq!(driven.accepted.load(Ordering::Relaxed), 1);
        drop((first, second));
    }
}

/// Has all sockets of a worker moved by rings of completions.
#[derive(Debug)]
struct Rings(Lease);

/// Transports that rings have moved.
static RINGS: AtomicUsize = AtomicUsize::new(0);

impl Rings {
    fn shared() -> Rc<dyn Io> {
        Rc::new(Self(Budget::new(1 << 20).root().lease()))
    }

    fn moved(&self, socket: Transport) -> Transport {
        RINGS.fetch_add(1, Ordering::Relaxed);
        Transport::with_driver(Box::new(Completions::new(socket, self.0.clone())))
    }
}

impl Io for Rings {
    fn listen(&self, bound: BoundListener) -> io::Result<Box<dyn Accept>> {
        Ok(Box::new(RingListener {
            socket: Readiness.listen(bound)?,
            rings: Self(self.0.clone()),
        }))
    }

    fn connect<'a>(&'a self, server: ServerSocket<'a>) -> Connecting<'a> {
        Box::pin(async move { Ok(self.moved(Readiness.connect(server).await?)) })
    }
}

#[derive(Debug)]
struct RingListener {
    socket: Box<dyn Accept>,
    rings: Rings,
}

impl Accept for RingListener {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Transport, PeerAddress)>> {
        let (socket, peer) = ready!(self.socket.poll_accept(cx))?;
        Poll::Ready(Ok((self.rings.moved(socket), peer)))
    }
}

#[test]
fn a_worker_has_its_choice_of_drivers() {
    let server = Server::h1(answer());
    let setup = Setup {
        codecs: steppe_http::codecs(),
        protocols: vec![H1],
        servers: servers(H1, [server.address]),
        filters: Vec::new(),
    };
    let gateway = Running::start_over(setup, Rings::shared);
    let mut client = TcpStream::connect(gateway.addresses[0]).expect("connects");
    for _ in 0..3 {
        let request = "GET /at/x HTTP/1.1\r\nHost: a\r\n\r\n";
        let answered = ask_h1(&mut client, request);
        assert!(answered.ends_with(&"z".repeat(CONTENT_BYTES)));
    }
    assert_eq!(RINGS.load(Ordering::Relaxed), 2, "one on each side");
}

const CONTENT_BYTES: usize = 50_000;

fn answer() -> &'static str {
    let content = "z".repeat(CONTENT_BYTES);
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {CONTENT_BYTES}\r\n\r\n{content}");
    answer.leak()
}

/// Runs `test` on a runtime that spawns local tasks, and gives up on one that hangs.
fn run(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("epoll");
    let limited = async {
        tokio::select! {
            // First: to be polled once more is what some that hang wait for.
            biased;
            () = tokio::time::sleep(Duration::from_secs(60)) => panic!("it hangs"),
            () = test => {}
        }
    };
    tokio::task::LocalSet::new().block_on(&runtime, limited);
}

/// A transport over a driver, the peer of its socket, and its account.
fn pair(wrap: Wrap) -> (Transport, UnixStream, Budget) {
    let budget = Budget::new(1 << 20);
    let (near, far) = UnixStream::pair().expect("descriptors");
    let socket = Transport::new(Stream::Unix(near));
    let driver = wrap(socket, budget.root().child("connection", None).lease());
    (Transport::with_driver(driver), far, budget)
}

fn noop() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// Waits until the transport is not quiet.
async fn readable(transport: &mut Transport) {
    poll_fn(|cx| match transport.is_quiet(cx) {
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await;
}

#[test]
fn a_ticket_leaves_a_connection_quiet() {
    run(async {
        let (mut transport, mut far, budget) = pair(WRAPS[0]);
        let mut polls = 0;
        let watching = poll_fn(|cx| {
            polls += 1;
            match transport.is_quiet(cx) {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }
        });
        let writing = async {
            far.write_all(&[0, 0, 2, 7]).await.expect("room");
            tokio::task::yield_now().await;
            far.write_all(&[7, 0, 0, 0]).await.expect("room");
            tokio::task::yield_now().await;
            // Content without a byte is none.
            far.write_all(&[1, 0, 0]).await.expect("room");
            far
        };
        let far = tokio::select! {
            () = watching => panic!("nothing is there for the codec"),
            far = async {
                let far = writing.await;
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                far
            } => far,
        };
        assert!(polls > 1, "the socket was readable");
        assert!(transport.is_quiet(&mut noop()));
        assert_eq!(budget.root().reserved_bytes(), 0, "it holds nothing");
        drop(far);
        readable(&mut transport).await;
    });
}

#[test]
fn content_that_was_opened_is_not_quiet() {
    run(async {
        let (mut transport, mut far, budget) = pair(WRAPS[0]);
        let lease = budget.root().lease();
        // Two records in one read, of which the codec takes less than one at a time.
        far.write_all(b"\x01\x00\x0a\x3b\x3b\x3b\x3b\x3b\x3b\x3b\x3b\x3b\x3b\x01\x00\x01\x38")
            .await
            .expect("room");
        readable(&mut transport).await;
        let mut room = [0; 4];
        for read in [&b"aaaa"[..], b"aaaa", b"aa", b"b"] {
            assert!(!transport.is_quiet(&mut noop()), "nothing more will come");
            let Poll::Ready(Ok(count)) = transport.poll_read_into(&mut noop(), &mut room) else {
                panic!("it is there")
            };
            assert_eq!(&room[..count], read);
        }
        assert!(transport.is_quiet(&mut noop()));
        // A record that came alone changes hands without a copy.
        far.write_all(b"\x01\x00\x02\x3b\x38").await.expect("room");
        let read = poll_fn(|cx| transport.poll_read(cx, &lease, 1))
            .await
            .expect("open");
        assert_eq!(
            (read.filled(), read.lease().account().reserved_bytes()),
            (&b"ab"[..], 4096)
        );
        far.write_all(b"\x02\x00\x00").await.expect("room");
        let end = poll_fn(|cx| transport.poll_read(cx, &lease, 1)).await;
        assert!(end.expect("it ended well").is_empty());
    });
}

#[test]
fn half_a_record_that_waits_for_budget_is_starved() {
    run(async {
        let budget = Budget::new(4096);
        let (near, mut far) = UnixStream::pair().expect("descriptors");
        let socket = Transport::new(Stream::Unix(near));
        let lease = budget.root().lease();
        let mut transport = Transport::with_driver(WRAPS[0](socket, lease.clone()));
        let held = Buffer::take(&lease, 1).expect("room");
        far.write_all(b"\x01\x00\x01\x38").await.expect("room");
        poll_fn(|cx| match transport.poll_read(cx, &lease, 1) {
            Poll::Pending if transport.is_starved() => Poll::Ready(()),
            Poll::Pending => Poll::Pending,
            ready => panic!("{ready:?}"),
        })
        .await;
        drop(held);
        // What it was opened in is all that the budget has, and is handed over.
        let read = poll_fn(|cx| transport.poll_read(cx, &lease, 1)).await;
        assert_eq!(read.expect("there is room").filled(), b"b");
        assert!(!transport.is_starved());
    });
}

#[test]
fn a_send_owns_what_it_sends_until_it_is_complete() {
    run(async {
        let (mut transport, mut far, budget) = pair(WRAPS[1]);
        let lease = budget.root().child("route", None).lease();
        let bytes = 1 << 18;
        let mut content = Buffer::take(&lease, bytes).expect("room");
        content.put(&vec![7; bytes]).expect("room");
        let mut chunk = Chunk::from(content);
        let written = transport.poll_write_chunk(&mut noop(), &mut chunk);
        assert!(matches!(written, Poll::Ready(Ok(count)) if count == bytes));
        assert!(chunk.is_empty());
        drop(chunk);
        // The codec is done with it, and it is charged all the same.
        let reserved = || lease.account().reserved_bytes();
        assert!(reserved() >= bytes as u64);
        assert!(transport.poll_flush(&mut noop()).is_pending());
        let slices = [IoSlice::new(b"next")];
        assert!(transport.poll_write(&mut noop(), &slices).is_pending());
        let mut read = vec![0; bytes];
        let (flushed, sent) = tokio::join!(
            poll_fn(|cx| transport.poll_flush(cx)),
            far.read_exact(&mut read)
        );
        flushed.expect("it is sent");
        sent.expect("it came");
        assert_eq!((reserved(), read == vec![7; bytes]), (0, true));
        // A driver that is dropped still completes what it owns.
        assert!(transport.poll_write(&mut noop(), &slices).is_ready());
        drop(transport);
        let mut rest = Vec::new();
        far.read_to_end(&mut rest).await.expect("it ends");
        assert_eq!(rest, b"next");
        assert_eq!(budget.root().reserved_bytes(), 0);
    });
}

#[test]
fn what_arrived_changes_hands_without_a_copy() {
    run(async {
        let (mut transport, mut far, budget) = pair(WRAPS[1]);
        let lease = budget.root().child("route", None).lease();
        assert!(transport.is_quiet(&mut noop()));
        far.write_all(b"hello").await.expect("room");
        // It arrives though nobody has asked.
        readable(&mut transport).await;
        assert_eq!(lease.account().reserved_bytes(), 0);
        let read = transport.poll_read(&mut noop(), &lease, 1);
        let Poll::Ready(Ok(read)) = read else {
            panic!("{read:?}")
        };
        assert_eq!(read.filled(), b"hello");
        assert_eq!(lease.account().reserved_bytes(), 4096);
        assert!(transport.is_quiet(&mut noop()));
        drop(far);
        poll_fn(|cx| transport.poll_closed(cx)).await;
        let end = poll_fn(|cx| transport.poll_read(cx, &lease, 1)).await;
        assert!(end.expect("the end").is_empty());
    });
}
