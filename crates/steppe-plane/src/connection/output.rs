//! The write queue of a connection: a lane of control frames, and committed frames.
//!
//! Invariant: frames are written in the order in which they were committed, and no DATA is committed while the
//! lane has frames: HEADERS are written before the DATA of their stream.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::Bytes;

use crate::frame::{FrameHeader, HEADER_BYTES};
use crate::limits::{COMMITTED_BYTES_MAX, SLICES_MAX};

/// Capacity in bytes that an empty lane keeps.
const LANE_BYTES_KEPT: usize = 16 << 10;

/// The frames that wait to be written.
#[derive(Debug)]
pub(super) struct Output {
    /// Control frames that are not committed yet.
    lane: Vec<u8>,
    /// Committed control frames: the bytes of the one [`Piece::Lane`].
    leaving: Vec<u8>,
    committed: VecDeque<Piece>,
    /// Bytes of the first piece that were written already.
    written: usize,
    committed_bytes: usize,
}

#[derive(Debug)]
enum Piece {
    Lane,
    Header([u8; HEADER_BYTES]),
    Payload(Bytes),
}

impl Output {
    pub(super) fn new() -> Self {
        Self {
            lane: Vec::new(),
            leaving: Vec::new(),
            committed: VecDeque::new(),
            written: 0,
            committed_bytes: 0,
        }
    }

    /// Adds a control frame.
    pub(super) fn push(&mut self, header: &FrameHeader, payload: &[u8]) {
        let mut header = *header;
        header.len = u32::try_from(payload.len()).expect("control frames are short");
        self.lane.extend_from_slice(&header.to_bytes());
        self.lane.extend_from_slice(payload);
    }

    /// Adds a control frame whose payload `write` appends; adds nothing if `write` fails.
    pub(super) fn push_with<E>(
        &mut self,
        header: &FrameHeader,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let at = self.lane.len();
        self.lane.extend_from_slice(&header.to_bytes());
        let written = write(&mut self.lane);
        if written.is_err() {
            self.lane.truncate(at);
            return written;
        }
        let len = self.lane.len() - at - HEADER_BYTES;
        let len = u32::try_from(len).expect("control frames are short");
        self.lane[at..at + 4].copy_from_slice(&len.to_be_bytes());
        Ok(())
    }

    /// The lane, for a frame that writes its own header.
    pub(super) fn lane(&mut self) -> &mut Vec<u8> {
        &mut self.lane
    }

    /// Bytes of control frames that are not committed yet.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.lane.len()
    }

    /// Commits the lane, unless the previous one is still being written. True if DATA may follow.
    pub(super) fn commit_lane(&mut self) -> bool {
        if self.lane.is_empty() {
            return true;
        }
        if !self.leaving.is_empty() {
            return false;
        }
        std::mem::swap(&mut self.lane, &mut self.leaving);
        self.committed.push_back(Piece::Lane);
        self.committed_bytes += self.leaving.len();
        true
    }

    /// True if there is room for a DATA or END frame, and for the lane after it.
    pub(super) fn has_room(&self) -> bool {
        self.committed_bytes < COMMITTED_BYTES_MAX && self.committed.len() + 3 <= SLICES_MAX
    }

    /// Commits a DATA or END frame.
    pub(super) fn commit(&mut self, header: &FrameHeader, payload: Bytes) {
        self.committed_bytes += HEADER_BYTES + payload.len();
        self.committed.push_back(Piece::Header(header.to_bytes()));
        if !payload.is_empty() {
            self.committed.push_back(Piece::Payload(payload));
        }
    }

    /// True if no frame is committed and none waits in the lane.
    pub(super) fn is_empty(&self) -> bool {
        self.committed.is_empty() && self.lane.is_empty()
    }

    /// Fills `slices` with the next bytes to write, in order; returns the number of slices.
    pub(super) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut skipped = self.written;
        let pieces = slices.iter_mut().zip(&self.committed);
        let count = pieces.len();
        for (slice, piece) in pieces {
            *slice = IoSlice::new(&self.bytes(piece)[skipped..]);
            skipped = 0;
        }
        count
    }

    fn bytes<'a>(&'a self, piece: &'a Piece) -> &'a [u8] {
        match piece {
            Piece::Lane => &self.leaving,
            Piece::Header(bytes) => bytes,
            Piece::Payload(bytes) => bytes,
        }
    }

    /// Notes that `count` bytes were written, and drops the pieces that are written completely.
    ///
    /// # Panics
    /// If `count` exceeds the committed bytes.
    pub(super) fn sent(&mut self, count: usize) {
        assert!(
            count <= self.committed_bytes,
            "{count} bytes of {} written",
            self.committed_bytes
        );
        self.committed_bytes -= count;
        self.written += count;
        while let Some(first) = self.committed.front() {
            let len = self.bytes(first).len();
            if self.written < len {
                return;
            }
            self.written -= len;
            if let Some(Piece::Lane) = self.committed.pop_front() {
                self.leaving.clear();
                self.leaving.shrink_to(LANE_BYTES_KEPT);
            }
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.lane.capacity()
            + self.leaving.capacity()
            + self.committed.capacity() * size_of::<Piece>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FrameType;

    fn written(output: &Output) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = output.slices(&mut slices);
        let slices = slices[..count].iter();
        slices.flat_map(|slice| slice.to_vec()).collect()
    }

    #[test]
    fn frames_leave_in_order_whatever_is_written_at_a_time() {
        let ping = FrameHeader::new(FrameType::PING, 0);
        let data = FrameHeader::new(FrameType::DATA, 1);
        for size in [1, 10, 24, 1000] {
            let mut output = Output::new();
            output.push(&ping, b"");
            assert!(output.commit_lane());
            output.commit(&data, Bytes::from_static(b"payload"));
            output.push(&ping, b"");
            let (mut out, mut lanes) = (Vec::new(), 1);
            while !output.is_empty() {
                if output.commit_lane() && lanes == 1 {
                    lanes += 1;
                    output.commit(&data, Bytes::new());
                }
                let bytes = written(&output);
                let count = size.min(bytes.len());
                out.extend_from_slice(&bytes[..count]);
                output.sent(count);
            }
            let expected = [
                &ping.to_bytes()[..],
                &data.to_bytes(),
                b"payload",
                &ping.to_bytes(),
                &data.to_bytes(),
            ];
            assert_eq!(out, expected.concat(), "{size}");
        }
    }

    #[test]
    fn a_frame_that_can_not_be_written_leaves_nothing() {
        let mut output = Output::new();
        let ping = FrameHeader::new(FrameType::PING, 0);
        let failed = output.push_with(&ping, |out| {
            out.push(1);
            Err("no")
        });
        assert_eq!((failed, output.is_empty()), (Err("no"), true));
        output
            .push_with(&ping, |out| {
                out.extend([1, 2]);
                Ok::<(), ()>(())
            })
            .expect("it fits");
        assert!(output.commit_lane());
        assert_eq!(written(&output)[..4], [0, 0, 0, 2]);
    }
}
