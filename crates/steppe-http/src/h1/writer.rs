//! The output of an HTTP/1.1 message: head and content in as few
//! system calls as can be.
//!
//! Small parts are copied behind the head and go out with it in one `send`;
//! large ones are written from where they lie.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use steppe_mem::{Buffer, Chunk, OverBudget};

use super::encode;
use super::framing::BodyLength;
use super::wire::Wire;
use crate::error::GatewayError;
use crate::exchange::Part;
use crate::field::FieldBlock;
use crate::limits::COPIED_PART_BYTES_MAX;

/// Hexadecimal digits of 64 bits, and CRLF.
const SIZE_LINE_BYTES: usize = 18;

#[derive(Debug)]
pub(crate) struct Writer {
    /// Head, and parts that were copied behind it.
    out: Option<Buffer>,
    /// Bytes of `out` that were written.
    out_written: usize,
    /// Size line of `chunk`.
    size_line: [u8; SIZE_LINE_BYTES],
    size_line_at: u8,
    size_line_end: u8,
    chunk: Option<Chunk>,
    /// Bytes behind `chunk`.
    tail: &'static [u8],
    length: BodyLength,
    shuts_down: bool,
    /// Bytes of the present message that are out.
    written: u64,
}

/// Why a part can't be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteError {
    OverBudget,
    /// The content is not as long as the head said.
    Length,
}

impl From<OverBudget> for WriteError {
    fn from(_: OverBudget) -> Self {
        Self::OverBudget
    }
}

impl From<WriteError> for GatewayError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::OverBudget => Self::over_budget(),
            WriteError::Length => Self::wrong_length(),
        }
    }
}

impl Default for Writer {
    fn default() -> Self {
        Self {
            out: None,
            out_written: 0,
            size_line: [0; SIZE_LINE_BYTES],
            size_line_at: 0,
            size_line_end: 0,
            chunk: None,
            tail: b"",
            length: BodyLength::Empty,
            shuts_down: false,
            written: 0,
        }
    }
}

impl Writer {
    /// Starts a message with its head in `out`.
    pub(crate) fn start(&mut self, out: Buffer, length: BodyLength) {
        debug_assert!(self.can_put(), "messages are written one after the other");
        self.written = 0;
        self.put_out(out);
        self.length = length;
    }

    /// A whole message that needs no memory.
    pub(crate) fn start_static(&mut self, message: &'static [u8]) {
        self.length = BodyLength::Empty;
        self.tail = message;
    }

    /// Adds bytes in front of a message to come: an interim response.
    pub(crate) fn put_out(&mut self, out: Buffer) {
        let Some(earlier) = &mut self.out else {
            self.out = Some(out);
            self.out_written = 0;
            return;
        };
        // An interim response that was not written yet goes first.
        if earlier.put(out.filled()).is_err() {
            debug_assert!(self.chunk.is_none(), "no content before a head");
            self.chunk = Some(out.into());
        }
    }

    /// From now on bytes go out as they are.
    pub(crate) fn start_tunnel(&mut self) {
        self.length = BodyLength::UntilEnd;
    }

    /// Takes the present message back; false where some of it is out already.
    pub(crate) fn retract(&mut self) -> bool {
        // Of an interim response in front of it, some may be.
        let is_unseen = self.written == 0 && self.out_written == 0;
        if is_unseen {
            *self = Self::default();
        }
        is_unseen
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    pub(crate) fn can_put(&self) -> bool {
        self.chunk.is_none() && self.tail.is_empty()
    }

    pub(crate) fn put(&mut self, part: Part) -> Result<(), WriteError> {
        self.count(&part)?;
        match part {
            Part::Chunk(chunk) => self.put_chunk(chunk),
            Part::End(trailers) => return self.put_end(trailers.as_ref()),
        }
        Ok(())
    }

    /// Holds content to the length that was announced: another one would be taken for the next
    /// message, or waited for.
    fn count(&mut self, part: &Part) -> Result<(), WriteError> {
        let left = match &mut self.length {
            BodyLength::Known(left) => left,
            BodyLength::Empty => &mut 0,
            BodyLength::Chunked | BodyLength::UntilEnd => return Ok(()),
        };
        match part {
            Part::Chunk(chunk) => {
                *left = left
                    .checked_sub(chunk.len() as u64)
                    .ok_or(WriteError::Length)?
            }
            Part::End(_) if *left > 0 => return Err(WriteError::Length),
            Part::End(_) => {}
        }
        Ok(())
    }

    fn put_chunk(&mut self, chunk: Chunk) {
        if self.length == BodyLength::Chunked {
            self.put_size_line(chunk.len());
        }
        if self.copy_behind_head(&chunk) {
            return;
        }
        self.tail = self.end_of_chunk();
        self.chunk = Some(chunk);
    }

    /// Small parts cost less to copy than to name in a vectored write, and
    /// their buffer is free at once.
    fn copy_behind_head(&mut self, chunk: &Chunk) -> bool {
        let end = self.end_of_chunk();
        let size_line_bytes = usize::from(self.size_line_end - self.size_line_at);
        let needed = chunk.len() + size_line_bytes + 2;
        let Some(out) = &mut self.out else {
            return false;
        };
        let is_small = chunk.len() <= COPIED_PART_BYTES_MAX;
        let is_copied = is_small && out.spare() >= needed;
        if is_copied {
            let size_line = &self.size_line[..size_line_bytes];
            for bytes in [size_line, chunk.filled(), end] {
                out.put(bytes).expect("the room was checked");
            }
            (self.size_line_at, self.size_line_end) = (0, 0);
        }
        is_copied
    }

    /// The bytes behind the content of a chunk.
    fn end_of_chunk(&self) -> &'static [u8] {
        match self.length {
            BodyLength::Chunked => b"\r\n",
            _ => b"",
        }
    }

