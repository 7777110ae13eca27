//! One end of a TCP connection that sends and reads just the bytes that a test wants.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};

use crate::framing::{BodyDecoder, BodyFraming, Head};
use crate::tls_client::TlsLayer;

/// Time that a peer waits for bytes before a test fails. Generous: CI machines stall.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A whole message: head, content and trailers.
#[derive(Debug, Clone, Default)]
pub struct Message {
    /// Start line and fields.
    pub head: Head,
    /// Content, with the framing taken off.
    pub body: Vec<u8>,
    /// Trailers of a chunked body.
    pub trailers: Vec<(String, String)>,
    /// Heads of interim responses (1xx) that came before.
    pub interim: Vec<Head>,
}

impl Deref for Message {
    type Target = Head;

    fn deref(&self) -> &Head {
        &self.head
    }
}

impl Message {
    /// The content as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The bytes received on a connection, and its end, seen from outside its thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tape {
    pub(crate) bytes: Vec<u8>,
    pub(crate) closed: bool,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Peer {
    stream: TcpStream,
    tls: Option<TlsLayer>,
    buffer: Vec<u8>,
    tape: Option<Arc<Mutex<Tape>>>,
    patience: Duration,
}

impl Peer {
    /// Connects to `address`.
    ///
    /// # Panics
    /// When nothing listens there.
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Self {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => Self::over(stream, None),
            Err(error) => panic!("can't connect to {address}: {error}"),
        }
    }

    /// Connects to `address` from the local address `from`.
    ///
    /// # Panics
    /// When that fails.
    #[track_caller]
    pub fn connect_from(from: IpAddr, address: SocketAddr) -> Self {
        let connected = Socket::new(Domain::for_address(address), Type::STREAM, None)
            .and_then(|socket| {
                socket
                    .bind(&SocketAddr::new(from, 0).into())
                    .map(|()| socket)
            })
            .and_then(|socket| socket.connect(&address.into()).map(|()| socket));
        match connected {
            Ok(socket) => Self::over(socket.into(), None),
            Err(error) => panic!("can't connect from {from} to {address}: {error}"),
        }
    }

    /// Connects with a small receive buffer, so that a peer that doesn't read soon stops the other.
    ///
    /// # Panics
    /// When that fails.
    #[track_caller]
    pub fn connect_narrow(address: SocketAddr, receive_bytes: usize) -> Self {
        let connected = Socket::new(Domain::for_address(address), Type::STREAM, None)
            .and_then(|socket| socket.set_recv_buffer_size(receive_bytes).map(|()| socket))
            .and_then(|socket| socket.connect(&address.into()).map(|()| socket));
        match connected {
            Ok(socket) => Self::over(socket.into(), None),
            Err(error) => panic!("can't connect to {address}: {error}"),
        }
    }

    pub(crate) fn over(stream: TcpStream, tape: Option<Arc<Mutex<Tape>>>) -> Self {
        let _ = stream.set_nodelay(true);
        Self {
            stream,
            tls: None,
            buffer: Vec::new(),
            tape,
            patience: PATIENCE,
        }
    }

    pub(crate) fn with_tls(mut self, tls: TlsLayer) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The session of a peer that a [`TlsClient`](crate::TlsClient) connected.
    ///
    /// # Panics
    /// When it has none.
    pub fn session(&self) -> &rustls::ClientConnection {
        self.tls.as_ref().expect("it speaks TLS").session()
    }

    /// True if the TLS session is an earlier one, resumed.
    pub fn is_resumed(&self) -> bool {
        self.tls.as_ref().is_some_and(TlsLayer::is_resumed)
    }

    /// The certificate that the server showed, DER.
    ///
    /// # Panics
    /// When it has no session.
    pub fn server_certificate(&self) -> Vec<u8> {
        let chain = self.session().peer_certificates();
        chain.expect("servers show one")[0].to_vec()
    }

    /// Changes the keys that this side sends with, and asks the server to change its own.
    ///
    /// # Errors
    /// The error of the socket.
    ///
    /// # Panics
    /// When it has no session.
    pub fn update_keys(&mut self) -> std::io::Result<()> {
        let tls = self.tls.as_mut().expect("it speaks TLS");
        tls.update_keys(&self.stream)
    }

    /// Sets the time that this peer waits for bytes.
    pub fn patience(&mut self, patience: Duration) -> &mut Self {
        self.patience = patience;
        self
    }

