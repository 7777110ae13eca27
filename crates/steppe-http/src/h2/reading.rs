//! Bytes of a peer on their way into the connection.
//!
//! Invariant: an idle connection holds no buffer; without room in the budget it is read all the same, in memory of its
//! own reservation, since what comes may give memory back. Over TLS it is not: a record is opened in memory of the
//! budget (`steppe-net`), for which the read waits.

use std::io;
use std::task::{Context, Poll};

use steppe_mem::{Buffer, Chunk, Lease, Reservation};
use steppe_net::Transport;

use crate::metrics::Traffic;

/// Bytes of one read.
const READ_BYTES: usize = 16 << 10;

/// Bytes of one read where the budget has no room.
pub(super) const SCARCE_READ_BYTES: usize = 4 << 10;

/// The input of a connection.
pub(super) struct ConnectionInput {
    /// Read, and not received yet.
    input: Option<Chunk>,
    /// The input lies in memory of the reservation.
    is_of_reserve: bool,
    lease: Lease,
    reserve: Reservation,
    /// Octets that were read in all.
    total: u64,
}

impl ConnectionInput {
    /// `reserve` has [`SCARCE_READ_BYTES`].
    pub(super) fn new(pending: Option<Buffer>, lease: Lease, reserve: Reservation) -> Self {
        Self {
            input: pending.map(Chunk::from),
            is_of_reserve: false,
            lease,
            reserve,
            total: 0,
        }
    }

    /// Octets that were read in all.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The input, where there is some.
    pub(super) fn input(&mut self) -> Option<&mut Chunk> {
        if self.input.as_ref().is_some_and(Chunk::is_empty) {
            self.let_go();
        }
        self.input.as_mut()
    }

    /// Bytes of the input.
    pub(super) fn bytes(&self) -> &[u8] {
        self.input.as_ref().map_or(&[], Chunk::filled)
    }

    /// Takes `bytes` of content off the input, in memory that outlives it: a view where most of the memory is content,
    /// a copy elsewhere, in memory of `charge` as far as that is enough.
    ///
    /// # Errors
    /// There is no room for it: the content stays, and `charge` is given back.
    pub(super) fn take_content(
        &mut self,
        bytes: usize,
        mut charge: Option<Reservation>,
    ) -> Result<Chunk, Option<Reservation>> {
        let Some(input) = &mut self.input else {
            return Err(charge);
        };
        if bytes > READ_BYTES / 2 && !self.is_of_reserve {
            if input.len() > bytes {
                return Ok(input.split_to(bytes));
            }
            return self.input.take().ok_or(charge);
        }
        let copy = match &mut charge {
            Some(charge) => Buffer::take_of(charge, bytes),
            None => Buffer::take(&self.lease, bytes),
        };
        let Ok(mut copy) = copy else {
            return Err(charge);
        };
        copy.put(&input.filled()[..bytes])
            .expect("it was taken for them");
        input.consume(bytes);
        Ok(copy.into())
    }

    fn let_go(&mut self) {
        let Some(input) = self.input.take() else {
            return;
        };
        if std::mem::take(&mut self.is_of_reserve)
            && let Ok(buffer) = input.into_buffer()
        {
            self.reserve.join(buffer.into_charge());
        }
    }

    /// Reads once, into an empty input. `Ready(Ok(0))` is the end of the stream.
    ///
    /// # Errors
    /// The connection's error.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut Transport,
        traffic: &Traffic,
    ) -> Poll<io::Result<usize>> {
        let read = match transport.poll_read(cx, &self.lease, READ_BYTES) {
            Poll::Ready(read) => read?,
            Poll::Pending if transport.is_starved() => {
                let mut buffer = Buffer::take_of(&mut self.reserve, SCARCE_READ_BYTES)
                    .map_err(|_| io::ErrorKind::OutOfMemory)?;
                let read = transport.poll_read_into(cx, buffer.spare_mut());
                if !matches!(read, Poll::Ready(Ok(1..))) {
                    self.reserve.join(buffer.into_charge());
                    return read;
                }
                if let Poll::Ready(Ok(count)) = read {
                    buffer.advance(count);
                }
                self.is_of_reserve = true;
                buffer
            }
            Poll::Pending => return Poll::Pending,
        };
        let count = read.len();
        self.total += count as u64;
        traffic.read(count);
        self.input = (count > 0).then(|| read.into());
        Poll::Ready(Ok(count))
    }

    /// Reads behind an input whose field block waits for a decision. `Ready(Ok(0))` is the end of the stream. `None`:
    /// there is no room behind it.
    ///
    /// # Errors
    /// The connection's error.
    pub(super) fn poll_read_behind(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut Transport,
        traffic: &Traffic,
    ) -> Option<Poll<io::Result<usize>>> {
        let Some(input) = self.input.take() else {
            return Some(self.poll_read(cx, transport, traffic));
        };
        let mut buffer = match input.into_buffer() {
            Ok(buffer) if buffer.spare() > 0 => buffer,
            Ok(buffer) => {
                self.input = Some(buffer.into());
                return None;
            }
            Err(input) => {
                self.input = Some(input);
                return None;
            }
        };
        let read = transport.poll_read_into(cx, buffer.spare_mut());
        if let Poll::Ready(Ok(count)) = read {
            buffer.advance(count);
            self.total += count as u64;
            traffic.read(count);
        }
        self.input = Some(buffer.into());
        Some(read)
    }

    /// Moves `bytes` of content off the input into `buffer`, which has room for them.
    pub(super) fn move_content(&mut self, bytes: usize, mut buffer: Buffer) -> Chunk {
        if let Some(input) = &mut self.input {
            let put = buffer.put(&input.filled()[..bytes]);
            put.expect("it was taken for them");
            input.consume(bytes);
        }
        buffer.into()
    }
}
