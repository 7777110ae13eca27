//! The byte stream under the `h2` crate's connection.
//!
//! Small frames are gathered, and go out in one write when the connection's task has nothing more
//! to do at the moment: the crate would write each by itself. Content that is larger goes straight
//! to the transport, behind what was gathered.
//!
//! Invariant: what is gathered is bounded and charged; while the peer takes nothing, nothing more
//! is accepted, a peer that floods is not read from, and no header list is read without memory for
//! it (`gate`).

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_mem::alloc::thread_live_bytes;
use steppe_mem::{Buffer, Lease, Reservation};
use steppe_net::Transport;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::backlog::Backlog;
use super::frames::{Flood, FrameCounter, List, Seen};
use super::gate::Gate;
use crate::limits::{
    FRAMES_GATHERED_BYTES_MAX, GATHERED_WRITE_BYTES_MAX, H2_TABLE_BYTES, H2_TABLE_FACTOR,
};
use crate::metrics::Traffic;

/// Slices of one write: what was gathered, a frame's header, its content.
const SLICES_MAX: usize = 4;

/// Bytes of one read.
const READ_BYTES: usize = 16 << 10;

/// A connection's bytes, shared by the `h2` crate and the connection's task.
#[derive(Debug, Clone)]
pub(super) struct Carrier(Rc<RefCell<Line>>);

#[derive(Debug)]
struct Line {
    transport: Transport,
    /// To be written. Never empty.
    gathered: Option<Buffer>,
    lease: Lease,
    /// The connection's charge.
    charge: Reservation,
    /// The part of it for the table of the peer's fields.
    table_bytes: usize,
    traffic: Traffic,
    frames: FrameCounter,
    gate: Gate,
    backlog: Backlog,
    /// Header lists that the last read brought.
    lists: Vec<List>,
    /// Live bytes of the thread after it, where it brought some of a list: what more there are at the next one is of
    /// that list.
    read_at_bytes: Option<i64>,
    /// Taken for lists that have come since others were charged.
    list_bytes: i64,
    /// Content of DATA frames that came in all.
    content: u64,
    /// Bytes that came in all.
    read: u64,
    written: u64,
    /// As the connection's task was told last.
    now: Instant,
    /// The transport takes nothing more at the moment.
    is_blocked: bool,
    /// The last write was refused in part: the crate will repeat it.
    is_refused: bool,
}

/// The progress of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    /// Content of DATA frames that came in all, in bytes.
    pub(super) content: u64,
    /// Bytes that came in all.
    pub(super) read: u64,
    /// Bytes written in all.
    pub(super) written: u64,
    /// Something is to be written, and the peer does not take it.
    pub(super) is_blocked: bool,
    /// The peer takes no further streams.
    pub(super) is_goaway: bool,
    /// The peer's SETTINGS have come.
    pub(super) has_settings: bool,
    /// Nothing is read from the peer until what came is taken.
    pub(super) is_held: bool,
    /// A header list waits for memory.
    pub(super) is_short: bool,
    /// A part of a header list was received, and not its end.
    pub(super) has_part_of_list: bool,
    /// The kind of flood that the peer sends.
    pub(super) flood: Option<Flood>,
}

impl Carrier {
    /// `gate` is that of its header lists.
    pub(super) fn new(
        transport: Transport,
        (lease, traffic, charge): (Lease, Traffic, Reservation),
        gate: Gate,
        now: Instant,
    ) -> Self {
        Self(Rc::new(RefCell::new(Line {
            transport,
            gathered: None,
            backlog: Backlog::new(lease.clone()),
            lease,
            charge,
            table_bytes: 0,
            traffic,
            frames: FrameCounter::new(now),
            gate,
            lists: Vec::new(),
            read_at_bytes: None,
            list_bytes: 0,
            content: 0,
            read: 0,
            written: 0,
            now,
            is_blocked: false,
            is_refused: false,
        })))
    }

    /// Frames that wait to be taken.
    pub(super) fn backlog(&self) -> Backlog {
        self.0.borrow().backlog.clone()
    }

    /// Sets the time of reads from now on.
    pub(super) fn set_now(&self, now: Instant) {
        self.0.borrow_mut().now = now;
    }

    pub(super) fn progress(&self) -> Progress {
        let line = self.0.borrow();
        Progress {
            content: line.content,
            read: line.read,
            written: line.written,
            is_blocked: line.is_blocked,
            is_goaway: line.frames.is_goaway(),
            has_settings: line.frames.has_settings(),
            is_held: line.backlog.is_full() || line.gate.is_short(),
            is_short: line.gate.is_short(),
            has_part_of_list: line.frames.list().is_some(),
            flood: line.frames.flood(),
        }
    }

    /// Charges the header lists that came, right after the crate has decoded them.
    pub(super) fn charge_lists(&self) {
        self.0.borrow_mut().charge_lists();
    }

    /// Sends what was gathered. Ready when the kernel has it.
    pub(super) fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_send(cx)
    }
}

