//! Pooled memory that carries its charge.
//!
//! Invariant: a buffer's whole class size is reserved for as long as it lives, whichever task holds it. Bytes are
//! reached through the buffer alone: no view of it outlives a change.

use std::fmt;
use std::ops::Range;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use crate::account::Waiter;
use crate::account::{Lease, OverBudget, Reservation};
use crate::block::Block;
use crate::pool;
use crate::size_class::SizeClass;

/// Bytes in pooled memory: `[consumed | filled | spare]`.
///
/// One pointer wide, since buffers change hands many times a request; the block that it points to is pooled along with
/// the memory.
pub struct Buffer(Option<Box<Block>>);

/// The buffer has no room for the bytes to be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("buffer full")]
pub struct Full;

impl Buffer {
    /// An empty buffer of at least `bytes` (at most
    /// [`BUFFER_BYTES_MAX`](crate::limits::BUFFER_BYTES_MAX)).
    ///
    /// # Errors
    /// [`OverBudget`] if the account has no room for its size class.
    pub fn take(lease: &Lease, bytes: usize) -> Result<Self, OverBudget> {
        let class = SizeClass::holding(bytes);
        let charge = lease.try_reserve(class.bytes()).or_else(|_| {
            // The thread's idle buffers are given up first.
            pool::drain();
            lease.try_reserve(class.bytes())
        })?;
        Ok(Self::new(class, charge))
    }

    /// Like [`Buffer::take`], out of `charge` if that is large enough.
    ///
    /// # Errors
    /// As [`Buffer::take`], if it is not.
    pub fn take_of(charge: &mut Reservation, bytes: usize) -> Result<Self, OverBudget> {
        let class = SizeClass::holding(bytes);
        if class.bytes() > charge.bytes() {
            return Self::take(charge.lease(), bytes);
        }
        Ok(Self::new(class, charge.split(class.bytes())))
    }

    /// Like [`Buffer::take`], but waits for room, as [`Lease::poll_reserve`] does.
    ///
    /// # Cancel safety
    /// A task that stops polling and drops its `waiter` loses no bytes, neither its own nor other tasks'.
    pub fn poll_take(
        cx: &mut Context<'_>,
        lease: &Lease,
        bytes: usize,
        waiter: &mut Waiter,
    ) -> Poll<Self> {
        let class = SizeClass::holding(bytes);
        let had_place = waiter.has_place();
        let mut polled = lease.poll_reserve(cx, class.bytes(), waiter);
        if polled.is_pending() && !had_place && waiter.has_place() {
            // The thread's idle buffers are given up first.
            pool::drain();
            polled = lease.poll_reserve(cx, class.bytes(), waiter);
        }
        Poll::Ready(Self::new(class, ready!(polled)))
    }

    fn new(class: SizeClass, charge: Reservation) -> Self {
        let mut block = pool::take(class);
        (block.start, block.end) = (0, 0);
        block.charge = Some(charge);
        Self(Some(block))
    }

    /// Takes the buffer out of a place that is overwritten or dropped next.
    pub(crate) fn take_out(&mut self) -> Self {
        Self(self.0.take())
    }

    fn block(&self) -> &Block {
        self.0
            .as_ref()
            .expect("only gone while it is dropped or replaced")
    }

    fn block_mut(&mut self) -> &mut Block {
        self.0
            .as_mut()
            .expect("only gone while it is dropped or replaced")
    }

    /// The bytes that were filled in and not consumed.
    #[must_use]
    pub fn filled(&self) -> &[u8] {
        let block = self.block();
        &block.storage.bytes()[block.start..block.end]
    }

    /// [`Buffer::filled`], to be changed in place.
    pub fn filled_mut(&mut self) -> &mut [u8] {
        let block = self.block_mut();
        &mut block.storage.bytes_mut()[block.start..block.end]
    }

    /// Room after the filled bytes. It may hold bytes of earlier uses.
    pub fn spare_mut(&mut self) -> &mut [u8] {
        let block = self.block_mut();
        &mut block.storage.bytes_mut()[block.end..]
    }

