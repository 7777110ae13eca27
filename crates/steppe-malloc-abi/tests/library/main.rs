//! The library in other programs: preloaded, linked and installed.
//!
//! The library itself is never linked here. Its effects on a process are seen in processes that a
//! test starts, so all tests are one program.

mod abi;
mod cxx_links;
mod deep_binding;
mod exhaustion;
mod files;
mod filters;
mod glibc;
mod glibc_blocks;
mod idleness;
mod install;
mod large_programs;
mod limits;
mod many;
mod matrix;
mod misuse;
mod musl;
mod namespaces;
mod preload;
mod purges;
mod refusals;
mod servers;
mod sleeping;
mod support;
mod tails;
mod targets;
mod valgrind;
mod wheel;
