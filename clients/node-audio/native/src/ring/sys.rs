//! The shared memory as atomics and bytes: every access is checked against its length.
//!
//! JavaScript may write anything into it at any time. So no value that is read here is trusted as an offset: indices
//! are checked, and the geometry is the [`Layout`](crate::layout::Layout)'s, not the control block's.
#![expect(unsafe_code, reason = "memory that JavaScript gave is a pointer")]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A span of memory that JavaScript and other threads share.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    base: NonNull<u8>,
    len: u32,
}

// SAFETY: it is reached through atomics, and through the one `Owned`; and it stays valid for all threads as `from_raw` demands.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Memory at this address; `None` if it is not aligned to 8 bytes.
    ///
    /// # Safety
    /// It is valid for reads and writes of `len` bytes for as long as the value or a copy of it is
    /// used, and native code reaches it through copies of this value only.
    pub unsafe fn from_raw(base: NonNull<u8>, len: u32) -> Option<Self> {
        base.cast::<AtomicU64>()
            .is_aligned()
            .then_some(Self { base, len })
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(self) -> u32 {
        self.len
    }

    /// True if the length is 0.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    fn at(self, offset: u32, bytes: u32, align: u32) -> NonNull<u8> {
        let end = offset.checked_add(bytes);
        let is_inside = end.is_some_and(|end| end <= self.len) && offset.is_multiple_of(align);
        assert!(is_inside, "offset {offset} is outside of the ring's memory");
        // SAFETY: `offset` is at most `len`, and the span is one allocation, as `from_raw` demands.
        unsafe { self.base.add(offset as usize) }
    }

    /// The 32-bit word at this offset.
    ///
    /// # Panics
    /// It lies outside, or is not aligned.
    #[must_use]
    pub fn u32(&self, offset: u32) -> &AtomicU32 {
        let address = self.at(offset, 4, 4).cast();
        // SAFETY: inside and aligned as `at` has checked (the base is aligned to 8), and every other
        // access of native code to it is atomic too.
        unsafe { address.as_ref() }
    }

    /// The 64-bit word at this offset.
    ///
    /// # Panics
    /// It lies outside, or is not aligned.
    #[must_use]
    pub fn u64(&self, offset: u32) -> &AtomicU64 {
        let address = self.at(offset, 8, 8).cast();
        // SAFETY: as for `u32`.
        unsafe { address.as_ref() }
    }

    /// The bytes of this span.
    ///
    /// # Safety
    /// No other reference to any of them is there.
    #[expect(
        clippy::mut_from_ref,
        reason = "the caller owns the span, as it has to"
    )]
    unsafe fn bytes_mut(&self, offset: u32, len: u32) -> &mut [u8] {
        let address = self.at(offset, len, 1);
        // SAFETY: inside as `at` has checked, initialized as JavaScript's memory always is, and not
        // referred to elsewhere as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(address.as_ptr(), len as usize) }
    }
}

/// The part of the memory that one owner writes: the data of the slots, for the only producer.
#[derive(Debug)]
pub struct Owned(Memory);

impl Owned {
    /// The producer's access to the memory.
    ///
    /// # Safety
    /// No other `Owned` exists for this memory.
    #[must_use]
    pub unsafe fn new(memory: Memory) -> Self {
        Self(memory)
    }

    /// The same memory as atomic words.
    #[must_use]
    pub fn shared(&self) -> &Memory {
        &self.0
    }

    /// The bytes of this span, which must not include any of the atomic words.
    ///
    /// # Panics
    /// The span lies outside.
    pub fn bytes_mut(&mut self, offset: u32, len: u32) -> &mut [u8] {
        // SAFETY: this is the only value that hands bytes out, as `new` demands, and the exclusive
        // borrow of it lasts as long as they do. JavaScript that reads a slot which it does not hold
        // sees bytes of any value, which bytes may have.
        unsafe { self.0.bytes_mut(offset, len) }
    }
}

/// Memory of native code, for a ring that JavaScript does not see.
#[derive(Debug)]
pub struct Heap {
    lines: NonNull<[Line]>,
    bytes: u32,
}

/// A cache line.
type Line = [u64; 8];

// SAFETY: it is only held here; who uses it has atomics, or is its one producer.
unsafe impl Send for Heap {}

impl Heap {
    /// Allocates `bytes` bytes, all zero.
    #[must_use]
    pub fn new(bytes: u32) -> Self {
        let lines = vec![Line::default(); bytes.div_ceil(64) as usize].into_boxed_slice();
        Self {
            lines: NonNull::from(Box::leak(lines)),
            bytes,
        }
    }

    /// The producer's access to the memory, to be taken once. Neither it nor a copy of its memory may be used once this
    /// is dropped: the owner drops them first.
    #[must_use]
    pub fn producer(&self) -> Owned {
        // SAFETY: allocated with at least so many bytes, and aligned to 8; the owner of this keeps it for
        // as long as the producer and consumers are there.
        let memory = unsafe { Memory::from_raw(self.lines.cast(), self.bytes) };
        // SAFETY: the owner takes one.
        unsafe { Owned::new(memory.expect("a line is aligned to 8 bytes")) }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: leaked in `new`, and used by nobody any more.
        drop(unsafe { Box::from_raw(self.lines.as_ptr()) });
    }
}