    fn put_size_line(&mut self, bytes: usize) {
        use io::Write;
        let mut room = &mut self.size_line[..];
        write!(room, "{bytes:x}\r\n").expect("18 bytes hold any size");
        let left = room.len();
        self.size_line_at = 0;
        self.size_line_end = u8::try_from(SIZE_LINE_BYTES - left).expect("18 at most");
    }

    fn put_end(&mut self, trailers: Option<&FieldBlock>) -> Result<(), WriteError> {
        match (self.length, trailers) {
            (BodyLength::Chunked, Some(trailers)) => {
                self.put_out(encode::trailers(trailers)?);
            }
            (BodyLength::Chunked, None) => self.put_last_chunk(),
            (BodyLength::UntilEnd, _) => self.shuts_down = true,
            (BodyLength::Empty | BodyLength::Known(_), _) => {}
        }
        Ok(())
    }

    fn put_last_chunk(&mut self) {
        const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
        let is_copied = self
            .out
            .as_mut()
            .is_some_and(|out| out.put(LAST_CHUNK).is_ok());
        if !is_copied {
            self.tail = LAST_CHUNK;
        }
    }

    pub(crate) fn is_flushed(&self) -> bool {
        let is_out_written = self
            .out
            .as_ref()
            .is_none_or(|out| self.out_written == out.len());
        is_out_written && self.can_put()
    }

    pub(crate) fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        wire: &mut Wire,
    ) -> Poll<io::Result<()>> {
        while !self.is_flushed() {
            let out = self
                .out
                .as_ref()
                .map_or(&[][..], |out| &out.filled()[self.out_written..]);
            let size_line = &self.size_line[self.size_line_at.into()..self.size_line_end.into()];
            let is_chunk_alone = out.is_empty() && size_line.is_empty() && self.tail.is_empty();
            if is_chunk_alone && let Some(chunk) = &mut self.chunk {
                let written = ready!(wire.poll_write_chunk(cx, chunk))?;
                self.written += written as u64;
                if chunk.is_empty() {
                    self.chunk = None;
                }
                continue;
            }
            let chunk = self.chunk.as_ref().map_or(&[][..], |chunk| chunk.filled());
            let is_out_alone = size_line.is_empty() && chunk.is_empty() && self.tail.is_empty();
            let written = if is_out_alone {
                ready!(wire.poll_write(cx, &[IoSlice::new(out)]))?
            } else {
                let slices = [out, size_line, chunk, self.tail].map(IoSlice::new);
                ready!(wire.poll_write(cx, &slices))?
            };
            self.written += written as u64;
            self.advance(written);
        }
        self.release_out();
        ready!(wire.transport.poll_flush(cx))?;
        if self.shuts_down {
            // A peer that has closed already can't be told more.
            let _ = ready!(wire.transport.poll_shutdown(cx));
            self.shuts_down = false;
        }
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, mut written: usize) {
        let mut take = |left: usize| {
            let here = written.min(left);
            written -= here;
            here
        };
        let out_left = self
            .out
            .as_ref()
            .map_or(0, |out| out.len() - self.out_written);
        self.out_written += take(out_left);
        let size_line_left = usize::from(self.size_line_end - self.size_line_at);
        self.size_line_at += u8::try_from(take(size_line_left)).expect("18 at most");
        if let Some(chunk) = &mut self.chunk {
            chunk.consume(take(chunk.len()));
            if chunk.is_empty() {
                self.chunk = None;
            }
        }
        self.tail = &self.tail[take(self.tail.len())..];
        if self.size_line_at == self.size_line_end {
            (self.size_line_at, self.size_line_end) = (0, 0);
        }
    }

    fn release_out(&mut self) {
        let is_written = self
            .out
            .as_ref()
            .is_some_and(|out| self.out_written == out.len());
        if is_written {
            self.out = None;
            self.out_written = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;

    fn put(length: BodyLength, parts: &[&[u8]]) -> Result<(), WriteError> {
        let budget = Budget::new(1 << 20);
        let lease = budget.root().lease();
        let mut writer = Writer::default();
        writer.start(Buffer::take(&lease, 4096).expect("room"), length);
        for bytes in parts {
            let mut chunk = Buffer::take(&lease, bytes.len()).expect("room");
            chunk.put(bytes).expect("room");
            writer.put(Part::Chunk(chunk.into()))?;
        }
        writer.put(Part::End(None))
    }

    #[test]
    fn content_is_held_to_the_length_that_was_announced() {
        assert_eq!(put(BodyLength::Known(3), &[b"a", b"bc"]), Ok(()));
        assert_eq!(
            put(BodyLength::Known(3), &[b"abcd"]),
            Err(WriteError::Length)
        );
        assert_eq!(put(BodyLength::Known(3), &[b"ab"]), Err(WriteError::Length));
        assert_eq!(put(BodyLength::Empty, &[b"a"]), Err(WriteError::Length));
        assert_eq!(put(BodyLength::Empty, &[]), Ok(()));
        assert_eq!(put(BodyLength::Chunked, &[b"abc"]), Ok(()));
    }
}
