//! An established session as a transport's driver.
//!
//! Invariants: ciphertext is read into a charged buffer, and a record is given to rustls when all
//! of it is there. Plaintext is read from rustls at once, or put where its record lay: rustls holds
//! none while a session waits. What is sealed and not sent is charged. A session that waits for its
//! peer holds no buffer.

use std::fmt;
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::task::{Context, Poll, Waker, ready};

use rustls::Connection;
use steppe_mem::alloc::thread_block_bytes;
use steppe_mem::{Buffer, Lease, OverBudget, Reservation, Waiter};

use super::record::{self, HEADER_BYTES};
use crate::limits::{
    RECORD_READ_BYTES_MAX, RECORD_READ_BYTES_MIN, ROOMY_BYTES, SEALED_BYTES_MAX, TLS_MESSAGE_BYTES,
};
use crate::transport::{Driver, Transport};

/// Bytes that sealing adds to [`SEALED_BYTES_MAX`] of content: headers, tags and content types.
const SEALED_OVERHEAD: usize = 1024;

/// An established session.
pub(super) struct Session {
    socket: Transport,
    tls: Connection,
    lease: Lease,
    /// Plaintext, then ciphertext. Never empty.
    pending: Option<Buffer>,
    /// Bytes of plaintext in it.
    opened: usize,
    /// Length of the record behind that of which rustls has the plaintext.
    given: usize,
    /// Bytes that the next read asks for: many where many came last.
    read_bytes: usize,
    /// Charge of records that are sealed and not sent.
    sealed: Option<Reservation>,
    waiter: Waiter,
    /// rustls has plaintext, the peer's end or an error for the codec.
    is_readable: bool,
    unwhole: Unwhole,
    _charge: Reservation,
}

/// A transport as the blocking writer that rustls asks for.
struct Blocking<'a, 'b> {
    socket: &'a mut Transport,
    cx: &'a mut Context<'b>,
}

