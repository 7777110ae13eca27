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

use core::ffi::c_int;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::table::{self, StackRecord};
use super::{due, mean_bytes};
use crate::file::{Gathered, Output, Path};
use crate::sys::file::File;
use crate::{deadline, report, sys};

/// The file at exit; a number follows its name before that.
static OUTPUT: Output = Output::none();
/// The number of the next file.
static NUMBER: AtomicU32 = AtomicU32::new(1);
/// Files that are there already, after which a profile is given up.
const TRIES_MAX: u32 = 10_000;

/// Writes the profile, without allocating.
///
/// # Errors
/// The error that `sink` returns.
pub fn write(sink: &mut dyn Write) -> fmt::Result {
    let mut bytes = [0; 4096];
    let mut text = Gathered::new(sink, &mut bytes);
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
    sys::file::read_text(c"/proc/self/maps", |part| text.write_str(part))?;
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

/// Has the profile written to a file when the process ends by `exit`. Allocates. False: it can't be
/// written.
pub(crate) fn write_at_exit(path: &[u8]) -> bool {
    let is_kept = OUTPUT.keep(path, sys::process_id());
    if is_kept {
        sys::at_exit(at_exit);
    }
    is_kept
}

extern "C" fn at_exit() {
    if let Some(path) = OUTPUT.path(sys::process_id()) {
        write_or_tell(File::create(path.as_c_str()), &path);
    }
}

fn write_or_tell(file: Option<File>, path: &Path) {
    if !write_to(file) {
        report::unwritten(path.as_c_str());
    }
}

/// Has profiles written to numbered files when a signal comes. `None`: it is no signal that programs
/// are free to use, or there is no file.
pub(crate) fn write_on_signal(name: &[u8]) -> Option<()> {
    let signal = match name.strip_prefix(b"SIG").unwrap_or(name) {
        b"HUP" => libc::SIGHUP,
        b"USR1" => libc::SIGUSR1,
        b"USR2" => libc::SIGUSR2,
        _ => return None,
    };
    OUTPUT.path(sys::process_id())?;
    due::expect_requests();
    sys::on_signal(signal, on_signal).then_some(())
}

/// The same as [`write_on_signal`], each time that many seconds have passed. `None`: out of range,
/// or there is no file.
pub(crate) fn write_every(seconds: usize) -> Option<()> {
    let seconds = u32::try_from(seconds).ok()?;
    OUTPUT.path(sys::process_id())?;
    let is_interval = (1..=due::INTERVAL_S_MAX).contains(&seconds);
    is_interval.then(|| due::set_interval(seconds, sys::now_ms()))
}

extern "C" fn on_signal(_: c_int) {
    due::request();
    deadline::wake();
}

/// Writes a profile to a numbered file if one is due. With no lock held.
#[inline]
pub(crate) fn write_if_due() {
    if due::is_set() && due::take(sys::now_ms()) {
        write_numbered();
    }
}

/// A file that exists stays as it is, whichever process wrote it.
#[cold]
#[inline(never)]
fn write_numbered() {
    for _ in 0..TRIES_MAX {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let Some(mut path) = OUTPUT.path(sys::process_id()) else {
            return;
        };
        let file = match write!(path, ".{number}") {
            Ok(()) => File::create_new(path.as_c_str()),
            Err(_) => Err(libc::ENAMETOOLONG),
        };
        match file {
            Err(libc::EEXIST) => {}
            file => return write_or_tell(file.ok(), &path),
        }
    }
}

/// Writes the profile to a new file; `%p` in its path is the process's number. False: it can't be
/// written.
#[must_use]
pub fn write_file(path: &[u8]) -> bool {
    let path = Path::of(path, sys::process_id());
    write_to(path.and_then(|path| File::create(path.as_c_str())))
}

fn write_to(file: Option<File>) -> bool {
    file.is_some_and(|mut file| write(&mut file).is_ok())
}
