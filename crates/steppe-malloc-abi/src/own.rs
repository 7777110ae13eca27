//! Functions of our own, which `include/steppe_malloc.h` declares.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt::Write;

use steppe_malloc::profile::{self, Profile};
use steppe_malloc::stats::{self, Stats};
use steppe_malloc::{heap_profile, pressure, raw};

use crate::errno;
use crate::text::{Descriptor, Stream};

/// A callback for a piece of text without a 0 at its end.
type TextSink = unsafe extern "C" fn(context: *mut c_void, text: *const c_char, len: usize);

/// The figures of [`Stats`] as `struct steppe_malloc_stats`; fields are only ever appended.
#[repr(C)]
pub struct CStats {
    live_bytes: usize,
    dirty_bytes: usize,
    retained_bytes: usize,
    mapped_bytes: usize,
    huge_bytes: usize,
    mapped_bytes_peak: usize,
    held_bytes: usize,
}

impl From<Stats> for CStats {
    fn from(stats: Stats) -> Self {
        Self {
            live_bytes: stats.live_bytes,
            dirty_bytes: stats.dirty_bytes,
            retained_bytes: stats.retained_bytes,
            mapped_bytes: stats.mapped_bytes,
            huge_bytes: stats.huge_bytes,
            mapped_bytes_peak: stats.mapped_bytes_peak,
            held_bytes: stats.held_bytes,
        }
    }
}

/// The library's version, as `major.minor.patch`.
#[unsafe(no_mangle)]
pub extern "C" fn steppe_malloc_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// The name of the profile in force.
#[unsafe(no_mangle)]
pub extern "C" fn steppe_malloc_profile() -> *const c_char {
    let name = match profile::current() {
        Profile::Speed => c"speed",
        Profile::Balanced => c"balanced",
        Profile::Lean => c"lean",
    };
    name.as_ptr()
}

/// Changes the profile: 0, or -1 with `errno` = `EINVAL` for an unknown name.
///
/// # Safety
/// `name` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn steppe_malloc_set_profile(name: *const c_char) -> c_int {
    if name.is_null() {
        return invalid();
    }
    // SAFETY: the caller promises a string.
    let name = unsafe { CStr::from_ptr(name) };
    match name.to_bytes() {
        b"speed" => profile::set(Profile::Speed),
        b"balanced" => profile::set(Profile::Balanced),
        b"lean" => profile::set(Profile::Lean),
        _ => return invalid(),
    }
    0
}

/// Gives free memory back to the system: 1 when any went back, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn steppe_malloc_trim() -> c_int {
    c_int::from(raw::trim())
}

/// Sets the most bytes that the allocator may hold; 0 removes the limit.
#[unsafe(no_mangle)]
pub extern "C" fn steppe_malloc_set_limit(bytes: usize) {
    pressure::set_limit(bytes);
}

/// Sets how many bytes it may hold before free memory is purged at once; 0 removes the soft limit.
#[unsafe(no_mangle)]
pub extern "C" fn steppe_malloc_set_soft_limit(bytes: usize) {
    pressure::set_soft_limit(bytes);
}

/// Has an eventfd written to, once more than `bytes` are held; 0 removes the watermark. 0, or -1 with `errno` =
/// `EBADF`.
#[unsafe(no_mangle)]
pub extern "C" fn steppe_malloc_set_watermark(bytes: usize, eventfd: c_int) -> c_int {
    if pressure::set_watermark(bytes, eventfd) {
        return 0;
    }
    errno::set(libc::EBADF);
    -1
}

/// Flushes the calling thread's bins, for an event loop that is about to sleep. Cheap when there is nothing to do.
#[unsafe(no_mangle)]
pub extern "C" fn steppe_malloc_on_idle() {
    raw::on_idle();
}

/// 1 if the pointer is into memory that this allocator hands out, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn steppe_malloc_owns(pointer: *const c_void) -> c_int {
    c_int::from(raw::owns(pointer.cast()))
}

/// Fills in `stats`, or as much of it as `stats_bytes` has room for; returns the bytes filled in.
///
/// # Safety
/// `out` is valid for writes of `stats_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn steppe_malloc_stats(out: *mut CStats, stats_bytes: usize) -> usize {
    let stats = CStats::from(stats::read());
    let len = stats_bytes.min(size_of::<CStats>());
    // SAFETY: the caller promises room for `stats_bytes`, and `len` is no more; the source is a
    // value of ours of at least `len` bytes.
    unsafe {
        core::ptr::copy_nonoverlapping((&raw const stats).cast::<u8>(), out.cast::<u8>(), len);
    }
    len
}

/// Hands all figures to `sink` as one JSON object, piece by piece. Nothing is allocated.
///
/// # Safety
/// `sink` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn steppe_malloc_stats_json(
    sink: Option<TextSink>,
    context: *mut c_void,
) -> c_int {
    let Some(sink) = sink else { return invalid() };
    written(stats::write_json(&mut Callback { sink, context }))
}

/// Writes the JSON object to a stream: 0, or -1 with the stream's error.
///
/// # Safety
/// `stream` is open for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn steppe_malloc_stats_json_file(stream: *mut libc::FILE) -> c_int {
    written(stats::write_json(&mut Stream(stream)))
}

/// Writes the JSON object to a file descriptor: 0, or -1 with `errno`.
#[unsafe(no_mangle)]
pub extern "C" fn steppe_malloc_stats_json_fd(descriptor: c_int) -> c_int {
    written(stats::write_json(&mut Descriptor(descriptor)))
}

/// Starts a heap profile with a sample each `mean_bytes` on the average; 0 stands for the usual number. 0, or -1 where
/// stacks can't be walked.
#[unsafe(no_mangle)]
pub extern "C" fn steppe_malloc_heap_profile_start(mean_bytes: usize) -> c_int {
    let mean_bytes = match mean_bytes {
        0 => heap_profile::MEAN_BYTES,
        mean_bytes => mean_bytes,
    };
    if heap_profile::start(mean_bytes) {
        0
    } else {
        -1
    }
}

/// Takes no more samples; blocks that are samples stay so until they are freed.
#[unsafe(no_mangle)]
pub extern "C" fn steppe_malloc_heap_profile_stop() {
    heap_profile::stop();
}

/// Writes the heap profile to a new file: 0, or -1 when it can't be written.
///
/// # Safety
/// `path` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn steppe_malloc_heap_profile_write(path: *const c_char) -> c_int {
    if path.is_null() {
        return invalid();
    }
    // SAFETY: the caller promises a string.
    let path = unsafe { CStr::from_ptr(path) };
    if heap_profile::write_file(path.to_bytes()) {
        0
    } else {
        -1
    }
}

struct Callback {
    sink: TextSink,
    context: *mut c_void,
}

impl Write for Callback {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        // SAFETY: the caller of `steppe_malloc_stats_json` promised that it may be called; the text
        // is valid for reads of its length.
        unsafe { (self.sink)(self.context, text.as_ptr().cast(), text.len()) };
        Ok(())
    }
}

fn written(result: core::fmt::Result) -> c_int {
    if result.is_ok() { 0 } else { -1 }
}

fn invalid() -> c_int {
    errno::set(libc::EINVAL);
    -1
}
