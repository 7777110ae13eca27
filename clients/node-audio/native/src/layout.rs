//! Layout of the memory that JavaScript and native code share.
//!
//! `native/MEMORY.md` specifies the same layout, and `src/layout.ts` is generated from this file (`tests/layout.rs`).
//! All numbers are little-endian, all offsets in bytes from the start of the memory, and nothing in it is a pointer.

use crate::error::{Error, Result};
use crate::limits::{RING_BYTES_MAX, SLOT_BYTES_MAX, SLOTS_MAX, SLOTS_MIN};

/// Value of the first word: "STAU".
pub const MAGIC: u32 = 0x5354_4155;
/// Version of the layout; raised whenever this file changes it.
pub const VERSION: u32 = 4;

/// 32-bit words of the control block, by index. Each writer has a cache line of its own.
pub mod word {
    /// [`MAGIC`](super::MAGIC).
    pub const MAGIC: u32 = 0;
    /// [`VERSION`](super::VERSION).
    pub const VERSION: u32 = 1;
    /// Number of slots.
    pub const SLOTS: u32 = 2;
    /// Bytes that a packet may have.
    pub const SLOT_BYTES: u32 = 3;
    /// Bytes from a slot's data to the next one's.
    pub const STRIDE: u32 = 4;
    /// Offset of the queue of filled slots.
    pub const QUEUE: u32 = 5;
    /// Entries of the queue less one; their number is a power of two.
    pub const QUEUE_MASK: u32 = 6;
    /// Offset of the slot table.
    pub const TABLE: u32 = 7;
    /// Offset of the slots' data.
    pub const DATA: u32 = 8;
    /// Frames a second, in Hz.
    pub const RATE: u32 = 9;
    /// Samples of a frame.
    pub const CHANNELS: u32 = 10;
    /// `Sample::code`.
    pub const SAMPLE: u32 = 11;
    /// Frames of a full packet.
    pub const PACKET_FRAMES: u32 = 12;

    /// Packets published; wraps. Written by the producer.
    pub const HEAD: u32 = 16;
    /// Packets taken out of the queue; wraps. A reader takes an entry by raising it with a compare-exchange.
    pub const TAIL: u32 = 32;
    /// Values of [`doorbell`](super::doorbell).
    pub const DOORBELL: u32 = 48;
    /// Number of blocking readers that sleep.
    pub const WAITERS: u32 = 49;
    /// State of the capture: [`OPEN`](super::closed::OPEN), [`ENDED`](super::closed::ENDED) or
    /// [`FAILED`](super::closed::FAILED).
    pub const CLOSED: u32 = 50;
    /// 1: there are events to fetch.
    pub const EVENTS: u32 = 51;
    /// Blocking readers that have begun; wraps.
    pub const READERS_BEGUN: u32 = 52;
    /// Blocking readers that have ended; wraps.
    pub const READERS_ENDED: u32 = 53;
}

/// Values of [`word::DOORBELL`].
pub mod doorbell {
    /// The next event, or the next packets that a source tells together, wake the event loop.
    pub const SILENT: u32 = 0;
    /// A wake of the event loop is under way.
    pub const RUNG: u32 = 1;
    /// Events wake the event loop, packets don't: a Worker takes them.
    pub const EVENTS: u32 = 2;
}

/// Values of [`word::CLOSED`].
pub mod closed {
    /// The capture goes on.
    pub const OPEN: u32 = 0;
    /// The capture ended normally: closed, or a source with an end.
    pub const ENDED: u32 = 1;
    /// The capture failed; an event has the error.
    pub const FAILED: u32 = 2;
}

/// Offset of the counters.
pub const COUNTERS: u32 = 256;

