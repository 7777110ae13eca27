//! C++: every form of `operator delete`.
//!
//! [new.delete]: a program may replace a basic form and count on the others to call it. So each
//! other form jumps to the one that the standard has it call, through the dynamic symbol: a
//! replacement in the program is met there. The Itanium C++ ABI gives the names.
//!
//! Left out: `operator new`. The C++ library's throwing forms call `malloc`, and its others call those
//! and catch what they throw, which nothing in this library can: a form of ours would have to find out
//! whether the program replaced the throwing one, and in a static program nothing tells.

use core::ffi::c_void;

use steppe_malloc::raw;

use crate::jump::jump_to;

/// `operator delete(void*)`.
///
/// # Safety
/// `pointer` is null or a live block of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZdlPv(pointer: *mut c_void) {
    // Not the same function as `free` for the compiler, which would give both one address: tools replace functions by
    // theirs, and tell a mismatch of `new` and `free`.
    // SAFETY: no instruction.
    unsafe { core::arch::asm!("", options(nomem, nostack, preserves_flags)) };
    // SAFETY: the caller's promise is the same.
    unsafe { raw::free(pointer.cast()) }
}

/// Forms that do what another does. Its symbol is looked up when the program is linked, so a jump
/// to it leads to the program's own form when there is one; further arguments are ignored there.
macro_rules! forms {
    ($($name:ident => $target:literal, $form:literal;)*) => {$(
        #[doc = concat!("`", $form, "`.")]
        ///
        /// # Safety
        /// As [`_ZdlPv`].
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name(pointer: *mut c_void) {
            jump_to!($target)
        }
    )*};
}

forms! {
    _ZdaPv => "_ZdlPv", "operator delete[](void*)";
    _ZdlPvm => "_ZdlPv", "operator delete(void*, size_t)";
    _ZdaPvm => "_ZdaPv", "operator delete[](void*, size_t)";
    _ZdlPvRKSt9nothrow_t => "_ZdlPv", "operator delete(void*, nothrow_t)";
    _ZdaPvRKSt9nothrow_t => "_ZdaPv", "operator delete[](void*, nothrow_t)";
    _ZdaPvSt11align_val_t => "_ZdlPvSt11align_val_t", "operator delete[](void*, align_val_t)";
}

/// Forms for aligned memory, whose alignment has to move to the second argument.
macro_rules! sized_aligned_forms {
    ($($name:ident => $target:literal, $form:literal;)*) => {$(
        #[doc = concat!("`", $form, "`.")]
        ///
        /// # Safety
        /// As [`_ZdlPv`].
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name(pointer: *mut c_void, size: usize, align: usize) {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!("mov rsi, rdx", concat!("jmp ", $target, "@PLT"));
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!("mov x1, x2", concat!("b ", $target));
        }
    )*};
}

sized_aligned_forms! {
    _ZdlPvmSt11align_val_t => "_ZdlPvSt11align_val_t",
        "operator delete(void*, size_t, align_val_t)";
    _ZdaPvmSt11align_val_t => "_ZdaPvSt11align_val_t",
        "operator delete[](void*, size_t, align_val_t)";
}

/// Forms for aligned memory that ignore what follows the alignment.
macro_rules! aligned_forms {
    ($($name:ident => $target:literal, $form:literal;)*) => {$(
        #[doc = concat!("`", $form, "`.")]
        ///
        /// # Safety
        /// As [`_ZdlPv`].
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name(pointer: *mut c_void, align: usize) {
            jump_to!($target)
        }
    )*};
}

aligned_forms! {
    _ZdlPvSt11align_val_t => "free", "operator delete(void*, align_val_t)";
    _ZdlPvSt11align_val_tRKSt9nothrow_t => "_ZdlPvSt11align_val_t",
        "operator delete(void*, align_val_t, nothrow_t)";
    _ZdaPvSt11align_val_tRKSt9nothrow_t => "_ZdaPvSt11align_val_t",
        "operator delete[](void*, align_val_t, nothrow_t)";
}
