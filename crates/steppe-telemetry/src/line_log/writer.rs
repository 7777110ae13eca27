//! A worker's end of a line log.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use steppe_mem::{Lease, Reservation};

use super::{Filled, LineLog, Order};
use crate::limits::{LINE_BUFFER_BYTES, LINE_BUFFERS_IDLE_MAX, LINE_BUFFERS_MAX, LINE_BYTES_MAX};

/// Writes lines of one worker.
#[derive(Debug)]
pub struct LineWriter {
    log: LineLog,
    lease: Lease,
    /// One for each buffer, wherever it is.
    pub(super) charges: Vec<Reservation>,
    /// Being filled.
    filling: Option<Vec<u8>>,
    /// Whole lines in `filling`.
    lines: u64,
    home: SyncSender<Vec<u8>>,
    returned: Receiver<Vec<u8>>,
}

/// A line as it is written.
#[derive(Debug)]
pub struct Line<'a> {
    bytes: &'a mut Vec<u8>,
    end: usize,
    is_too_long: bool,
}

impl LineLog {
    /// A worker's end, its buffers charged to `lease`.
    #[must_use]
    pub fn writer(&self, lease: Lease) -> LineWriter {
        let (home, returned) = sync_channel(LINE_BUFFERS_MAX);
        LineWriter {
            log: self.clone(),
            lease,
            charges: Vec::with_capacity(LINE_BUFFERS_MAX),
            filling: None,
            lines: 0,
            home,
            returned,
        }
    }
}

impl LineWriter {
    /// Adds a line: what `write` writes, and its end. `write` is asked again where the
    /// buffer was nearly full.
    pub fn line(&mut self, write: impl Fn(&mut Line<'_>)) {
        // The second time into an empty buffer.
        for _ in 0..2 {
            let Some(bytes) = self.buffer() else { break };
            let start = bytes.len();
            let end = LINE_BUFFER_BYTES.min(start + LINE_BYTES_MAX);
            let mut line = Line {
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
            self.hand_over();
        }
        self.log.0.counts.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Hands over what there is, and lets go of buffers that nobody needs.
    pub fn flush(&mut self) {
        self.hand_over();
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
            // There is room: it was just taken out.
            let _ = self.home.try_send(buffer);
        }
    }

    fn buffer(&mut self) -> Option<&mut Vec<u8>> {
        if self.filling.is_none() {
            self.filling = self.returned.try_recv().ok().or_else(|| self.another());
        }
        self.filling.as_mut()
    }

    fn another(&mut self) -> Option<Vec<u8>> {
        if self.charges.len() == LINE_BUFFERS_MAX {
            return None;
        }
        self.charges
            .push(self.lease.try_reserve(LINE_BUFFER_BYTES).ok()?);
        Some(Vec::with_capacity(LINE_BUFFER_BYTES))
    }

    fn hand_over(&mut self) {
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
            home: self.home.clone(),
        };
        if self.log.0.to_thread.try_send(Order::Write(filled)).is_err() {
            // The thread has ended: what it was to write is gone, and the buffer with it.
            self.charges.pop();
            let dropped = &self.log.0.counts.dropped;
            dropped.fetch_add(lines, Ordering::Relaxed);
        }
    }
}

impl Drop for LineWriter {
    fn drop(&mut self) {
        self.hand_over();
    }
}

impl Line<'_> {
    /// Adds `bytes`, which have no line end.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        if bytes.len() > self.end - self.bytes.len() {
            self.is_too_long = true;
            return;
        }
        self.bytes.extend_from_slice(bytes);
    }
}
