//! An HTTP/2 server whose frames are written by hand.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use steppe_testkit::Issued;
use tokio_rustls::rustls::{ServerConnection, StreamOwned};

use crate::https;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PADDED: u8 = 8;

const PREFACE_BYTES: usize = 24;

/// Time limit of a server's reads on a connection.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that runs until the process of the test ends.
pub struct ByHand {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// The connection's number, for each complete request.
    log: Arc<Mutex<Vec<usize>>>,
}

/// A connection of the server.
pub struct Connection {
    pub number: usize,
    stream: StreamOwned<ServerConnection, TcpStream>,
    log: Arc<Mutex<Vec<usize>>>,
}

/// A complete request.
#[derive(Debug, Clone)]
pub struct Asked {
    pub stream: u32,
    pub content: Vec<u8>,
}

impl ByHand {
    /// Runs `serve` on each connection after the prefaces. `settings` is the payload of the server's SETTINGS.
    pub fn start(
        issued: &Issued,
        settings: Vec<u8>,
        serve: impl Fn(&mut Connection) -> Option<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback");
        let address = listener.local_addr().expect("is bound");
        let tls = Arc::new(https::tls(issued, "h2"));
        let server = Self {
            address,
            connections: Arc::default(),
            log: Arc::default(),
        };
        let (connections, log) = (Arc::clone(&server.connections), Arc::clone(&server.log));
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                stream.set_read_timeout(Some(PATIENCE)).expect("is set");
                stream.set_nodelay(true).expect("is set");
                let session = ServerConnection::new(Arc::clone(&tls)).expect("a session");
                let mut connection = Connection {
                    number: connections.fetch_add(1, Ordering::AcqRel),
                    stream: StreamOwned::new(session, stream),
                    log: Arc::clone(&log),
                };
                let (serve, settings) = (Arc::clone(&serve), settings.clone());
                // The client may close at any time.
                thread::spawn(move || {
                    connection.bytes(PREFACE_BYTES)?;
                    connection.write(&[frame(SETTINGS, 0, 0, &settings)])?;
                    serve(&mut connection)
                });
            }
        });
        server
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Acquire)
    }

    /// The number of complete requests on the connection with this number.
    pub fn asked_on(&self, number: usize) -> usize {
        let log = self.log.lock().expect("no test failed there");
        log.iter().filter(|&&on| on == number).count()
    }
}

impl Connection {
    fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The next frame: type, flags, stream, payload.
    pub fn frame(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let header = self.bytes(9)?;
        let &[l2, l1, l0, kind, flags, s3, s2, s1, s0] = &header[..] else {
            return None;
        };
        let length = u32::from_be_bytes([0, l2, l1, l0]) as usize;
        let payload = self.bytes(length)?;
        Some((kind, flags, u32::from_be_bytes([s3, s2, s1, s0]), payload))
    }

    /// The next complete request. The content of each is one DATA frame.
    pub fn asked(&mut self) -> Option<Asked> {
        loop {
            let (kind, flags, stream, content) = self.frame()?;
            if kind == DATA {
                assert_eq!(flags & END_STREAM, END_STREAM);
                let taken = u32::try_from(content.len()).expect("a frame");
                self.write(&[frame(WINDOW_UPDATE, 0, 0, &taken.to_be_bytes())])?;
                let mut log = self.log.lock().expect("no test failed there");
                log.push(self.number);
                return Some(Asked { stream, content });
            }
        }
    }

    pub fn write(&mut self, frames: &[Vec<u8>]) -> Option<()> {
        self.stream.write_all(&frames.concat()).ok()?;
        self.stream.flush().ok()
    }

    /// Reads until the client ends the connection.
    pub fn wait(&mut self) -> Option<()> {
        loop {
            self.frame()?;
        }
    }
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame").to_be_bytes();
    let header = [&length[1..], &[kind, flags], &stream.to_be_bytes()];
    [&header.concat(), payload].concat()
}

/// The payload of SETTINGS with one setting.
pub fn setting(id: u16, value: u32) -> Vec<u8> {
    [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

pub fn goaway(last: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat())
}

/// Encodes a field line: a literal with a new name, with short strings (RFC 7541 §6.2.2).
pub fn line(name: &str, value: &str) -> Vec<u8> {
    let string = |text: &str| {
        let length = u8::try_from(text.len()).ok().filter(|&bytes| bytes < 127);
        [&[length.expect("a short string")], text.as_bytes()].concat()
    };
    [vec![0], string(name), string(value)].concat()
}

/// The field section of a valid response.
pub fn fields() -> Vec<u8> {
    [vec![0x88], line("content-type", "application/dns-message")].concat()
}

pub fn response(stream: u32, content: &[u8]) -> Vec<u8> {
    [
        frame(HEADERS, END_HEADERS, stream, &fields()),
        frame(DATA, END_STREAM, stream, content),
    ]
    .concat()
}
