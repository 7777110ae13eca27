//! A server that frees what it allocates, and whose allocator can't give it back.
//!
//! `lab-retaining ADDRESS [STEP]`: each request allocates two blocks that are STEP bytes larger than
//! the last ones. It shrinks the second to a pin of 24 bytes and frees the first. The hole that this
//! leaves is too small for the next block, and the pin keeps it from being joined with others or cut
//! off the heap's end. Each connection has a thread, and most threads an arena of glibc: what is live
//! grows by 24 bytes a request, what is resident by the size of the block.

#[path = "server.rs"]
mod server;

use std::cell::Cell;
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

/// Reserved beforehand: it would be live memory that grows.
static PINS: Mutex<Vec<Box<[u8]>>> = Mutex::new(Vec::new());
const PINS_MAX: usize = 1 << 20;
const PIN: usize = 24;

/// Below glibc's threshold for mappings of their own, which do go back.
const BLOCK_MIN: usize = 2_048;
const BLOCK_MAX: usize = 120 << 10;

thread_local! {
    static BLOCK: Cell<usize> = const { Cell::new(BLOCK_MIN) };
}

fn main() -> std::io::Result<()> {
    let step = usize::try_from(server::number(2, 16)).unwrap_or(16);
    pins().reserve(PINS_MAX);
    server::serve(move || {
        let len = BLOCK.get();
        BLOCK.set((len + step).min(BLOCK_MAX));
        let block = black_box(vec![0x5a_u8; len]);
        let mut pin = black_box(vec![0x5a_u8; len]);
        pin.truncate(PIN);
        let pin = pin.into_boxed_slice();
        drop(block);
        let mut pins = pins();
        if pins.len() < PINS_MAX {
            pins.push(pin);
        }
    })
}

fn pins() -> std::sync::MutexGuard<'static, Vec<Box<[u8]>>> {
    PINS.lock().unwrap_or_else(PoisonError::into_inner)
}
