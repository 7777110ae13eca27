//! Functions that glibc 2.34 moved into libc, under the versions that they have had from the beginning: the library
//! runs with glibc 2.28, whichever it was built with.
//!
//! The linker of the shared library is told to take `__wrap_NAME` for `NAME` (`--wrap`, see `build.rs`). Each of these
//! is a tail jump to the old version of `NAME`, which newer libraries keep, or an answer of its own where there is none:
//! before 2.34 `NAME` is in libpthread or libdl, and a program may have loaded neither. It has no threads then.
//!
//! Weak, hidden and without callers in the static library: there the program's linker finds `NAME` itself.
//!
//! Leaves out: functions that are new since 2.28. Nothing here may call one; a test reads the library's symbols.

/// The version of everything in the first glibc of the machine.
#[cfg(target_arch = "x86_64")]
macro_rules! first_version {
    () => {
        "GLIBC_2.2.5"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! first_version {
    () => {
        "GLIBC_2.17"
    };
}

/// Jumps to `target` unless it is null, and returns `missing` then. Registers of arguments stay as they are.
#[cfg(target_arch = "x86_64")]
macro_rules! jump_or {
    ($target:expr, $missing:literal) => {
        concat!(
            "mov rax, qword ptr [rip + ",
            $target,
            "@GOTPCREL]\n",
            "test rax, rax\n",
            "je 2f\n",
            "jmp rax\n",
            "2: mov eax, ",
            $missing,
            "\n",
            "ret\n",
        )
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! jump_or {
    ($target:expr, $missing:literal) => {
        concat!(
            "adrp x16, :got:",
            $target,
            "\n",
            "ldr x16, [x16, :got_lo12:",
            $target,
            "]\n",
            "cbz x16, 2f\n",
            "br x16\n",
            "2: mov w0, #",
            $missing,
            "\n",
            "ret\n",
        )
    };
}

macro_rules! moved {
    ($($name:literal or $missing:literal,)*) => {$(
        core::arch::global_asm!(
            concat!(".weak steppe_malloc_old_", $name),
            concat!(".symver steppe_malloc_old_", $name, ", ", $name, "@", first_version!()),
            concat!(".pushsection .text.steppe_malloc_old_", $name, ",\"ax\",@progbits"),
            concat!(".weak __wrap_", $name),
            concat!(".hidden __wrap_", $name),
            concat!(".type __wrap_", $name, ", @function"),
            concat!("__wrap_", $name, ":"),
            jump_or!(concat!("steppe_malloc_old_", $name), $missing),
            concat!(".size __wrap_", $name, ", . - __wrap_", $name),
            ".popsection",
        );
    )*};
}

// The names of `build.rs`. Error numbers are those of Linux: 3 is ESRCH, 11 EAGAIN, 22 EINVAL.
moved! {
    "dlsym" or 0,
    "pthread_attr_setstacksize" or 22,
    "pthread_create" or 11,
    "pthread_getspecific" or 0,
    "pthread_join" or 3,
    "pthread_key_create" or 11,
    "pthread_setspecific" or 11,
    "pthread_sigmask" or 22,
}
