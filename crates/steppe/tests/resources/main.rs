//! Memory, processor time and system calls of a node, and of parts that are called in process.
//!
//! Each test judges a measurement, so each is to run alone: the runner finds them by the module's name.

mod measured;
