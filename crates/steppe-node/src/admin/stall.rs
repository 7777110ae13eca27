//! A connection that fails once its peer has stopped reading for too long.
//!
//! Without it, an event stream to a peer that went to sleep would keep its place and its memory.
//!
//! Leaves out slow reading: a connection whose peer reads a little at a time is bounded by its
//! maximum age.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::connections::Activity;

/// Transport with a bound on each write.
#[derive(Debug)]
pub(super) struct StallBound<I> {
    io: I,
    time_max: Duration,
    /// The timer of the present write, while it waits.
    waiting: Option<Pin<Box<Sleep>>>,
    activity: Activity,
}

impl<I> StallBound<I> {
    /// Bounds each write by `time_max`; `activity` is updated while a write waits.
    pub(super) fn new(io: I, time_max: Duration, activity: Activity) -> Self {
        Self {
            io,
            time_max,
            waiting: None,
            activity,
        }
    }

    /// The result of a write, or the failure of one that waits for too long.
    fn bound<T>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            if self.waiting.take().is_some() {
                self.activity.unblock_write();
            }
            return outcome;
        }
        let (time_max, activity) = (self.time_max, &self.activity);
        let waiting = self.waiting.get_or_insert_with(|| {
            activity.block_write();
            Box::pin(sleep(time_max))
        });
        ready!(waiting.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for StallBound<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for StallBound<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.bound(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.io).poll_write_vectored(cx, parts);
        self.bound(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.io).poll_flush(cx);
        self.bound(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.io).poll_shutdown(cx);
        self.bound(cx, outcome)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_peer_that_stops_reading_fails_the_write() {
        let (ours, mut peer) = tokio::io::duplex(8);
        let mut bound = StallBound::new(ours, Duration::from_millis(20), Activity::default());
        bound.write_all(b"12345678").await.expect("there is room");
        let stalled = bound.write_all(b"9").await.expect_err("nobody reads");
        assert_eq!(stalled.kind(), io::ErrorKind::TimedOut);
        let mut read = [0; 8];
        peer.read_exact(&mut read).await.expect("was written");
    }

    #[tokio::test]
    async fn a_peer_that_reads_in_time_gets_everything() {
        let (ours, mut peer) = tokio::io::duplex(8);
        let mut bound = StallBound::new(ours, Duration::from_secs(600), Activity::default());
        let sent = [7; 1_000];
        let mut read = Vec::new();
        let write = async {
            bound.write_all(&sent).await.expect("somebody reads");
            bound.shutdown().await.expect("somebody reads");
            drop(bound);
        };
        let (_, got) = tokio::join!(write, peer.read_to_end(&mut read));
        got.expect("is ended");
        assert_eq!(read, sent);
    }
}