impl Line {
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(gathered) = &mut self.gathered {
            let slices = [IoSlice::new(gathered.filled())];
            let Poll::Ready(written) = self.transport.poll_write(cx, &slices) else {
                self.is_blocked = true;
                return Poll::Pending;
            };
            let count = written?;
            self.count_written(count)?;
        }
        let flushed = self.transport.poll_flush(cx);
        self.is_blocked = flushed.is_pending() || self.is_refused;
        flushed
    }

    /// Takes `count` bytes off what was gathered; says how many were written behind that.
    fn count_written(&mut self, count: usize) -> io::Result<usize> {
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.traffic.written(count);
        self.frames.written(count);
        self.written += count as u64;
        self.is_refused = false;
        let Some(gathered) = &mut self.gathered else {
            return Ok(count);
        };
        let taken = count.min(gathered.len());
        gathered.consume(taken);
        if gathered.is_empty() {
            self.gathered = None;
        }
        Ok(count - taken)
    }

    /// Gathers `slices`, if they fit: true then.
    fn gather(&mut self, slices: &[IoSlice<'_>], bytes: usize) -> bool {
        if bytes > GATHERED_WRITE_BYTES_MAX || self.is_blocked {
            return false;
        }
        if self.gathered.is_none() {
            // Without room, it is written as it comes.
            self.gathered = Buffer::take(&self.lease, FRAMES_GATHERED_BYTES_MAX).ok();
        }
        let Some(gathered) = &mut self.gathered else {
            return false;
        };
        if gathered.spare() < bytes {
            return false;
        }
        for slice in slices {
            gathered.put(slice).expect("there is room");
        }
        true
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        if bytes == 0 || self.gather(slices, bytes) {
            return Poll::Ready(Ok(bytes));
        }
        loop {
            let gathered = self.gathered.as_ref().map_or(&[][..], Buffer::filled);
            let mut all = [IoSlice::new(&[]); SLICES_MAX];
            let mut count = 0;
            for slice in std::iter::once(gathered).chain(slices.iter().map(|slice| &**slice)) {
                if count < SLICES_MAX && !slice.is_empty() {
                    all[count] = IoSlice::new(slice);
                    count += 1;
                }
            }
            let Poll::Ready(written) = self.transport.poll_write(cx, &all[..count]) else {
                self.is_blocked = true;
                self.is_refused = true;
                return Poll::Pending;
            };
            let written = written?;
            let behind = self.count_written(written)?;
            if behind > 0 {
                return Poll::Ready(Ok(behind));
            }
        }
    }

    /// Charges the lists of the last read, which the crate has decoded since.
    fn charge_lists(&mut self) {
        let Some(before) = self.read_at_bytes.take() else {
            return;
        };
        self.list_bytes += thread_live_bytes().saturating_sub(before);
        if self.lists.is_empty() {
            return;
        }
        let bytes = std::mem::take(&mut self.list_bytes);
        let each = usize::try_from(bytes).unwrap_or(0) / self.lists.len();
        let each = each.min(self.gate.list_bytes());
        for list in self.lists.drain(..) {
            let charge = self.gate.split_room(each);
            self.backlog.add_list(list.stream, each, charge);
        }
    }

    /// Charges the table that the crate keeps of the peer's fields (RFC 7541 §2.3.2), for what it may take by now. Where
    /// there is no room, the next read asks again.
    fn charge_table(&mut self) {
        let bytes = self.frames.list_bytes().saturating_mul(H2_TABLE_FACTOR);
        let more = bytes.min(H2_TABLE_BYTES) - self.table_bytes;
        if more > 0 && self.charge.try_grow(more).is_ok() {
            self.table_bytes += more;
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // The connection's task sees to it.
        if self.frames.flood().is_some() {
            return Poll::Pending;
        }
        self.charge_lists();
        ready!(self.backlog.poll_room(cx));
        let list = self.frames.list();
        if self.gate.poll(cx, list).is_pending() {
            // Whoever waits for memory still sees its peer leave: that is the end of what it sends.
            let has_gone = self.transport.poll_closed(cx).is_ready();
            return if has_gone {
                Poll::Ready(Ok(()))
            } else {
                Poll::Pending
            };
        }
        let bytes_max = match self.gate.is_tight() {
            true => self.frames.bytes_to_boundary(),
            false => READ_BYTES,
        };
        let room = buf.initialize_unfilled_to(buf.remaining().min(bytes_max));
        let count = ready!(self.transport.poll_read_into(cx, room))?;
        self.traffic.read(count);
        let (backlog, lists) = (&self.backlog, &mut self.lists);
        let mut see = |seen| match seen {
            Seen::Data(stream, bytes) => backlog.add_frame(stream, bytes),
            Seen::List(ended) => lists.push(ended),
        };
        let content = self.frames.read(&room[..count], self.now, &mut see);
        self.content += content as u64;
        self.read += count as u64;
        self.charge_table();
        let has_lists = list.is_some() || self.frames.list().is_some() || !self.lists.is_empty();
        self.read_at_bytes = has_lists.then(thread_live_bytes);
        buf.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Carrier {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_read(cx, buf)
    }
}

impl AsyncWrite for Carrier {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_write(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_write(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: the connection's task sends gathered bytes once for all frames of a turn.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut line = self.0.borrow_mut();
        ready!(line.poll_send(cx))?;
        line.transport.poll_shutdown(cx)
    }
}
