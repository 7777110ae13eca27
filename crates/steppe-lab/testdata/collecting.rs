//! A server whose garbage is collected: a request's block is free when the heap is full or on demand.
//!
//! `lab-collecting ADDRESS [BYTES [HEAP_MIB [LEAK]]]`: each request allocates a block of BYTES and forgets
//! where it is. Once they are HEAP_MIB together, or at SIGUSR2, all are freed and go back to the system.
//! LEAK further bytes a request are never freed. With `MALLOC_MMAP_THRESHOLD_` at
//! BYTES or below, each block is a mapping of its own, which goes back when it is freed.

#[path = "server.rs"]
mod server;

use std::sync::{Mutex, PoisonError};

use signal_hook::consts::SIGUSR2;
use signal_hook::iterator::Signals;

static HEAP: Mutex<Vec<Box<[u8]>>> = Mutex::new(Vec::new());

fn main() -> std::io::Result<()> {
    let size = |index, default| usize::try_from(server::number(index, default)).unwrap_or(0);
    let (len, heap_len, leak) = (size(2, 65_536), size(3, 16) << 20, size(4, 0));
    let mut signals = Signals::new([SIGUSR2])?;
    std::thread::spawn(move || signals.forever().for_each(|_| heap().clear()));
    server::serve(move || {
        std::mem::forget(vec![0x5a_u8; leak].into_boxed_slice());
        let mut heap = heap();
        heap.push(vec![0x5a_u8; len].into_boxed_slice());
        if heap.len() * len >= heap_len {
            heap.clear();
        }
    })
}

fn heap() -> std::sync::MutexGuard<'static, Vec<Box<[u8]>>> {
    HEAP.lock().unwrap_or_else(PoisonError::into_inner)
}
