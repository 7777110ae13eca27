//! The producer's side of the ring: slots in memory that JavaScript gave.
//!
//! A slot goes from free to the producer, into the queue, to a consumer, and back. Any thread takes from
//! the queue by raising `TAIL` with a compare-exchange; so does the producer when it takes the oldest
//! packet back. An entry is not written again before `TAIL` has passed it, since the queue has room for
//! every slot: the thread that raised `TAIL` has read a valid entry.
//!
//! **Invariant:** nothing here waits, allocates or takes a lock, and the work for a packet is bounded by
//! the number of slots. **Invariant:** a slot that a consumer holds is never written.
//! Non-goal: the consumer, which is JavaScript; [`consumer`] does the same for native code.

pub mod consumer;
pub mod sys;

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::format::Format;
use crate::layout::{
    COUNTERS, Counter, Layout, MAGIC, QUEUE_OFFSET, RECORD_BYTES, VERSION, record, state, word,
};
use sys::{Memory, Owned};

/// Record of a packet in the slot table.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Record {
    /// Number of its frames.
    pub frames: u32,
    /// Bytes of its data.
    pub bytes: u32,
    /// Bits of [`flag`](crate::layout::flag).
    pub flags: u32,
    /// Number of packets before this one, dropped ones included.
    pub sequence: u64,
    /// Number of frames before this packet, lost ones included.
    pub position: u64,
    /// Capture time of its first frame, in ns of the monotonic clock.
    pub time_ns: u64,
    /// Total of frames lost by the source before this packet; wraps.
    pub lost: u32,
    /// Part of `lost` that was inferred from the time that has passed; wraps.
    pub estimated: u32,
    /// Time of publication, in ns of the monotonic clock.
    pub published_ns: u64,
    /// Largest sample, 1 at full scale.
    pub peak: f32,
    /// Root mean square of the samples, 1 at full scale.
    pub rms: f32,
}

/// A slot that the producer may write: it is published or given back.
#[derive(Debug, PartialEq, Eq)]
pub struct Slot(u32);

/// The producer's side of a ring; there is one.
#[derive(Debug)]
pub struct Ring {
    memory: Owned,
    layout: Layout,
    /// Slot at which the search for a free one begins.
    cursor: u32,
    /// Value of `TAIL` when it was last read.
    tail_seen: u32,
}

impl Ring {
    /// Writes the control block of an empty ring. `None`: the memory is too small.
    #[must_use]
    pub fn new(memory: Owned, layout: Layout) -> Option<Self> {
        if memory.shared().len() < layout.bytes {
            return None;
        }
        let ring = Self {
            memory,
            layout,
            cursor: 0,
            tail_seen: 0,
        };
        (0..layout.data / 4).for_each(|index| ring.words(index).store(0, Relaxed));
        ring.write_geometry();
        Some(ring)
    }

    fn write_geometry(&self) {
        let layout = self.layout;
        for (index, value) in [
            (word::VERSION, VERSION),
            (word::SLOTS, layout.slots),
            (word::SLOT_BYTES, layout.slot_bytes),
            (word::STRIDE, layout.stride),
            (word::QUEUE, QUEUE_OFFSET),
            (word::QUEUE_MASK, layout.queue_mask()),
            (word::TABLE, layout.table),
            (word::DATA, layout.data),
            (word::MAGIC, MAGIC),
        ] {
            self.words(index).store(value, Release);
        }
    }

    /// Writes the format of the packets to the control block.
    pub fn describe(&self, format: Format, packet_frames: u32) {
        self.words(word::RATE).store(format.rate, Release);
        self.words(word::CHANNELS).store(format.channels, Release);
        self.words(word::SAMPLE)
            .store(format.sample.code(), Release);
        self.words(word::PACKET_FRAMES)
            .store(packet_frames, Release);
    }

    /// Memory of the ring, for readers and waiters.
    #[must_use]
    pub fn memory(&self) -> Memory {
        *self.memory.shared()
    }

    /// The sizes of the ring.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Acquires a free slot to write. `None`: each is filled or held.
    pub fn acquire(&mut self) -> Option<Slot> {
        let Some(slot) = self.free() else {
            self.count(Counter::Misses, 1);
            return None;
        };
        self.record(slot, record::STATE)
            .store(state::WRITING, Relaxed);
        self.cursor = slot + 1;
        self.count(Counter::Hits, 1);
        Some(Slot(slot))
    }

