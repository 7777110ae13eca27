//! Frames missing between two packets, by the differences of the totals in their records.
//!
//! **Invariant:** a packet that the ring dropped hides no loss: the next one's record includes it.

use crate::layout::Counter;
use crate::packetizer::Loss;
use crate::ring::Record;
use crate::ring::consumer::Consumer;

/// Place of a reader of a ring.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gaps {
    /// Position of the next packet if nothing is missing.
    next: u64,
    /// Number of lost frames so far that is an estimate; wraps.
    estimated: u32,
}

impl Gaps {
    /// Frames missing before this packet, which the reader has taken: exactly counted ones, and estimated ones.
    pub fn before(&mut self, packet: &Record) -> [Loss; 2] {
        let losses = self.until(packet.position, packet.estimated);
        self.next = packet.position + u64::from(packet.frames);
        losses
    }

    /// Like [`before`](Self::before), after the last packet. The producer publishes none meanwhile.
    #[expect(clippy::cast_possible_truncation, reason = "records have the low word")]
    pub fn at_end(&mut self, consumer: &Consumer) -> [Loss; 2] {
        let position = consumer.counter(Counter::Frames);
        let estimated = consumer.counter(Counter::EstimatedFrames) as u32;
        let losses = self.until(position, estimated);
        self.next = position;
        losses
    }

    fn until(&mut self, position: u64, estimated: u32) -> [Loss; 2] {
        let missing = position.saturating_sub(self.next);
        let more = u64::from(estimated.wrapping_sub(self.estimated)).min(missing);
        self.estimated = estimated;
        [Loss::exact(missing - more), Loss::estimated(more)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(position: u64, estimated: u32) -> Record {
        Record {
            frames: 10,
            position,
            estimated,
            ..Record::default()
        }
    }

    #[test]
    fn what_is_missing_is_the_difference_of_two_records() {
        let mut gaps = Gaps::default();
        let mut missing = |position, estimated| {
            let [exact, inferred] = gaps.before(&packet(position, estimated));
            (exact.frames, inferred.frames)
        };
        assert_eq!(missing(0, 0), (0, 0));
        assert_eq!(missing(30, 20), (0, 20));
        assert_eq!(missing(45, 20), (5, 0));
        // Packets between them were dropped, and frames were lost of both kinds.
        assert_eq!(missing(100, 27), (38, 7));
        assert_eq!(missing(110, 27), (0, 0));
    }

    #[test]
    fn estimates_wrap() {
        let mut gaps = Gaps {
            next: 50,
            estimated: u32::MAX - 4,
        };
        let losses = gaps.before(&packet(60, 5));
        assert_eq!(losses, [Loss::exact(0), Loss::estimated(10)]);
    }
}
