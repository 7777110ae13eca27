//! Measurements that depend on a quiet machine: processor time, rates and system calls.

mod config_memory;
mod memory;
mod syscalls;
