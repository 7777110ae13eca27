//! A case behind a socket, so that the lab can drive it: each request is a burst of operations.
//!
//! Invariant: one thread serves, a fixed number of connections, heads read into arrays: serving allocates
//! nothing, and what grows is the allocator's. Leaves out most of HTTP/1.1 (RFC 9112): a request is
//! a head without content, and only its path is looked at.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use crate::cases::mixed::Mixed;
use crate::cases::server::Crew;
use crate::sys::{self, POLLED_MAX};

/// A case that goes on for as long as it is asked to.
pub trait Served {
    /// Does so many operations.
    fn burst(&mut self, operations: u64);

    /// Bytes of blocks that live, as the allocator counts them.
    fn live_bytes(&self) -> usize;
}

impl Served for Mixed {
    fn burst(&mut self, operations: u64) {
        self.step(operations);
    }

    fn live_bytes(&self) -> usize {
        self.live_bytes()
    }
}

impl Served for Crew {
    fn burst(&mut self, operations: u64) {
        self.wave(operations);
    }

    fn live_bytes(&self) -> usize {
        self.live_bytes()
    }
}

/// A connection and what it has sent of its next request.
struct Connection {
    stream: TcpStream,
    head: [u8; HEAD_BYTES],
    filled: usize,
}

const HEAD_BYTES: usize = 4_096;
const CONNECTIONS_MAX: usize = POLLED_MAX - 1;

/// Serves until it is killed: `/memory` tells live bytes as JSON, every other path runs `burst`
/// operations first.
///
/// # Errors
/// When the listener fails.
pub fn serve(listener: &TcpListener, served: &mut impl Served, burst: u64) -> io::Result<()> {
    let mut connections = [const { None::<Connection> }; CONNECTIONS_MAX];
    loop {
        let ready = wait(listener, &connections)?;
        for (slot, is_ready) in connections.iter_mut().zip(&ready[1..]) {
            let Some(connection) = slot.as_mut().filter(|_| *is_ready) else {
                continue;
            };
            if connection.answer(served, burst).is_err() {
                *slot = None;
            }
        }
        if ready[0] {
            let (stream, _) = listener.accept()?;
            // With all slots taken, the connection is closed again.
            if let Some(slot) = connections.iter_mut().find(|slot| slot.is_none()) {
                stream.set_nodelay(true)?;
                *slot = Some(Connection::new(stream));
            }
        }
    }
}

/// Element 0 is the listener, the others are the slots.
fn wait(
    listener: &TcpListener,
    connections: &[Option<Connection>; CONNECTIONS_MAX],
) -> io::Result<[bool; POLLED_MAX]> {
    let mut descriptors = [listener.as_fd(); POLLED_MAX];
    let mut places = [0; POLLED_MAX];
    let mut count = 1;
    for (place, connection) in connections.iter().enumerate() {
        let Some(connection) = connection else {
            continue;
        };
        let descriptor: BorrowedFd<'_> = connection.stream.as_fd();
        (descriptors[count], places[count]) = (descriptor, place + 1);
        count += 1;
    }
    let mut found = [false; POLLED_MAX];
    sys::wait_readable(&descriptors[..count], &mut found)?;
    let mut ready = [false; POLLED_MAX];
    for (is_ready, place) in found.iter().zip(places).take(count) {
        ready[place] = *is_ready;
    }
    Ok(ready)
}

impl Connection {
    const fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            head: [0; HEAD_BYTES],
            filled: 0,
        }
    }

    /// Reads what there is, and answers if that completes a request. An error: it is over.
    fn answer(&mut self, served: &mut impl Served, burst: u64) -> io::Result<()> {
        let read = self.stream.read(&mut self.head[self.filled..])?;
        // The connection's end, or a head that is too long.
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.filled += read;
        if !self.head[..self.filled].ends_with(b"\r\n\r\n") {
            return Ok(());
        }
        let asks_for_memory = self.head.starts_with(b"GET /memory ");
        self.filled = 0;
        if !asks_for_memory {
            served.burst(burst);
        }
        self.respond(served.live_bytes())
    }

    fn respond(&mut self, live_bytes: usize) -> io::Result<()> {
        // The response has one length for all numbers.
        let mut text = [0; 128];
        let mut rest = &mut text[..];
        write!(
            rest,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 29\r\n\r\n\
             {{\"live_bytes\": {live_bytes:12}}}\n"
        )?;
        let unused = rest.len();
        let used = text.len() - unused;
        self.stream.write_all(&text[..used])
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn ask(stream: &mut TcpStream, path: &str) -> String {
        write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").expect("it reads");
        let mut text = Vec::new();
        let mut byte = [0];
        while !text.ends_with(b"}\n") {
            stream.read_exact(&mut byte).expect("it answers");
            text.push(byte[0]);
        }
        String::from_utf8(text).expect("it is ASCII")
    }

    #[test]
    fn two_connections_are_served_by_turns() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        thread::spawn(move || serve(&listener, &mut Mixed::new(400), 10_000));
        let connect = || TcpStream::connect(address).expect("it listens");
        let (mut load, mut watch) = (connect(), connect());
        let before = ask(&mut watch, "/memory");
        assert!(
            before.contains("{\"live_bytes\":            0}\n"),
            "{before}"
        );
        let (_, content) = before.split_once("\r\n\r\n").expect("a head has an end");
        assert_eq!(content.len(), 29);
        ask(&mut load, "/");
        let after = ask(&mut watch, "/memory");
        assert!(after.starts_with("HTTP/1.1 200") && after != before);
    }
}
