//! `dlopen` without `RTLD_DEEPBIND`, so that opened libraries use the same `malloc` as their program.
//!
//! A library that is opened with that flag looks symbols up in itself and in its dependencies before it looks in the
//! program (dlopen(3)). The C library is among these, so its `malloc` is found there, not ours, and blocks that pass
//! between the library and the program are freed by another allocator than they came from. PHP opens its extensions so.
//!
//! The C library finds the caller of `dlopen` by the return address: its `RUNPATH`, `$ORIGIN` and namespace. So the
//! function below jumps to the next `dlopen` with the caller's return address in place.
//!
//! Left out: `dlmopen`, which loads a C library of its own, and musl, which knows no such flag.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use steppe_malloc::start;

/// The function that [`dlopen`] jumps to, and the flags that it keeps; in two registers, as both C ABIs return it.
#[repr(C)]
struct Next {
    /// The next `dlopen`; null in a static program, where no library follows.
    function: *mut c_void,
    flags: usize,
}

/// The next `dlopen`, once it was looked up.
static FUNCTION: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Looks `dlopen` up at the first call, which may itself allocate and wait for the dynamic linker's lock.
extern "C" fn next() -> Next {
    let mut function = FUNCTION.load(Ordering::Relaxed);
    if function.is_null() {
        // SAFETY: the name ends with a nul.
        function = unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr()) };
        // Threads that look it up at once find the same.
        FUNCTION.store(function, Ordering::Relaxed);
    }
    let removed = match start::keeps_deep_binding() {
        true => 0,
        false => libc::RTLD_DEEPBIND.unsigned_abs() as usize,
    };
    Next {
        function,
        flags: !removed,
    }
}

/// dlopen(3).
///
/// A static program has no next `dlopen`, but the C library's own with the caller as an argument, where anything in the
/// program links it.
///
/// # Safety
/// As the function of the C library: the initializers of the library are run.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void {
    core::arch::naked_asm!(
        ".weak __dlopen",
        "push rdi",
        "push rsi",
        "push rax", // calls are made at a multiple of 16 bytes
        "call {next}",
        "pop rcx",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jz 2f",
        "and esi, edx",
        "jmp rax",
        "2:",
        "mov rax, qword ptr [rip + __dlopen@GOTPCREL]",
        "test rax, rax",
        "jz 3f",
        "mov rdx, qword ptr [rsp]",
        "jmp rax",
        "3:",
        "ret",
        next = sym next,
    );
}

/// dlopen(3).
///
/// A static program has no next `dlopen`, but the C library's own with the caller as an argument, where anything in the
/// program links it.
///
/// # Safety
/// As the function of the C library: the initializers of the library are run.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void {
    core::arch::naked_asm!(
        ".weak __dlopen",
        "stp x29, x30, [sp, #-32]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "bl {next}",
        // Branch target identification lets jumps to functions go by this register.
        "mov x16, x0",
        "mov x9, x1",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "cbz x16, 2f",
        "and w1, w1, w9",
        "br x16",
        "2:",
        "adrp x16, :got:__dlopen",
        "ldr x16, [x16, :got_lo12:__dlopen]",
        "cbz x16, 3f",
        "mov x2, x30",
        "br x16",
        "3:",
        "mov x0, xzr",
        "ret",
        next = sym next,
    );
}
