//! What `steppe-bench malloc` runs under every allocator: plain programs on the C malloc family.
//!
//! Invariant: between the marks of a case nothing but the case itself allocates; tables of pointers
//! are mapped, and `/proc` is read into the stack, so that what is told is the allocator's own.
//! Leaves out: choosing an allocator, which is the dynamic linker's (`LD_PRELOAD`), and repeating
//! and comparing, which is the bench's.

pub mod cases;
pub mod meter;
pub mod random;
pub mod served;
pub mod status;
#[expect(unsafe_code, reason = "the malloc family is C's")]
pub mod sys;
