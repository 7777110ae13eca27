//! The bytes of a connection to a server by TCP or TLS: messages with their length before them.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_mem::Buffer;
use steppe_net::{ReadRoom, Transport};

use super::connecting::Connecting;
use super::silence::Silence;
use crate::limits::{
    MESSAGE_BYTES_MAX, READS_PER_TURN_MAX, STREAM_READ_BYTES, UPSTREAM_IDLE_TIME,
    UPSTREAM_SECURE_IDLE_TIME,
};

/// An established connection.
pub(super) struct Line<'a> {
    connection: &'a Connecting,
    transport: Transport,
    /// Queries that are being written; their first `written` bytes were.
    out: Vec<u8>,
    written: usize,
    /// Part of a message that was read.
    read: Option<Buffer>,
    silence: Silence,
}

impl<'a> Line<'a> {
    pub(super) fn new(connection: &'a Connecting, transport: Transport, now: Instant) -> Self {
        let idle_time = match connection.server.config.is_secure() {
            true => UPSTREAM_SECURE_IDLE_TIME,
            false => UPSTREAM_IDLE_TIME,
        };
        Self {
            connection,
            transport,
            out: Vec::new(),
            written: 0,
            read: None,
            silence: Silence::new(idle_time, now),
        }
    }

    /// Ready when the connection has ended, or idled for long enough.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<io::Result<()>> {
        self.connection.queue.watch(cx.waker());
        if let Poll::Ready(Err(error)) = self.poll_write(cx, now) {
            return Poll::Ready(Err(error));
        }
        if let Poll::Ready(ended) = self.poll_read(cx, now) {
            return Poll::Ready(ended);
        }
        self.silence.poll_over(cx, now).map(Ok)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<io::Result<()>> {
        loop {
            if self.written == self.out.len() {
                self.written = 0;
                self.connection.queue.take(&mut self.out);
                if self.out.is_empty() {
                    return self.transport.poll_flush(cx);
                }
                self.silence.asked(now);
            }
            let slices = [IoSlice::new(&self.out[self.written..])];
            match ready!(self.transport.poll_write(cx, &slices))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<io::Result<()>> {
        for _ in 0..READS_PER_TURN_MAX {
            let room = ReadRoom {
                lease: &self.connection.lease,
                first_bytes: STREAM_READ_BYTES,
                bytes_max: 2 + MESSAGE_BYTES_MAX,
            };
            let count = self.transport.poll_fill(cx, room, &mut self.read);
            if ready!(count)? == 0 {
                return Poll::Ready(Ok(()));
            }
            self.take_messages(now);
        }
        // Other tasks get their turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Hands over the messages that are complete.
    fn take_messages(&mut self, now: Instant) {
        let Some(read) = &mut self.read else { return };
        let taken = self.connection.hear(read.filled());
        if taken == 0 {
            return;
        }
        self.silence.heard(now);
        read.consume(taken);
        // An idle connection holds no buffer.
        if read.is_empty() {
            self.read = None;
        }
    }
}
