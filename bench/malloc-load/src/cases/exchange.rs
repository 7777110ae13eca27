//! Blocks that one thread allocates and another frees, handed over 256 at a time.
//!
//! In *handover* that is all: producer and consumer. In *freeing* the producer keeps about 45 MB
//! alive, replaces random blocks of it, and every one that is replaced is freed by the other
//! thread, which never allocates: freed memory has to get back to the producer's heap.

use std::mem;
use std::sync::{Condvar, Mutex};
use std::thread;

use crate::meter::Meter;
use crate::random::Random;
use crate::sys::{self, Block};

/// Producer and consumer. One malloc or one free is one operation.
pub fn handover(meter: &mut Meter, operations: u64) {
    let batches = (operations / 2 / BATCH as u64).max(1);
    let mut random = Random::new(SEED);
    let queue = Queue::new();
    meter.start();
    exchange(&queue, batches, |_| Block::new(block_bytes(random.draw())));
    meter.stop(batches * 2 * BATCH as u64);
    meter.mark("live");
    meter.mark_after_pause("idle");
}

/// A thread that only frees what another allocates. One malloc or one free is one operation.
#[expect(clippy::cast_possible_truncation, reason = "slots are few")]
pub fn freeing(meter: &mut Meter, operations: u64) {
    let batches = (operations / 2 / BATCH as u64).max(1);
    let mut random = Random::new(SEED);
    let (kept, lengths) = (sys::slots(KEPT), &mut [0_u16; KEPT]);
    let mut live_bytes = 0_u64;
    for (slot, length) in kept.iter_mut().zip(lengths.iter_mut()) {
        *length = block_bytes(random.draw()) as u16;
        live_bytes += u64::from(*length);
        *slot = Some(Block::new((*length).into()));
    }
    let queue = Queue::new();
    meter.start();
    exchange(&queue, batches, |_| {
        let index = random.below(KEPT);
        let bytes = block_bytes(random.draw());
        live_bytes += bytes as u64;
        live_bytes -= u64::from(mem::replace(&mut lengths[index], bytes as u16));
        let replaced = kept[index].replace(Block::new(bytes));
        replaced.expect("every slot is full")
    });
    meter.stop(batches * 2 * BATCH as u64);
    meter.live_bytes(live_bytes);
    meter.mark("live");
    kept.fill_with(|| None);
    meter.mark_after_pause("idle");
}

/// Hands over `batches`, made by this thread and freed by another.
fn exchange(queue: &Queue, batches: u64, mut produce: impl FnMut(usize) -> Block) {
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..batches {
                drop(queue.take());
            }
        });
        for _ in 0..batches {
            let mut batch = [const { None }; BATCH];
            for (index, slot) in batch.iter_mut().enumerate() {
                *slot = Some(produce(index));
            }
            queue.put(batch);
        }
    });
}

type Batch = [Option<Block>; BATCH];

/// A ring of batches. Waiting costs a system call only when it is full or empty.
struct Queue {
    ring: Mutex<Ring>,
    changed: Condvar,
}

struct Ring {
    batches: [Option<Batch>; RING],
    first: usize,
    count: usize,
}

impl Queue {
    const fn new() -> Self {
        let ring = Ring {
            batches: [const { None }; RING],
            first: 0,
            count: 0,
        };
        Self {
            ring: Mutex::new(ring),
            changed: Condvar::new(),
        }
    }

    fn put(&self, batch: Batch) {
        let ring = self.ring.lock().expect("no holder panics");
        let is_full = |ring: &mut Ring| ring.count == RING;
        let mut ring = self
            .changed
            .wait_while(ring, is_full)
            .expect("no holder panics");
        let free = (ring.first + ring.count) % RING;
        ring.batches[free] = Some(batch);
        ring.count += 1;
        drop(ring);
        self.changed.notify_one();
    }

    fn take(&self) -> Option<Batch> {
        let ring = self.ring.lock().expect("no holder panics");
        let is_empty = |ring: &mut Ring| ring.count == 0;
        let mut ring = self
            .changed
            .wait_while(ring, is_empty)
            .expect("no holder panics");
        let first = ring.first;
        ring.first = (first + 1) % RING;
        ring.count -= 1;
        let batch = ring.batches[first].take();
        drop(ring);
        self.changed.notify_one();
        batch
    }
}

const fn block_bytes(drawn: u32) -> usize {
    16 + (drawn & 0x3ff) as usize
}

const SEED: u32 = 99;
const BATCH: usize = 256;
const RING: usize = 8;
/// With 527.5 bytes a block on average, 45 MB.
const KEPT: usize = 86_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_gives_back_what_was_put_in_order() {
        let queue = Queue::new();
        for full in [1, 3] {
            let mut batch: Batch = [const { None }; BATCH];
            batch[..full].fill_with(|| Some(Block::new(1)));
            queue.put(batch);
        }
        let count = |batch: Option<Batch>| batch.map(|batch| batch.iter().flatten().count());
        assert_eq!(
            [count(queue.take()), count(queue.take())],
            [Some(1), Some(3)]
        );
    }
}
