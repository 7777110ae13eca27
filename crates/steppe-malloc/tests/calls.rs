//! System calls of a program that allocates: no more for twice the work.
//!
//! A child that is traced does some work; each of its calls stops it twice. Statistics are read on
//! the way and may not allocate.
#![expect(unsafe_code, reason = "processes, and raw blocks")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::c_int;
use std::fmt::{self, Write};
use std::ptr;

use steppe_malloc::{SteppeMalloc, profile, raw, stats};

/// The allocator; counts the requests of a thread.
struct Counting;

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is forwarded.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: promised by the caller.
        unsafe { SteppeMalloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: promised by the caller.
        unsafe { SteppeMalloc.dealloc(block, layout) }
    }
}

/// Counts text and forgets it.
struct Length(usize);

impl Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

const SLOTS: usize = 400;

/// Random sizes up to 1 KiB in random slots, and statistics now and then.
fn work(operations: usize) {
    let mut slots = [ptr::null_mut::<u8>(); SLOTS];
    let mut random = 2_463_534_242_u32;
    for operation in 0..operations {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        let slot = &mut slots[random as usize % SLOTS];
        if slot.is_null() {
            *slot = raw::allocate(16 + (random as usize & 0x3ff));
        } else {
            // SAFETY: in a slot, so not given back.
            unsafe { raw::free(*slot) };
            *slot = ptr::null_mut();
        }
        if operation % 50_000 == 0 {
            let _ = stats::read();
        }
    }
    for slot in slots {
        // SAFETY: null, or not given back.
        unsafe { raw::free(slot) };
    }
}

/// Stops of a traced child during its work, after as much work to warm up: two a system call.
fn stops(operations: usize) -> usize {
    // SAFETY: the child allocates, which this allocator's children may, and ends.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no child");
    if child == 0 {
        // Nothing may become due in between: a call would give it back.
        profile::set_decay_ms(u32::MAX - 1);
        work(200_000);
        // SAFETY: takes no pointer.
        unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
        // SAFETY: the parent goes on when this stops.
        unsafe { libc::raise(libc::SIGSTOP) };
        work(operations);
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    let wait = || {
        let mut status: c_int = 0;
        // SAFETY: `status` outlives the call.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        status
    };
    assert!(libc::WIFSTOPPED(wait()), "the child stops by itself first");
    for stops in 0.. {
        // SAFETY: the child is stopped.
        unsafe { libc::ptrace(libc::PTRACE_SYSCALL, child, 0, 0) };
        let status = wait();
        if libc::WIFEXITED(status) {
            assert_eq!(libc::WEXITSTATUS(status), 0);
            return stops;
        }
        assert!(libc::WIFSTOPPED(status), "the child ended: {status:x}");
    }
    0
}

#[test]
fn measured_twice_the_work_is_as_many_calls() {
    let (once, twice) = (stops(300_000), stops(600_000));
    assert!(once > 0, "at least the end is a call");
    assert_eq!(once, twice);

    let before = CALLS.get();
    let mut length = Length(0);
    stats::write_json(&mut length).unwrap();
    let heaps = stats::heaps().count();
    let live = stats::read().live_bytes;
    assert_eq!(CALLS.get(), before, "statistics allocated");
    assert!(length.0 > 100 && heaps > 0 && live > 0);
    drop(std::hint::black_box(vec![1_u8; 10]));
    assert_eq!(CALLS.get(), before + 1, "and that would have been seen");
}
