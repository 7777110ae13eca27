//! A driver of completions, as io_uring has them.
//!
//! Receives are always posted: buffers arrive filled, whether anybody asked or
//! not. A send owns what it sends until it is complete. A task of its own stands
//! for the kernel; only that touches the socket.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use steppe_mem::{Buffer, Chunk, Lease, Waiter};
use steppe_net::{Driver, Transport};

/// Receives that are posted at a time, and their size.
const RECEIVES: usize = 4;
const RECEIVE_BYTES: usize = 4096;

#[derive(Debug)]
pub struct Completions {
    ring: Rc<RefCell<Ring>>,
    waiter: Waiter,
}

/// The state that driver and kernel share.
#[derive(Debug)]
struct Ring {
    socket: Transport,
    /// The account of receives until they are handed over, and of small sends.
    lease: Lease,
    arrived: VecDeque<Buffer>,
    /// Nothing arrives any more.
    ended: Option<Result<(), io::ErrorKind>>,
    /// Owned by the kernel until it is sent.
    sending: Option<Chunk>,
    failed: Option<io::ErrorKind>,
    shutdown: Shutdown,
    is_closed: bool,
    is_abandoned: bool,
    kernel: Option<Waker>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    closer: Option<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shutdown {
    No,
    Submitted,
    Done,
}

impl Completions {
    pub fn new(socket: Transport, lease: Lease) -> Self {
        let ring = Rc::new(RefCell::new(Ring {
            socket,
            lease,
            arrived: VecDeque::new(),
            ended: None,
            sending: None,
            failed: None,
            shutdown: Shutdown::No,
            is_closed: false,
            is_abandoned: false,
            kernel: None,
            reader: None,
            writer: None,
            closer: None,
        }));
        let kernel = Rc::clone(&ring);
        tokio::task::spawn_local(async move {
            poll_fn(|cx| kernel.borrow_mut().poll_kernel(cx)).await;
        });
        Self {
            ring,
            waiter: Waiter::default(),
        }
    }

    /// Ready when the last send is complete, and another may be submitted.
    fn poll_sent(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut ring = self.ring.borrow_mut();
        if let Some(failed) = ring.failed {
            return Poll::Ready(Err(failed.into()));
        }
        if ring.sending.is_some() || ring.shutdown == Shutdown::Submitted {
            ring.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn submit(&self, chunk: Chunk) {
        let mut ring = self.ring.borrow_mut();
        ring.sending = Some(chunk);
        wake(&mut ring.kernel);
    }
}

impl Ring {
    /// Completes what it can of what was submitted. Ready when the driver is gone and its
    /// last send is complete.
    fn poll_kernel(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.kernel = Some(cx.waker().clone());
        self.receive(cx);
        self.send(cx);
        if self.closer.is_some() && self.socket.poll_closed(cx).is_ready() {
            self.is_closed = true;
            wake(&mut self.closer);
        }
        if self.is_abandoned && self.sending.is_none() {
            return Poll::Ready(());
        }
        Poll::Pending
    }

    fn receive(&mut self, cx: &mut Context<'_>) {
        while self.ended.is_none() && self.arrived.len() < RECEIVES {
            match self.socket.poll_read(cx, &self.lease, RECEIVE_BYTES) {
                Poll::Pending => return,
                Poll::Ready(Ok(buffer)) if buffer.is_empty() => self.ended = Some(Ok(())),
                Poll::Ready(Ok(buffer)) => self.arrived.push_back(buffer),
                Poll::Ready(Err(error)) => self.ended = Some(Err(error.kind())),
            }
            wake(&mut self.reader);
        }
    }

    fn send(&mut self, cx: &mut Context<'_>) {
        while let Some(sending) = &mut self.sending {
            match self.socket.poll_write_chunk(cx, sending) {
                Poll::Pending => return,
                Poll::Ready(Ok(1..)) if !sending.is_empty() => continue,
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(Ok(0)) => self.failed = Some(io::ErrorKind::WriteZero),
                Poll::Ready(Err(error)) => self.failed = Some(error.kind()),
            }
            self.sending = None;
            wake(&mut self.writer);
        }
        if self.shutdown == Shutdown::Submitted && self.socket.poll_shutdown(cx).is_ready() {
            self.shutdown = Shutdown::Done;
            wake(&mut self.writer);
        }
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

impl Driver for Completions {
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut ring = self.ring.borrow_mut();
        match ring.ended {
            _ if !ring.arrived.is_empty() => Poll::Ready(Ok(())),
            Some(ended) => Poll::Ready(ended.map_err(io::Error::from)),
            None => {
                ring.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn take_filled(&mut self, lease: &Lease) -> Option<Buffer> {
        let mut ring = self.ring.borrow_mut();
        ring.arrived.front_mut()?.charge_to(lease).ok()?;
        // There is room for another receive.
        wake(&mut ring.kernel);
        ring.arrived.pop_front()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_readable(cx))?;
        let mut ring = self.ring.borrow_mut();
        let Some(first) = ring.arrived.front_mut() else {
            return Poll::Ready(Ok(0));
        };
        let count = first.len().min(room.len());
        room[..count].copy_from_slice(&first.filled()[..count]);
        first.consume(count);
        if first.is_empty() {
            ring.arrived.pop_front();
            wake(&mut ring.kernel);
        }
        Poll::Ready(Ok(count))
    }

    /// Copies bytes that the codec keeps: a send owns its memory.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_sent(cx))?;
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        let lease = self.ring.borrow().lease.clone();
        let mut copy = ready!(Buffer::poll_take(cx, &lease, bytes, &mut self.waiter));
        for slice in slices {
            copy.put(slice).expect("it was taken for it");
        }
        self.submit(copy.into());
        Poll::Ready(Ok(bytes))
    }

    /// The send shares the chunk's memory, which stays charged until it is complete.
    fn poll_write_chunk(
        &mut self,
        cx: &mut Context<'_>,
        chunk: &mut Chunk,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_sent(cx))?;
        let bytes = chunk.len();
        self.submit(chunk.split_to(bytes));
        Poll::Ready(Ok(bytes))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_sent(cx)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_sent(cx))?;
        let mut ring = self.ring.borrow_mut();
        if ring.shutdown == Shutdown::Done {
            return Poll::Ready(Ok(()));
        }
        ring.shutdown = Shutdown::Submitted;
        ring.writer = Some(cx.waker().clone());
        wake(&mut ring.kernel);
        Poll::Pending
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut ring = self.ring.borrow_mut();
        if ring.is_closed || ring.ended.is_some() {
            return Poll::Ready(());
        }
        ring.closer = Some(cx.waker().clone());
        wake(&mut ring.kernel);
        Poll::Pending
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.ring.borrow().socket.local_address()
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        let mut ring = self.ring.borrow_mut();
        ring.is_abandoned = true;
        wake(&mut ring.kernel);
    }
}
