//! A connection of the request plane under any bytes of its peer and any calls of its shell: memory stays
//! bounded, and credit adds up to the byte.
//!
//! The first byte says which side it is, whether the peer's HELLO came before, and how much is read at
//! a time; then come commands up to a zero, one of which follows each read; the rest is the peer's.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::time::{Duration, Instant};

use bytes::Bytes;
use steppe_plane::frame::{Head, Hello, Payment};
use steppe_plane::limits::SLICES_MAX;
use steppe_plane::{Config, Connection, Event, Processing, Side, Status, StreamId, Violation};

const CREDIT: u32 = 128 << 10;

struct Shell {
    connection: Connection,
    /// Granted credit that is not used, by stream.
    granted: BTreeMap<StreamId, u64>,
    /// Standing credit to release.
    held: Vec<(StreamId, u64)>,
    /// Streams that this side opened: as many as its peer's HELLO let it.
    opened: usize,
    now: Instant,
}

/// Checks one input; panics where a property fails.
pub fn run(bytes: &[u8]) {
    let Some((&first, bytes)) = bytes.split_first() else {
        return;
    };
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let (Some(commands), Some(sent)) = (parts.next(), parts.next()) else {
        return;
    };
    let mut shell = Shell::new(first & 1 == 0);
    if first & 2 != 0 {
        let mut hello = Vec::new();
        let peer = Hello {
            oldest: 1,
            newest: 1,
            streams_max: 4,
            stream_credit: CREDIT,
            connection_credit: u64::from(CREDIT),
        };
        peer.write(&mut hello);
        shell.read(&hello).expect("a HELLO");
    }
    let mut commands = commands.iter();
    for chunk in sent.chunks(1 + usize::from(first >> 2)) {
        if shell.read(chunk).is_err() {
            break;
        }
        if let Some(&command) = commands.next() {
            shell.command(command);
        }
    }
    shell.write(usize::MAX);
}

impl Shell {
    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
    fn new(is_dialer: bool) -> Self {
        let now = Instant::now();
        let config = Config {
            side: if is_dialer {
                Side::Dialer
            } else {
                Side::Acceptor
            },
            streams_max: 4,
            stream_credit: CREDIT,
            connection_credit: CREDIT,
            quiet: Duration::from_secs(5),
            patience: Duration::from_secs(5),
        };
        Self {
            connection: Connection::new(config, now),
            granted: BTreeMap::new(),
            held: Vec::new(),
            opened: 0,
            now,
        }
    }

    fn read(&mut self, mut bytes: &[u8]) -> Result<(), Violation> {
        loop {
            self.events()?;
            if bytes.is_empty() {
                return Ok(());
            }
            let left = self.connection.body_left().map_or(0, |(_, left)| left);
            let mut body = vec![0; left];
            let at = self.connection.take_body(&mut body);
            let mut count = 0;
            for slice in &mut self.connection.room(&mut body[at..]) {
                let len = slice.len().min(bytes.len());
                slice[..len].copy_from_slice(&bytes[..len]);
                bytes = &bytes[len..];
                count += len;
            }
            assert!(count > 0 || at > 0, "no room");
            self.connection.filled(count, self.now);
        }
    }

    fn events(&mut self) -> Result<(), Violation> {
        while let Some(event) = self.connection.next_event(self.now)? {
            match event {
                Event::Data(part) if part.payment == Payment::Granted => {
                    let left = self.granted.get_mut(&part.stream).expect("it was granted");
                    *left = left.checked_sub(part.cost).expect("so much");
                }
                Event::Data(part) => self.held.push((part.stream, part.cost)),
                Event::Response { stream, head } if head.payment == Payment::Standing => {
                    self.granted.remove(&stream);
                }
                Event::Ended {
                    stream, unspent, ..
                }
                | Event::Reset {
                    stream, unspent, ..
                }
                | Event::Expired { stream, unspent } => {
                    let granted = self.granted.remove(&stream).unwrap_or(0);
                    assert_eq!(unspent, granted, "stream {stream}");
                }
                _ => {}
            }
        }
        let held: u64 = self.held.iter().map(|(_, cost)| cost).sum();
        assert_eq!(self.connection.standing_held(), held);
        assert!(held <= u64::from(CREDIT));
        assert!(self.connection.streams() <= 4 + self.opened);
        assert!(self.connection.held_bytes() < (256 << 10) + self.opened * (4 << 10));
        Ok(())
    }

    fn command(&mut self, command: u8) {
        // The first streams of either side.
        let stream = StreamId(1 + u32::from(command >> 4) % 6);
        let ok = Status::Ok.into();
        match command & 15 {
            0 => {
                let head = Head {
                    deadline: Some(Duration::from_secs(1)),
                    ..Head::request("a")
                };
                self.opened += usize::from(self.connection.open(&head, self.now).is_ok());
            }
            1 => {
                let head = Head {
                    payment: Payment::Granted,
                    ..Head::request("b")
                };
                self.opened += usize::from(self.connection.open(&head, self.now).is_ok());
            }
            2 => _ = self.connection.respond(stream, &Head::response()),
            3 => {
                let message = Bytes::from_static(b"message");
                let _ = self.connection.send(stream, &message, 0);
            }
            4 => {
                let message = Bytes::from_static(&[7; 65_536]);
                let _ = self.connection.send(stream, &message, 0);
            }
            5 => _ = self.connection.end(stream, &ok),
            6 => _ = self.connection.stop(stream, &ok),
            7 => {
                let reason = Status::Cancelled.into();
                let unspent = self.connection.reset(stream, &reason, Processing::Begun);
                if let Some(unspent) = unspent {
                    assert_eq!(unspent, self.granted.remove(&stream).unwrap_or(0));
                }
            }
            8 | 9 => self.grant(stream),
            10 => {
                if let Some((stream, cost)) = self.held.pop() {
                    self.connection.release(stream, cost);
                }
            }
            11 => self.connection.drain(),
            12 => self.now += Duration::from_millis(700),
            13 => self.write(7),
            _ => self.write(usize::MAX),
        }
    }

    /// Grants to what is known to be on granted credit, as a shell does.
    fn grant(&mut self, stream: StreamId) {
        if self.connection.grant(stream, 1000).is_ok() {
            *self.granted.entry(stream).or_default() += 1000;
        }
    }

    fn write(&mut self, max: usize) {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = self.connection.slices(&mut slices);
        let len: usize = slices[..count].iter().map(|slice| slice.len()).sum();
        assert!(len < 1 << 20);
        self.connection.sent(len.min(max));
    }
}
