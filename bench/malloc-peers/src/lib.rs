//! rusty_alloc as a library to preload: it has none of its own.
//!
//! Leaves out: every entry of the malloc family that the load programs don't reach.

mod sys;
