//! Addresses: aligned mappings, and whether the address space of the process is limited.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, Ordering};

use super::file::read_start;
#[cfg(not(miri))]
use super::{map, unmap};
use crate::errno::keeping_errno;

const UNKNOWN: u8 = 0;
const STRICT: u8 = 1;
const HEURISTIC: u8 = 2;

/// Zeroed memory of `bytes` at a multiple of `align`, anywhere.
#[cfg(not(miri))]
pub fn map_aligned(bytes: usize, align: usize) -> Option<*mut u8> {
    // The kernel maps downwards, so a mapping right below an aligned one is aligned too, and the kernel merges both.
    if bytes.is_multiple_of(align) {
        let base = map(0, bytes)?;
        if base.addr().is_multiple_of(align) {
            return Some(base);
        }
        // SAFETY: just mapped; no other thread has the address.
        unsafe { unmap(base, bytes) };
    }
    let len = bytes.checked_add(align)?;
    let base = map(0, len)?;
    let start = base.addr().next_multiple_of(align) - base.addr();
    // SAFETY: `start` is below `align`, so within the mapping.
    let aligned = unsafe { base.add(start) };
    if start > 0 {
        // SAFETY: the part before the returned one.
        unsafe { unmap(base, start) };
    }
    // SAFETY: the part behind it, which ends where the mapping does.
    unsafe { unmap(aligned.add(bytes), len - start - bytes) };
    Some(aligned)
}

/// True when address space costs nothing: no limit of the process counts it (getrlimit(2)), and the kernel does not
/// account for memory before it is touched (`vm.overcommit_memory`, proc(5)).
pub fn has_endless_addresses() -> bool {
    let is_unlimited = [libc::RLIMIT_AS, libc::RLIMIT_DATA]
        .into_iter()
        .all(|kind| {
            let mut limit = MaybeUninit::<libc::rlimit>::uninit();
            // SAFETY: `limit` is written, or the result is not 0.
            let refused = keeping_errno(|| unsafe { libc::getrlimit(kind, limit.as_mut_ptr()) });
            // SAFETY: written above.
            refused == 0 && unsafe { limit.assume_init() }.rlim_cur == libc::RLIM_INFINITY
        });
    is_unlimited && !is_overcommit_strict()
}

/// True when a page is in memory (mincore(2)).
#[cfg(not(miri))]
pub fn is_resident(page: *mut u8) -> bool {
    let mut state = 0_u8;
    // SAFETY: writes a byte for the page that the address starts; refused where it is not mapped.
    let refused = keeping_errno(|| unsafe { libc::mincore(page.cast(), 1, &raw mut state) });
    refused == 0 && state & 1 != 0
}

/// Miri locks no pages: none is resident.
#[cfg(miri)]
pub fn is_resident(_page: *mut u8) -> bool {
    false
}

/// Read once: the setting is the machine's, and a change takes effect for later processes here.
fn is_overcommit_strict() -> bool {
    static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);
    if KNOWN.load(Ordering::Relaxed) == UNKNOWN {
        let mut text = [0; 8];
        let known = match read_start(c"/proc/sys/vm/overcommit_memory", &mut text) {
            Some([b'2', ..]) => STRICT,
            _ => HEURISTIC,
        };
        KNOWN.store(known, Ordering::Relaxed);
    }
    KNOWN.load(Ordering::Relaxed) == STRICT
}
