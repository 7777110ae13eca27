//! The calling thread's heap: one pointer of thread-local storage, never null.
//!
//! `thread_local!` in a shared library calls `__tls_get_addr` for each access. A symbol of the
//! initial-exec model is read with two instructions, and stable Rust can define one in assembly. It
//! takes eight bytes of the static storage that the loader reserves for libraries opened later.
//!
//! Invariant: before a thread has a heap, and after it gave it back, the pointer is to a static
//! heap whose bins are empty and full at once, so neither `malloc` nor `free` needs a check.

use crate::heap::{EMPTY, Heap};

#[cfg(not(any(miri, loom)))]
core::arch::global_asm!(
    ".pushsection .tdata.steppe_malloc_heap,\"awT\",@progbits",
    ".p2align 3",
    ".globl steppe_malloc_heap",
    ".hidden steppe_malloc_heap",
    ".type steppe_malloc_heap, @object",
    ".size steppe_malloc_heap, 8",
    "steppe_malloc_heap:",
    ".8byte {empty}",
    ".popsection",
    empty = sym EMPTY,
);

/// The calling thread's heap.
#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
#[inline(always)]
pub(crate) fn heap() -> &'static Heap {
    let heap: *const Heap;
    // SAFETY: reads the thread's own pointer, defined above, by the offset that the loader wrote.
    unsafe {
        core::arch::asm!(
            "mov {heap}, qword ptr [rip + steppe_malloc_heap@GOTTPOFF]",
            "mov {heap}, qword ptr fs:[{heap}]",
            heap = out(reg) heap,
            options(nostack, preserves_flags, readonly, pure),
        );
    }
    // SAFETY: the static one or a record of `meta`: neither is ever unmapped.
    unsafe { &*heap }
}

/// Points the calling thread to a heap.
#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
pub(crate) fn set_heap(heap: &'static Heap) {
    // SAFETY: writes the thread's own pointer.
    unsafe {
        core::arch::asm!(
            "mov {at}, qword ptr [rip + steppe_malloc_heap@GOTTPOFF]",
            "mov qword ptr fs:[{at}], {heap}",
            at = out(reg) _,
            heap = in(reg) core::ptr::from_ref(heap),
            options(nostack, preserves_flags),
        );
    }
}

/// The calling thread's heap.
#[cfg(all(target_arch = "aarch64", not(any(miri, loom))))]
#[inline(always)]
pub(crate) fn heap() -> &'static Heap {
    let heap: *const Heap;
    // SAFETY: reads the thread's own pointer, defined above, by the offset that the loader wrote.
    unsafe {
        core::arch::asm!(
            "adrp {at}, :gottprel:steppe_malloc_heap",
            "ldr {at}, [{at}, :gottprel_lo12:steppe_malloc_heap]",
            "mrs {heap}, tpidr_el0",
            "ldr {heap}, [{heap}, {at}]",
            at = out(reg) _,
            heap = out(reg) heap,
            options(nostack, preserves_flags, readonly, pure),
        );
    }
    // SAFETY: the static one or a record of `meta`: neither is ever unmapped.
    unsafe { &*heap }
}

/// Points the calling thread to a heap.
#[cfg(all(target_arch = "aarch64", not(any(miri, loom))))]
pub(crate) fn set_heap(heap: &'static Heap) {
    // SAFETY: writes the thread's own pointer.
    unsafe {
        core::arch::asm!(
            "adrp {at}, :gottprel:steppe_malloc_heap",
            "ldr {at}, [{at}, :gottprel_lo12:steppe_malloc_heap]",
            "mrs {base}, tpidr_el0",
            "str {heap}, [{base}, {at}]",
            at = out(reg) _,
            base = out(reg) _,
            heap = in(reg) core::ptr::from_ref(heap),
            options(nostack, preserves_flags),
        );
    }
}

#[cfg(any(miri, loom))]
mod by_std {
    extern crate std;

    use std::cell::Cell;

    use super::{EMPTY, Heap};

    std::thread_local! {
        static HEAP: Cell<&'static Heap> = const { Cell::new(&EMPTY) };
    }

    pub(crate) fn heap() -> &'static Heap {
        HEAP.get()
    }

    pub(crate) fn set_heap(heap: &'static Heap) {
        HEAP.set(heap);
    }
}
#[cfg(any(miri, loom))]
pub(crate) use by_std::{heap, set_heap};

/// True if the calling thread has a heap of its own.
pub(crate) fn has_heap() -> bool {
    !core::ptr::eq(heap(), &raw const EMPTY)
}
