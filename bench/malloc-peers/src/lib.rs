//! rusty_alloc as a library to preload: the crate itself ships none.
//!
//! Leaves out: every entry of the malloc family that the load programs don't reach.

mod sys;
