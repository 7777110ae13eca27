//! Threads that share nothing but blocks, for ThreadSanitizer to watch.
//!
//! A block goes from one thread to another through a box, with the order that its swap gives, or
//! through the allocator, which has to give the same: each thread that gets a block writes to it.
//!
//! `cargo xtask prove` runs this, and [`planted`] to check that a race is detected. Without it,
//! contents are compared all the same. Threads are the system's own: the standard library is not
//! instrumented.
#![expect(unsafe_code, reason = "raw blocks are what is tested")]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use steppe_malloc::profile::{self, Profile};
use steppe_malloc::raw;

const THREADS: usize = if cfg!(miri) { 3 } else { 4 };
const TURNS: usize = if cfg!(miri) { 40 } else { 4_000 };

static BOXES: [AtomicPtr<u8>; 32] = [const { AtomicPtr::new(ptr::null_mut()) }; 32];
static STARTED: AtomicU32 = AtomicU32::new(0);

/// Blocks as programs have them: mostly small, some runs, few mappings.
fn size(number: u32) -> usize {
    let number = number as usize;
    match number >> 16 & 127 {
        0..100 => number % 500,
        100..120 => number % 20_000,
        120..127 => number % 300_000,
        _ => number % 3_000_000,
    }
    .max(9)
}

fn next(random: &mut u32) -> u32 {
    *random ^= *random << 13;
    *random ^= *random >> 17;
    *random ^= *random << 5;
    *random
}

/// Writes to the first and to the last word of the requested bytes.
fn mark(block: *mut u8, bytes: usize) {
    // SAFETY: the block has more than eight bytes and is this thread's.
    unsafe { block.cast::<usize>().write(bytes) };
    // SAFETY: as above; a byte at a time, since the end may be anywhere.
    unsafe { block.add(bytes - 1).write(bytes.to_le_bytes()[0]) };
}

fn check_and_free(block: *mut u8) {
    // SAFETY: the thread that put it into the box wrote that.
    let bytes = unsafe { block.cast::<usize>().read() };
    // SAFETY: as above.
    let last = unsafe { block.add(bytes - 1).read() };
    assert_eq!(last, bytes.to_le_bytes()[0], "overwritten");
    // SAFETY: this thread took it out of the box.
    unsafe { raw::free(block) };
}

extern "C" fn live(_: *mut c_void) -> *mut c_void {
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    let mut random = number.wrapping_mul(0x9e37_79b9) | 1;
    for turn in 0..TURNS {
        let bytes = size(next(&mut random));
        let block = raw::allocate(bytes);
        assert!(!block.is_null());
        mark(block, bytes);
        let place = &BOXES[next(&mut random) as usize % BOXES.len()];
        let before = place.swap(block, Ordering::AcqRel);
        if !before.is_null() {
            check_and_free(before);
        }
        match turn % 1_000 {
            500 => raw::on_idle(),
            900 if number.is_multiple_of(3) => {
                raw::trim();
            }
            _ => {}
        }
    }
    ptr::null_mut()
}

fn start(body: extern "C" fn(*mut c_void) -> *mut c_void) -> libc::pthread_t {
    let mut thread = 0;
    let (attributes, nothing) = (ptr::null(), ptr::null_mut());
    // SAFETY: `thread` is written before this returns; the body is a function of this program.
    let refused = unsafe { libc::pthread_create(&raw mut thread, attributes, body, nothing) };
    assert_eq!(refused, 0);
    thread
}

fn join(thread: libc::pthread_t) {
    // SAFETY: started by `start`, joined once.
    unsafe { libc::pthread_join(thread, ptr::null_mut()) };
}

#[test]
fn threads_exchange_blocks() {
    let is_long = std::env::var_os("STEPPE_LONG").is_some_and(|value| value == "1");
    let waves = match is_long {
        _ if cfg!(miri) => 2,
        true => 240,
        false => 12,
    };
    for wave in 0..waves {
        profile::set([Profile::Balanced, Profile::Lean, Profile::Speed][wave % 3]);
        let threads = [(); THREADS].map(|()| start(live));
        threads.into_iter().for_each(join);
    }
    for place in &BOXES {
        let block = place.swap(ptr::null_mut(), Ordering::AcqRel);
        if !block.is_null() {
            check_and_free(block);
        }
    }
}

/// The block of the planted race, shared without synchronization.
static SHARED: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

extern "C" fn write_unasked(_: *mut c_void) -> *mut c_void {
    for _ in 0..1_000 {
        // SAFETY: the block lives until both threads ended. The race of their writes is intended.
        unsafe { SHARED.load(Ordering::Relaxed).write_volatile(1) };
    }
    ptr::null_mut()
}

#[test]
fn planted() {
    if std::env::var_os("STEPPE_PLANTED_RACE").is_none() {
        return;
    }
    SHARED.store(raw::allocate(64), Ordering::Relaxed);
    let threads = [start(write_unasked), start(write_unasked)];
    threads.into_iter().for_each(join);
    // SAFETY: both threads ended.
    unsafe { raw::free(SHARED.load(Ordering::Relaxed)) };
}
