//! The fast paths of a block take no lock and make no system call.
//!
//! A child of the test takes every lock there is and asks the kernel to end it at its next call.
//! Work that the child then does without being ended took no lock and made no call.

use core::ffi::c_int;

use super::*;
use crate::raw;
use crate::size_class::BLOCK_BYTES;

/// Exit code of a child that gets to its end.
const DONE: c_int = 7;

/// Runs `work` in a child that has every lock and may only end. Returns how it ended.
fn in_a_cell(prepare: fn(), work: fn()) -> c_int {
    // SAFETY: the child calls nothing that another thread of this process may hold.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no child");
    if child == 0 {
        prepare();
        locks().for_each(Lock::close);
        // SAFETY: from here on only read, write, _exit and sigreturn are allowed.
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) };
        work();
        // SAFETY: ends the thread, and with it the child, which has one.
        unsafe { libc::syscall(libc::SYS_exit, DONE) };
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call; the child is ours.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    match libc::WIFEXITED(status) {
        true => libc::WEXITSTATUS(status),
        false => -libc::WTERMSIG(status),
    }
}

/// A size of each class.
fn sizes() -> impl Iterator<Item = usize> {
    BLOCK_BYTES.into_iter().skip(1).map(|bytes| bytes - 8)
}

/// Puts blocks into each bin.
fn warm_up() {
    for bytes in sizes() {
        let blocks = [0; 8].map(|_| raw::allocate(bytes));
        for block in blocks {
            // SAFETY: just handed out.
            unsafe { raw::free(block) };
        }
    }
}

fn go_short_ways() {
    for _ in 0..100_000 {
        for bytes in sizes() {
            let block = raw::allocate(bytes);
            // SAFETY: just handed out.
            unsafe { raw::free(block) };
        }
    }
}

fn allocate_a_mapping() {
    let _ = raw::allocate(8 << 20);
}

fn empty_a_bin() {
    for _ in 0..10_000 {
        let _ = raw::allocate(100);
    }
}

#[test]
fn short_ways_take_no_lock_and_make_no_call() {
    // The cell holds: a call ends the child, and so does a lock, which waits in the kernel.
    assert_eq!(in_a_cell(warm_up, allocate_a_mapping), -libc::SIGKILL);
    assert_eq!(in_a_cell(warm_up, empty_a_bin), -libc::SIGKILL);
    assert_eq!(in_a_cell(warm_up, go_short_ways), DONE);
}
