//! The C malloc family as owned blocks, a mapped table to keep them in, and the CPU clock.
//!
//! Invariant: a block is freed once, when it is dropped, by whichever thread drops it. Nothing here
//! allocates on its own account.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::process::abort;
use std::ptr::{self, NonNull};
use std::slice;
use std::time::Duration;

/// A block without its length, as most programs hold theirs. One pointer wide, also as an `Option`.
pub struct Block(NonNull<u8>);

/// A block that knows its length, and may grow.
pub struct Body {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a block is plain memory that its owner alone reaches, and `free` takes one from any
// thread (C17 7.22.3).
unsafe impl Send for Block {}
// SAFETY: as for `Block`.
unsafe impl Send for Body {}

impl Block {
    /// Allocates, and writes the first byte. `bytes` is at least 1.
    #[inline]
    pub fn new(bytes: usize) -> Self {
        debug_assert!(bytes > 0, "an empty block has no first byte");
        // SAFETY: malloc has no precondition.
        let start = unsafe { libc::malloc(bytes) }.cast::<u8>();
        let start = NonNull::new(start).unwrap_or_else(|| out_of_memory());
        // SAFETY: the block is ours, and at least one byte long.
        unsafe { start.write(1) };
        Self(start)
    }

    /// Allocates zeroed memory, and writes the first byte.
    pub fn zeroed(bytes: usize) -> Self {
        debug_assert!(bytes > 0, "an empty block has no first byte");
        // SAFETY: calloc has no precondition.
        let start = unsafe { libc::calloc(1, bytes) }.cast::<u8>();
        let start = NonNull::new(start).unwrap_or_else(|| out_of_memory());
        // SAFETY: the block is ours, and at least one byte long.
        unsafe { start.write(1) };
        Self(start)
    }
}

impl Block {
    /// Usable bytes of the block: at least the bytes requested (malloc_usable_size(3)).
    pub fn usable_bytes(&self) -> usize {
        // SAFETY: it came from malloc or calloc, and lives.
        unsafe { libc::malloc_usable_size(self.0.as_ptr().cast()) }
    }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: it came from malloc or calloc, and is dropped once.
        unsafe { libc::free(self.0.as_ptr().cast()) };
    }
}

impl Body {
    /// Allocates `bytes`, and writes a byte of each page.
    pub fn new(bytes: usize) -> Self {
        // SAFETY: malloc has no precondition.
        let start = unsafe { libc::malloc(bytes) }.cast::<u8>();
        let start = NonNull::new(start).unwrap_or_else(|| out_of_memory());
        let body = Self { start, bytes };
        body.touch_from(0);
        body
    }

    /// Grows to `bytes`, and writes a byte of each page that is new.
    pub fn grow(&mut self, bytes: usize) {
        debug_assert!(bytes >= self.bytes, "a body only grows");
        // SAFETY: it came from malloc or realloc, and the old pointer is replaced at once.
        let start = unsafe { libc::realloc(self.start.as_ptr().cast(), bytes) }.cast::<u8>();
        self.start = NonNull::new(start).unwrap_or_else(|| out_of_memory());
        let old = mem::replace(&mut self.bytes, bytes);
        self.touch_from(old);
    }

    fn touch_from(&self, from: usize) {
        for offset in (from..self.bytes).step_by(PAGE_BYTES) {
            // SAFETY: the offset is below the block's length. Volatile, so that the compiler keeps a
            // store that is never read.
            unsafe { self.start.add(offset).write_volatile(1) };
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // SAFETY: it came from malloc or realloc, and is dropped once.
        unsafe { libc::free(self.start.as_ptr().cast()) };
    }
}

const PAGE_BYTES: usize = 4096;

/// A table of empty slots, mapped for the life of the process: no allocator serves it.
pub fn slots(count: usize) -> &'static mut [Option<Block>] {
    let bytes = count.max(1) * size_of::<Option<Block>>();
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh anonymous mapping overlaps no other memory.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        out_of_memory();
    }
    // SAFETY: the mapping is that long, page-aligned, never unmapped, without another reference, and
    // all zero, which is `None` for an option of a non-null pointer.
    unsafe { slice::from_raw_parts_mut(start.cast(), count) }
}

/// Waits until one of these descriptors can be read, and marks those that can in `ready`.
///
/// # Errors
/// The error of poll(2).
pub fn wait_readable(descriptors: &[BorrowedFd<'_>], ready: &mut [bool]) -> io::Result<()> {
    let mut polled = [const { unused() }; POLLED_MAX];
    for (entry, descriptor) in polled.iter_mut().zip(descriptors) {
        entry.fd = descriptor.as_raw_fd();
    }
    let count = descriptors.len().min(POLLED_MAX);
    // SAFETY: the array has at least so many entries; a borrowed descriptor is open.
    let found = unsafe { libc::poll(polled.as_mut_ptr(), count as libc::nfds_t, -1) };
    if found < 0 {
        return Err(io::Error::last_os_error());
    }
    for (is_ready, entry) in ready.iter_mut().zip(&polled[..count]) {
        *is_ready = entry.revents != 0;
    }
    Ok(())
}

/// Descriptors that are waited for at once, at most.
pub const POLLED_MAX: usize = 16;

/// poll(2) passes over a negative descriptor.
const fn unused() -> libc::pollfd {
    libc::pollfd {
        fd: -1,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// CPU time of this process so far, all threads, user and system, and of its child processes that ended.
pub fn cpu_time() -> Duration {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN]
        .map(usage)
        .iter()
        .map(|usage| span(usage.ru_utime) + span(usage.ru_stime))
        .sum()
}

/// Peak resident memory of the largest child process that ended, files included; 0 without one.
pub fn children_peak_kib() -> u64 {
    let peak_kib = usage(libc::RUSAGE_CHILDREN).ru_maxrss;
    u64::try_from(peak_kib).unwrap_or(0)
}

fn usage(of: libc::c_int) -> libc::rusage {
    // SAFETY: the structure is integers only, for which zero is a value.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: the pointer is to a structure of that type.
    unsafe { libc::getrusage(of, &raw mut usage) };
    usage
}

fn span(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(time.tv_usec.try_into().unwrap_or(0))
}

#[cold]
fn out_of_memory() -> ! {
    abort()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_slot_is_one_pointer_and_starts_empty() {
        assert_eq!(size_of::<Option<Block>>(), size_of::<usize>());
        let slots = slots(1_000);
        assert!(slots.iter().all(Option::is_none));
        slots[999] = Some(Block::new(1));
    }

    #[test]
    fn a_body_keeps_what_was_written_when_it_grows() {
        let mut body = Body::new(10_000);
        body.grow(3_000_000);
        assert_eq!(body.bytes, 3_000_000);
        // SAFETY: the first byte of a live block.
        assert_eq!(unsafe { body.start.read() }, 1);
    }

    #[test]
    fn a_block_can_use_at_least_what_it_asked_for() {
        assert!(Block::new(100).usable_bytes() >= 100);
    }

    #[test]
    fn only_what_can_be_read_is_marked() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let other = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let _client = TcpStream::connect(address).expect("it listens");
        let mut ready = [false; 2];
        wait_readable(&[other.as_fd(), listener.as_fd()], &mut ready).expect("both are open");
        assert_eq!(ready, [false, true]);
    }

    #[test]
    fn cpu_time_does_not_go_back() {
        let before = cpu_time();
        assert!(cpu_time() >= before);
    }
}
