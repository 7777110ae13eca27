//! A server that grows to a plateau: a cache that fills as random keys are asked for, and is then full.
//!
//! `lab-plateau ADDRESS [ENTRIES] [BYTES]`: the share that is still missing falls by 1/e with every
//! ENTRIES requests.

#[path = "server.rs"]
mod server;

use std::sync::{Mutex, OnceLock, PoisonError};

struct Cache {
    entries: Vec<Option<Box<[u8]>>>,
    random: u64,
}

static CACHE: OnceLock<Mutex<Cache>> = OnceLock::new();

fn main() -> std::io::Result<()> {
    let entries = usize::try_from(server::number(2, 4096)).unwrap_or(usize::MAX);
    let len = usize::try_from(server::number(3, 4096)).unwrap_or(usize::MAX);
    let cache = Cache {
        entries: vec![None; entries],
        random: 1,
    };
    let cache = CACHE.get_or_init(|| Mutex::new(cache));
    server::serve(move || {
        let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
        // Knuth's MMIX generator: its upper half is good enough to pick a key.
        cache.random = cache
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let key = usize::try_from(cache.random >> 32).unwrap_or(0) % cache.entries.len();
        let entry = &mut cache.entries[key];
        if entry.is_none() {
            *entry = Some(vec![0x5a; len].into_boxed_slice());
        }
    })
}
