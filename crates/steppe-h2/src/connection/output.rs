//! Bytes that wait to be written.
//!
//! Frame headers, field blocks, control frames and small content are gathered in a buffer, and in the next one when it is
//! full; larger content stays where it lies. All of it leaves in the order that it came in.
//!
//! Invariant: the last part of the buffer is for control frames, so that one fits whatever waits. Without room in the
//! budget there is a buffer of [`CONTROL_BYTES_MAX`] from a reservation of its own: control frames, small heads and the
//! headers of DATA frames leave then as well, since what they send gives memory back.

use std::collections::VecDeque;
use std::io::IoSlice;

use steppe_mem::{Buffer, Chunk, Lease, Reservation};

use crate::error::SendError;
use crate::limits::{
    CONTROL_BYTES_MAX, CONTROL_BYTES_SCARCE, COPIED_BYTES_MAX, FRAME_HEADER_BYTES, GATHERED_BYTES,
    OUTPUT_BYTES_MAX, OUTPUT_CHUNKS_MAX,
};

#[derive(Debug)]
pub(super) struct Output {
    lease: Lease,
    /// For a buffer where the budget has no room.
    reserve: Reservation,
    gathered: Option<Buffer>,
    /// The buffer is of the reservation.
    is_of_reserve: bool,
    pieces: VecDeque<Piece>,
    /// Octets of all pieces.
    bytes: usize,
    chunks: usize,
}

#[derive(Debug)]
enum Piece {
    /// The next octets of the gathered ones, so many.
    Gathered(usize),
    Chunk(Chunk),
}

/// Too many control frames wait: the peer provokes them and reads nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ControlFull;

impl Output {
    /// `reserve` has [`CONTROL_BYTES_MAX`].
    pub(super) fn new(lease: Lease, reserve: Reservation) -> Self {
        Self {
            lease,
            reserve,
            gathered: None,
            is_of_reserve: false,
            pieces: VecDeque::new(),
            bytes: 0,
            chunks: 0,
        }
    }

    /// Octets that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the queue of pieces, at most.
    pub(super) const fn queue_bytes() -> usize {
        // Gathered octets lie between each two chunks; the queue doubles.
        2 * (2 * OUTPUT_CHUNKS_MAX + 2) * size_of::<Piece>()
    }

