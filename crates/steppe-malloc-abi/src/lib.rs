//! The C ABI of steppe-malloc: what `libsteppe_malloc.so` and `libsteppe_malloc.a` export.
//!
//! Each function is a few lines around `steppe_malloc::raw`: it checks what the C standards, POSIX
//! and glibc 2.36 want checked, and sets `errno` as they do. How memory is kept is the other
//! crate's business. `docs/malloc.md` is the guide for users, `include/steppe_malloc.h` declares
//! the functions that no standard knows.
//!
//! Invariant: only C names leave the library, and nothing in it allocates or unwinds.
//!
//! It is built in one way, `cargo build --profile release-malloc -p steppe-malloc-abi`: that profile
//! aborts on a panic, which leaves the standard library out, and the result depends on libc alone.
//! Under the profiles of development, which unwind, it links the standard library: good for lints,
//! not for use.
//!
//! Left out: the throwing forms of C++ `operator new`. The ones of the C++ library call `malloc`,
//! and only they can throw what their callers catch.
#![cfg_attr(panic = "abort", no_std)]
#![expect(unsafe_code, reason = "a C ABI takes and returns raw pointers")]

mod allocation;
mod cxx;
mod errno;
mod introspection;
mod own;
mod runtime;
mod text;
