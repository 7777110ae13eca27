//! Follows the frames that a peer sends, by their headers, as their bytes come.
//!
//! The `h2` crate answers and forgets frames that cost a peer next to nothing: settings, pings,
//! priorities, empty data. They are counted here, below it. Each kind has a bucket that fills
//! again with time; a peer that empties one is told to calm down (RFC 9113 §10.5).
//!
//! Invariant: each byte is looked at once, whatever it is cut into.

use std::time::Instant;

use steppe_h2::TokenBucket;
use steppe_h2::limits::{
    CONTROL_FRAMES_BURST, CONTROL_FRAMES_PER_SECOND, RESETS_BURST, RESETS_PER_SECOND,
    WRITTEN_BYTES_PER_CONTROL_FRAME,
};

use crate::limits::HEADER_FRAMES_MAX;

/// RFC 9113 §4.1.
pub(super) const FRAME_HEADER_BYTES: usize = 9;

/// RFC 9113 §6.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const ACK: u8 = 0x1;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

/// The bits of a stream's number (RFC 9113 §4.1).
const STREAM_ID: u32 = 0x7fff_ffff;

/// Why a peer is told to calm down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flood {
    /// Streams that it resets.
    Resets,
    /// SETTINGS, PING, PRIORITY and what nobody knows; DATA without content.
    Control,
    /// One header list in too many frames.
    Continuations,
}

/// A part of a stream among bytes that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// A DATA frame of this stream began, with a payload of so many bytes, padding included.
    Data(u32, usize),
    /// A header list came to its end.
    List(List),
}

/// Reads headers of frames, and counts those that are cheap to send.
#[derive(Debug)]
pub(super) struct FrameCounter {
    header: [u8; FRAME_HEADER_BYTES],
    header_len: usize,
    payload_left: usize,
    /// Frames of the header list that is under way.
    header_frames: usize,
    /// Payloads of header lists that came in all.
    list_bytes: usize,
    /// The header list that is under way, until the last byte of its last frame.
    list: Option<List>,
    resets: TokenBucket,
    control: TokenBucket,
    /// Bytes written that granted no control frame yet.
    written_rest: usize,
    flood: Option<Flood>,
    /// The peer takes no further streams.
    is_goaway: bool,
    /// The peer's SETTINGS were received.
    has_settings: bool,
}

/// A header list of which some has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct List {
    /// The list's stream.
    pub(super) stream: u32,
}

