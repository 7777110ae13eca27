//! The statistics of steppe-malloc, and the search for its memory among mappings.

use std::ops::Range;

use procfs::process::Process;
use serde_json::{Value, json};
use steppe_malloc::heap_profile;
use steppe_malloc::stats::{self, Stats};

use super::figures::Figures;

/// The allocator's name in reports.
pub const NAME: &str = "steppe";

pub(super) type Allocator = steppe_malloc::SteppeMalloc;
pub(super) const ALLOCATOR: Allocator = steppe_malloc::SteppeMalloc;

/// Tells the allocator's memory from the process's other mappings.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllocatorView;

impl AllocatorView {
    /// True if some page of the allocator lies within `start..end`.
    #[must_use]
    pub fn owns(self, start: usize, end: usize) -> bool {
        steppe_malloc::raw::owns_any(Range { start, end })
    }

    /// Bytes of the allocator's metadata, whose mappings it can't identify.
    #[must_use]
    pub fn taken_bytes(self) -> u64 {
        stats::meta_bytes() as u64
    }

    /// False: the break segment belongs to the C library's own `malloc`.
    #[must_use]
    pub fn owns_break(self) -> bool {
        false
    }
}

/// The figures, summed from the metadata of each class: some microseconds.
#[expect(clippy::unnecessary_wraps, reason = "other allocators have none")]
pub(super) fn figures() -> Option<Figures> {
    let Stats {
        live_bytes,
        retained_bytes,
        dirty_bytes,
        meta_bytes,
        purged_bytes,
        ..
    } = stats::read();
    Some(Figures {
        live_bytes: live_bytes as u64,
        retained_bytes: retained_bytes as u64,
        dirty_bytes: dirty_bytes as u64,
        meta_bytes: meta_bytes as u64,
        purged_bytes,
    })
}

/// The allocator's JSON report, with the names of threads.
pub(super) fn details() -> Value {
    let mut text = String::new();
    let written = stats::write_json(&mut text);
    let details = written.ok().and_then(|()| serde_json::from_str(&text).ok());
    let mut details: Value = details.expect("the allocator writes JSON to a string that grows");
    for heap in details["heaps"].as_array_mut().into_iter().flatten() {
        heap["name"] = thread_name(&heap["thread"]);
    }
    details
}

/// The name of a thread; `null` if it has ended meanwhile.
fn thread_name(thread: &Value) -> Value {
    let id = thread.as_i64().and_then(|id| i32::try_from(id).ok());
    let process = Process::myself().ok();
    let task = id
        .zip(process)
        .map(|(id, process)| process.task_from_tid(id));
    match task.and_then(|task| task.ok()?.stat().ok()) {
        Some(stat) => json!(stat.comm),
        None => Value::Null,
    }
}

pub(super) fn start_heap_profile() -> bool {
    heap_profile::is_on() || heap_profile::start(heap_profile::MEAN_BYTES)
}

pub(super) fn stop_heap_profile() {
    heap_profile::stop();
}

pub(super) fn heap_profile() -> Option<String> {
    let mut text = String::new();
    let written = heap_profile::is_on().then(|| heap_profile::write(&mut text))?;
    written.ok().map(|()| text)
}

pub(super) fn dirty_bytes() -> u64 {
    stats::dirty_bytes() as u64
}

pub(super) fn purge() {
    steppe_malloc::raw::trim();
}

pub(super) fn on_idle() {
    steppe_malloc::raw::on_idle();
}

#[cfg(test)]
mod tests {
    use steppe_malloc::size_class::{BLOCK_BYTES, SMALL_BYTES_MAX, class_of};
    use steppe_mem::alloc::block_bytes;

    /// Block sizes are computed for this allocator's classes.
    #[test]
    fn blocks_are_counted_by_their_size_classes() {
        for bytes in 0..=SMALL_BYTES_MAX {
            assert_eq!(block_bytes(bytes), BLOCK_BYTES[class_of(bytes)], "{bytes}");
        }
    }
}