/// 64-bit counters, by index from [`COUNTERS`]. The producer writes them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Counter {
    /// Frames that were delivered or lost: the position of the next one.
    Frames,
    /// Packets published.
    Packets,
    /// Bytes published.
    Bytes,
    /// Packets that an overrun dropped.
    DroppedPackets,
    /// Frames of these packets.
    DroppedFrames,
    /// Frames that the source lost before they were delivered here.
    LostFrames,
    /// Frames of silent packets that were left out.
    SilentFrames,
    /// Frames that the gate left out.
    GatedFrames,
    /// Frames that came during a pause.
    PausedFrames,
    /// Packets that found a free slot.
    Hits,
    /// Packets that found no free slot.
    Misses,
    /// Frames copied or converted from one buffer to another, each time.
    CopiedFrames,
    /// Wakes of the event loop.
    Wakes,
    /// Discontinuities.
    Discontinuities,
    /// Connections to a sound server or device that were made again.
    Reconnects,
    /// Most packets that waited in the queue at a time.
    QueuedMax,
    /// Sum of the times from a packet's last frame to its publication, in ns.
    LatencyNs,
    /// Missing frames that are silence: of the second of two sources, or of one of a program's streams.
    FilledFrames,
    /// Events that were lost since JavaScript did not fetch them.
    LostEvents,
    /// Frames of [`LostFrames`](Self::LostFrames) that were inferred from the time that has passed.
    EstimatedFrames,
    /// Offset from a packet's time to the time since 1970, in ns, with a sign.
    WallOffsetNs,
    /// Bound of the error of that offset, in ns.
    WallErrorNs,
    /// Times that the wall clock was set.
    WallSteps,
    /// Bound of the error of packets' times, in ns, as far as the source knows.
    TimeErrorNs,
    /// Capture time of the first frame, also of one that was lost or left out, in ns of the monotonic clock; 0 before
    /// there is one.
    StartedNs,
    /// Most frames of a program's streams that may be missing, and are in no other counter: the server recorded a
    /// stream later than it announced it, or ended it before its last frames had come.
    UnheardFrames,
}

/// Number of [`Counter`]s.
pub const COUNTERS_LEN: u32 = Counter::UnheardFrames as u32 + 1;

/// Offset of the queue: the part before it has a size of its own.
pub const QUEUE_OFFSET: u32 = 512;

/// Bytes of a record of the slot table.
pub const RECORD_BYTES: u32 = 64;

/// Offsets of fields in a record of the slot table.
pub mod record {
    /// `u32`: owner of the slot, see [`state`](super::state).
    pub const STATE: u32 = 0;
    /// `u32`: frames.
    pub const FRAMES: u32 = 4;
    /// `u32`: bytes of data.
    pub const BYTES: u32 = 8;
    /// `u32`: see [`flag`](super::flag).
    pub const FLAGS: u32 = 12;
    /// `u64`: number of packets before this one, dropped ones included.
    pub const SEQUENCE: u32 = 16;
    /// `u64`: number of frames before this packet that were delivered or lost.
    pub const POSITION: u32 = 24;
    /// `u64`: capture time of the packet's first frame, in ns of the monotonic clock.
    pub const TIME_NS: u32 = 32;
    /// `u32`: total of frames lost by the source before this packet; wraps.
    pub const LOST: u32 = 40;
    /// `u32`: part of `LOST` that was inferred from the time that has passed; wraps.
    pub const ESTIMATED: u32 = 44;
    /// `u64`: time of publication, in ns of the monotonic clock.
    pub const PUBLISHED_NS: u32 = 48;
    /// `f32`: the largest sample, 1 at full scale.
    pub const PEAK: u32 = 56;
    /// `f32`: the root of the mean of the samples' squares, 1 at full scale.
    pub const RMS: u32 = 60;
}

/// Values of [`record::STATE`]. A slot that is held has the number of its holders there.
pub mod state {
    /// The slot is free.
    pub const FREE: u32 = 0;
    /// The slot is in the queue.
    pub const FILLED: u32 = 0x4000_0000;
    /// The producer writes the slot.
    pub const WRITING: u32 = 0x2000_0000;
}

