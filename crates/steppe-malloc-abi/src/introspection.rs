//! Statistics and tuning of glibc's `<malloc.h>`: real figures in glibc's structures.
//!
//! malloc_trim(3), mallinfo(3), malloc_info(3), malloc_stats(3), mallopt(3). Figures that have no
//! counterpart here (bins, arenas) are 0, and so is the answer of `mallopt` to such parameters.

use core::ffi::c_int;

use steppe_malloc::profile::Profile;
use steppe_malloc::stats::{self, Stats};
use steppe_malloc::{profile, raw};

use crate::text::{Descriptor, Line, Stream};

/// glibc's `struct mallinfo2`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Mallinfo2 {
    /// Bytes mapped, but for blocks with a mapping of their own.
    pub arena: usize,
    /// Free blocks: not counted.
    pub ordblks: usize,
    /// Free blocks in fast bins: there are none.
    pub smblks: usize,
    /// Blocks with a mapping of their own: not counted, 1 stands for any number above 0.
    pub hblks: usize,
    /// Bytes of blocks with a mapping of their own.
    pub hblkhd: usize,
    /// Unused, as in glibc.
    pub usmblks: usize,
    /// Bytes in fast bins: there are none.
    pub fsmblks: usize,
    /// Bytes handed out, but for blocks with a mapping of their own.
    pub uordblks: usize,
    /// Bytes free and still resident.
    pub fordblks: usize,
    /// Bytes free that `malloc_trim` would give back.
    pub keepcost: usize,
}

/// glibc's `struct mallinfo`, whose fields are too narrow: a larger figure becomes the largest
/// `c_int`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Mallinfo {
    /// See [`Mallinfo2`].
    pub arena: c_int,
    /// See [`Mallinfo2`].
    pub ordblks: c_int,
    /// See [`Mallinfo2`].
    pub smblks: c_int,
    /// See [`Mallinfo2`].
    pub hblks: c_int,
    /// See [`Mallinfo2`].
    pub hblkhd: c_int,
    /// See [`Mallinfo2`].
    pub usmblks: c_int,
    /// See [`Mallinfo2`].
    pub fsmblks: c_int,
    /// See [`Mallinfo2`].
    pub uordblks: c_int,
    /// See [`Mallinfo2`].
    pub fordblks: c_int,
    /// See [`Mallinfo2`].
    pub keepcost: c_int,
}

impl From<Stats> for Mallinfo2 {
    fn from(stats: Stats) -> Self {
        Self {
            arena: stats.mapped_bytes.saturating_sub(stats.huge_bytes),
            ordblks: 0,
            smblks: 0,
            hblks: usize::from(stats.huge_bytes > 0),
            hblkhd: stats.huge_bytes,
            usmblks: 0,
            fsmblks: 0,
            uordblks: stats.live_bytes.saturating_sub(stats.huge_bytes),
            fordblks: stats.dirty_bytes.saturating_add(stats.retained_bytes),
            keepcost: stats.dirty_bytes,
        }
    }
}

impl From<Mallinfo2> for Mallinfo {
    fn from(wide: Mallinfo2) -> Self {
        let narrow = |number| c_int::try_from(number).unwrap_or(c_int::MAX);
        Self {
            arena: narrow(wide.arena),
            ordblks: narrow(wide.ordblks),
            smblks: narrow(wide.smblks),
            hblks: narrow(wide.hblks),
            hblkhd: narrow(wide.hblkhd),
            usmblks: narrow(wide.usmblks),
            fsmblks: narrow(wide.fsmblks),
            uordblks: narrow(wide.uordblks),
            fordblks: narrow(wide.fordblks),
            keepcost: narrow(wide.keepcost),
        }
    }
}

/// malloc_trim(3): gives free memory back. 1 when any memory went back. All of it goes, so `_pad`
/// has no effect.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(_pad: usize) -> c_int {
    c_int::from(raw::trim())
}

/// mallinfo2(3).
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> Mallinfo2 {
    stats::read().into()
}

/// mallinfo(3).
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> Mallinfo {
    mallinfo2().into()
}

