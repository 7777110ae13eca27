//! Settings of the environment, read once, before the first block is handed out.
//!
//! | variable | values | default |
//! | --- | --- | --- |
//! | `STEPPE_MALLOC_PROFILE` | `speed`, `balanced`, `lean` | `balanced` |
//! | `STEPPE_MALLOC_PURGE_MS` | milliseconds that free memory stays resident | the profile's |
//! | `STEPPE_MALLOC_BACKGROUND` | `0`: no thread of our own, `1` | `1` |
//! | `STEPPE_MALLOC_THP` | `0`: no huge pages, `1`: asked for wherever they fit | the profile's |
//! | `STEPPE_MALLOC_DEEPBIND` | `0`: no library is opened with `RTLD_DEEPBIND`, `1`: those that ask for it | `0` |
//! | `STEPPE_MALLOC_RESERVE` | bytes to map at the start, with `K`, `M` or `G` | `0` |
//! | `STEPPE_MALLOC_LIMIT` | the most bytes to hold, with `K`, `M` or `G`; see `pressure` | none |
//! | `STEPPE_MALLOC_SOFT_LIMIT` | bytes beyond which free memory is purged at once | none |
//! | `STEPPE_MALLOC_CGROUP` | the folder of the control group whose limit counts | the process's |
//! | `STEPPE_MALLOC_STATS` | `1`: JSON to standard error at exit, or a file; `%p`: the process's number | none |
//! | `STEPPE_MALLOC_PROFILE_HEAP` | the file of a heap profile at exit; `%p` as above | none |
//! | `STEPPE_MALLOC_PROFILE_HEAP_BYTES` | bytes that a sample stands for, with `K`, `M` or `G` | `512K` |
//! | `STEPPE_MALLOC_PROFILE_HEAP_SIGNAL` | the signal for a further profile | none |
//! | `STEPPE_MALLOC_PROFILE_HEAP_EVERY` | seconds between further profiles | none |
//!
//! Invariant: a value that is not understood is reported once and ignored. Programs that run with another user's rights
//! (setuid) read none of these (`secure_getenv`).

use core::ffi::CStr;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::control_group::GROUP;
use crate::decay;
use crate::file::{Gathered, Output};
use crate::held;
use crate::pool::POOL;
use crate::pressure;
use crate::profile::{self, Profile};
use crate::report;
use crate::stats;
use crate::sys;
use crate::sys::file::{File, Witness};

const PROFILE: &CStr = c"STEPPE_MALLOC_PROFILE";
const PURGE_MS: &CStr = c"STEPPE_MALLOC_PURGE_MS";
const BACKGROUND: &CStr = c"STEPPE_MALLOC_BACKGROUND";
const THP: &CStr = c"STEPPE_MALLOC_THP";
const DEEPBIND: &CStr = c"STEPPE_MALLOC_DEEPBIND";
const RESERVE: &CStr = c"STEPPE_MALLOC_RESERVE";
const LIMIT: &CStr = c"STEPPE_MALLOC_LIMIT";
const SOFT_LIMIT: &CStr = c"STEPPE_MALLOC_SOFT_LIMIT";
const CONTROL_GROUP: &CStr = c"STEPPE_MALLOC_CGROUP";
const STATS: &CStr = c"STEPPE_MALLOC_STATS";

/// The two places for statistics at exit …
static STATS_FILE: Output = Output::none();
static STATS_ERROR: Witness = Witness::none();
/// … and the process that writes to the second.
static STATS_PROCESS: AtomicU32 = AtomicU32::new(0);
/// Text that comes in one piece, so that lines of several processes stay whole; more comes in several.
const STATS_BYTES: usize = 256 << 10;

/// Set if libraries may be opened with `RTLD_DEEPBIND`.
pub(crate) static KEEPS_DEEP_BINDING: AtomicBool = AtomicBool::new(false);

/// Reads the environment. Allocates nothing.
pub(crate) fn read() {
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
    take(DEEPBIND, "0, 1", |value| {
        KEEPS_DEEP_BINDING.store(switch(value)?, Ordering::Relaxed);
        Some(())
    });
    take(RESERVE, "bytes, with K, M or G", |value| {
        POOL.reserve(bytes(value)?);
        Some(())
    });
    take(LIMIT, "bytes, with K, M or G", |value| {
        held::set_limit(bytes(value)?);
        Some(())
    });
    take(SOFT_LIMIT, "bytes, with K, M or G", |value| {
        pressure::note_soft_limit(bytes(value)?);
        Some(())
    });
    take(CONTROL_GROUP, "a folder, 0", |value| GROUP.name(value));
}

/// Reads the settings of the exit handlers, which may allocate.
pub(crate) fn read_late() {
    take(STATS, "1, or a writable file", |value| {
        let process = sys::process_id();
        let is_kept = match value {
            b"0" => false,
            b"1" => STATS_ERROR.keep(),
            path => STATS_FILE.keep(path, process),
        };
        STATS_PROCESS.store(process, Ordering::Relaxed);
        is_kept.then(|| sys::at_exit(write_stats))
    });
}

/// Reads a variable, and reports a value that is not understood.
pub(crate) fn take(name: &'static CStr, known: &str, understand: impl FnOnce(&[u8]) -> Option<()>) {
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

/// A decimal number.
pub(crate) fn number(digits: &[u8]) -> Option<usize> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

/// A number of bytes, with a unit or without.
pub(crate) fn bytes(value: &[u8]) -> Option<usize> {
    let (digits, shift) = match value {
        [digits @ .., b'K' | b'k'] => (digits, 10),
        [digits @ .., b'M' | b'm'] => (digits, 20),
        [digits @ .., b'G' | b'g'] => (digits, 30),
        digits => (digits, 0),
    };
    number(digits)?.checked_mul(1 << shift)
}

extern "C" fn write_stats() {
    let process = sys::process_id();
    let _ = if let Some(path) = STATS_FILE.path(process) {
        File::append(path.as_c_str()).map(|mut file| write_line(&mut file))
    } else if process == STATS_PROCESS.load(Ordering::Relaxed) {
        STATS_ERROR.file().map(|mut error| write_line(&mut error))
    } else {
        None
    };
}

fn write_line(sink: &mut dyn Write) -> fmt::Result {
    let Some(base) = sys::map(0, STATS_BYTES) else {
        stats::write_json(sink)?;
        return sink.write_str("\n");
    };
    // SAFETY: mapped above, zeroed, and never unmapped: the process ends.
    let bytes = unsafe { core::slice::from_raw_parts_mut(base, STATS_BYTES) };
    let mut text = Gathered::new(sink, bytes);
    stats::write_json(&mut text)?;
    text.write_str("\n")?;
    text.flush()
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
