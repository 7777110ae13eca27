//! A ring with a consumer like JavaScript's.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::thread;

use super::sys::Heap;
use super::{Record, Ring, consumer};
use crate::layout::{Layout, record, state, word};

/// A ring of memory that is never freed.
pub fn ring(slots: u32, slot_bytes: u32) -> Ring {
    let layout = Layout::new(slots, slot_bytes).unwrap();
    let heap = Heap::new(layout.bytes);
    let ring = Ring::new(heap.producer(), layout).unwrap();
    std::mem::forget(heap);
    ring
}

/// A packet that is held, and its data.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    pub packet: Record,
    pub data: Vec<u8>,
    held: consumer::Taken,
}

/// A consumer that reads data as well.
#[derive(Debug, Clone, Copy)]
pub struct Consumer(consumer::Consumer);

impl Consumer {
    pub fn of(ring: &Ring) -> Self {
        Self(consumer::Consumer::of(ring))
    }

    pub fn take(&self) -> Option<Taken> {
        self.0.take().map(|held| self.with_data(held))
    }

    pub fn release(&self, taken: &Taken) {
        self.0.release(&taken.held);
    }

    /// The current contents of the slot of this packet.
    fn read_again(&self, taken: &Taken) -> Taken {
        self.with_data(self.0.read(taken.held.slot))
    }

    fn with_data(&self, held: consumer::Taken) -> Taken {
        let mut data: Vec<u8> = self.0.words(&held).flat_map(u32::to_le_bytes).collect();
        data.truncate(held.packet.bytes as usize);
        Taken {
            packet: held.packet,
            data,
            held,
        }
    }

    fn state(&self, taken: &Taken) -> &AtomicU32 {
        self.0.field(taken.held.slot, record::STATE)
    }
}

fn put(ring: &mut Ring, value: u32) -> bool {
    let slot = ring.acquire().or_else(|| Some(ring.reclaim()?.0));
    let Some(slot) = slot else { return false };
    ring.data(&slot)[..4].copy_from_slice(&value.to_le_bytes());
    let packet = Record {
        frames: 1,
        bytes: 4,
        sequence: value.into(),
        ..Record::default()
    };
    ring.publish(slot, &packet);
    true
}

fn value(taken: &Taken) -> u32 {
    u32::from_le_bytes(taken.data[..].try_into().unwrap())
}

#[test]
fn packets_come_in_order_and_slots_come_back() {
    let mut ring = ring(3, 4);
    let consumer = Consumer::of(&ring);
    assert_eq!(consumer.take(), None);
    for round in 0..100 {
        assert!(put(&mut ring, round * 2) && put(&mut ring, round * 2 + 1));
        for expected in [round * 2, round * 2 + 1] {
            let taken = consumer.take().unwrap();
            assert_eq!(
                (value(&taken), taken.packet.sequence),
                (expected, expected.into())
            );
            consumer.release(&taken);
        }
    }
    assert_eq!(
        ring.counter(crate::layout::Counter::Misses).load(Relaxed),
        0
    );
}

#[test]
fn the_oldest_filled_slot_is_reclaimed_and_a_held_one_never() {
    let mut ring = ring(3, 4);
    let consumer = Consumer::of(&ring);
    (0..3).for_each(|n| assert!(put(&mut ring, n)));
    let held = consumer.take().unwrap();
    // Packet 1 is the oldest in the queue now.
    assert!(put(&mut ring, 3));
    let (second, third) = (consumer.take().unwrap(), consumer.take().unwrap());
    assert_eq!((value(&second), value(&third)), (2, 3));
    assert!(ring.is_full() && !put(&mut ring, 4), "every slot is held");
    assert_eq!(value(&consumer.read_again(&held)), 0);
    consumer.release(&second);
    assert!(!ring.is_full() && put(&mut ring, 5));
    assert_eq!(value(&consumer.take().unwrap()), 5);
}

#[test]
fn a_slot_with_two_holders_is_free_after_both() {
    let mut ring = ring(2, 4);
    let consumer = Consumer::of(&ring);
    assert!(put(&mut ring, 1));
    let taken = consumer.take().unwrap();
    consumer.state(&taken).fetch_add(1, SeqCst);
    consumer.state(&taken).fetch_sub(1, SeqCst);
    assert!(put(&mut ring, 2) && put(&mut ring, 3));
    assert_eq!(value(&consumer.read_again(&taken)), 1);
    consumer.release(&taken);
    assert_eq!(consumer.state(&taken).load(SeqCst), state::FREE);
}

#[test]
fn the_longest_queue_is_noted_and_no_longer_one() {
    let mut ring = ring(4, 4);
    let consumer = Consumer::of(&ring);
    for (filled, longest) in [(2, 2), (1, 2), (3, 3), (4, 4), (2, 4)] {
        (0..filled).for_each(|n| assert!(put(&mut ring, n)));
        let noted = ring.counter(crate::layout::Counter::QueuedMax);
        assert_eq!(noted.load(Relaxed), longest, "{filled} wait");
        while let Some(taken) = consumer.take() {
            consumer.release(&taken);
        }
    }
}

#[test]
fn the_queue_goes_on_where_its_counts_wrap() {
    let mut ring = ring(3, 4);
    ring.words(word::HEAD).store(u32::MAX - 1, SeqCst);
    ring.words(word::TAIL).store(u32::MAX - 1, SeqCst);
    let consumer = Consumer::of(&ring);
    for n in 0..8 {
        assert!(put(&mut ring, n));
        let taken = consumer.take().unwrap();
        assert_eq!(value(&taken), n);
        consumer.release(&taken);
    }
}

#[test]
fn two_consumers_and_a_producer_that_reclaims_share_every_packet_once() {
    const PACKETS: u32 = 20_000;
    let mut ring = ring(8, 4);
    let consumer = Consumer::of(&ring);
    let done = AtomicU32::new(0);
    let (mut reclaimed, mut refused) = (0, 0);
    let taken: Vec<Vec<u32>> = thread::scope(|scope| {
        let drain = || {
            let mut values = Vec::new();
            loop {
                let is_last = done.load(SeqCst) == 1;
                while let Some(taken) = consumer.take() {
                    values.push(value(&taken));
                    consumer.release(&taken);
                }
                if is_last {
                    return values;
                }
                thread::yield_now();
            }
        };
        let running = [scope.spawn(drain), scope.spawn(drain)];
        for n in 0..PACKETS {
            let slot = match ring.acquire() {
                Some(slot) => Some(slot),
                None => ring.reclaim().map(|(slot, frames)| {
                    reclaimed += frames;
                    slot
                }),
            };
            match slot {
                Some(slot) => {
                    ring.data(&slot)[..4].copy_from_slice(&n.to_le_bytes());
                    let packet = Record {
                        frames: 1,
                        bytes: 4,
                        ..Record::default()
                    };
                    ring.publish(slot, &packet);
                }
                None => refused += 1,
            }
        }
        done.store(1, SeqCst);
        running.map(|one| one.join().unwrap()).into()
    });
    assert!(taken.iter().all(|values| values.is_sorted()));
    let mut all = taken.concat();
    all.sort_unstable();
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count, "one was taken twice");
    assert_eq!(u32::try_from(count).unwrap() + reclaimed + refused, PACKETS);
}