    /// Counts the first `count` spare bytes as filled.
    ///
    /// # Panics
    /// If `count` is more than the spare room.
    pub fn advance(&mut self, count: usize) {
        assert!(
            count <= self.spare(),
            "{count} bytes into {} spare",
            self.spare()
        );
        self.block_mut().end += count;
    }

    /// Drops the first `count` filled bytes.
    ///
    /// # Panics
    /// If fewer bytes are filled.
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.len(), "{count} bytes out of {}", self.len());
        let block = self.block_mut();
        block.start += count;
        if block.start == block.end {
            (block.start, block.end) = (0, 0);
        }
    }

    /// Drops all filled bytes but the first `count`.
    pub fn truncate(&mut self, count: usize) {
        let block = self.block_mut();
        block.end = block.end.min(block.start + count);
    }

    /// Drops all filled bytes.
    pub fn clear(&mut self) {
        let block = self.block_mut();
        (block.start, block.end) = (0, 0);
    }

    /// Moves the filled bytes to the front, so that all room is spare.
    pub fn compact(&mut self) {
        let block = self.block_mut();
        if block.start > 0 {
            let (start, end) = (block.start, block.end);
            block.storage.bytes_mut().copy_within(start..end, 0);
            (block.start, block.end) = (0, end - start);
        }
    }

    /// Adds `bytes` after the filled ones.
    ///
    /// # Errors
    /// [`Full`] if there is less room; nothing is added then.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let block = self.block_mut();
        let end = block.end;
        let room = block
            .storage
            .bytes_mut()
            .get_mut(end..end + bytes.len())
            .ok_or(Full)?;
        room.copy_from_slice(bytes);
        block.end += bytes.len();
        Ok(())
    }

    /// Adds a copy of the filled bytes at `range`.
    ///
    /// # Errors
    /// [`Full`] if there is no room; nothing is added.
    ///
    /// # Panics
    /// If the range is not one of filled bytes.
    pub fn put_within(&mut self, range: Range<usize>) -> Result<(), Full> {
        let count = self.filled()[range.clone()].len();
        if count > self.spare() {
            return Err(Full);
        }
        let block = self.block_mut();
        let (start, end) = (block.start, block.end);
        let bytes = block.storage.bytes_mut();
        bytes.copy_within(start + range.start..start + range.end, end);
        block.end += count;
        Ok(())
    }

    /// Filled bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        let block = self.block();
        block.end - block.start
    }

    /// True if no byte is filled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Room after the filled bytes.
    #[must_use]
    pub fn spare(&self) -> usize {
        let block = self.block();
        block.class.bytes() - block.end
    }

    /// Bytes of the whole buffer, all of them charged.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.block().class.bytes()
    }

    /// [`Reservation::bind`] for its charge.
    pub(crate) fn bind(&mut self) {
        let charge = self.block_mut().charge.as_mut();
        charge.expect("charged while in use").bind();
    }

    /// The lease that the buffer is charged to.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        self.block()
            .charge
            .as_ref()
            .expect("charged while in use")
            .lease()
    }

    /// Frees the buffer, and returns its charge.
    ///
    /// A reservation that the buffer was [taken of](Buffer::take_of) is whole again once the charge is joined to it: no
    /// task that waits for budget comes between.
    #[must_use]
    pub fn into_charge(mut self) -> Reservation {
        let block = self.block_mut();
        block.charge.take().expect("only gone while it is dropped")
    }

    /// Charges the buffer to `lease` from now on, instead of its present lease.
    ///
    /// # Errors
    /// [`OverBudget`] if `lease` has no room; the buffer stays charged as it was.
    pub fn charge_to(&mut self, lease: &Lease) -> Result<(), OverBudget> {
        // Else a full budget would refuse bytes that are charged to it already.
        if self.lease().is(lease) {
            return Ok(());
        }
        let charge = lease.try_reserve(self.capacity())?;
        self.block_mut().charge = Some(charge);
        Ok(())
    }

    /// The filled bytes as [`Bytes`], which keep memory and charge until the last clone goes.
    #[must_use]
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.filled()
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the content: it may be secret.
        write!(f, "Buffer({} of {} bytes)", self.len(), self.capacity())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(mut block) = self.0.take() else {
            return;
        };
        // The charge is dropped first, so that the pool can take it over.
        block.charge = None;
        pool::put(block.class, block);
    }
}

