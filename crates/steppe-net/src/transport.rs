//! A connection's byte stream, as codecs read and write it.
//!
//! A [`Transport`] hands over charged buffers that it filled, and writes slices. Below it is a socket that the
//! runtime polls for readiness, or a [`Driver`]: a TLS session, or a ring of completions whose buffers arrive filled.
//! Codecs know none of them.
//!
//! Invariants: memory is taken when there is something to read, not before, so
//! that a connection that waits holds none. One read or write of a socket is
//! one system call: the runtime clears readiness after a short read, so nothing
//! is asked twice. A read that waits for budget still sees its peer close.
//!
//! Non-goals: framing, deadlines, counts of bytes.

#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use steppe_mem::{Buffer, Chunk, Lease, Waiter};

use crate::stream::Stream;

/// Moves the bytes of one connection.
///
/// Order of calls:
/// 1. [`Driver::poll_readable`] at any time. It takes no memory while nothing has come.
/// 2. [`Driver::take_filled`], then [`Driver::poll_read`], only after
///    `poll_readable` was ready; either may find that there is nothing after all.
///    `poll_read` may be called without the other.
/// 3. [`Driver::poll_write`] at any time before 5. What it accepted may still lie
///    in the driver until
/// 4. [`Driver::poll_flush`] is ready.
/// 5. [`Driver::poll_shutdown`] after the last write; reading goes on.
/// 6. [`Driver::poll_closed`] at any time.
///
/// Each method that returns `Pending` has arranged for the task to be woken.
/// Dropping the driver closes the connection.
pub trait Driver: fmt::Debug {
    /// Ready when bytes for the codec, the end or an error can be had.
    ///
    /// Bytes that are the driver's own business, such as a TLS session ticket,
    /// are consumed here and make nothing ready. Bytes that it must hold, such as
    /// half a record, are charged to a lease of the driver's own.
    ///
    /// # Errors
    /// The connection's error.
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// A buffer that arrived filled, charged to `lease` from now on.
    ///
    /// `None` where `lease` has no room for it, and from every driver that reads on
    /// demand: use [`Driver::poll_read`].
    fn take_filled(&mut self, _lease: &Lease) -> Option<Buffer> {
        None
    }

    /// Reads into `room`; 0 is the end of the stream.
    ///
    /// # Errors
    /// The connection's error.
    fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Accepts as much of `slices` as it can; returns the number of bytes.
    ///
    /// # Errors
    /// The connection's error.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>;

    /// Accepts as much of `chunk` as it can, and consumes that. A driver whose sends own their
    /// memory shares the chunk's instead of copying it.
    ///
    /// # Errors
    /// The connection's error.
    fn poll_write_chunk(
        &mut self,
        cx: &mut Context<'_>,
        chunk: &mut Chunk,
    ) -> Poll<io::Result<usize>> {
        let written = ready!(self.poll_write(cx, &[IoSlice::new(chunk.filled())]))?;
        chunk.consume(written);
        Poll::Ready(Ok(written))
    }

    /// Ready when the kernel has all accepted bytes.
    ///
    /// # Errors
    /// The connection's error.
    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the sending side; the other goes on.
    ///
    /// # Errors
    /// The connection's error.
    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ready when the peer has closed or reset the connection, even while bytes
    /// that came before are unread.
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// True while the last [`Driver::poll_readable`] waits for budget of the driver's own
    /// rather than for the peer.
    fn is_starved(&self) -> bool {
        false
    }

    /// True if the peer takes an end without [`Driver::poll_shutdown`] for a cut, as TLS does (RFC 8446 §6.1).
    fn has_farewell(&self) -> bool {
        false
    }

    /// The address on this side, where there is one.
    fn local_address(&self) -> Option<SocketAddr> {
        None
    }

    /// Limits unsent bytes in the kernel, see [`Stream::limit_unsent_bytes`].
    ///
    /// # Errors
    /// The system's errors.
    fn limit_unsent_bytes(&self, _bytes: u32) -> io::Result<()> {
        Ok(())
    }

    /// Sizes the kernel's buffers, see [`Stream::set_buffer_bytes`].
    ///
    /// # Errors
    /// The system's errors.
    fn set_buffer_bytes(&self, _bytes: usize) -> io::Result<()> {
        Ok(())
    }
}

/// Memory for bytes that are read one behind the other.
#[derive(Debug, Clone, Copy)]
pub struct ReadRoom<'a> {
    /// The lease of the buffer.
    pub lease: &'a Lease,
    /// Bytes of the first buffer.
    pub first_bytes: usize,
    /// Most bytes that the buffer grows to.
    pub bytes_max: usize,
}

/// One connection's byte stream.
#[derive(Debug)]
pub struct Transport {
    inner: StreamKind,
    waiter: Waiter,
    is_starved: bool,
}

enum StreamKind {
    Socket(Socket),
    Driver(Box<dyn Driver>),
}

