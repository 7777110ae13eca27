//! A wrong free is reported on standard error and harms neither other blocks nor the books.
//!
//! In the hardened build it ends the process. Each mistake is made in a child, whose exit status
//! tells how it went.
#![expect(unsafe_code, reason = "frees what may not be freed")]

use steppe_malloc::{raw, stats};

const BYTES: usize = 40;
/// Bytes of a block of this test, the hardened build's fence included.
const BLOCK_BYTES: usize = 48;
/// Exit code of a child whose books are right.
const RIGHT: i32 = 7;

/// Makes a mistake in a child that also holds another block. Returns the child's exit code, or its
/// signal, negative.
fn in_a_child(mistake: fn(*mut u8)) -> i32 {
    // SAFETY: the child allocates, which this allocator's children may, and ends.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no child");
    if child == 0 {
        let kept = raw::allocate(BYTES);
        mistake(raw::allocate(BYTES));
        // Blocks in bins go to the slabs, where misuse is detected.
        raw::on_idle();
        let live = stats::read().live_bytes;
        // SAFETY: the one block that lives.
        unsafe { raw::free(kept) };
        raw::trim();
        let is_right = live == BLOCK_BYTES && stats::read().live_bytes == 0;
        // SAFETY: ends the child.
        unsafe { libc::_exit(if is_right { RIGHT } else { 0 }) };
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call; the child is ours.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    match libc::WIFEXITED(status) {
        true => libc::WEXITSTATUS(status),
        false => -libc::WTERMSIG(status),
    }
}

fn free_once(block: *mut u8) {
    // SAFETY: just handed out.
    unsafe { raw::free(block) };
}

fn free_twice(block: *mut u8) {
    free_once(block);
    free_once(block);
}

fn free_within(block: *mut u8) {
    free_once(block.wrapping_add(16));
    free_once(block);
}

fn free_elsewhere(block: *mut u8) {
    let mut local = [0_u8; 64];
    free_once(local.as_mut_ptr());
    free_once(block);
}

fn free_mapping_twice(block: *mut u8) {
    free_once(block);
    let block = raw::allocate(4 << 20);
    free_once(block.wrapping_add(4096));
    free_once(block);
    free_once(block);
}

fn free_run_twice(block: *mut u8) {
    free_once(block);
    let block = raw::allocate(100_000);
    free_once(block.wrapping_add(65_536));
    free_once(block);
    free_once(block);
}

#[test]
fn mistakes_are_told_and_left_alone() {
    let expected = match cfg!(feature = "hardened") {
        true => -libc::SIGABRT,
        false => RIGHT,
    };
    assert_eq!(in_a_child(free_once), RIGHT);
    let mistakes = [
        free_twice as fn(*mut u8),
        free_within,
        free_elsewhere,
        free_mapping_twice,
        free_run_twice,
    ];
    for (number, mistake) in mistakes.into_iter().enumerate() {
        assert_eq!(in_a_child(mistake), expected, "mistake {number}");
    }
}