    /// The socket underneath.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// When the other end doesn't take them.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        if let Err(error) = self.try_send(bytes.as_ref()) {
            panic!("can't send: {error}");
        }
        self
    }

    /// Sends bytes, where the other end may have gone.
    ///
    /// # Errors
    /// The error of the socket.
    pub fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.set_write_timeout(Some(self.patience))?;
        let sent = match &mut self.tls {
            Some(tls) => tls.write_all(&self.stream, bytes),
            None => self.stream.write_all(bytes),
        };
        if let (Some(tape), Err(error)) = (&self.tape, &sent)
            && !is_timeout(error)
        {
            tape.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        }
        sent
    }

    /// Sends `bytes` until there is no progress for `quiet`; returns the number of bytes sent.
    pub fn send_until_stall(&mut self, bytes: &[u8], quiet: Duration) -> usize {
        let _ = self.stream.set_write_timeout(Some(quiet));
        let mut sent = 0;
        while sent < bytes.len() {
            let part = &bytes[sent..];
            let written = match &mut self.tls {
                Some(tls) => {
                    let part = &part[..part.len().min(TLS_PART_BYTES)];
                    tls.write_all(&self.stream, part).map(|()| part.len())
                }
                None => self.stream.write(part),
            };
            match written {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        sent
    }

    /// Ends this side's bytes, with `close_notify` where it speaks TLS; the other side may go on.
    pub fn finish(&mut self) -> &mut Self {
        if let Some(tls) = &mut self.tls {
            let _ = tls.finish(&self.stream);
        }
        self.cut()
    }

    /// Ends this side's bytes, without `close_notify` even where it speaks TLS.
    pub fn cut(&mut self) -> &mut Self {
        let _ = self.stream.shutdown(Shutdown::Write);
        self
    }

    /// Sends `close_notify` where this side speaks TLS; without effect after a [cut](Self::cut).
    pub(crate) fn say_goodbye(&mut self) {
        if let Some(tls) = &mut self.tls {
            let _ = tls.finish(&self.stream);
        }
    }

    /// Closes with a reset instead of an orderly end.
    pub fn reset(self) {
        let socket = Socket::from(self.stream);
        let _ = socket.set_linger(Some(Duration::ZERO));
    }

    /// Lets the end of this connection be a reset, whenever it comes.
    pub fn reset_at_end(&mut self) -> &mut Self {
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        self
    }

    /// Reads available bytes, or waits for some; false at the end of the connection.
    fn fill(&mut self, until: Instant) -> std::io::Result<bool> {
        let left = until
            .saturating_duration_since(Instant::now())
            .max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(left))?;
        let mut part = [0_u8; 16 << 10];
        let outcome = match &mut self.tls {
            Some(tls) => tls.read(&self.stream, &mut part),
            None => self.stream.read(&mut part),
        };
        if let Some(tape) = &self.tape {
            let mut tape = tape.lock().unwrap_or_else(PoisonError::into_inner);
            match &outcome {
                Ok(0) => tape.closed = true,
                Ok(count) => tape.bytes.extend_from_slice(&part[..*count]),
                Err(error) if is_timeout(error) => {}
                Err(_) => tape.closed = true,
            }
        }
        match outcome {
            Ok(count) => {
                self.buffer.extend_from_slice(&part[..count]);
                Ok(count > 0)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Reads a head; `None` when the connection ends before its first byte.
    ///
    /// # Panics
    /// When no head comes in time, or the connection ends within it.
    #[track_caller]
    pub fn head(&mut self) -> Option<Head> {
        self.try_head().unwrap_or_else(|why| panic!("{why}"))
    }

    /// As [`Peer::head`], for a connection that may bring anything.
    ///
    /// # Errors
    /// A description of the bytes or the end that came instead of a head.
    pub fn try_head(&mut self) -> Result<Option<Head>, String> {
        let until = Instant::now() + self.patience;
        loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                let head: Vec<u8> = self.buffer.drain(..at + 4).collect();
                return Ok(Some(Head::parse(&head)));
            }
            match self.fill(until) {
                Ok(true) => {}
                Ok(false) if self.buffer.is_empty() => return Ok(None),
                Err(error) if !is_timeout(&error) && self.buffer.is_empty() => return Ok(None),
                outcome => {
                    return Err(format!(
                        "no head ({outcome:?}), only {}",
                        escape(&self.buffer)
                    ));
                }
            }
        }
    }

    /// Reads exactly `count` bytes.
    ///
    /// # Panics
    /// When they don't come.
    #[track_caller]
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let until = Instant::now() + self.patience;
        while self.buffer.len() < count {
            match self.fill(until) {
                Ok(true) => {}
                outcome => panic!(
                    "{count} bytes awaited ({outcome:?}): {}",
                    escape(&self.buffer)
                ),
            }
        }
        self.buffer.drain(..count).collect()
    }

    /// As [`Peer::bytes`]; `None` where the connection ends, or is reset, before.
    ///
    /// # Panics
    /// When they don't come in time.
    #[track_caller]
    pub fn try_bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        let until = Instant::now() + self.patience;
        while self.buffer.len() < count {
            match self.fill(until) {
                Ok(true) => {}
                Err(error) if is_timeout(&error) => {
                    panic!("{count} bytes awaited ({error}): {}", escape(&self.buffer))
                }
                _ => return None,
            }
        }
        Some(self.buffer.drain(..count).collect())
    }

    /// Reads some bytes, at least one; empty at the end of the connection or after a reset.
    ///
    /// # Panics
    /// When nothing comes in time.
    #[track_caller]
    pub fn some(&mut self) -> Vec<u8> {
        if self.buffer.is_empty() {
            match self.fill(Instant::now() + self.patience) {
                Err(error) if is_timeout(&error) => panic!("no bytes in {:?}", self.patience),
                _ => {}
            }
        }
        std::mem::take(&mut self.buffer)
    }

    /// Reads until the connection ends (or is reset) and returns the bytes.
    ///
    /// # Panics
    /// When it doesn't end in time.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<u8> {
        let until = Instant::now() + self.patience;
        loop {
            match self.fill(until) {
                Ok(true) => {}
                Err(error) if is_timeout(&error) => {
                    panic!(
                        "still open after {:?}; got {}",
                        self.patience,
                        escape(&self.buffer)
                    )
                }
                _ => return std::mem::take(&mut self.buffer),
            }
        }
    }

    /// Reads until the connection ends, and returns the error: `None` is an orderly end.
    ///
    /// # Panics
    /// When it doesn't end in time.
    #[track_caller]
    pub fn end(&mut self) -> Option<std::io::Error> {
        let until = Instant::now() + self.patience;
        loop {
            match self.fill(until) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) if is_timeout(&error) => panic!("still open: {}", escape(&self.buffer)),
                Err(error) => return Some(error),
            }
        }
    }

    /// Reads and drops all bytes until the connection ends or is reset.
    pub fn drain(&mut self) {
        while self
            .fill(Instant::now() + self.patience)
            .is_ok_and(|more| more)
        {
            self.buffer.clear();
        }
    }

    /// Asserts that the connection ends without another byte.
    ///
    /// # Panics
    /// When bytes come or it stays open.
    #[track_caller]
    pub fn expect_close(&mut self) {
        let rest = self.rest();
        assert!(
            rest.is_empty(),
            "bytes instead of the end: {}",
            escape(&rest)
        );
    }

    /// Asserts that no byte comes for a while and the connection stays open.
    ///
    /// # Panics
    /// When something does.
    #[track_caller]
    pub fn expect_silence(&mut self, quiet: Duration) {
        assert!(
            self.buffer.is_empty(),
            "bytes instead of silence: {}",
            escape(&self.buffer)
        );
        match self.fill(Instant::now() + quiet) {
            Err(error) if is_timeout(&error) => {}
            outcome => panic!("{outcome:?} instead of silence: {}", escape(&self.buffer)),
        }
    }

    /// Reads the response to a GET.
    ///
    /// # Panics
    /// When no whole response comes.
    #[track_caller]
    pub fn response(&mut self) -> Message {
        self.response_to("GET")
    }

    /// Reads the response to a request with `method`, interim ones aside.
    ///
    /// # Panics
    /// When no whole response comes.
    #[track_caller]
    pub fn response_to(&mut self, method: &str) -> Message {
        let mut interim = Vec::new();
        loop {
            let Some(head) = self.head() else {
                panic!("the connection ended, no response")
            };
            let status = head.status();
            if (100..200).contains(&status) && status != 101 {
                interim.push(head);
                continue;
            }
            let framing = head.response_framing(method);
            let mut message = self.body(head, framing);
            message.interim = interim;
            return message;
        }
    }

    /// Reads a request; `None` when the connection ends first.
    ///
    /// # Panics
    /// When the connection stalls or ends within it.
    #[track_caller]
    pub fn request(&mut self) -> Option<Message> {
        let head = self.head()?;
        let framing = head.request_framing();
        Some(self.body(head, framing))
    }

    #[track_caller]
    fn body(&mut self, head: Head, framing: BodyFraming) -> Message {
        let mut decoder = BodyDecoder::new(framing);
        let mut body = Vec::new();
        loop {
            let taken = decoder.feed(&self.buffer, &mut |part| body.extend_from_slice(part));
            self.buffer.drain(..taken);
            if decoder.is_done() {
                let trailers = decoder.trailers().to_vec();
                return Message {
                    head,
                    body,
                    trailers,
                    interim: Vec::new(),
                };
            }
            assert!(
                !decoder.is_broken(),
                "broken body after {head:?}: {}",
                escape(&self.buffer)
            );
            match self.fill(Instant::now() + self.patience) {
                Ok(true) => {}
                Ok(false) if decoder.ends_by_close() => {
                    return Message {
                        head,
                        body,
                        ..Message::default()
                    };
                }
                outcome => {
                    panic!(
                        "the body stops after {} bytes ({outcome:?}): {head:?}",
                        body.len()
                    )
                }
            }
        }
    }
}

/// For protocols that libraries implement.
impl Read for Peer {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        if self.buffer.is_empty() {
            self.fill(Instant::now() + self.patience)?;
        }
        let count = self.buffer.len().min(room.len());
        room[..count].copy_from_slice(&self.buffer[..count]);
        self.buffer.drain(..count);
        Ok(count)
    }
}

impl Write for Peer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.try_send(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Bytes given to a TLS session at once where its progress is watched: a record.
const TLS_PART_BYTES: usize = 16 << 10;

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

pub(crate) fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

pub(crate) fn escape(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(400)];
    format!("{} bytes \"{}\"", bytes.len(), shown.escape_ascii())
}
