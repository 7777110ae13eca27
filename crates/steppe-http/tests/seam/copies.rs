//! Content passes from one protocol to another in the memory that it was read into.
//!
//! A driver on either side of a gateway keeps where it read what, and looks for it there when it is
//! asked to write. Content tells its place, so that memory that was used again is told from memory
//! that content still lies in.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use steppe_http::codec::DownstreamCodec;
use steppe_http::codecs::Codecs;
use steppe_http::config::{H1, H2C};
use steppe_http::gateway::Accepted;
use steppe_http::h1::Http1;
use steppe_http::h2::Http2;
use steppe_http::upstream::channel::{Channel, Established, UpstreamCodec};
use steppe_net::{Driver, Transport};

use crate::gateway::{Running, Setup, servers};
use crate::peers::Server;

const CONTENT_BYTES: usize = 1 << 20;

/// The bytes read, by address, and counts of those passed on and copied.
#[derive(Debug, Default)]
struct Ledger {
    /// By address. Later reads take the place of earlier ones.
    read: BTreeMap<usize, Vec<u8>>,
    /// Bytes written from where they were read, and from elsewhere.
    passed: usize,
    copied: usize,
}

impl Ledger {
    fn reads(&mut self, room: &[u8]) {
        let (start, end) = (room.as_ptr().addr(), room.as_ptr().addr() + room.len());
        let overlaps = self.read.range(..end).rev();
        let overlaps = overlaps.take_while(|(at, bytes)| **at + bytes.len() > start);
        let overlaps: Vec<_> = overlaps.map(|(at, _)| *at).collect();
        for at in overlaps {
            let old = self.read.remove(&at).expect("it was found");
            if at < start {
                self.read.insert(at, old[..start - at].to_vec());
            }
            if at + old.len() > end {
                self.read.insert(end, old[end - at..].to_vec());
            }
        }
        self.read.insert(start, room.to_vec());
    }

    fn writes(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let address = bytes.as_ptr().addr();
            let before = self.read.range(..=address).next_back();
            let there = before.and_then(|(at, read)| read.get(address - at..));
            let next = self.read.range(address + 1..).next();
            let count = match there.filter(|there| !there.is_empty()) {
                Some(there) => {
                    let count = there.len().min(bytes.len());
                    let is_same = there[..count] == bytes[..count];
                    self.passed += if is_same { count } else { 0 };
                    self.copied += if is_same { 0 } else { count };
                    count
                }
                None => {
                    let count = next.map_or(bytes.len(), |(at, _)| (at - address).min(bytes.len()));
                    self.copied += count;
                    count
                }
            };
            bytes = &bytes[count..];
        }
    }
}

/// A codec whose transports are watched.
#[derive(Debug)]
struct Watched<C> {
    codec: C,
    ledger: Arc<Mutex<Ledger>>,
}

impl<C> Watched<C> {
    fn watch(&self, below: Transport) -> Transport {
        let ledger = Arc::clone(&self.ledger);
        Transport::with_driver(Box::new(Watcher { below, ledger }))
    }
}

impl<C: DownstreamCodec> DownstreamCodec for Watched<C> {
    fn serve(&self, accepted: Accepted) {
        let transport = self.watch(accepted.transport);
        self.codec.serve(Accepted {
            transport,
            ..accepted
        });
    }

    fn no_room(&self) -> &'static [u8] {
        self.codec.no_room()
    }
}

impl<C: UpstreamCodec> UpstreamCodec for Watched<C> {
    fn open(&self, connection: Established) -> Box<dyn Channel> {
        let transport = self.watch(connection.transport);
        self.codec.open(Established {
            transport,
            ..connection
        })
    }

    fn connection_bytes(&self) -> usize {
        self.codec.connection_bytes()
    }

    fn is_shared(&self) -> bool {
        self.codec.is_shared()
    }
}

