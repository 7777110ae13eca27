//! The profile as text: the format of gperftools, which `jeprof` and `pprof` read.
//!
//! ```text
//! heap profile: LIVE: BYTES [ ALL: BYTES] @ heap_v2/524288     sums, and the mean of the sample
//! LIVE: BYTES [ ALL: BYTES] @ 0x55d0c0de 0x55d0c1f0 …          a line for each stack
//!
//! MAPPED_LIBRARIES:
//! 55d0c000-55d0f000 r-xp …                                      as /proc/self/maps has it
//! ```
//! Counts are of the sample; `heap_v2` tells readers to scale them, each stack by its mean size.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::table::{self, StackRecord};
use super::{Gathered, mean_bytes};
use crate::file::{File, PATH_BYTES_MAX};
use crate::meta::META;
use crate::sys;

/// Where the profile goes at exit, and whose exit it is.
static PATH: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static PATH_BYTES: AtomicUsize = AtomicUsize::new(0);
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Stands for the process's number in a path.
const NUMBER: &[u8] = b"%p";

/// Writes the profile, without allocating.
///
/// # Errors
/// What `sink` returns.
pub fn write(sink: &mut dyn Write) -> fmt::Result {
    let mut text = Gathered {
        sink,
        bytes: [0; 4096],
        len: 0,
    };
    let sum = |count: fn(&StackRecord) -> &AtomicU64| {
        let each = |stack: &StackRecord| count(stack).load(Ordering::Relaxed);
        table::stacks().map(each).sum::<u64>()
    };
    writeln!(
        text,
        "heap profile: {}: {} [ {}: {}] @ heap_v2/{}",
        sum(|stack| &stack.live_blocks),
        sum(|stack| &stack.live_bytes),
        sum(|stack| &stack.blocks),
        sum(|stack| &stack.bytes),
        mean_bytes(),
    )?;
    for stack in table::stacks() {
        write_stack(&mut text, stack)?;
    }
    text.write_str("\nMAPPED_LIBRARIES:\n")?;
    sys::read_file(c"/proc/self/maps", |part| text.write_str(part))?;
    text.flush()
}

fn write_stack(text: &mut Gathered<'_>, stack: &StackRecord) -> fmt::Result {
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    write!(
        text,
        "{}: {} [ {}: {}] @",
        count(&stack.live_blocks),
        count(&stack.live_bytes),
        count(&stack.blocks),
        count(&stack.bytes),
    )?;
    for frame in stack.frames() {
        write!(text, " {frame:#x}")?;
    }
    text.write_str("\n")
}

/// Has the profile written to a file when the process ends by `exit`. Allocates. False: no memory.
pub(crate) fn write_at_exit(path: &[u8]) -> bool {
    let Some(copy) = META.allocate(path.len()) else {
        return false;
    };
    // SAFETY: a fresh record with as many bytes.
    unsafe { core::ptr::copy_nonoverlapping(path.as_ptr(), copy, path.len()) };
    PATH.store(copy, Ordering::Relaxed);
    PATH_BYTES.store(path.len(), Ordering::Relaxed);
    PROCESS.store(sys::process_id(), Ordering::Relaxed);
    sys::at_exit(at_exit);
    true
}

/// A child of a fork has another number: it writes where the path tells them apart, else not at all.
extern "C" fn at_exit() {
    let path = PATH.load(Ordering::Relaxed);
    // SAFETY: written by `write_at_exit`, which ran before; a record is never unmapped.
    let path = unsafe { core::slice::from_raw_parts(path, PATH_BYTES.load(Ordering::Relaxed)) };
    let tells_apart = path.windows(NUMBER.len()).any(|part| part == NUMBER);
    if tells_apart || sys::process_id() == PROCESS.load(Ordering::Relaxed) {
        let _ = write_file(path);
    }
}

/// Writes the profile to a new file; `%p` in its path is the process's number. False: it can't be
/// written.
#[must_use]
pub fn write_file(path: &[u8]) -> bool {
    let mut full = Path {
        bytes: [0; PATH_BYTES_MAX],
        len: 0,
    };
    let mut rest = path;
    let expanded = loop {
        match rest {
            [b'%', b'p', after @ ..] => {
                if write!(full, "{}", sys::process_id()).is_err() {
                    break false;
                }
                rest = after;
            }
            [byte, after @ ..] => {
                if full.push(&[*byte]).is_err() {
                    break false;
                }
                rest = after;
            }
            [] => break true,
        }
    };
    let Some(file) = expanded
        .then(|| sys::create(&full.bytes[..=full.len]))
        .flatten()
    else {
        return false;
    };
    let written = write(&mut File(file)).is_ok();
    sys::close(file);
    written
}

/// A path in the making; a nul follows it.
struct Path {
    bytes: [u8; PATH_BYTES_MAX],
    len: usize,
}

impl Path {
    fn push(&mut self, part: &[u8]) -> fmt::Result {
        let end = self.len + part.len();
        if end >= self.bytes.len() {
            return Err(fmt::Error);
        }
        self.bytes[self.len..end].copy_from_slice(part);
        self.len = end;
        Ok(())
    }
}

impl Write for Path {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.push(part.as_bytes())
    }
}
