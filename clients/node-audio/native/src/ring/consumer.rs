//! A consumer of a ring for native code, by the same atomic words as JavaScript's.
//!
//! Each of a pair of sources has one (`source/pair.rs`), and tests have. **Invariant:** a consumer
//! allocates nothing.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use super::sys::Memory;
use super::{Record, Ring, counter_of};
use crate::layout::{Counter, Layout, QUEUE_OFFSET, RECORD_BYTES, record, word};

/// A packet that is held.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Taken {
    /// Slot of the packet.
    pub slot: u32,
    /// Record of the packet.
    pub packet: Record,
}

/// Takes packets out of a ring.
#[derive(Debug, Clone, Copy)]
pub struct Consumer {
    memory: Memory,
    layout: Layout,
}

impl Consumer {
    /// A consumer of this ring. The caller keeps the ring's memory for longer than the consumer.
    #[must_use]
    pub fn of(ring: &Ring) -> Self {
        Self {
            memory: ring.memory(),
            layout: ring.layout(),
        }
    }

    /// Takes the oldest packet, which is held from now on.
    #[must_use]
    pub fn take(&self) -> Option<Taken> {
        let (tail, head) = (
            self.memory.u32(word::TAIL * 4),
            self.memory.u32(word::HEAD * 4),
        );
        loop {
            let at = tail.load(SeqCst);
            if at == head.load(SeqCst) {
                return None;
            }
            let entry = QUEUE_OFFSET + (at & self.layout.queue_mask()) * 4;
            let slot = self.memory.u32(entry).load(SeqCst);
            let next = at.wrapping_add(1);
            if tail.compare_exchange(at, next, SeqCst, SeqCst).is_ok() {
                self.field(slot, record::STATE).store(1, SeqCst);
                return Some(self.read(slot));
            }
        }
    }

    /// Releases a packet.
    pub fn release(&self, taken: &Taken) {
        let before = self.field(taken.slot, record::STATE).fetch_sub(1, SeqCst);
        debug_assert_eq!(before, 1, "a packet was released twice");
    }

    /// A word of the control block.
    #[must_use]
    pub fn word(&self, index: u32) -> &AtomicU32 {
        self.memory.u32(index * 4)
    }

    /// A counter of the ring.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> u64 {
        counter_of(&self.memory, counter).load(Relaxed)
    }

    pub(super) fn field(&self, slot: u32, field: u32) -> &AtomicU32 {
        let offset = self.layout.table + slot * RECORD_BYTES + field;
        self.memory.u32(offset)
    }

    fn wide(&self, slot: u32, field: u32) -> u64 {
        let offset = self.layout.table + slot * RECORD_BYTES + field;
        self.memory.u64(offset).load(Relaxed)
    }

    /// Data of the packet by 32-bit words, little-endian; the last one may have bytes beyond the
    /// packet's.
    pub fn words(&self, taken: &Taken) -> impl Iterator<Item = u32> {
        let offset = self.layout.data + taken.slot * self.layout.stride;
        let words = 0..taken.packet.bytes.div_ceil(4);
        words.map(move |index| self.memory.u32(offset + index * 4).load(Relaxed))
    }

    pub(super) fn read(&self, slot: u32) -> Taken {
        let narrow = |field| self.field(slot, field).load(Acquire);
        let packet = Record {
            frames: narrow(record::FRAMES),
            bytes: narrow(record::BYTES),
            flags: narrow(record::FLAGS),
            sequence: self.wide(slot, record::SEQUENCE),
            position: self.wide(slot, record::POSITION),
            time_ns: self.wide(slot, record::TIME_NS),
            lost: narrow(record::LOST),
            estimated: narrow(record::ESTIMATED),
            published_ns: self.wide(slot, record::PUBLISHED_NS),
            peak: f32::from_bits(narrow(record::PEAK)),
            rms: f32::from_bits(narrow(record::RMS)),
        };
        Taken { slot, packet }
    }
}
