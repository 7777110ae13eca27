//! A connection's bytes, and what was read of them and not used yet.
//!
//! Invariant: memory is taken when there is something to read, not before, so
//! that a connection that waits holds none.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use steppe_mem::{Buffer, Chunk, Lease};
use steppe_net::Transport;

use crate::metrics::Traffic;

#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) transport: Transport,
    /// Read, and not used yet. Never empty.
    pub(crate) pending: Option<Buffer>,
    traffic: Traffic,
}

impl Wire {
    pub(crate) fn new(transport: Transport, pending: Option<Buffer>, traffic: Traffic) -> Self {
        Self {
            transport,
            pending,
            traffic,
        }
    }

    /// True when the last fill waits for budget.
    pub(crate) fn is_starved(&self) -> bool {
        self.transport.is_starved()
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
        let buffer = ready!(self.transport.poll_read(cx, lease, bytes))?;
        let count = buffer.len();
        self.traffic.read(count);
        self.pending = (count > 0).then_some(buffer);
        Poll::Ready(Ok(count))
    }

    /// Reads once behind what is pending, into more room where there is none:
    /// up to `bytes_max` in all, which must be more than is pending.
    pub(crate) fn poll_fill_more(
        &mut self,
        cx: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        let pending = self.pending.as_mut().expect("the caller has seen it");
        let count = ready!(self.transport.poll_read_more(cx, pending, bytes_max))?;
        self.traffic.read(count);
        Poll::Ready(Ok(count))
    }

    /// Writes what it can of `slices`; 0 bytes are an error.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(self.transport.poll_write(cx, slices));
        Poll::Ready(self.count_written(written))
    }

    /// Writes what it can of `chunk`, and consumes it by as much.
    pub(crate) fn poll_write_chunk(
        &mut self,
        cx: &mut Context<'_>,
        chunk: &mut Chunk,
    ) -> Poll<io::Result<usize>> {
        let written = ready!(self.transport.poll_write_chunk(cx, chunk));
        Poll::Ready(self.count_written(written))
    }

    fn count_written(&self, written: io::Result<usize>) -> io::Result<usize> {
        match written {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                self.traffic.written(count);
                Ok(count)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use steppe_net::Stream;
    use tokio::net::UnixStream;

    use super::*;

    /// A wire and its other end.
    pub(crate) fn pair() -> (Wire, UnixStream) {
        let (near, far) = UnixStream::pair().expect("descriptors");
        let transport = Transport::new(Stream::Unix(near));
        (Wire::new(transport, None, Traffic::uncounted()), far)
    }

    /// Runs `test` within a runtime, as sockets need one.
    pub(crate) fn run(test: impl Future<Output = ()>) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_io().build().expect("epoll").block_on(test);
    }
}
