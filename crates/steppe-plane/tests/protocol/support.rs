//! Two ends of a connection without a socket: shells with a budget each, and the bytes in flight
//! between them.

mod endpoint;
mod newer;

pub use endpoint::{Endpoint, OPEN_CREDIT};
pub use newer::Newer;

use std::collections::VecDeque;
use std::io::IoSlice;
use std::time::{Duration, Instant};

use steppe_plane::limits::SLICES_MAX;
use steppe_plane::{Config, Connection, Side, Violation};

/// A configuration that sends no PING within the time of a test.
pub fn config(side: Side) -> Config {
    Config {
        side,
        streams_max: 100,
        stream_credit: 128 << 10,
        connection_credit: 256 << 10,
        quiet: Duration::from_secs(3600),
        patience: Duration::from_secs(5),
    }
}

/// At most `max` bytes of a connection's output.
pub fn written(connection: &mut Connection, max: usize) -> Vec<u8> {
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    let count = connection.slices(&mut slices);
    let mut bytes: Vec<u8> = slices[..count]
        .iter()
        .flat_map(|slice| slice.to_vec())
        .collect();
    bytes.truncate(max);
    connection.sent(bytes.len());
    bytes
}

/// Both ends, the bytes in flight, and the time.
#[derive(Debug)]
pub struct World {
    pub ends: [Endpoint; 2],
    /// Rewrites the bytes of the first end, if it is newer than the other.
    newer: Option<Newer>,
    /// Bytes that each end has sent and the other has not received yet.
    wire: [VecDeque<u8>; 2],
    pub now: Instant,
}

impl World {
    pub fn new(newer: Option<Newer>) -> Self {
        let now = Instant::now();
        let end = |side| Endpoint::new(config(side), now);
        Self {
            ends: [end(Side::Dialer), end(Side::Acceptor)],
            newer,
            wire: Default::default(),
            now,
        }
    }

    /// Both ends, after their HELLO.
    pub fn connected(newer: Option<Newer>) -> Self {
        let mut world = Self::new(newer);
        while world.carry(0, 4096) | world.carry(1, 4096) {}
        world
    }

    /// Carries up to `max` bytes from one end to the other, and all that were in flight. True if there were
    /// any.
    pub fn carry(&mut self, from: usize, max: usize) -> bool {
        let is_any = self.depart(from, max);
        self.arrive(from, usize::MAX) || is_any
    }

    /// Takes up to `max` bytes from one end's output. True if there were any.
    pub fn depart(&mut self, from: usize, max: usize) -> bool {
        let bytes = written(&mut self.ends[from].connection, max);
        let is_any = !bytes.is_empty();
        let bytes = match &mut self.newer {
            Some(newer) if from == 0 => newer.rewrite(&bytes),
            _ => bytes,
        };
        self.wire[from].extend(bytes);
        is_any
    }

    /// Delivers up to `max` bytes in flight from one end to the other. True if there were any.
    pub fn arrive(&mut self, from: usize, max: usize) -> bool {
        let wire = &mut self.wire[from];
        let bytes: Vec<u8> = wire.drain(..wire.len().min(max)).collect();
        self.ends[1 - from].read(&bytes, self.now);
        !bytes.is_empty()
    }

    /// Finishes everything that was begun, and checks that nothing is left: no streams, no held credit, and no
    /// reserved bytes but those for standing credit.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut is_moving = false;
            for end in &mut self.ends {
                is_moving |= end.finish(self.now);
            }
            is_moving |= self.carry(0, 1 << 20) | self.carry(1, 1 << 20);
            if !is_moving {
                break;
            }
        }
        for end in &mut self.ends {
            assert_eq!(end.connection.streams(), 0, "{end:?}");
            assert_eq!(end.connection.standing_held(), 0);
            assert_eq!(end.granted_bytes(), 0);
            assert_eq!(end.reserved_bytes(), OPEN_CREDIT);
        }
    }

    /// Compares the bytes sent with those of bodies that were received completely.
    pub fn compare(&self) {
        for (from, to) in [(0, 1), (1, 0)] {
            for (stream, received) in self.ends[to].ended() {
                let sent = self.ends[from].sent_bytes(stream);
                assert_eq!(received, sent, "stream {stream} from {from}");
            }
        }
    }
}

/// Reads `bytes` into a connection, `size` at a time, and drops its payloads. Returns the number of events.
pub fn feed(
    connection: &mut Connection,
    mut bytes: &[u8],
    size: usize,
    now: Instant,
) -> Result<usize, Violation> {
    let mut events = 0;
    loop {
        while connection.next_event(now)?.is_some() {
            connection.skip_body();
            events += 1;
        }
        if bytes.is_empty() {
            return Ok(events);
        }
        let mut count = 0;
        for slice in &mut connection.room(&mut []) {
            let len = slice.len().min(bytes.len()).min(size - count);
            slice[..len].copy_from_slice(&bytes[..len]);
            bytes = &bytes[len..];
            count += len;
        }
        assert!(count > 0, "no room to read");
        connection.filled(count, now);
    }
}
