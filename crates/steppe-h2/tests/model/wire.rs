//! Frames on the wire, as far as they change the window of a connection. RFC 9113 §4.1, §6.9.

use steppe_h2::Role;

/// The bytes of one direction.
struct Direction {
    octets: Vec<u8>,
    /// Octets of the preface that are to come.
    preface: usize,
}

impl Direction {
    fn of(sender: Role) -> Self {
        let preface = match sender {
            Role::Client => steppe_h2::frame::PREFACE.len(),
            Role::Server => 0,
        };
        Self {
            octets: Vec::new(),
            preface,
        }
    }

    /// Frames that are whole now: type, stream and payload.
    fn frames(&mut self, bytes: &[u8]) -> Vec<(u8, u32, Vec<u8>)> {
        self.octets.extend_from_slice(bytes);
        let skipped = self.preface.min(self.octets.len());
        self.octets.drain(..skipped);
        self.preface -= skipped;
        let mut frames = Vec::new();
        while let Some(&[l2, l1, l0, kind, _, s3, s2, s1, s0]) = self.octets.first_chunk() {
            let end = 9 + u32::from_be_bytes([0, l2, l1, l0]) as usize;
            if self.octets.len() < end {
                break;
            }
            let payload = self.octets[9..end].to_vec();
            frames.push((kind, u32::from_be_bytes([s3, s2, s1, s0]), payload));
            self.octets.drain(..end);
        }
        frames
    }
}

/// The window of a connection, by the frames that cross it.
pub struct Wire {
    received: Direction,
    sent: Direction,
    window: i64,
}

impl Wire {
    pub fn new(ours: Role) -> Self {
        let theirs = match ours {
            Role::Client => Role::Server,
            Role::Server => Role::Client,
        };
        Self {
            received: Direction::of(theirs),
            sent: Direction::of(ours),
            window: 65_535,
        }
    }

    pub fn receive(&mut self, bytes: &[u8]) {
        for (kind, _, payload) in self.received.frames(bytes) {
            if kind == 0 {
                self.window -= i64::try_from(payload.len()).expect("at most a frame");
            }
        }
        assert!(self.window >= 0, "the other side keeps the window");
    }

    pub fn send(&mut self, bytes: &[u8]) {
        for (kind, stream, payload) in self.sent.frames(bytes) {
            if (kind, stream) == (8, 0) {
                let increment = payload.try_into().expect("four octets");
                self.window += i64::from(u32::from_be_bytes(increment));
            }
        }
    }

    /// The window, unless a frame of the other side has come in part.
    pub fn window(&self) -> Option<i64> {
        self.received.octets.is_empty().then_some(self.window)
    }
}
