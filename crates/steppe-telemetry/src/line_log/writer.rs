//! A worker's buffers of a line log.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use steppe_mem::{Lease, Reservation};

use super::{Command, Filled, LineLog};
use crate::limits::{LINE_BUFFER_BYTES, LINE_BUFFERS_IDLE_MAX, LINE_BUFFERS_MAX, LINE_BYTES_MAX};

/// Writes lines of one worker.
#[derive(Debug)]
pub struct LineWriter {
    log: LineLog,
    lease: Lease,
    /// Reservations, one for each buffer that exists.
    pub(super) charges: Vec<Reservation>,
    /// The buffer being filled.
    filling: Option<Vec<u8>>,
    /// Whole lines in `filling`.
    lines: u64,
    returns: SyncSender<Vec<u8>>,
    returned: Receiver<Vec<u8>>,
}

/// A line being written.
#[derive(Debug)]
pub struct LogLine<'a> {
    bytes: &'a mut Vec<u8>,
    end: usize,
    is_too_long: bool,
}

impl LineLog {
    /// The writer of one worker, its buffers charged to `lease`.
    #[must_use]
    pub fn writer(&self, lease: Lease) -> LineWriter {
        let (returns, returned) = sync_channel(LINE_BUFFERS_MAX);
        LineWriter {
            log: self.clone(),
            lease,
            charges: Vec::with_capacity(LINE_BUFFERS_MAX),
            filling: None,
            lines: 0,
            returns,
            returned,
        }
    }
}

impl LineWriter {
    /// Appends the line that `write` writes, and a line feed. `write` is called again with an
    /// empty buffer if the line did not fit.
    pub fn line(&mut self, write: impl Fn(&mut LogLine<'_>)) {
        // The second attempt is into an empty buffer.
        for _ in 0..2 {
            let Some(bytes) = self.buffer() else { break };
            let start = bytes.len();
            let end = LINE_BUFFER_BYTES.min(start + LINE_BYTES_MAX);
            let mut line = LogLine {
                bytes,
                end,
                is_too_long: false,
            };
            write(&mut line);
            line.put(b"\n");
            if !line.is_too_long {
                self.lines += 1;
                return;
            }
            bytes.truncate(start);
            if start == 0 {
                break;
            }
            self.queue();
        }
        self.log.0.counts.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Queues the lines so far for the writer thread, and frees surplus empty buffers.
    pub fn flush(&mut self) {
        self.queue();
        let mut kept = [const { None }; LINE_BUFFERS_IDLE_MAX];
        let mut count = 0;
        while let Ok(buffer) = self.returned.try_recv() {
            match kept.get_mut(count) {
                Some(place) => *place = Some(buffer),
                None => drop((buffer, self.charges.pop())),
            }
            count += 1;
        }
        for buffer in kept.into_iter().flatten() {
            // The channel has room: the buffer was just taken out.
            let _ = self.returns.try_send(buffer);
        }
    }

    fn buffer(&mut self) -> Option<&mut Vec<u8>> {
        if self.filling.is_none() {
            self.filling = self.returned.try_recv().ok().or_else(|| self.new_buffer());
        }
        self.filling.as_mut()
    }

    fn new_buffer(&mut self) -> Option<Vec<u8>> {
        if self.charges.len() == LINE_BUFFERS_MAX {
            return None;
        }
        self.charges
            .push(self.lease.try_reserve(LINE_BUFFER_BYTES).ok()?);
        Some(Vec::with_capacity(LINE_BUFFER_BYTES))
    }

    fn queue(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        if lines == 0 {
            return;
        }
        let Some(bytes) = self.filling.take() else {
            return;
        };
        let filled = Filled {
            bytes,
            lines,
            returns: self.returns.clone(),
        };
        let command = Command::Write(filled);
        if self.log.0.to_thread.try_send(command).is_err() {
            // The thread has ended: the lines are lost, and the buffer is freed.
            self.charges.pop();
            let dropped = &self.log.0.counts.dropped;
            dropped.fetch_add(lines, Ordering::Relaxed);
        }
    }
}

impl Drop for LineWriter {
    fn drop(&mut self) {
        self.queue();
    }
}

impl LogLine<'_> {
    /// Appends `bytes`, which contain no line feed.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        if bytes.len() > self.end - self.bytes.len() {
            self.is_too_long = true;
            return;
        }
        self.bytes.extend_from_slice(bytes);
    }
}