/// A socket that the runtime polls for readiness.
struct Socket {
    /// Shared with `closed` alone, which is dropped before anything is read or written.
    stream: Rc<Stream>,
    /// Boxed: only a connection that waits for something else than bytes has one.
    closed: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl Transport {
    /// The byte stream of a connected socket.
    #[must_use]
    pub fn new(stream: Stream) -> Self {
        let stream = Rc::new(stream);
        Self::of(StreamKind::Socket(Socket {
            stream,
            closed: None,
        }))
    }

    /// The byte stream that `driver` moves.
    #[must_use]
    pub fn with_driver(driver: Box<dyn Driver>) -> Self {
        Self::of(StreamKind::Driver(driver))
    }

    fn of(inner: StreamKind) -> Self {
        Self {
            inner,
            waiter: Waiter::default(),
            is_starved: false,
        }
    }

    /// The address that the socket has on this side; `None` for a Unix socket.
    #[must_use]
    pub fn local_address(&self) -> Option<SocketAddr> {
        match &self.inner {
            StreamKind::Socket(socket) => socket.stream.local_address(),
            StreamKind::Driver(driver) => driver.local_address(),
        }
    }

    /// Limits unsent bytes in the kernel, see [`Stream::limit_unsent_bytes`].
    ///
    /// # Errors
    /// The system's errors.
    pub fn limit_unsent_bytes(&self, bytes: u32) -> io::Result<()> {
        match &self.inner {
            StreamKind::Socket(socket) => socket.stream.limit_unsent_bytes(bytes),
            StreamKind::Driver(driver) => driver.limit_unsent_bytes(bytes),
        }
    }

    /// Sizes the kernel's buffers, see [`Stream::set_buffer_bytes`].
    ///
    /// # Errors
    /// The system's errors.
    pub fn set_buffer_bytes(&self, bytes: usize) -> io::Result<()> {
        match &self.inner {
            StreamKind::Socket(socket) => socket.stream.set_buffer_bytes(bytes),
            StreamKind::Driver(driver) => driver.set_buffer_bytes(bytes),
        }
    }

    /// True while the last read waits for budget rather than for the peer.
    #[must_use]
    pub fn is_starved(&self) -> bool {
        let is_driver_starved = match &self.inner {
            StreamKind::Socket(_) => false,
            StreamKind::Driver(driver) => driver.is_starved(),
        };
        self.is_starved || is_driver_starved
    }

    /// Reads into a fresh buffer of at least `bytes` of `lease`, and hands it over.
    /// An empty buffer is the end of the stream.
    ///
    /// # Errors
    /// The connection's error; and a reset where the peer closed it while there was no
    /// budget to read what came before.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        lease: &Lease,
        bytes: usize,
    ) -> Poll<io::Result<Buffer>> {
        self.is_starved = false;
        ready!(self.inner.poll_readable(cx))?;
        if let StreamKind::Driver(driver) = &mut self.inner
            && let Some(filled) = driver.take_filled(lease)
        {
            // What it may have waited for is for others.
            self.waiter = Waiter::default();
            return Poll::Ready(Ok(filled));
        }
        let Poll::Ready(mut buffer) = Buffer::poll_take(cx, lease, bytes, &mut self.waiter) else {
            return self.starve(cx);
        };
        let count = ready!(self.inner.poll_read(cx, buffer.spare_mut()))?;
        buffer.advance(count);
        Poll::Ready(Ok(buffer))
    }

    /// Reads behind what `buffer` holds, in up to `bytes_max` of memory, which must be
    /// more than it holds. 0 is the end of the stream.
    ///
    /// # Errors
    /// Errors of [`Transport::poll_read`].
    pub fn poll_read_more(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Buffer,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        self.is_starved = false;
        ready!(self.inner.poll_readable(cx))?;
        if buffer.spare() == 0 {
            buffer.compact();
        }
        if buffer.spare() == 0 {
            let bytes = (buffer.capacity() * 2).min(bytes_max.max(buffer.capacity() + 1));
            let taken = Buffer::poll_take(cx, buffer.lease(), bytes, &mut self.waiter);
            let Poll::Ready(mut larger) = taken else {
                return self.starve(cx);
            };
            larger.put(buffer.filled()).expect("it is larger");
            *buffer = larger;
        }
        // Even what arrived filled is copied: it is to follow what is there.
        let count = ready!(self.inner.poll_read(cx, buffer.spare_mut()))?;
        buffer.advance(count);
        Poll::Ready(Ok(count))
    }