    /// True if every slot is filled or held.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.free().is_none()
    }

    /// The first free slot from the cursor on, around. Slots come back in the order in which they were
    /// filled, but for those that consumers keep: it is most often the one at the cursor.
    fn free(&self) -> Option<u32> {
        let mut around = (self.cursor..self.layout.slots).chain(0..self.cursor);
        around.find(|&slot| self.record(slot, record::STATE).load(Acquire) == state::FREE)
    }

    /// Takes the oldest packet back out of the queue, and returns its slot and its frames. `None`: the
    /// queue is empty, since every slot is held.
    pub fn reclaim(&mut self) -> Option<(Slot, u32)> {
        loop {
            let tail = self.words(word::TAIL).load(SeqCst);
            if tail == self.words(word::HEAD).load(Relaxed) {
                return None;
            }
            let slot = self.queue(tail).load(Relaxed) % self.layout.slots;
            let taken =
                self.words(word::TAIL)
                    .compare_exchange(tail, tail.wrapping_add(1), SeqCst, SeqCst);
            // A consumer took the packet: the next one is the oldest. The queue gets shorter with each
            // turn.
            if taken.is_err() {
                continue;
            }
            self.record(slot, record::STATE)
                .store(state::WRITING, Relaxed);
            let frames = self.record(slot, record::FRAMES).load(Relaxed);
            return Some((Slot(slot), frames));
        }
    }

    /// The data of a slot.
    pub fn data(&mut self, slot: &Slot) -> &mut [u8] {
        let offset = self.layout.data + slot.0 * self.layout.stride;
        self.memory.bytes_mut(offset, self.layout.slot_bytes)
    }

    /// Frees a slot without publishing it.
    pub fn give_back(&mut self, slot: Slot) {
        self.record(slot.0, record::STATE)
            .store(state::FREE, Release);
    }

    /// Appends a packet to the queue.
    pub fn publish(&mut self, slot: Slot, packet: &Record) {
        self.write_record(slot.0, packet);
        self.record(slot.0, record::STATE)
            .store(state::FILLED, Release);
        let head = self.words(word::HEAD).load(Relaxed);
        self.queue(head).store(slot.0, Release);
        self.words(word::HEAD).store(head.wrapping_add(1), SeqCst);
        self.count(Counter::Packets, 1);
        self.count(Counter::Bytes, packet.bytes.into());
        self.note_queued(head.wrapping_add(1));
    }

    /// Notes the number of waiting packets. Consumers write `TAIL` all the time, and its cache line is
    /// theirs: `TAIL` is read only if its last known value does not rule out a new maximum.
    fn note_queued(&mut self, head: u32) {
        let max = self.counter(Counter::QueuedMax).load(Relaxed);
        if u64::from(head.wrapping_sub(self.tail_seen)) <= max {
            return;
        }
        self.tail_seen = self.words(word::TAIL).load(Relaxed);
        let queued = u64::from(head.wrapping_sub(self.tail_seen));
        self.counter(Counter::QueuedMax)
            .store(queued.max(max), Relaxed);
    }

    fn write_record(&self, slot: u32, packet: &Record) {
        for (field, value) in [
            (record::FRAMES, packet.frames),
            (record::BYTES, packet.bytes),
            (record::FLAGS, packet.flags),
            (record::LOST, packet.lost),
            (record::ESTIMATED, packet.estimated),
            (record::PEAK, packet.peak.to_bits()),
            (record::RMS, packet.rms.to_bits()),
        ] {
            self.record(slot, field).store(value, Relaxed);
        }
        for (field, value) in [
            (record::SEQUENCE, packet.sequence),
            (record::POSITION, packet.position),
            (record::TIME_NS, packet.time_ns),
            (record::PUBLISHED_NS, packet.published_ns),
        ] {
            let offset = self.layout.table + slot * RECORD_BYTES + field;
            self.memory.shared().u64(offset).store(value, Relaxed);
        }
    }

    /// Adds to a counter.
    pub fn count(&self, counter: Counter, more: u64) {
        let cell = self.counter(counter);
        // There is one writer, so a load and a store suffice.
        cell.store(cell.load(Relaxed).wrapping_add(more), Relaxed);
    }

    /// Sets a counter that is a gauge.
    pub fn set(&self, counter: Counter, value: u64) {
        self.counter(counter).store(value, Relaxed);
    }

    /// A counter.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> &AtomicU64 {
        counter_of(self.memory.shared(), counter)
    }

    /// A word of the control block.
    #[must_use]
    pub fn words(&self, index: u32) -> &AtomicU32 {
        self.memory.shared().u32(index * 4)
    }

    fn queue(&self, entry: u32) -> &AtomicU32 {
        let index = entry & self.layout.queue_mask();
        self.memory.shared().u32(QUEUE_OFFSET + index * 4)
    }

    fn record(&self, slot: u32, field: u32) -> &AtomicU32 {
        let offset = self.layout.table + slot * RECORD_BYTES + field;
        self.memory.shared().u32(offset)
    }
}

/// A counter of a ring's memory.
#[must_use]
pub fn counter_of(memory: &Memory, counter: Counter) -> &AtomicU64 {
    memory.u64(COUNTERS + counter as u32 * 8)
}

#[cfg(test)]
pub(crate) mod tests;