/// Bits of [`record::FLAGS`].
pub mod flag {
    /// Every sample is zero, or the source reported silence.
    pub const SILENT: u32 = 1;
    /// The packet does not follow on the one before it: frames were lost, or left out.
    pub const DISCONTINUITY: u32 = 2;
    /// The time is estimated, not the device's.
    pub const TIME_ESTIMATED: u32 = 4;
    /// The gate opened with this packet.
    pub const VOICE_BEGINS: u32 = 8;
}

/// Alignment of slots: cache lines, `Float32Array` and SIMD loads.
const ALIGNMENT: u64 = 64;

/// The sizes of one ring's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Number of slots.
    pub slots: u32,
    /// Bytes that a packet may have.
    pub slot_bytes: u32,
    /// Bytes from a slot to the next.
    pub stride: u32,
    /// Offset of the slot table.
    pub table: u32,
    /// Offset of the first slot's data.
    pub data: u32,
    /// Bytes in all.
    pub bytes: u32,
}

impl Layout {
    /// The sizes of a ring of `slots` slots of `slot_bytes` bytes.
    ///
    /// # Errors
    /// [`Error::Options`] when a limit is exceeded.
    pub fn new(slots: u32, slot_bytes: u32) -> Result<Self> {
        if !(SLOTS_MIN..=SLOTS_MAX).contains(&slots) {
            return Err(Error::Options(format!(
                "ring.slots is {slots}; expected {SLOTS_MIN} to {SLOTS_MAX}"
            )));
        }
        if !(1..=SLOT_BYTES_MAX).contains(&slot_bytes) {
            return Err(Error::Options(format!(
                "ring.slotBytes is {slot_bytes}; expected 1 to {SLOT_BYTES_MAX}"
            )));
        }
        let queue = u64::from(slots.next_power_of_two()) * 4;
        let table = aligned(u64::from(QUEUE_OFFSET) + queue);
        let data = aligned(table + u64::from(slots) * u64::from(RECORD_BYTES));
        let stride = aligned(u64::from(slot_bytes));
        let bytes = data + u64::from(slots) * stride;
        if bytes > RING_BYTES_MAX {
            return Err(Error::Options(format!(
                "a ring of {slots} slots of {slot_bytes} bytes needs {bytes} bytes; at most {RING_BYTES_MAX} are allowed"
            )));
        }
        let narrow = |size: u64| u32::try_from(size).expect("at most RING_BYTES_MAX");
        Ok(Self {
            slots,
            slot_bytes,
            stride: narrow(stride),
            table: narrow(table),
            data: narrow(data),
            bytes: narrow(bytes),
        })
    }

    /// Entries of the queue less one.
    #[must_use]
    pub fn queue_mask(self) -> u32 {
        self.slots.next_power_of_two() - 1
    }
}

fn aligned(size: u64) -> u64 {
    size.next_multiple_of(ALIGNMENT)
}

const _: () = assert!(COUNTERS + COUNTERS_LEN * 8 <= QUEUE_OFFSET);
const _: () = assert!((QUEUE_OFFSET as u64).is_multiple_of(ALIGNMENT));
// A count of holders stays below the values that name an owner.
const _: () = assert!(state::WRITING < state::FILLED && state::WRITING > 1 << 28);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_in_cache_lines() {
        let layout = Layout::new(5, 1_921).unwrap();
        assert_eq!(layout.queue_mask(), 7);
        assert_eq!((layout.table, layout.data), (576, 896));
        assert_eq!((layout.stride, layout.bytes), (1_984, 896 + 5 * 1_984));
    }

    #[test]
    fn sizes_have_limits() {
        let invalid = [
            (1, 64),
            (16_385, 64),
            (2, 0),
            (2, SLOT_BYTES_MAX + 1),
            (65, SLOT_BYTES_MAX),
        ];
        for (slots, slot_bytes) in invalid {
            assert!(
                Layout::new(slots, slot_bytes).is_err(),
                "{slots} {slot_bytes}"
            );
        }
    }
}
