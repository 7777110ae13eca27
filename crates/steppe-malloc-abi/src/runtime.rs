//! The symbols that the compiler requires of a library without the standard library.
//!
//! Nothing here is meant to run: no path of the allocator panics, and no frame of it is unwound.

/// Aborts without a message: its formatting would need the memory that this library hands out.
#[cfg(panic = "abort")]
#[panic_handler]
fn abort_on_panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: `abort` has no precondition.
    unsafe { libc::abort() }
}

// The prebuilt `core` has tables for unwinding that name this function. Hidden and weak: it leaves
// neither the shared library nor, beside another Rust library, the static one.
#[cfg(panic = "abort")]
core::arch::global_asm!(
    ".weak rust_eh_personality",
    ".hidden rust_eh_personality",
    ".type rust_eh_personality, @function",
    "rust_eh_personality:",
    ".byte 0",
);
