//! A driver with a record layer, as TLS has one.
//!
//! ```text
//! kind (1 byte), length (2 bytes), payload (each byte XOR 0x5a)
//! kinds: 0 ticket: the layer's own business, 1 content, 2 the end
//! ```
//!
//! What it shows: a socket may be readable and nothing be there for the codec;
//! content may be there and the socket not readable; half a record takes memory
//! that belongs to no exchange.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use steppe_mem::{Buffer, Chunk, Lease, Waiter};
use steppe_net::{Driver, Transport};

const KEY: u8 = 0x5a;
const HEADER_BYTES: usize = 3;
/// The most content of a record that is written.
const CONTENT_BYTES_MAX: usize = 4000;
const RECORD_BYTES_MAX: usize = HEADER_BYTES + u16::MAX as usize;

const TICKET: u8 = 0;
const CONTENT: u8 = 1;
const END: u8 = 2;

#[derive(Debug)]
pub struct Records {
    /// The socket.
    below: Transport,
    /// The account of memory that belongs to no exchange.
    lease: Lease,
    /// As it was read; the first `opened` bytes are content in the clear.
    read: Option<Buffer>,
    opened: usize,
    has_ended: bool,
    /// Sealed, and not written yet.
    out: Option<Chunk>,
    waiter: Waiter,
    is_ending: bool,
}

impl Records {
    pub fn new(below: Transport, lease: Lease) -> Self {
        Self {
            below,
            lease,
            read: None,
            opened: 0,
            has_ended: false,
            out: None,
            waiter: Waiter::default(),
            is_ending: false,
        }
    }

    /// Opens the next record where it is whole; says whether it was.
    fn open_record(&mut self) -> bool {
        let Some(read) = &mut self.read else {
            return false;
        };
        let Some(&[kind, high, low]) = read.filled().first_chunk() else {
            return false;
        };
        let end = HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
        if read.len() < end {
            return false;
        }
        match kind {
            CONTENT => {
                let sealed = &mut read.filled_mut()[HEADER_BYTES..end];
                sealed.iter_mut().for_each(|byte| *byte ^= KEY);
                read.consume(HEADER_BYTES);
                self.opened = end - HEADER_BYTES;
            }
            _ => {
                self.has_ended |= kind == END;
                read.consume(end);
            }
        }
        self.release();
        true
    }

    /// Gives memory back that holds nothing.
    fn release(&mut self) {
        if self.read.as_ref().is_some_and(Buffer::is_empty) {
            self.read = None;
        }
    }

    fn consume(&mut self, count: usize) {
        self.opened -= count;
        self.read.as_mut().expect("it was opened").consume(count);
        self.release();
    }

    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(out) = &mut self.out {
            if ready!(self.below.poll_write_chunk(cx, out))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            if out.is_empty() {
                self.out = None;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Room for `bytes` in all, once what was sealed before is out.
    fn poll_room(&mut self, cx: &mut Context<'_>, bytes: usize) -> Poll<io::Result<Buffer>> {
        ready!(self.poll_out(cx))?;
        Buffer::poll_take(cx, &self.lease, bytes, &mut self.waiter).map(Ok)
    }
}

fn header(kind: u8, bytes: usize) -> [u8; HEADER_BYTES] {
    let [high, low] = u16::try_from(bytes)
        .expect("records are short")
        .to_be_bytes();
    [kind, high, low]
}

impl Driver for Records {
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.opened > 0 || self.has_ended {
                return Poll::Ready(Ok(()));
            }
            if self.open_record() {
                continue;
            }
            let count = match &mut self.read {
                None => {
                    let read = ready!(self.below.poll_read(cx, &self.lease, 4096))?;
                    let count = read.len();
                    self.read = (count > 0).then_some(read);
                    count
                }
                Some(read) => ready!(self.below.poll_read_more(cx, read, RECORD_BYTES_MAX))?,
            };
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// A record that came alone is opened where it lies, and handed over.
    fn take_filled(&mut self, lease: &Lease) -> Option<Buffer> {
        let read = self.read.as_mut()?;
        if self.opened == 0 || self.opened < read.len() {
            return None;
        }
        read.charge_to(lease).ok()?;
        self.opened = 0;
        self.read.take()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_readable(cx))?;
        if self.opened == 0 {
            return Poll::Ready(Ok(0));
        }
        let count = self.opened.min(room.len());
        let read = self.read.as_ref().expect("it was opened");
        room[..count].copy_from_slice(&read.filled()[..count]);
        self.consume(count);
        Poll::Ready(Ok(count))
    }

    /// Each record of content is followed by a ticket.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        let count = bytes.min(CONTENT_BYTES_MAX);
        let ticket = [&header(TICKET, 2)[..], b"no"].concat();
        let room = HEADER_BYTES + count + ticket.len();
        let mut out = ready!(self.poll_room(cx, room))?;
        out.put(&header(CONTENT, count)).expect("room");
        let content = slices.iter().flat_map(|slice| slice.iter());
        for byte in content.take(count) {
            out.put(&[byte ^ KEY]).expect("room");
        }
        out.put(&ticket).expect("room");
        self.out = Some(out.into());
        // What does not go out now goes out when it is flushed.
        match self.poll_out(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(count)),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_out(cx))?;
        self.below.poll_flush(cx)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_ending {
            let mut out = ready!(self.poll_room(cx, HEADER_BYTES))?;
            out.put(&header(END, 0)).expect("room");
            self.out = Some(out.into());
            self.is_ending = true;
        }
        ready!(self.poll_flush(cx))?;
        self.below.poll_shutdown(cx)
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.below.poll_closed(cx)
    }

    fn is_starved(&self) -> bool {
        self.below.is_starved()
    }

    fn has_farewell(&self) -> bool {
        true
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.below.local_address()
    }
}
