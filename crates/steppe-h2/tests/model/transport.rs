//! A transport that moves a few bytes at a time.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// A transport that moves a few bytes at a time.
pub struct Split {
    inner: DuplexStream,
    splits: Vec<usize>,
    next: usize,
}

impl Split {
    pub fn new(inner: DuplexStream, splits: &[usize]) -> Self {
        Self {
            inner,
            splits: splits.to_vec(),
            next: 0,
        }
    }

    fn bytes(&mut self) -> usize {
        self.next += 1;
        self.splits[self.next % self.splits.len()]
    }
}

impl AsyncRead for Split {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let bytes = self.bytes().min(room.remaining());
        let mut part = vec![0; bytes];
        let mut read = ReadBuf::new(&mut part);
        let polled = Pin::new(&mut self.inner).poll_read(cx, &mut read);
        room.put_slice(read.filled());
        polled
    }
}

impl AsyncWrite for Split {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let count = self.bytes().min(bytes.len());
        Pin::new(&mut self.inner).poll_write(cx, &bytes[..count])
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
