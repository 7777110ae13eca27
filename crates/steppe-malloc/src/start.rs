//! The start of a process's allocator: settings before the first block, handlers right after it.
//!
//! Invariant: the environment is read before the first heap is made; what may allocate is registered
//! once its thread has a heap.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::fork::{self, START};
use crate::heap::{Heap, threads};
use crate::heap_profile;
use crate::settings::{self, bytes, number, take};
use crate::{decay, depot, sys, tls};

const PROFILE_HEAP: &CStr = c"STEPPE_MALLOC_PROFILE_HEAP";
const PROFILE_HEAP_BYTES: &CStr = c"STEPPE_MALLOC_PROFILE_HEAP_BYTES";
const PROFILE_HEAP_SIGNAL: &CStr = c"STEPPE_MALLOC_PROFILE_HEAP_SIGNAL";
const PROFILE_HEAP_EVERY: &CStr = c"STEPPE_MALLOC_PROFILE_HEAP_EVERY";

static IS_READY: AtomicBool = AtomicBool::new(false);
static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

/// The calling thread's heap; a thread without one gets one. `None`: no memory, or the thread is at
/// its end and gave its heap back.
pub(crate) fn heap() -> Option<&'static Heap> {
    if !tls::has_heap() {
        prepare();
    }
    let heap = threads::attach()?;
    // A swap alone would have slow paths of all threads write the same cache line, and wait for it.
    if !IS_REGISTERED.load(Ordering::Relaxed) && !IS_REGISTERED.swap(true, Ordering::Relaxed) {
        fork::register();
        settings::read_late();
    }
    Some(heap)
}

/// The same as [`heap`], for a thread that gives a block back.
pub(crate) fn heap_to_free() -> Option<&'static Heap> {
    match tls::has_heap() || threads::is_one_of_many_frees() {
        true => heap(),
        false => None,
    }
}

/// True if libraries may be opened with `RTLD_DEEPBIND`, and so use the C library's `malloc`.
#[must_use]
pub fn keeps_deep_binding() -> bool {
    prepare();
    settings::KEEPS_DEEP_BINDING.load(Ordering::Relaxed)
}

fn prepare() {
    if IS_READY.load(Ordering::Acquire) {
        return;
    }
    let _guard = START.lock();
    if !IS_READY.load(Ordering::Relaxed) {
        settings::read();
        depot::set_processors(sys::processors());
        threads::prepare();
        IS_READY.store(true, Ordering::Release);
    }
}

/// Runs when the program starts, or the library that contains this is loaded. A search for
/// functions of other libraries is not possible within a request for memory.
#[cfg(not(any(miri, loom)))]
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

#[cfg_attr(
    any(miri, loom),
    expect(dead_code, reason = "models call what they try")
)]
extern "C" fn at_load() {
    // Makes the first heap, and registers its handlers, before any code can ask for a block while
    // the C library holds the lock of its list of handlers.
    heap();
    take(PROFILE_HEAP, "a writable file", |path| {
        let mut mean_bytes = heap_profile::MEAN_BYTES;
        take(PROFILE_HEAP_BYTES, "bytes, with K, M or G", |value| {
            mean_bytes = bytes(value).filter(|&bytes| bytes > 0)?;
            Some(())
        });
        let is_path = heap_profile::write_at_exit(path);
        (is_path && heap_profile::start(mean_bytes)).then_some(())
    });
    take(
        PROFILE_HEAP_SIGNAL,
        "HUP, USR1 or USR2, beside STEPPE_MALLOC_PROFILE_HEAP",
        heap_profile::write_on_signal,
    );
    take(
        PROFILE_HEAP_EVERY,
        "seconds, 1 to 2000000, beside STEPPE_MALLOC_PROFILE_HEAP",
        |seconds| heap_profile::write_every(number(seconds)?),
    );
    if heap_profile::is_ever_due() {
        // A program that sleeps writes profiles as well.
        decay::start();
    }
}
