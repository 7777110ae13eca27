//! A server's life: load in waves of 96 threads, silence, light work, and the end.
//!
//! A request grows a body by realloc from 64 KiB to 1 MiB, makes and frees small temporaries, and
//! leaves objects in a table that all threads share: an object that it replaces there, of any thread,
//! is freed.
//! Bodies are held for 5 ms, as while an upstream answers, so that many live at once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use crate::meter::Meter;
use crate::random::Random;
use crate::sys::{self, Block, Body};

/// One request under load is one operation. A unit is a request of each thread, over all waves. CPU
/// time counts to the end, with what the allocator does in the silence.
pub fn run(meter: &mut Meter, units: u64) {
    let requests = u32::try_from(units).unwrap_or(u32::MAX) / WAVES;
    let requests = requests.max(1);
    let retained = Retained::new();
    meter.start();
    for wave in 0..WAVES {
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let random = Random::new(wave * THREADS + thread + 1);
                let retained = &retained;
                scope.spawn(move || serve(retained, random, requests, BODY_BYTES_MAX));
            }
        });
    }
    meter.mark("load");
    meter.mark_after_pause("idle");
    serve(
        &retained,
        Random::new(SEED),
        LIGHT_REQUESTS,
        LIGHT_BODY_BYTES_MAX,
    );
    meter.mark("light");
    retained.clear();
    meter.mark_after_pause("freed");
    meter.stop(u64::from(WAVES) * u64::from(THREADS) * u64::from(requests));
}

/// Threads that stay: all of them sleep between two waves.
pub struct Crew {
    shared: Arc<Shared>,
}

struct Shared {
    retained: Retained,
    /// Requests of each thread in the next wave.
    requests: AtomicU32,
    begin: Barrier,
    end: Barrier,
}

impl Crew {
    /// Threads that sleep.
    pub fn new() -> Self {
        let together = THREADS as usize + 1;
        let shared = Arc::new(Shared {
            retained: Retained::new(),
            requests: AtomicU32::new(0),
            begin: Barrier::new(together),
            end: Barrier::new(together),
        });
        for number in 0..THREADS {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.work(Random::new(number + 1)));
        }
        Self { shared }
    }

    /// A wave of so many requests, the same number for each thread.
    pub fn wave(&self, requests: u64) {
        let each = u32::try_from(requests).unwrap_or(u32::MAX) / THREADS;
        self.shared.requests.store(each.max(1), Ordering::Relaxed);
        self.shared.begin.wait();
        self.shared.end.wait();
    }

    /// Bytes of the objects that are left, as the allocator counts them.
    pub fn live_bytes(&self) -> usize {
        self.shared.retained.live_bytes()
    }
}

impl Default for Crew {
    fn default() -> Self {
        Self::new()
    }
}

impl Shared {
    fn work(&self, mut random: Random) {
        loop {
            self.begin.wait();
            let requests = self.requests.load(Ordering::Relaxed);
            let seed = random.draw();
            serve(
                &self.retained,
                Random::new(seed | 1),
                requests,
                BODY_BYTES_MAX,
            );
            self.end.wait();
        }
    }
}

fn serve(retained: &Retained, mut random: Random, requests: u32, body_bytes_max: usize) {
    for _ in 0..requests {
        let mut body = Body::new(BODY_BYTES_MIN);
        let mut bytes = BODY_BYTES_MIN;
        while bytes < body_bytes_max {
            bytes *= 2;
            body.grow(bytes);
            make_temporaries(&mut random);
        }
        retained.replace_some(&mut random);
        thread::sleep(UPSTREAM);
    }
}

fn make_temporaries(random: &mut Random) {
    let mut some: [Option<Block>; 16] = [const { None }; 16];
    for _ in 0..TEMPORARIES {
        some[random.below(16)] = Some(Block::new(16 + random.below(1_024)));
    }
}

/// Objects that outlive their request, in a table under one lock a shard.
struct Retained {
    shards: [Mutex<&'static mut [Option<Block>]>; SHARDS],
}

impl Retained {
    fn new() -> Self {
        Self {
            shards: [(); SHARDS].map(|()| Mutex::new(sys::slots(SHARD_SLOTS))),
        }
    }

    fn replace_some(&self, random: &mut Random) {
        for _ in 0..RETAINED {
            let block = Block::new(64 + random.below(1_024));
            let shard = &self.shards[random.below(SHARDS)];
            let index = random.below(SHARD_SLOTS);
            let found = shard.lock().expect("no holder panics")[index].replace(block);
            // Freed outside of the lock, by a thread that seldom made it.
            drop(found);
        }
    }

    fn live_bytes(&self) -> usize {
        let bytes = |shard: &Mutex<&'static mut [Option<Block>]>| {
            let slots = shard.lock().expect("no holder panics");
            slots
                .iter()
                .flatten()
                .map(Block::usable_bytes)
                .sum::<usize>()
        };
        self.shards.iter().map(bytes).sum()
    }

    fn clear(&self) {
        for shard in &self.shards {
            shard.lock().expect("no holder panics").fill_with(|| None);
        }
    }
}

const SEED: u32 = 4_711;
const WAVES: u32 = 4;
const THREADS: u32 = 96;
const BODY_BYTES_MIN: usize = 64 * 1024;
const BODY_BYTES_MAX: usize = 1024 * 1024;
const TEMPORARIES: u32 = 40;
/// Objects that a request leaves: all in all many times as many as there are slots.
const RETAINED: u32 = 16;
const SHARDS: usize = 16;
const SHARD_SLOTS: usize = 320;
const UPSTREAM: Duration = Duration::from_millis(5);
const LIGHT_REQUESTS: u32 = 50;
const LIGHT_BODY_BYTES_MAX: usize = 128 * 1024;
