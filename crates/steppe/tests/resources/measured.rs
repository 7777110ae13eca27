//! Judgments that a busy machine changes: processor time, rates and system calls.

mod config_memory;
mod memory;
mod syscalls;
