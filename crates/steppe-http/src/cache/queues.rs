//! The order in which stored responses are evicted: S3-FIFO, in bytes.
//!
//! A new response is on probation, in a queue of a tenth of the bytes, and is evicted from there unless it was used.
//! A used one moves to the main queue, where each use buys another round. So the responses of a scan, each requested
//! once, pass through the probation and evict no others. A ghost, the hash of a response evicted from the probation,
//! lets the response enter the main queue when it is stored again.
//!
//! Non-goals: look-ups (`store.rs`). Only weak handles are held here.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::stored::StoredResponse;
use crate::limits::CACHE_GHOSTS;

/// Both queues, and the ghosts.
pub(super) struct Queues {
    probation: EvictionQueue,
    main: EvictionQueue,
    /// Tags of evicted responses, by hash.
    ghosts: Box<[u32]>,
}

#[derive(Default)]
struct EvictionQueue {
    entries: VecDeque<Weak<StoredResponse>>,
    bytes: usize,
    /// Entries that were taken out of the store elsewhere, about.
    gone: usize,
}

const PROBATION: u8 = 1;
const MAIN: u8 = 2;
/// Taken out of the store, perhaps before it was added here.
const GONE: u8 = 3;

/// The probation holds one part in so many of all bytes.
const PROBATION_PART: usize = 10;

impl Default for Queues {
    fn default() -> Self {
        Self {
            probation: EvictionQueue::default(),
            main: EvictionQueue::default(),
            ghosts: vec![0; CACHE_GHOSTS].into(),
        }
    }
}

impl Queues {
    /// Adds a response, unless it was taken out of the store meanwhile.
    pub(super) fn push(&mut self, stored: &Arc<StoredResponse>) {
        if stored.mark.queue.load(Ordering::Relaxed) == GONE {
            return;
        }
        let hash = stored.key.hash;
        let place = &mut self.ghosts[place(hash)];
        let is_back = *place == tag(hash);
        if is_back {
            *place = 0;
        }
        let (queue, name) = match is_back {
            true => (&mut self.main, MAIN),
            false => (&mut self.probation, PROBATION),
        };
        stored.mark.queue.store(name, Ordering::Relaxed);
        queue.push(stored);
    }

    /// Takes out a response that was taken out of the store.
    pub(super) fn forget(&mut self, stored: &StoredResponse) {
        let queue = match stored.mark.queue.swap(GONE, Ordering::Relaxed) {
            PROBATION => &mut self.probation,
            MAIN => &mut self.main,
            _ => return,
        };
        queue.bytes -= stored.mark.bytes.load(Ordering::Relaxed);
        queue.gone += 1;
        queue.compact();
    }

    /// Takes out the response that is evicted next.
    pub(super) fn pop(&mut self) -> Option<Arc<StoredResponse>> {
        loop {
            let is_long = self.probation.bytes * PROBATION_PART >= self.bytes();
            let is_first = is_long || self.main.entries.is_empty();
            let from_probation = is_first.then(|| self.probation.pop()).flatten();
            let is_on_probation = from_probation.is_some();
            let Some(stored) = from_probation.or_else(|| self.main.pop()) else {
                if self.probation.entries.is_empty() {
                    return None;
                }
                continue;
            };
            if stored.mark.spend() {
                stored.mark.queue.store(MAIN, Ordering::Relaxed);
                self.main.push(&stored);
                continue;
            }
            if is_on_probation {
                let hash = stored.key.hash;
                self.ghosts[place(hash)] = tag(hash);
            }
            return Some(stored);
        }
    }

    /// Memory of the responses in both queues.
    pub(super) fn bytes(&self) -> usize {
        self.probation.bytes + self.main.bytes
    }

    /// Number of responses in both queues.
    pub(super) fn len(&self) -> usize {
        let queues = [&self.probation, &self.main];
        let live = |queue: &EvictionQueue| queue.entries.len().saturating_sub(queue.gone);
        queues.into_iter().map(live).sum()
    }
}

impl EvictionQueue {
    fn push(&mut self, stored: &Arc<StoredResponse>) {
        self.bytes += stored.mark.bytes.load(Ordering::Relaxed);
        self.entries.push_back(Arc::downgrade(stored));
    }

    /// Takes out the first response that is still stored, marked as being in no queue.
    fn pop(&mut self) -> Option<Arc<StoredResponse>> {
        while let Some(entry) = self.entries.pop_front() {
            let stored = entry.upgrade();
            // A response that was taken out may still be read.
            let live = stored.filter(|stored| is_queued(stored));
            match live {
                Some(stored) => {
                    stored.mark.queue.store(0, Ordering::Relaxed);
                    self.bytes -= stored.mark.bytes.load(Ordering::Relaxed);
                    return Some(stored);
                }
                None => self.gone = self.gone.saturating_sub(1),
            }
        }
        None
    }

    /// Drops entries of responses that were taken out, once they are many.
    fn compact(&mut self) {
        const GONE_MAX: usize = 64;
        if self.gone > GONE_MAX.max(self.entries.len() / 2) {
            self.entries
                .retain(|entry| entry.upgrade().is_some_and(|stored| is_queued(&stored)));
            self.gone = 0;
        }
    }
}

fn is_queued(stored: &StoredResponse) -> bool {
    matches!(stored.mark.queue.load(Ordering::Relaxed), PROBATION | MAIN)
}

fn place(hash: u64) -> usize {
    usize::try_from(hash % CACHE_GHOSTS as u64).expect("it is less than a length")
}

/// Never 0, which is none.
fn tag(hash: u64) -> u32 {
    u32::try_from(hash >> 32).expect("32 bits are left") | 1
}