impl FrameCounter {
    /// A scanner of a server's frames.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            header: [0; FRAME_HEADER_BYTES],
            header_len: 0,
            payload_left: 0,
            header_frames: 0,
            list_bytes: 0,
            list: None,
            resets: TokenBucket::new(RESETS_BURST, RESETS_PER_SECOND, now),
            control: TokenBucket::new(CONTROL_FRAMES_BURST, CONTROL_FRAMES_PER_SECOND, now),
            written_rest: 0,
            flood: None,
            is_goaway: false,
            has_settings: false,
        }
    }

    /// The kind of flood that the peer sends, if any.
    pub(super) fn flood(&self) -> Option<Flood> {
        self.flood
    }

    /// True when the peer has sent GOAWAY.
    pub(super) fn is_goaway(&self) -> bool {
        self.is_goaway
    }

    /// True when the peer has sent its SETTINGS.
    pub(super) fn has_settings(&self) -> bool {
        self.has_settings
    }

    /// The header list that is under way.
    pub(super) fn list(&self) -> Option<List> {
        self.list
    }

    /// Bytes of payloads of header lists that came in all.
    pub(super) fn list_bytes(&self) -> usize {
        self.list_bytes
    }

    /// Bytes up to the end of the next frame's header, or of the present frame.
    pub(super) fn bytes_to_boundary(&self) -> usize {
        match self.payload_left {
            0 => FRAME_HEADER_BYTES - self.header_len,
            payload => payload,
        }
    }

    /// Takes note of `bytes` that came, of which streams are told to `see`; returns bytes of content.
    pub(super) fn read(
        &mut self,
        mut bytes: &[u8],
        now: Instant,
        see: &mut impl FnMut(Seen),
    ) -> usize {
        let mut content = 0;
        while !bytes.is_empty() {
            let payload = self.payload_left.min(bytes.len());
            if payload > 0 {
                match self.header[3] {
                    DATA => content += payload,
                    HEADERS | CONTINUATION => {
                        self.list_bytes = self.list_bytes.saturating_add(payload);
                    }
                    _ => {}
                }
                self.payload_left -= payload;
                self.end_list(see);
                bytes = &bytes[payload..];
                continue;
            }
            let lacking = (FRAME_HEADER_BYTES - self.header_len).min(bytes.len());
            let end = self.header_len + lacking;
            self.header[self.header_len..end].copy_from_slice(&bytes[..lacking]);
            self.header_len = end;
            bytes = &bytes[lacking..];
            if end == FRAME_HEADER_BYTES {
                self.header_len = 0;
                self.begin_frame(now);
                self.end_list(see);
                if self.header[3] == DATA {
                    see(Seen::Data(self.stream(), self.payload_left));
                }
            }
        }
        content
    }

    /// Takes note of bytes that the peer has taken: who is sent much may ask how fast it comes.
    pub(super) fn written(&mut self, bytes: usize) {
        let bytes = bytes + self.written_rest;
        self.written_rest = bytes % WRITTEN_BYTES_PER_CONTROL_FRAME;
        let granted = u32::try_from(bytes / WRITTEN_BYTES_PER_CONTROL_FRAME).unwrap_or(u32::MAX);
        self.control.put_back(granted);
    }

    /// The stream of the present frame.
    fn stream(&self) -> u32 {
        let [.., a, b, c, d] = self.header;
        u32::from_be_bytes([a, b, c, d]) & STREAM_ID
    }

    fn begin_list(&mut self) {
        self.list = Some(List {
            stream: self.stream(),
        });
    }

    /// The list is over with its last frame's last byte.
    fn end_list(&mut self, see: &mut impl FnMut(Seen)) {
        let [.., kind, flags, _, _, _, _] = self.header;
        let is_last = matches!(kind, HEADERS | CONTINUATION) && flags & END_HEADERS != 0;
        if is_last
            && self.payload_left == 0
            && let Some(list) = self.list.take()
        {
            see(Seen::List(list));
        }
    }

    fn begin_frame(&mut self, now: Instant) {
        let [high, middle, low, kind, flags, ..] = self.header;
        self.payload_left = u32::from_be_bytes([0, high, middle, low]) as usize;
        self.is_goaway |= kind == GOAWAY;
        self.has_settings |= kind == SETTINGS && flags & ACK == 0;
        let flood = match kind {
            DATA if self.payload_left > 0 || flags & END_STREAM != 0 => return,
            HEADERS | CONTINUATION => {
                if kind == HEADERS {
                    self.begin_list();
                }
                self.header_frames += 1;
                let is_flood = self.header_frames > HEADER_FRAMES_MAX;
                if flags & END_HEADERS != 0 {
                    self.header_frames = 0;
                }
                is_flood.then_some(Flood::Continuations)
            }
            // It costs as little to take as it does to send, and is answered by what was asked for.
            WINDOW_UPDATE => None,
            RST_STREAM => (!self.resets.take(now)).then_some(Flood::Resets),
            _ => (!self.control.take(now)).then_some(Flood::Control),
        };
        self.flood = self.flood.or(flood);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let len = u32::try_from(payload).expect("small").to_be_bytes();
        let header = [len[1], len[2], len[3], kind, flags, 0, 0, 0, 1];
        [&header[..], &vec![7; payload]].concat()
    }

    #[test]
    fn frames_are_found_however_they_are_cut() {
        let now = Instant::now();
        let bytes = [
            frame(4, 0, 6),
            frame(HEADERS, END_HEADERS, 30),
            frame(DATA, 0, 300),
            frame(DATA, END_STREAM, 0),
            frame(RST_STREAM, 0, 4),
        ]
        .concat();
        for size in [1, 2, 8, 9, 10, 50, 1000] {
            let mut counter = FrameCounter::new(now);
            let (mut content, mut seen_all) = (0, Vec::new());
            for piece in bytes.chunks(size) {
                let mut see = |seen| seen_all.push(seen);
                content += counter.read(piece, now, &mut see);
            }
            let list = List { stream: 1 };
            let expected = [Seen::List(list), Seen::Data(1, 300), Seen::Data(1, 0)];
            assert_eq!((content, &seen_all[..]), (300, &expected[..]), "{size}");
            assert_eq!((counter.list(), counter.bytes_to_boundary()), (None, 9));
            assert_eq!(counter.list_bytes(), 30, "{size}");
            assert_eq!(counter.resets.left(), RESETS_BURST - 1, "{size}");
            assert_eq!(counter.control.left(), CONTROL_FRAMES_BURST - 1, "{size}");
        }
    }

    #[test]
    fn each_flood_is_named_and_nothing_else_is_one() {
        let now = Instant::now();
        let flood = |frame: &[u8], count: u32| {
            let mut counter = FrameCounter::new(now);
            (0..count).for_each(|_| _ = counter.read(frame, now, &mut |_| ()));
            counter.flood()
        };
        let (resets, control) = (RESETS_BURST, CONTROL_FRAMES_BURST);
        assert_eq!(flood(&frame(RST_STREAM, 0, 4), resets), None);
        assert_eq!(
            flood(&frame(RST_STREAM, 0, 4), resets + 1),
            Some(Flood::Resets)
        );
        for cheap in [
            frame(DATA, 0, 0),
            frame(2, 0, 5),
            frame(4, 0, 0),
            frame(6, 0, 8),
        ] {
            assert_eq!(flood(&cheap, control), None);
            assert_eq!(flood(&cheap, control + 1), Some(Flood::Control));
        }
        for dear in [
            frame(DATA, 0, 20),
            frame(DATA, END_STREAM, 0),
            frame(8, 0, 4),
        ] {
            assert_eq!(flood(&dear, 100_000), None);
        }
        assert_eq!(flood(&frame(HEADERS, END_HEADERS, 10), 100_000), None);
        let begun = flood(&frame(CONTINUATION, 0, 10), 100);
        assert_eq!(begun, Some(Flood::Continuations));
    }

    #[test]
    fn tokens_come_back_with_time_and_with_what_the_peer_takes() {
        let start = Instant::now();
        let mut counter = FrameCounter::new(start);
        let reset = frame(RST_STREAM, 0, 4);
        for second in 0..1000 {
            let now = start + Duration::from_secs(second);
            (0..RESETS_PER_SECOND).for_each(|_| _ = counter.read(&reset, now, &mut |_| ()));
        }
        assert_eq!(counter.flood(), None);
        let ping = frame(6, 0, 8);
        for _ in 0..100_000 {
            counter.written(WRITTEN_BYTES_PER_CONTROL_FRAME);
            counter.read(&ping, start, &mut |_| ());
        }
        assert_eq!(counter.flood(), None);
    }
}
