//! A stream, and what was read from it and not used yet.
//!
//! Invariant: memory is taken when there is something to read, not before, so
//! that a connection that waits holds none.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use steppe_mem::{Buffer, Lease, Waiter};
use steppe_net::Stream;

use crate::metrics::WorkerMetrics;

/// Which of a gateway's sides a stream is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Downstream,
    Upstream,
}

#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) stream: Stream,
    /// Read, and not used yet. Never empty.
    pub(crate) pending: Option<Buffer>,
    /// The last fill waits for budget.
    pub(crate) is_starved: bool,
    waiter: Waiter,
    side: Side,
    metrics: Rc<WorkerMetrics>,
}

impl Wire {
    pub(crate) fn new(stream: Stream, side: Side, metrics: Rc<WorkerMetrics>) -> Self {
        Self {
            stream,
            pending: None,
            is_starved: false,
            waiter: Waiter::default(),
            side,
            metrics,
        }
    }

    /// Reads once into a fresh buffer of `bytes`, which becomes what is pending.
    /// Zero is the end of the stream. Only where nothing is pending.
    pub(crate) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        lease: &Lease,
        bytes: usize,
    ) -> Poll<io::Result<usize>> {
        debug_assert!(self.pending.is_none(), "it would be lost");
        ready!(self.stream.poll_read_ready(cx))?;
        let Poll::Ready(mut buffer) = Buffer::poll_take(cx, lease, bytes, &mut self.waiter) else {
            self.is_starved = true;
            return Poll::Pending;
        };
        self.is_starved = false;
        let count = ready!(self.stream.poll_read(cx, buffer.spare_mut()))?;
        buffer.advance(count);
        self.count_read(count);
        if count > 0 {
            self.pending = Some(buffer);
        }
        Poll::Ready(Ok(count))
    }

    /// Reads once after what is pending, into more room where there is none:
    /// up to `bytes_max` in all, which must be more than is pending.
    pub(crate) fn poll_fill_more(
        &mut self,
        cx: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        ready!(self.stream.poll_read_ready(cx))?;
        let pending = self.pending.as_mut().expect("the caller has seen it");
        if pending.spare() == 0 {
            pending.compact();
        }
        if pending.spare() == 0 {
            let bytes = (pending.capacity() * 2).min(bytes_max.max(pending.capacity() + 1));
            let taken = Buffer::poll_take(cx, pending.lease(), bytes, &mut self.waiter);
            let Poll::Ready(mut larger) = taken else {
                self.is_starved = true;
                return Poll::Pending;
            };
            larger.put(pending.filled()).expect("it is larger");
            *pending = larger;
        }
        self.is_starved = false;
        let count = ready!(self.stream.poll_read(cx, pending.spare_mut()))?;
        pending.advance(count);
        self.count_read(count);
        Poll::Ready(Ok(count))
    }

    pub(crate) fn count_written(&self, count: usize) {
        match self.side {
            Side::Downstream => self.metrics.downstream_bytes(0, count),
            Side::Upstream => self.metrics.upstream_bytes(0, count),
        }
    }

    fn count_read(&self, count: usize) {
        match self.side {
            Side::Downstream => self.metrics.downstream_bytes(count, 0),
            Side::Upstream => self.metrics.upstream_bytes(count, 0),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use tokio::net::UnixStream;

    use super::*;
    use crate::metrics::{HttpMetrics, Labels};

    /// A stream and its other end, and metrics that nobody reads.
    pub(crate) fn pair() -> (Stream, UnixStream, Rc<WorkerMetrics>) {
        let labels = Labels {
            listeners: Vec::new(),
            routes: Vec::new(),
            upstreams: Vec::new(),
        };
        let (near, far) = UnixStream::pair().expect("descriptors");
        let metrics = Rc::new(HttpMetrics::new(labels, 1).worker(0));
        (Stream::Unix(near), far, metrics)
    }

    /// Runs `test` within a runtime, as sockets need one.
    pub(crate) fn run(test: impl Future<Output = ()>) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_io().build().expect("epoll").block_on(test);
    }
}