    /// Reads once, behind what is in `read`: at first into a fresh buffer, then in as much memory
    /// as `room` allows. 0 is the end of the stream, which leaves `read` as it was.
    ///
    /// # Errors
    /// Errors of [`Transport::poll_read`].
    pub fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        room: ReadRoom<'_>,
        read: &mut Option<Buffer>,
    ) -> Poll<io::Result<usize>> {
        if let Some(read) = read {
            return self.poll_read_more(cx, read, room.bytes_max);
        }
        let buffer = ready!(self.poll_read(cx, room.lease, room.first_bytes))?;
        let count = buffer.len();
        *read = (count > 0).then_some(buffer);
        Poll::Ready(Ok(count))
    }

    /// Waits for budget, with bytes to read: only the peer's end is of interest.
    fn starve<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        self.is_starved = true;
        ready!(self.poll_closed(cx));
        self.waiter = Waiter::default();
        Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
    }

    /// Gives up the place in the queue for budget: a transport that reads no more must not keep
    /// bytes from others that were drawn for it.
    pub fn stop_waiting(&mut self) {
        self.waiter = Waiter::default();
        self.is_starved = false;
    }

    /// Reads into memory of the caller; 0 is the end of the stream. It waits for no budget.
    ///
    /// # Errors
    /// The connection's error.
    pub fn poll_read_into(
        &mut self,
        cx: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.stop_waiting();
        ready!(self.inner.poll_readable(cx))?;
        self.inner.poll_read(cx, room)
    }

    /// Writes as much of `slices` as it can, in one system call.
    ///
    /// # Errors
    /// The connection's error.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.inner {
            StreamKind::Socket(socket) => {
                socket.while_watched(cx, |stream, cx| stream.poll_write(cx, slices))
            }
            StreamKind::Driver(driver) => driver.poll_write(cx, slices),
        }
    }

    /// Writes as much of `chunk` as it can, and consumes that.
    ///
    /// # Errors
    /// The connection's error.
    pub fn poll_write_chunk(
        &mut self,
        cx: &mut Context<'_>,
        chunk: &mut Chunk,
    ) -> Poll<io::Result<usize>> {
        match &mut self.inner {
            StreamKind::Socket(socket) => {
                let slices = [IoSlice::new(chunk.filled())];
                let written = socket.while_watched(cx, |stream, cx| stream.poll_write(cx, &slices));
                let written = ready!(written)?;
                chunk.consume(written);
                Poll::Ready(Ok(written))
            }
            StreamKind::Driver(driver) => driver.poll_write_chunk(cx, chunk),
        }
    }

    /// Ready when the kernel has all written bytes.
    ///
    /// # Errors
    /// The connection's error.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.inner {
            StreamKind::Socket(_) => Poll::Ready(Ok(())),
            StreamKind::Driver(driver) => driver.poll_flush(cx),
        }
    }

    /// Ends the sending side; the other goes on.
    ///
    /// # Errors
    /// The connection's error.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.inner {
            StreamKind::Socket(socket) => socket.while_watched(cx, Stream::poll_shutdown),
            StreamKind::Driver(driver) => driver.poll_shutdown(cx),
        }
    }

    /// Writes `bytes` as far as one write gets: the last words to a peer that is not waited for.
    pub fn write_now(&mut self, bytes: &[u8]) {
        let mut cx = Context::from_waker(Waker::noop());
        if !bytes.is_empty() {
            let _ = self.poll_write(&mut cx, &[IoSlice::new(bytes)]);
        }
    }

    /// Writes `bytes` as far as one write gets, and ends the sending side.
    pub fn end_now(&mut self, bytes: &[u8]) {
        self.write_now(bytes);
        let _ = self.poll_shutdown(&mut Context::from_waker(Waker::noop()));
    }

    /// Ready when the peer has closed or reset the connection, even while bytes that
    /// came before are unread. It allocates: use it where a task waits for something else.
    pub fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.inner {
            StreamKind::Socket(socket) => socket.poll_closed(cx),
            StreamKind::Driver(driver) => driver.poll_closed(cx),
        }
    }

    /// True if the peer takes an end without [`Transport::poll_shutdown`] for a cut.
    #[must_use]
    pub fn has_farewell(&self) -> bool {
        match &self.inner {
            StreamKind::Socket(_) => false,
            StreamKind::Driver(driver) => driver.has_farewell(),
        }
    }

    /// True while nothing has come that the codec has not read: neither bytes nor the
    /// end. No system call on a socket; the task of `cx` is woken when that changes.
    pub fn is_quiet(&mut self, cx: &mut Context<'_>) -> bool {
        self.inner.poll_readable(cx).is_pending()
    }
}

impl StreamKind {
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Socket(socket) => socket.stream.poll_read_ready(cx),
            Self::Driver(driver) => driver.poll_readable(cx),
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Socket(socket) => socket.stream_mut().poll_read(cx, room),
            Self::Driver(driver) => driver.poll_read(cx, room),
        }
    }
}

impl Socket {
    fn stream_mut(&mut self) -> &mut Stream {
        self.closed = None;
        Rc::get_mut(&mut self.stream).expect("`closed` was the only other holder")
    }

    /// Uses the stream and goes on to wait for the close, which only a read ends.
    fn while_watched<T>(
        &mut self,
        cx: &mut Context<'_>,
        act: impl FnOnce(&mut Stream, &mut Context<'_>) -> T,
    ) -> T {
        let is_watched = self.closed.is_some();
        let done = act(self.stream_mut(), cx);
        if is_watched && self.poll_closed(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        done
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let closed = self.closed.get_or_insert_with(|| {
            let stream = Rc::clone(&self.stream);
            Box::pin(async move { stream.closed().await })
        });
        ready!(closed.as_mut().poll(cx));
        // It has ended, and must not be polled again.
        self.closed = None;
        Poll::Ready(())
    }
}

impl fmt::Debug for StreamKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(socket) => socket.stream.fmt(f),
            Self::Driver(driver) => driver.fmt(f),
        }
    }
}
