//! Splits received bytes into frames.
//!
//! Control frames are read whole, into the inbox of the connection. The payload of DATA is read straight
//! into a buffer of the shell: its header is handled before its payload is read.
//!
//! Invariant: work is proportional to the received bytes, however they were split.

use std::io::IoSliceMut;
use std::ops::Range;

use crate::frame::{FrameError, FrameHeader, FrameType, HEADER_BYTES};
use crate::limits::{CONTROL_BYTES_MAX, INBOX_BYTES};

/// The received bytes of a connection that were not handled yet.
#[derive(Debug)]
pub(super) struct Reader {
    inbox: Box<[u8]>,
    start: usize,
    end: usize,
    /// Bytes of DATA payload for the shell that come next.
    body_left: usize,
    /// Bytes of payload that are dropped.
    skip_left: usize,
}

/// The amount that is read after the payload of DATA in the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// As many bytes as the inbox has room for.
    All,
    /// The next header alone, so that a following DATA payload is not copied through the inbox.
    Header,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self {
            inbox: vec![0; INBOX_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            body_left: 0,
            skip_left: 0,
        }
    }

    /// The next header in the inbox, with the place of its payload for [`Reader::payload`], which
    /// stays valid until the next call. The payload of DATA is not included: [`Reader::body_left`] counts it.
    ///
    /// # Errors
    /// [`FrameError`] of an invalid header.
    pub(super) fn next(&mut self) -> Result<Option<(FrameHeader, Range<usize>)>, FrameError> {
        loop {
            self.skip();
            if self.skip_left > 0 || self.body_left > 0 {
                return Ok(None);
            }
            let unread = &self.inbox[self.start..self.end];
            let Some(header) = unread.first_chunk::<HEADER_BYTES>() else {
                return Ok(None);
            };
            let header = FrameHeader::read(header);
            header.check()?;
            let len = header.len as usize;
            let payload = self.start + HEADER_BYTES;
            if header.frame_type == FrameType::DATA {
                (self.start, self.body_left) = (payload, len);
                return Ok(Some((header, payload..payload)));
            }
            if !header.frame_type.is_known() {
                (self.start, self.skip_left) = (payload, len);
                continue;
            }
            if unread.len() < HEADER_BYTES + len {
                return Ok(None);
            }
            self.start = payload + len;
            return Ok(Some((header, payload..payload + len)));
        }
    }

    fn skip(&mut self) {
        let skipped = self.skip_left.min(self.end - self.start);
        self.start += skipped;
        self.skip_left -= skipped;
    }

    pub(super) fn payload(&self, place: Range<usize>) -> &[u8] {
        &self.inbox[place]
    }

    pub(super) fn body_left(&self) -> usize {
        self.body_left
    }

    /// Drops the rest of the DATA payload.
    pub(super) fn skip_body(&mut self) {
        self.skip_left += std::mem::take(&mut self.body_left);
    }

    /// Copies DATA payload that was read into the inbox together with earlier frames.
    pub(super) fn take_body(&mut self, out: &mut [u8]) -> usize {
        let count = self.body_left.min(out.len()).min(self.end - self.start);
        out[..count].copy_from_slice(&self.inbox[self.start..self.start + count]);
        self.start += count;
        self.body_left -= count;
        count
    }

    /// The buffers of the next read, in this order: `body` for the payload of DATA, then the inbox.
    ///
    /// # Panics
    /// If `body` is longer than the remaining payload, or if payload is still in the inbox.
    pub(super) fn room<'a>(&'a mut self, body: &'a mut [u8], tail: Tail) -> [IoSliceMut<'a>; 2] {
        assert!(
            body.len() <= self.body_left,
            "room of {} for {} bytes",
            body.len(),
            self.body_left
        );
        assert!(
            self.body_left == 0 || self.start == self.end,
            "the inbox has bytes of the body that come first"
        );
        if body.len() < self.body_left {
            return [IoSliceMut::new(body), IoSliceMut::new(&mut [])];
        }
        self.make_room();
        let tail_max = match tail {
            Tail::Header if self.start == self.end => self.skip_left + HEADER_BYTES,
            // The header, if it is there, gives the number of missing bytes.
            Tail::Header => self.missing(),
            Tail::All => usize::MAX,
        };
        let end = self.inbox.len().min(self.end.saturating_add(tail_max));
        let inbox = &mut self.inbox[self.end..end];
        [IoSliceMut::new(body), IoSliceMut::new(inbox)]
    }

    /// Missing bytes of the control frame at the start of the inbox, and of one header after it.
    fn missing(&self) -> usize {
        let unread = &self.inbox[self.start..self.end];
        match unread.first_chunk::<HEADER_BYTES>() {
            None => HEADER_BYTES - unread.len(),
            Some(header) => {
                let len = FrameHeader::read(header).len as usize;
                (2 * HEADER_BYTES + len).saturating_sub(unread.len()).max(1)
            }
        }
    }

    /// Moves unread bytes to the front of the inbox, if there may be no room for the rest of their frame.
    fn make_room(&mut self) {
        let is_short = self.inbox.len() - self.end < HEADER_BYTES + CONTROL_BYTES_MAX;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 && is_short {
            self.inbox.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }

    /// Notes that `count` bytes were read into [`Reader::room`]; returns how many of them are payload of DATA.
    ///
    /// # Panics
    /// If `count` exceeds the room.
    pub(super) fn filled(&mut self, count: usize) -> usize {
        let body = count.min(self.body_left);
        self.body_left -= body;
        self.end += count - body;
        assert!(self.end <= self.inbox.len(), "{count} bytes read");
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(frame_type: FrameType, payload: &[u8]) -> Vec<u8> {
        let stream = u32::from(frame_type == FrameType::DATA || frame_type == FrameType::END);
        let mut header = FrameHeader::new(frame_type, stream);
        header.len = u32::try_from(payload.len()).expect("short");
        [&header.to_bytes()[..], payload].concat()
    }

    /// Reads `bytes` in pieces of `size`; returns all payloads, those of DATA too.
    fn read(bytes: &[u8], size: usize, tail: Tail) -> Vec<(FrameType, Vec<u8>)> {
        let (mut reader, mut rest, mut read) = (Reader::new(), bytes, Vec::new());
        loop {
            while let Some((header, place)) = reader.next().expect("valid") {
                let mut payload = reader.payload(place).to_vec();
                if header.frame_type == FrameType::DATA {
                    payload = vec![0; header.len as usize];
                    let mut at = reader.take_body(&mut payload);
                    while at < payload.len() {
                        let room = reader.room(&mut payload[at..], tail);
                        let count = fill(room, &mut rest, size);
                        at += reader.filled(count);
                    }
                }
                read.push((header.frame_type, payload));
            }
            if rest.is_empty() {
                return read;
            }
            let room = reader.room(&mut [], tail);
            let count = fill(room, &mut rest, size);
            reader.filled(count);
        }
    }

    fn fill(mut room: [IoSliceMut<'_>; 2], rest: &mut &[u8], size: usize) -> usize {
        let mut filled = 0;
        for slice in &mut room {
            let count = slice.len().min(rest.len()).min(size - filled);
            slice[..count].copy_from_slice(&rest[..count]);
            *rest = &rest[count..];
            filled += count;
        }
        assert!(filled > 0, "a reader without room");
        filled
    }

    #[test]
    fn frames_come_out_whole_however_they_are_split() {
        let (small, large) = (vec![1; 100], vec![2; 65_536]);
        let full = vec![3; 4096];
        let frames = [
            (FrameType::SERVICES, &full[..]),
            (FrameType::DATA, &small),
            (FrameType::PING, b""),
            (FrameType::DATA, &large),
            (FrameType::DATA, b""),
            (FrameType::END, &full),
            (FrameType::END, &full[..9]),
        ];
        let mut bytes = Vec::new();
        for (frame_type, payload) in frames {
            bytes.extend(frame(frame_type, payload));
            bytes.extend(frame(FrameType(0x80), &large));
        }
        for tail in [Tail::All, Tail::Header] {
            for size in [1, 7, 24, 25, 4095, 1 << 20] {
                let read = read(&bytes, size, tail);
                assert_eq!(read.len(), frames.len(), "{size}");
                for ((seen, payload), (frame_type, expected)) in read.iter().zip(frames) {
                    assert_eq!((*seen, &payload[..]), (frame_type, expected), "{size}");
                }
            }
        }
    }

    #[test]
    fn the_payload_behind_an_announced_body_is_not_read_into_the_inbox() {
        let mut reader = Reader::new();
        let data = frame(FrameType::DATA, &[1; 1000]);
        let mut rest = &[&data[..24], &data[24..], &data].concat()[..];
        let count = fill(reader.room(&mut [], Tail::Header), &mut rest, 24);
        reader.filled(count);
        reader.next().expect("valid").expect("a header");
        let mut body = vec![0; 1000];
        assert_eq!(reader.take_body(&mut body), 0);
        let room = reader.room(&mut body, Tail::Header);
        assert_eq!(room.each_ref().map(|slice| slice.len()), [1000, 24]);
        let count = fill(room, &mut rest, usize::MAX);
        assert_eq!((count, reader.filled(count)), (1024, 1000));
        reader.next().expect("valid").expect("the next header");
        assert_eq!(reader.take_body(&mut body), 0, "none of it was read");
    }

    #[test]
    fn a_body_that_nobody_wants_is_skipped() {
        let mut reader = Reader::new();
        let bytes = [
            frame(FrameType::DATA, &[1; 50_000]),
            frame(FrameType::PING, b""),
        ]
        .concat();
        let mut rest = &bytes[..];
        let mut seen = Vec::new();
        while !rest.is_empty() {
            let count = fill(reader.room(&mut [], Tail::All), &mut rest, 5000);
            reader.filled(count);
            while let Some((header, _)) = reader.next().expect("valid") {
                reader.skip_body();
                seen.push(header.frame_type);
            }
        }
        assert_eq!(seen, [FrameType::DATA, FrameType::PING]);
    }
}
