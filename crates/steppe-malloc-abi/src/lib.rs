//! The C ABI of steppe-malloc: the functions that `libsteppe_malloc.so` and `libsteppe_malloc.a` export.
//!
//! Each function is a few lines around `steppe_malloc::raw`: it checks the contract of the C standards, POSIX and
//! glibc 2.36, and sets `errno` as they specify. Allocation itself is in `steppe-malloc`. `docs/malloc/README.md` is
//! the guide for users; `include/steppe_malloc.h` declares the functions that no standard has.
//!
//! Invariant: only C names leave the library, and nothing in it allocates or unwinds.
//!
//! The only supported build is `cargo build --profile release-malloc -p steppe-malloc-abi`: that profile aborts on a
//! panic, which leaves the standard library out, so the result depends on libc alone. The development profiles unwind
//! and link the standard library: good for lints, not for use.
//!
//! Non-goals: C++ `operator new` and `operator delete`. The C++ library's own call `malloc` and `free`, and those that the
//! program replaces, by their symbols: a form of ours would pass an allocator by that is linked into the program, and only
//! theirs can throw an exception that their callers catch.
//!
//! # Map of files
//! - `allocation.rs`: allocation functions of `<stdlib.h>` and `<malloc.h>`: `malloc`, `calloc`, `realloc`, `free`,
//!   aligned variants
//! - `deep_binding.rs`: `dlopen` without `RTLD_DEEPBIND`, for glibc
//! - `glibc_free.rs`: look-up of glibc's own `free`, for blocks of its `malloc`
//! - `introspection.rs`: statistics and tuning functions of glibc: `malloc_trim`, `mallinfo2`, `malloc_info`,
//!   `malloc_stats`, `mallopt`
//! - `own.rs`: functions of `include/steppe_malloc.h`: version, profile, statistics, heap profile
//! - `jump.rs`: jumps to functions by name
//! - `filters.rs`: `prctl`, by which programs announce filters of system calls
//! - `single_threaded.rs`: `unshare` and `setns`, which a process of several threads is refused
//! - `glibc.rs`: functions of glibc under versions that glibc 2.28 has
//! - `errno.rs`: `errno` of the calling thread
//! - `text.rs`: text formatting into a fixed buffer, without allocation
//! - `runtime.rs`: panic handler for the build without the standard library
#![cfg_attr(panic = "abort", no_std)]
#![expect(unsafe_code, reason = "a C ABI takes and returns raw pointers")]

mod allocation;
#[cfg(target_env = "gnu")]
mod deep_binding;
mod errno;
mod filters;
#[cfg(target_env = "gnu")]
mod glibc;
#[cfg(target_env = "gnu")]
mod glibc_free;
mod introspection;
mod jump;
mod own;
mod runtime;
mod single_threaded;
mod text;