#[derive(Debug)]
struct Watcher {
    below: Transport,
    ledger: Arc<Mutex<Ledger>>,
}

impl Driver for Watcher {
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.below.is_quiet(cx) {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = self.below.poll_read_into(cx, room);
        if let Poll::Ready(Ok(count)) = read {
            self.ledger.lock().expect("alive").reads(&room[..count]);
        }
        read
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.below.poll_write(cx, slices);
        if let Poll::Ready(Ok(mut count)) = written {
            let mut ledger = self.ledger.lock().expect("alive");
            for slice in slices {
                let part = count.min(slice.len());
                ledger.writes(&slice[..part]);
                count -= part;
            }
        }
        written
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.below.poll_flush(cx)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.below.poll_shutdown(cx)
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.below.poll_closed(cx)
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.below.local_address()
    }
}

/// Content that tells its place.
fn content() -> String {
    (0..CONTENT_BYTES / 8)
        .map(|at| format!("{at:07} "))
        .collect()
}

/// One exchange of a client of HTTP/2 with a server of HTTP/1.1: bytes that passed, and that were
/// copied.
fn exchange(request: &'static str, answer: &'static str) -> (usize, usize) {
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let setup = |server| Setup {
        codecs: Codecs::default()
            .with_downstream(
                H2C,
                Arc::new(Watched {
                    codec: Http2,
                    ledger: Arc::clone(&ledger),
                }),
            )
            .with_upstream(
                H1,
                Arc::new(Watched {
                    codec: Http1,
                    ledger: Arc::clone(&ledger),
                }),
            ),
        protocols: vec![H2C],
        servers: servers(H1, [server]),
        filters: Vec::new(),
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
        answer.len()
    );
    let server = Server::h1((head + answer).leak());
    let running = Running::start(setup(server.address));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let received = runtime.block_on(async {
        let socket = tokio::net::TcpStream::connect(running.addresses[0]).await;
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(8 << 20);
        builder.initial_connection_window_size(8 << 20);
        let made = builder.handshake::<_, bytes::Bytes>(socket.expect("connects"));
        let (mut requests, connection) = made.await.expect("HTTP/2");
        tokio::spawn(connection);
        let head = http::Request::put("http://localhost/at/1");
        let head = head.header("content-length", request.len()).body(());
        let sent = requests.send_request(head.expect("valid"), request.is_empty());
        let (response, mut stream) = sent.expect("it is open");
        if !request.is_empty() {
            stream
                .send_data(request.as_bytes().into(), true)
                .expect("open");
        }
        let response = response.await.expect("a response");
        assert_eq!(response.status(), 200);
        let mut content = response.into_body();
        let mut received = Vec::new();
        while let Some(data) = content.data().await {
            let data = data.expect("content");
            let _ = content.flow_control().release_capacity(data.len());
            received.extend_from_slice(&data);
        }
        received
    });
    assert!(received == answer.as_bytes());
    let asked = server.requests().pop().expect("it was asked");
    assert!(asked.ends_with(request));
    let ledger = ledger.lock().expect("alive");
    (ledger.passed, ledger.copied)
}

/// Heads, headers of frames and small pieces are gathered for one write; content is not.
#[test]
fn content_that_goes_out_by_http2_is_not_copied() {
    let (passed, copied) = exchange("", content().leak());
    println!("{passed} bytes passed, {copied} were made anew");
    assert!(
        passed >= CONTENT_BYTES / 100 * 95,
        "{passed} passed, {copied} copied"
    );
}

/// Content that is less than half of what was read is copied, lest it keep memory for what it is not.
#[test]
fn content_that_comes_by_http2_is_copied_where_it_is_little_of_a_buffer() {
    let (passed, copied) = exchange(content().leak(), "");
    println!("{passed} bytes passed, {copied} were made anew");
    assert!(
        passed >= CONTENT_BYTES / 4,
        "{passed} passed, {copied} copied"
    );
}
