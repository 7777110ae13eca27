//! What the environment sets, read once, before the first block is handed out.
//!
//! | variable | values | default |
//! | --- | --- | --- |
//! | `STEPPE_MALLOC_PROFILE` | `speed`, `balanced`, `lean` | `balanced` |
//! | `STEPPE_MALLOC_PURGE_MS` | milliseconds that free memory stays resident | the profile's |
//! | `STEPPE_MALLOC_BACKGROUND` | `0`: no thread of our own, `1` | `1` |
//! | `STEPPE_MALLOC_THP` | `0`: no huge pages, `1`: wherever the kernel likes | the profile's |
//! | `STEPPE_MALLOC_RESERVE` | bytes to map at the start, with `K`, `M` or `G` | `0` |
//! | `STEPPE_MALLOC_STATS` | `1`: JSON to standard error at exit, or a file | none |
//! | `STEPPE_MALLOC_PROFILE_HEAP` | the file of a heap profile at exit; `%p`: the process's number | none |
//! | `STEPPE_MALLOC_PROFILE_HEAP_BYTES` | bytes that a sample stands for, with `K`, `M` or `G` | `512K` |
//!
//! Invariant: a value that is not understood is said once and ignored. Programs that run with
//! another's rights read none of these (`secure_getenv`).

use core::ffi::CStr;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use crate::decay;
use crate::heap_profile;
use crate::pool::POOL;
use crate::profile::{self, Profile};
use crate::report;
use crate::stats;
use crate::sys;

const PROFILE: &CStr = c"STEPPE_MALLOC_PROFILE";
const PURGE_MS: &CStr = c"STEPPE_MALLOC_PURGE_MS";
const BACKGROUND: &CStr = c"STEPPE_MALLOC_BACKGROUND";
const THP: &CStr = c"STEPPE_MALLOC_THP";
const RESERVE: &CStr = c"STEPPE_MALLOC_RESERVE";
const STATS: &CStr = c"STEPPE_MALLOC_STATS";
const PROFILE_HEAP: &CStr = c"STEPPE_MALLOC_PROFILE_HEAP";
const PROFILE_HEAP_BYTES: &CStr = c"STEPPE_MALLOC_PROFILE_HEAP_BYTES";

/// A longer path is not a path of Linux.
pub(crate) const PATH_BYTES_MAX: usize = 4096;

static PAGE_BYTES: AtomicUsize = AtomicUsize::new(sys::PAGE_BYTES);
/// Where statistics go at exit.
static STATS_FILE: AtomicI32 = AtomicI32::new(-1);

/// The system's page, in bytes.
pub(crate) fn page_bytes() -> usize {
    PAGE_BYTES.load(Ordering::Relaxed)
}

/// Reads the environment. Allocates nothing.
pub(crate) fn read() {
    PAGE_BYTES.store(sys::page_bytes(), Ordering::Relaxed);
    take(PROFILE, "speed, balanced, lean", |value| {
        profile::set(Profile::from_name(value)?);
        Some(())
    });
    take(PURGE_MS, "milliseconds, 0 to 4294967294", |value| {
        profile::set_decay_ms(u32::try_from(number(value)?).ok()?);
        Some(())
    });
    take(BACKGROUND, "0, 1", |value| {
        if !switch(value)? {
            decay::forbid_thread();
        }
        Some(())
    });
    take(THP, "0, 1", |value| {
        profile::set_huge_pages(switch(value)?);
        Some(())
    });
    take(RESERVE, "bytes, with K, M or G", |value| {
        POOL.reserve(bytes(value)?);
        Some(())
    });
}

/// The part that may allocate: what happens at exit.
pub(crate) fn read_late() {
    take(STATS, "1, or a file that can be written", |value| {
        let file = match value {
            b"1" => sys::duplicate_error()?,
            b"0" | b"" => return None,
            _ => create(value)?,
        };
        STATS_FILE.store(file, Ordering::Relaxed);
        sys::at_exit(write_stats);
        Some(())
    });
}

/// When the program starts, or whatever library this is in is loaded. What looks for functions of
/// other libraries can't be done within somebody's request for memory.
#[cfg(not(any(miri, loom)))]
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = read_at_load;

#[cfg(not(any(miri, loom)))]
extern "C" fn read_at_load() {
    // The first block, and what is registered with it, before anybody can ask for one while the C
    // library holds the lock of its list of handlers.
    crate::heap::attach();
    take(PROFILE_HEAP, "a file that can be written", |path| {
        let mut mean_bytes = heap_profile::MEAN_BYTES;
        take(PROFILE_HEAP_BYTES, "bytes, with K, M or G", |value| {
            mean_bytes = bytes(value).filter(|&bytes| bytes > 0)?;
            Some(())
        });
        let is_path = !path.is_empty() && heap_profile::write_at_exit(path);
        (is_path && heap_profile::start(mean_bytes)).then_some(())
    });
}

fn take(name: &'static CStr, known: &str, understand: impl FnOnce(&[u8]) -> Option<()>) {
    if let Some(value) = sys::environment(name)
        && understand(value).is_none()
    {
        report::setting(name, value, known);
    }
}

fn switch(value: &[u8]) -> Option<bool> {
    match value {
        b"0" => Some(false),
        b"1" => Some(true),
        _ => None,
    }
}

fn number(digits: &[u8]) -> Option<usize> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

fn bytes(value: &[u8]) -> Option<usize> {
    let (digits, shift) = match value {
        [digits @ .., b'K' | b'k'] => (digits, 10),
        [digits @ .., b'M' | b'm'] => (digits, 20),
        [digits @ .., b'G' | b'g'] => (digits, 30),
        digits => (digits, 0),
    };
    number(digits)?.checked_mul(1 << shift)
}

fn create(path: &[u8]) -> Option<i32> {
    let mut terminated = [0; PATH_BYTES_MAX];
    let len = path.len();
    if len + 1 >= PATH_BYTES_MAX {
        return None;
    }
    for (to, from) in terminated.iter_mut().zip(path) {
        *to = *from;
    }
    sys::create(&terminated[..=len])
}

extern "C" fn write_stats() {
    let file = STATS_FILE.load(Ordering::Relaxed);
    let _ = stats::write_json(&mut File(file));
    let _ = File(file).write_str("\n");
}

/// Text to a file, as it comes.
pub(crate) struct File(pub i32);

impl Write for File {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        match text.is_empty() || sys::write(self.0, text.as_bytes()) {
            true => Ok(()),
            false => Err(fmt::Error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_units() {
        assert_eq!(bytes(b"64M"), Some(64 << 20));
        assert_eq!(bytes(b"3k"), Some(3 << 10));
        assert_eq!(bytes(b"17"), Some(17));
        assert_eq!(bytes(b"M"), None);
        assert_eq!(bytes(b"99999999999G"), None);
    }
}