#[cfg(test)]
mod tests {
    use crate::pool::Stock;
    use crate::{Budget, Buffer, Full, pool};

    const MIB: u64 = 1 << 20;

    #[test]
    fn bytes_move_through() {
        let budget = Budget::new(MIB);
        let mut buffer = Buffer::take(&budget.root().lease(), 5000).expect("room");
        assert_eq!(buffer.capacity(), 8192);
        buffer.put(b"hello world").expect("room");
        buffer.consume(6);
        buffer.compact();
        assert_eq!(buffer.filled(), b"world");
        assert_eq!(buffer.spare(), 8192 - 5);
        assert_eq!(buffer.put(&[0; 8192]), Err(Full));
        buffer.truncate(1);
        buffer.consume(1);
        assert_eq!((buffer.is_empty(), buffer.spare()), (true, 8192));
    }

    #[test]
    fn a_charge_moves_to_another_account_or_stays() {
        let budget = Budget::new(MIB);
        let first = budget.root().child("first", None);
        let second = budget.root().child("second", Some(8192));
        let mut buffer = Buffer::take(&first.lease(), 8192).expect("room");
        buffer.put(b"kept").expect("room");
        let mut other = Buffer::take(&first.lease(), 1).expect("room");
        buffer.charge_to(&second.lease()).expect("room");
        let reserved = || (first.reserved_bytes(), second.reserved_bytes());
        assert_eq!(reserved(), (1024, 8192));
        other.charge_to(&second.lease()).expect_err("it is full");
        let own = buffer.lease().clone();
        buffer.charge_to(&own).expect("it is charged so already");
        assert_eq!((reserved(), buffer.filled()), ((1024, 8192), &b"kept"[..]));
        drop((buffer, other));
        assert_eq!(reserved(), (0, 0));
    }

    #[test]
    fn a_buffer_is_charged_whole_until_its_last_view_goes() {
        let budget = Budget::new(MIB);
        let mut buffer = Buffer::take(&budget.root().lease(), 1).expect("room");
        buffer.put(b"kept").expect("room");
        let bytes = buffer.freeze();
        let view = bytes.slice(1..3);
        drop(bytes);
        assert_eq!(&view[..], b"ep");
        assert_eq!(budget.root().reserved_bytes(), 1024);
        drop(view);
        assert_eq!(budget.root().reserved_bytes(), 0);
    }

    #[test]
    fn idle_buffers_are_charged_capped_reused_and_trimmed() {
        // Large buffers, so that the charge has no slack.
        const BYTES: usize = 512 << 10;
        let budget = Budget::new(16 * MIB);
        let lease = budget.root().child("bodies", None).lease();
        let idle = budget.root().child("pool", None);
        pool::install(&Stock {
            lease: idle.lease(),
            idle_bytes_max: 3 * BYTES,
        });
        let take = || Buffer::take(&lease, BYTES).expect("room");
        let idle_count = || idle.reserved_bytes() / BYTES as u64;
        drop(take());
        drop(take());
        assert_eq!(idle_count(), 1, "one after the other reuses");
        let held: Vec<Buffer> = (0..5).map(|_| take()).collect();
        assert_eq!(idle_count(), 0);
        drop(held);
        assert_eq!(idle_count(), 3, "two are above the cap");
        pool::trim();
        let _used = take();
        pool::trim();
        assert_eq!(idle_count(), 0, "two lay idle between the trims");
    }

    #[test]
    fn the_stock_is_given_up_before_a_refusal() {
        let budget = Budget::new(64 << 10);
        let lease = budget.root().child("bodies", None).lease();
        let stock = Stock {
            lease: budget.root().child("pool", None).lease(),
            idle_bytes_max: 1 << 20,
        };
        pool::install(&stock);
        drop(Buffer::take(&lease, 32 << 10).expect("room"));
        assert!(Buffer::take(&lease, 64 << 10).is_ok());
    }
}
