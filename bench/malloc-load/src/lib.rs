//! The load of `steppe-bench malloc`: plain programs on the C malloc family, run under every allocator.
//!
//! Invariant: between the marks of a case nothing but the case itself allocates; tables of pointers
//! are mapped, and `/proc` is read into the stack, so that the memory reported is the allocator's own.
//! Leaves out: the choice of an allocator, made by the dynamic linker (`LD_PRELOAD`), and repetition
//! and comparison, made by the bench.

pub mod cases;
pub mod meter;
pub mod random;
pub mod served;
pub mod status;
#[expect(unsafe_code, reason = "the malloc family is C's")]
pub mod sys;