/// malloc_info(3): XML of one heap. Returns 0, or `EINVAL` for options: there are none.
///
/// # Safety
/// `stream` is open for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut libc::FILE) -> c_int {
    if options != 0 {
        return libc::EINVAL;
    }
    match write_xml(&Stream(stream), stats::read()) {
        Ok(()) => 0,
        Err(_) => -1,
    }
}

/// malloc_stats(3), on standard error.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    let stats = stats::read();
    let stderr = Descriptor(libc::STDERR_FILENO);
    let rows = [
        ("system bytes     = ", stats.mapped_bytes),
        ("in use bytes     = ", stats.live_bytes),
        ("free bytes       = ", stats.retained_bytes),
        ("decaying bytes   = ", stats.dirty_bytes),
        ("mmap bytes       = ", stats.huge_bytes),
        ("max system bytes = ", stats.mapped_bytes_peak),
    ];
    // An error on standard error can't be reported anywhere.
    let _ = stderr.write(b"steppe-malloc:\n");
    for (name, bytes) in rows {
        let line = Line::new().text(name).number(bytes, 12).text("\n");
        let _ = stderr.write(line.as_bytes());
    }
}

/// Android's parameters for giving memory back, which clash with no others.
const M_DECAY_TIME: c_int = -100;
const M_PURGE: c_int = -101;
const M_PURGE_ALL: c_int = -104;

/// mallopt(3): 1 when the parameter means something here, else 0.
///
/// `M_DECAY_TIME` of 0 is the profile `lean`, 1 is `balanced`; `M_PURGE` and `M_PURGE_ALL` trim.
/// glibc's parameters tune arenas, bins and thresholds that do not exist here.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(parameter: c_int, value: c_int) -> c_int {
    match (parameter, value) {
        (M_DECAY_TIME, 0) => profile::set(Profile::Lean),
        (M_DECAY_TIME, 1) => profile::set(Profile::Balanced),
        (M_PURGE | M_PURGE_ALL, _) => {
            raw::trim();
        }
        _ => return 0,
    }
    1
}

/// The document of glibc, whose readers look for these elements.
fn write_xml(stream: &Stream, stats: Stats) -> core::fmt::Result {
    let free = stats.dirty_bytes.saturating_add(stats.retained_bytes);
    let heap = stats.mapped_bytes.saturating_sub(stats.huge_bytes);
    stream.write(b"<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n</sizes>\n")?;
    write_totals(stream, free)?;
    write_sizes(stream, heap, heap)?;
    stream.write(b"</heap>\n")?;
    write_totals(stream, free)?;
    let mapped = Line::new()
        .text("<total type=\"mmap\" count=\"")
        .number(usize::from(stats.huge_bytes > 0), 0)
        .text("\" size=\"")
        .number(stats.huge_bytes, 0)
        .text("\"/>\n");
    stream.write(mapped.as_bytes())?;
    write_sizes(stream, stats.mapped_bytes, stats.mapped_bytes_peak)?;
    stream.write(b"</malloc>\n")
}

/// Free memory; the number of free blocks is not kept.
fn write_totals(stream: &Stream, free_bytes: usize) -> core::fmt::Result {
    stream.write(b"<total type=\"fast\" count=\"0\" size=\"0\"/>\n")?;
    let rest = Line::new()
        .text("<total type=\"rest\" count=\"0\" size=\"")
        .number(free_bytes, 0)
        .text("\"/>\n");
    stream.write(rest.as_bytes())
}

fn write_sizes(stream: &Stream, current: usize, peak: usize) -> core::fmt::Result {
    let elements = [
        ("<system type=\"current\" size=\"", current),
        ("<system type=\"max\" size=\"", peak),
        ("<aspace type=\"total\" size=\"", current),
        ("<aspace type=\"mprotect\" size=\"", current),
    ];
    for (start, bytes) in elements {
        let line = Line::new().text(start).number(bytes, 0).text("\"/>\n");
        stream.write(line.as_bytes())?;
    }
    Ok(())
}