    /// Adds the octets of a control frame.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn put_control(&mut self, octets: &[u8]) -> Result<(), ControlFull> {
        if self.gathered.is_none() {
            self.take_buffer(octets.len()).map_err(|_| ControlFull)?;
        }
        let gathered = self.gathered.as_mut().ok_or(ControlFull)?;
        if gathered.spare() < octets.len() {
            gathered.compact();
        }
        gathered.put(octets).map_err(|_| ControlFull)?;
        self.note_gathered(octets.len());
        Ok(())
    }

    /// Takes a buffer for `bytes` beside control frames, in the place of one that is empty.
    fn take_buffer(&mut self, bytes: usize) -> Result<(), SendError> {
        let needed = buffer_bytes(bytes);
        if let Ok(buffer) = Buffer::take(&self.lease, needed) {
            self.set_buffer(buffer);
            return Ok(());
        }
        if bytes + CONTROL_BYTES_SCARCE > CONTROL_BYTES_MAX {
            return Err(SendError::OverBudget(needed));
        }
        if !self.is_of_reserve || self.gathered.is_none() {
            let buffer = Buffer::take_of(&mut self.reserve, CONTROL_BYTES_MAX);
            self.gathered = Some(buffer.map_err(|_| SendError::OverBudget(needed))?);
            self.is_of_reserve = true;
        }
        Ok(())
    }

    /// Replaces the buffer, if nothing waits in it.
    pub(super) fn set_buffer(&mut self, buffer: Buffer) {
        if self.gathered.as_ref().is_none_or(Buffer::is_empty) {
            self.let_go();
            self.gathered = Some(buffer);
        }
    }

    /// Gives the buffer back.
    fn let_go(&mut self) {
        let gathered = self.gathered.take();
        let is_of_reserve = std::mem::take(&mut self.is_of_reserve);
        if let Some(gathered) = gathered.filter(|_| is_of_reserve) {
            self.reserve.join(gathered.into_charge());
        }
    }

    /// True while half of the room that is kept for control frames is free: nothing is received without.
    pub(super) fn has_control_room(&self) -> bool {
        (self.gathered.as_ref())
            .is_none_or(|gathered| gathered.capacity() - gathered.len() >= CONTROL_BYTES_MAX / 2)
    }

    /// Room for `bytes` of a frame of a stream, beside that for control frames.
    ///
    /// # Errors
    /// [`SendError::Full`] until more is written, [`SendError::OverBudget`] until there is memory.
    pub(super) fn room(&mut self, bytes: usize) -> Result<&mut [u8], SendError> {
        self.make_room(bytes)?;
        let gathered = self.gathered.as_mut().ok_or(SendError::Full)?;
        Ok(&mut gathered.spare_mut()[..bytes])
    }

    fn make_room(&mut self, bytes: usize) -> Result<(), SendError> {
        if self.bytes >= OUTPUT_BYTES_MAX || self.chunks >= OUTPUT_CHUNKS_MAX {
            return Err(SendError::Full);
        }
        let has_room =
            |gathered: &Buffer, kept: usize| gathered.capacity() - gathered.len() >= bytes + kept;
        let kept = match self.is_of_reserve {
            true => CONTROL_BYTES_SCARCE,
            false => CONTROL_BYTES_MAX,
        };
        match &self.gathered {
            Some(gathered) if has_room(gathered, kept) => {}
            Some(gathered) if !gathered.is_empty() => self.begin_next_buffer(bytes)?,
            _ => self.take_buffer(bytes)?,
        }
        if let Some(gathered) = &mut self.gathered
            && gathered.spare() < bytes
        {
            gathered.compact();
        }
        Ok(())
    }

    /// Begins another buffer behind one that is full, whose octets wait as chunks from now on.
    ///
    /// # Errors
    /// [`SendError::Full`]: there is no memory for it, and what waits gives memory back when it is written.
    fn begin_next_buffer(&mut self, bytes: usize) -> Result<(), SendError> {
        let needed = buffer_bytes(bytes);
        if self.is_of_reserve || !self.lease.has_share_for(needed) {
            return Err(SendError::Full);
        }
        let next = Buffer::take(&self.lease, needed).map_err(|_| SendError::Full)?;
        let mut full = self.gathered.replace(next).map(Chunk::from);
        for piece in &mut self.pieces {
            if let Piece::Gathered(bytes) = *piece
                && let Some(mut rest) = full.take()
            {
                let first = if rest.len() == bytes {
                    rest
                } else {
                    let first = rest.split_to(bytes);
                    full = Some(rest);
                    first
                };
                *piece = Piece::Chunk(first);
                self.chunks += 1;
            }
        }
        Ok(())
    }

    /// The first `bytes` of the room were filled.
    pub(super) fn advance(&mut self, bytes: usize) {
        if let Some(gathered) = &mut self.gathered {
            gathered.advance(bytes);
            self.note_gathered(bytes);
        }
    }

    fn note_gathered(&mut self, bytes: usize) {
        self.bytes += bytes;
        match self.pieces.back_mut() {
            Some(Piece::Gathered(last)) => *last += bytes,
            _ => self.pieces.push_back(Piece::Gathered(bytes)),
        }
    }

    /// Octets of content that find room now, of `wanted`.
    pub(super) fn content_room(&self, wanted: usize) -> usize {
        if self.chunks >= OUTPUT_CHUNKS_MAX {
            return 0;
        }
        wanted.min(OUTPUT_BYTES_MAX.saturating_sub(self.bytes))
    }

    /// Adds a DATA frame: its header, and the first `bytes` of `chunk`, which are taken off it.
    ///
    /// # Errors
    /// As [`Output::room`]; nothing was added then.
    pub(super) fn put_data(
        &mut self,
        header: [u8; FRAME_HEADER_BYTES],
        chunk: &mut Option<Chunk>,
        bytes: usize,
    ) -> Result<(), SendError> {
        let mut copied = if bytes <= COPIED_BYTES_MAX { bytes } else { 0 };
        if let Err(error) = self.make_room(FRAME_HEADER_BYTES + copied) {
            // It is sent from where it lies.
            if copied == 0 || error == SendError::Full {
                return Err(error);
            }
            copied = 0;
        }
        let room = self.room(FRAME_HEADER_BYTES + copied)?;
        room[..FRAME_HEADER_BYTES].copy_from_slice(&header);
        if let Some(whole) = chunk {
            room[FRAME_HEADER_BYTES..].copy_from_slice(&whole.filled()[..copied]);
        }
        self.advance(FRAME_HEADER_BYTES + copied);
        let Some(mut whole) = chunk.take() else {
            return Ok(());
        };
        if copied < bytes {
            let piece = if whole.len() == bytes {
                whole
            } else {
                let piece = whole.split_to(bytes);
                *chunk = Some(whole);
                piece
            };
            self.bytes += piece.len();
            self.chunks += 1;
            self.pieces.push_back(Piece::Chunk(piece));
        } else {
            whole.consume(bytes);
            *chunk = Some(whole).filter(|rest| !rest.is_empty());
        }
        Ok(())
    }

    /// Fills `slices` with what comes first; the number of slices that were filled.
    pub(super) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut gathered = self.gathered.as_ref().map_or(&[][..], Buffer::filled);
        let mut count = 0;
        for (piece, slice) in self.pieces.iter().zip(slices) {
            let bytes = match piece {
                Piece::Gathered(bytes) => {
                    let (first, rest) = gathered.split_at(*bytes);
                    gathered = rest;
                    first
                }
                Piece::Chunk(chunk) => chunk.filled(),
            };
            *slice = IoSlice::new(bytes);
            count += 1;
        }
        count
    }

    /// Takes off the first octets, which were written.
    pub(super) fn written(&mut self, mut count: usize) {
        self.bytes -= count;
        while count > 0
            && let Some(piece) = self.pieces.front_mut()
        {
            let taken = match piece {
                Piece::Gathered(bytes) => {
                    let taken = count.min(*bytes);
                    *bytes -= taken;
                    if let Some(gathered) = &mut self.gathered {
                        gathered.consume(taken);
                    }
                    (taken, *bytes == 0)
                }
                Piece::Chunk(chunk) => {
                    let taken = count.min(chunk.len());
                    chunk.consume(taken);
                    self.chunks -= usize::from(chunk.is_empty());
                    (taken, chunk.is_empty())
                }
            };
            count -= taken.0;
            if taken.1 {
                self.pieces.pop_front();
            }
        }
        if self.bytes == 0 {
            self.let_go();
        }
    }
}

