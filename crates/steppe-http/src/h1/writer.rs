//! What is to be written of an HTTP/1.1 message: head and content in as few
//! system calls as can be.
//!
//! Small parts are copied behind the head and go out with it in one `send`;
//! large ones are written from where they lie. Of a message that may have to be sent again
//! everything is copied behind the head, as long as there is memory for that.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use steppe_mem::{Buffer, OverBudget};

use super::encode;
use super::wire::Wire;
use crate::exchange::{Part, fair_share};
use crate::field::FieldBlock;
use crate::head::BodyLength;
use crate::limits::{COPIED_PART_BYTES_MAX, REPLAY_BYTES_MAX};

/// Hexadecimal digits of 64 bits, and CRLF.
const SIZE_LINE_BYTES: usize = 18;

#[derive(Debug)]
pub(crate) struct Writer {
    /// Head, and parts that were copied behind it.
    out: Option<Buffer>,
    /// How much of `out` was written.
    out_written: usize,
    /// All that is put goes to `out` and stays there, for a replay.
    keeps: bool,
    /// Size line of `chunk`.
    size_line: [u8; SIZE_LINE_BYTES],
    size_line_at: u8,
    size_line_end: u8,
    chunk: Option<Buffer>,
    /// What follows `chunk`.
    tail: &'static [u8],
    length: BodyLength,
    shuts_down: bool,
    /// Bytes of the present message that are out.
    written: u64,
}

impl Default for Writer {
    fn default() -> Self {
        Self {
            out: None,
            out_written: 0,
            keeps: false,
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
    /// Starts a message with its head in `out`. `keeps`: until [`Writer::forget`], or until
    /// that takes more memory than there is for it.
    pub(crate) fn start(&mut self, out: Buffer, length: BodyLength, keeps: bool) {
        debug_assert!(self.can_put(), "messages are written one after the other");
        self.written = 0;
        self.put_out(out);
        self.length = length;
        self.keeps = keeps;
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
            self.chunk = Some(out);
        }
    }

    /// From now on bytes go out as they are.
    pub(crate) fn start_tunnel(&mut self) {
        self.length = BodyLength::UntilEnd;
    }

    /// Whether all that was put of the message is still there.
    pub(crate) fn is_kept(&self) -> bool {
        self.keeps
    }

    /// What was kept of the message, to be sent again on another connection.
    pub(crate) fn take_kept(&mut self) -> Option<Buffer> {
        self.out.take_if(|_| self.keeps)
    }

    /// Lets go of what was kept for a replay.
    pub(crate) fn forget(&mut self) {
        self.keeps = false;
        self.release_out();
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

    pub(crate) fn put(&mut self, part: Part) -> Result<(), OverBudget> {
        match part {
            Part::Chunk(chunk) => self.put_chunk(chunk),
            Part::End(trailers) => return self.put_end(trailers.as_ref()),
        }
        Ok(())
    }

    fn put_chunk(&mut self, chunk: Buffer) {
        let is_chunked = self.length == BodyLength::Chunked;
        if is_chunked {
            self.put_size_line(chunk.len());
        }
        if self.copy_behind_head(&chunk, is_chunked) {
            return;
        }
        self.tail = if is_chunked { b"\r\n" } else { b"" };
        self.chunk = Some(chunk);
    }

    /// Small parts cost less to copy than to name in a vectored write, and
    /// their buffer is free at once.
    fn copy_behind_head(&mut self, chunk: &Buffer, is_chunked: bool) -> bool {
        let size_line_bytes = usize::from(self.size_line_end - self.size_line_at);
        let needed = chunk.len() + size_line_bytes + 2;
        if self.keeps {
            self.make_room(needed);
        }
        let Some(out) = &mut self.out else {
            return false;
        };
        let is_small = self.keeps || chunk.len() <= COPIED_PART_BYTES_MAX;
        let is_copied = is_small && out.spare() >= needed;
        if is_copied {
            let size_line = &self.size_line[..size_line_bytes];
            let end: &[u8] = if is_chunked { b"\r\n" } else { b"" };
            for bytes in [size_line, chunk.filled(), end] {
                out.put(bytes).expect("the room was checked");
            }
            (self.size_line_at, self.size_line_end) = (0, 0);
        }
        is_copied
    }

    /// Makes room for more that is kept; where there is none, the message is not kept.
    fn make_room(&mut self, bytes: usize) {
        let Some(out) = self.out.as_ref().filter(|out| out.spare() < bytes) else {
            return;
        };
        let needed = out.len() + bytes;
        let larger = if needed <= REPLAY_BYTES_MAX && needed <= fair_share(out.lease()) {
            let doubled = out.capacity() * 2;
            Buffer::take(out.lease(), doubled.clamp(needed, REPLAY_BYTES_MAX)).ok()
        } else {
            None
        };
        match larger {
            Some(mut larger) => {
                larger.put(out.filled()).expect("it is larger");
                self.out = Some(larger);
            }
            None => self.keeps = false,
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

    fn put_end(&mut self, trailers: Option<&FieldBlock>) -> Result<(), OverBudget> {
        match (self.length, trailers) {
            (BodyLength::Chunked, Some(trailers)) => {
                let out = encode::trailers(trailers)?;
                if self.keeps {
                    self.make_room(out.len());
                }
                self.put_out(out);
            }
            (BodyLength::Chunked, None) => self.put_last_chunk(),
            (BodyLength::UntilEnd, _) => self.shuts_down = true,
            (BodyLength::Empty | BodyLength::Known(_), _) => {}
        }
        Ok(())
    }

    fn put_last_chunk(&mut self) {
        const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
        if self.keeps {
            self.make_room(LAST_CHUNK.len());
        }
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
            let chunk = self.chunk.as_ref().map_or(&[][..], |chunk| chunk.filled());
            let written = if size_line.is_empty() && chunk.is_empty() && self.tail.is_empty() {
                ready!(wire.stream.poll_write(cx, out))?
            } else if out.is_empty() && size_line.is_empty() && self.tail.is_empty() {
                ready!(wire.stream.poll_write(cx, chunk))?
            } else {
                let slices = [out, size_line, chunk, self.tail].map(IoSlice::new);
                ready!(wire.stream.poll_write_vectored(cx, &slices))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            wire.count_written(written);
            self.written += written as u64;
            self.advance(written);
        }
        self.release_out();
        if self.shuts_down {
            // A peer that has closed already can't be told more.
            let _ = ready!(wire.stream.poll_shutdown(cx));
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
        if is_written && !self.keeps {
            self.out = None;
            self.out_written = 0;
        }
    }
}