impl Write for Blocking<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.socket.poll_write(self.cx, slices) {
            Poll::Ready(written) => written,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends sealed records.
pub(super) fn poll_send(
    cx: &mut Context<'_>,
    socket: &mut Transport,
    tls: &mut Connection,
) -> Poll<io::Result<()>> {
    while tls.wants_write() {
        match tls.write_tls(&mut Blocking { socket, cx }) {
            Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
    Poll::Ready(Ok(()))
}

/// Sends sealed records, as far as one write gets: an alert of a session that ends.
pub(super) fn send_now(socket: &mut Transport, tls: &mut Connection) {
    let mut cx = Context::from_waker(Waker::noop());
    let _ = poll_send(&mut cx, socket, tls);
}

/// Gives rustls `bytes`, all of them.
///
/// Returns true if there is plaintext to read, or the peer's end.
///
/// # Errors
/// The error in these bytes; an alert is sealed then.
pub(super) fn feed(tls: &mut Connection, mut bytes: &[u8]) -> Result<bool, rustls::Error> {
    let mut is_readable = false;
    while !bytes.is_empty() {
        let before = bytes.len();
        // It takes some KiB at a time: all that it has room for, before it looks at any.
        while !bytes.is_empty() && matches!(tls.read_tls(&mut bytes), Ok(1..)) {}
        let state = tls.process_new_packets()?;
        is_readable = state.plaintext_bytes_to_read() > 0 || state.peer_has_closed();
        // It reads nothing after the peer's end.
        if bytes.len() == before {
            break;
        }
    }
    Ok(is_readable)
}

/// Memory that rustls holds of messages that are not whole yet: a peer that sends no end of one decides how much.
///
/// Counted by the thread's blocks while it is fed; charged beyond what a constant covers.
#[derive(Debug)]
pub(super) struct Unwhole {
    charge: Reservation,
    taken: i64,
    /// Bytes that a constant covers.
    covered: usize,
}

impl Unwhole {
    /// Memory charged to the lease of `charge`, beyond `covered`.
    pub(super) fn beside(charge: &mut Reservation, covered: usize) -> Self {
        Self {
            charge: charge.split(0),
            taken: 0,
            covered,
        }
    }

    /// Feeds rustls `bytes`, as [`feed`] does, and counts the memory that it keeps of them. Plaintext is not counted:
    /// reading frees it.
    ///
    /// # Errors
    /// The budget has no room.
    pub(super) fn feed(
        &mut self,
        tls: &mut Connection,
        bytes: &[u8],
    ) -> Result<Result<bool, rustls::Error>, OverBudget> {
        let before = thread_block_bytes();
        let fed = feed(tls, bytes);
        if bytes.len() > RECORD_READ_BYTES_MIN {
            shrink(tls);
        }
        if !matches!(fed, Ok(true)) {
            self.add(thread_block_bytes().wrapping_sub(before))?;
        }
        Ok(fed)
    }

    fn add(&mut self, change: i64) -> Result<(), OverBudget> {
        self.taken = self.taken.saturating_add(change).max(0);
        let taken = usize::try_from(self.taken).unwrap_or(0);
        let wanted = taken.saturating_sub(self.covered);
        match wanted.checked_sub(self.charge.bytes()) {
            Some(more) => self.charge.try_grow(more),
            None => {
                self.charge.shrink(self.charge.bytes() - wanted);
                Ok(())
            }
        }
    }
}

/// The memory that rustls read the last record into shrinks to the 4 KiB that it keeps, as it would
/// before the next record.
fn shrink(tls: &mut Connection) {
    struct Nothing;
    impl Read for Nothing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }
    let _ = tls.read_tls(&mut Nothing);
}

/// The memory of a session.
pub(super) struct SessionMemory {
    /// The lease for records.
    pub(super) lease: Lease,
    /// The charge of the session itself.
    pub(super) charge: Reservation,
}

impl Session {
    pub(super) fn new(
        socket: Transport,
        mut tls: Connection,
        pending: Option<Buffer>,
        memory: SessionMemory,
    ) -> Self {
        let SessionMemory { lease, mut charge } = memory;
        tls.set_buffer_limit(Some(SEALED_BYTES_MAX));
        shrink(&mut tls);
        // What came with the end of the handshake.
        let state = tls.process_new_packets();
        let is_readable = !matches!(state, Ok(state) if
            state.plaintext_bytes_to_read() == 0 && !state.peer_has_closed());
        Self {
            socket,
            tls,
            lease,
            pending: pending.filter(|pending| !pending.is_empty()),
            opened: 0,
            given: 0,
            read_bytes: RECORD_READ_BYTES_MIN,
            sealed: None,
            waiter: Waiter::default(),
            is_readable,
            unwhole: Unwhole::beside(&mut charge, TLS_MESSAGE_BYTES),
            _charge: charge,
        }
    }

    /// Decrypts the records that are there whole, up to the first with plaintext.
    fn decrypt(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        self.drop_given();
        while let Some(pending) = &self.pending {
            let Some(record) = record::next(pending.filled()) else {
                break;
            };
            let fed = self
                .unwhole
                .feed(&mut self.tls, &pending.filled()[..record]);
            self.given = record;
            let fed = fed.map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
            match fed {
                Ok(is_readable) => self.is_readable = is_readable,
                Err(error) => {
                    send_now(&mut self.socket, &mut self.tls);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
            if self.is_readable {
                break;
            }
            self.drop_given();
        }
        // An answer to a key update, say; what does not go now goes with what is written next.
        if self.tls.wants_write() {
            let _ = poll_send(cx, &mut self.socket, &mut self.tls);
        }
        Ok(())
    }

    /// Drops the record whose plaintext was read.
    fn drop_given(&mut self) {
        let given = std::mem::take(&mut self.given);
        self.consume(given);
    }

    /// Drops bytes that `pending` begins with, and a buffer of which nothing is left.
    fn consume(&mut self, bytes: usize) {
        if let Some(pending) = &mut self.pending {
            pending.consume(bytes);
            if pending.is_empty() {
                self.pending = None;
            }
        }
    }

    /// Puts plaintext that is not read now where its record lay.
    fn take_back(&mut self) {
        let Some(pending) = self.pending.as_mut().filter(|_| self.given > 0) else {
            return;
        };
        let mut reader = self.tls.reader();
        let Ok(rest) = reader.fill_buf() else {
            // All of it was read.
            self.is_readable = false;
            return self.drop_given();
        };
        let bytes = rest.len();
        // There is none at the end, which stays.
        if bytes > 0 {
            let record = &mut pending.filled_mut()[..self.given];
            let unused = record.len() - bytes;
            record[unused..].copy_from_slice(rest);
            reader.consume(bytes);
            self.is_readable = false;
            self.given = 0;
            self.opened = bytes;
            self.consume(unused);
        }
    }

    /// Reads ciphertext behind what is pending; false is the end of the stream.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let count = match &mut self.pending {
            None => {
                let is_roomy = self.lease.account().headroom_bytes() > ROOMY_BYTES;
                let bytes = if is_roomy {
                    self.read_bytes
                } else {
                    RECORD_READ_BYTES_MIN
                };
                let buffer = ready!(self.socket.poll_read(cx, &self.lease, bytes))?;
                let count = buffer.len();
                // A buffer that was filled says that more is on its way.
                let is_full = buffer.spare() == 0;
                self.read_bytes = if is_full {
                    RECORD_READ_BYTES_MAX
                } else {
                    (count.next_power_of_two()).clamp(RECORD_READ_BYTES_MIN, RECORD_READ_BYTES_MAX)
                };
                self.pending = (count > 0).then_some(buffer);
                count
            }
            Some(pending) => {
                // The rest of the record, and more behind it, in one read.
                if pending.spare() < RECORD_READ_BYTES_MAX / 2 {
                    pending.compact();
                }
                let bytes_max = RECORD_READ_BYTES_MAX.max(HEADER_BYTES + record::BYTES_MAX);
                ready!(self.socket.poll_read_more(cx, pending, bytes_max))?
            }
        };
        Poll::Ready(Ok(count > 0))
    }

    fn end(&mut self) {
        self.is_readable = true;
        self.pending = None;
        self.given = 0;
        // So that rustls tells an end from a cut.
        let _ = self.tls.read_tls(&mut io::empty());
    }

    /// Reserves memory for records to be sealed.
    fn poll_reserve(&mut self, cx: &mut Context<'_>, bytes: usize) -> Poll<io::Result<()>> {
        let bytes = bytes.min(SEALED_BYTES_MAX) + SEALED_OVERHEAD;
        let lacking = bytes.saturating_sub(self.sealed.as_ref().map_or(0, Reservation::bytes));
        if lacking == 0 {
            return Poll::Ready(Ok(()));
        }
        // What is sealed already goes out first, and makes room.
        if self.sealed.is_some() {
            ready!(poll_send(cx, &mut self.socket, &mut self.tls))?;
            self.sealed = None;
        }
        let Poll::Ready(charge) = self.lease.poll_reserve(cx, bytes, &mut self.waiter) else {
            return match self.socket.poll_closed(cx) {
                Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                Poll::Pending => Poll::Pending,
            };
        };
        self.sealed = Some(charge);
        Poll::Ready(Ok(()))
    }
}

impl Driver for Session {
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.is_readable && self.opened == 0 {
            self.decrypt(cx)?;
            if self.is_readable {
                break;
            }
            if !ready!(self.poll_fill(cx))? {
                self.end();
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut count = 0;
        while count < room.len() {
            if let Some(pending) = self.pending.as_ref().filter(|_| self.opened > 0) {
                let bytes = self.opened.min(room.len() - count);
                room[count..][..bytes].copy_from_slice(&pending.filled()[..bytes]);
                self.opened -= bytes;
                self.consume(bytes);
                count += bytes;
                continue;
            }
            if !self.is_readable {
                // The next record may be there already; nothing is waited for behind others.
                self.decrypt(cx)?;
            }
            if !self.is_readable {
                if count > 0 {
                    break;
                }
                ready!(self.poll_readable(cx))?;
            }
            match self.tls.reader().read(&mut room[count..]) {
                // The end stays.
                Ok(0) => break,
                Ok(read) => count += read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_readable = false,
                Err(error) if count == 0 => return Poll::Ready(Err(error)),
                Err(_) => break,
            }
        }
        self.take_back();
        Poll::Ready(Ok(count))
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        loop {
            ready!(self.poll_reserve(cx, bytes))?;
            let written = match slices {
                [only] => self.tls.writer().write(only)?,
                _ => self.tls.writer().write_vectored(slices)?,
            };
            if written > 0 || bytes == 0 {
                // As far as it goes; `poll_flush` waits for the rest.
                if let Poll::Ready(Err(error)) = self.poll_flush(cx) {
                    return Poll::Ready(Err(error));
                }
                return Poll::Ready(Ok(written));
            }
            // It is full.
            ready!(poll_send(cx, &mut self.socket, &mut self.tls))?;
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(poll_send(cx, &mut self.socket, &mut self.tls))?;
        self.sealed = None;
        self.socket.poll_flush(cx)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Said once, however often this is polled.
        self.tls.send_close_notify();
        ready!(self.poll_flush(cx))?;
        self.socket.poll_shutdown(cx)
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // A task that waits for this does not read.
        self.take_back();
        self.socket.poll_closed(cx)
    }

    fn is_starved(&self) -> bool {
        self.socket.is_starved()
    }

    fn has_farewell(&self) -> bool {
        true
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.socket.local_address()
    }

    fn limit_unsent_bytes(&self, bytes: u32) -> io::Result<()> {
        self.socket.limit_unsent_bytes(bytes)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({:?})", self.socket)
    }
}