/// The size of a buffer that has room for `bytes` beside control frames.
fn buffer_bytes(bytes: usize) -> usize {
    (bytes + CONTROL_BYTES_MAX).max(GATHERED_BYTES)
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;

    /// The octets that wait, written in pieces of `step` octets.
    fn written(output: &mut Output, step: usize) -> Vec<u8> {
        let mut octets = Vec::new();
        while output.bytes() > 0 {
            let mut slices = [IoSlice::new(&[]); 16];
            let count = output.slices(&mut slices);
            let waiting: Vec<u8> = slices[..count]
                .iter()
                .flat_map(|slice| slice.to_vec())
                .collect();
            let taken = step.min(waiting.len());
            octets.extend_from_slice(&waiting[..taken]);
            output.written(taken);
        }
        octets
    }

    #[test]
    fn responses_of_a_hundred_streams_wait_in_several_buffers() {
        const FRAME: usize = 1_200;
        for step in [1, 999, usize::MAX] {
            let budget = Budget::new(1 << 20);
            let lease = budget.root().lease();
            let reserve = lease.try_reserve(CONTROL_BYTES_MAX).expect("room");
            let mut output = Output::new(lease, reserve);
            let mut expected = Vec::new();
            for index in 0..100_u8 {
                output.room(FRAME).expect("room").fill(index);
                output.advance(FRAME);
                expected.extend([index; FRAME]);
                if index % 16 == 0 {
                    output.put_control(&[0xff; 9]).expect("room");
                    expected.extend([0xff; 9]);
                }
            }
            assert_eq!(output.bytes(), expected.len());
            assert!(written(&mut output, step) == expected, "{step}");
            assert_eq!(output.chunks, 0);
            let reserved = budget.root().reserved_bytes();
            assert_eq!(reserved, CONTROL_BYTES_MAX as u64, "{step}");
        }
    }

    #[test]
    fn a_buffer_without_a_next_one_is_full() {
        let budget = Budget::new((GATHERED_BYTES + CONTROL_BYTES_MAX) as u64);
        let lease = budget.root().lease();
        let reserve = lease.try_reserve(CONTROL_BYTES_MAX).expect("room");
        let mut output = Output::new(lease, reserve);
        let frames = std::iter::from_fn(|| {
            output.room(1 << 10).ok()?;
            output.advance(1 << 10);
            Some(())
        });
        assert_eq!(frames.count(), (GATHERED_BYTES - CONTROL_BYTES_MAX) >> 10);
        assert_eq!(output.room(1).err(), Some(SendError::Full));
    }
}
