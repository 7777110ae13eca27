//! The clock of times in packets: monotonic, the one that `process.hrtime` reads.

pub mod device;
pub mod sys;
pub mod timeline;
pub mod wall;

/// Now, in ns of the monotonic clock.
#[must_use]
pub fn now_ns() -> u64 {
    sys::monotonic_ns()
}
