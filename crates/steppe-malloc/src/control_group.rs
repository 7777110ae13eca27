//! Memory of the control group (cgroups(7)): at its limit the kernel kills, whichever process of the group used it.
//!
//! ```text
//!   limit ─────────────────────────────────────────────────  memory.max, memory.high; v1: memory.limit_in_bytes
//!     margin: an eighth     ← a working set in here is pressure: what is free is purged at once
//!   ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─
//!   working set             memory.current less inactive_file; v1: memory.usage_in_bytes less total_inactive_file
//! ```
//! The group is found from `/proc/self/cgroup`, by the background thread when it starts, or once more than 8 MiB are
//! held; where several folders above a process have a limit, the lowest limit counts. Without a limit nothing is read
//! again. With one, it is read when the process has grown by as much as there was room for, and a few times a second by
//! the background thread while free memory waits. Version 2 has `memory.pressure` besides: time that tasks of the group
//! stood still for want of memory.
//!
//! Invariant: texts of the kernel are read into buffers of fixed size; what does not fit or is no number is no limit.

mod text;

use core::cell::Cell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::held;
use crate::sync::Lock;
use crate::sys::file;
use text::{Path, field, folder_of, number};

/// Time between looks of the background thread while free memory waits.
const LOOK_MS: u32 = 250;
/// The margin below the limit, as a divisor of it: a working set within the margin is pressure …
const MARGIN_PART: usize = 8;
/// … but never nearer to a large limit than this, in bytes.
const MARGIN_MAX: usize = 256 << 20;
/// Tasks that stood still for longer than this between two looks are pressure, in microseconds.
const STALL_MICROS: usize = 20_000;
/// Growth between two looks, at least, in bytes.
const STEP_MIN: usize = 1 << 20;
/// Folders that are looked at from the process's own upwards.
const LEVELS_MAX: usize = 16;

pub(crate) static GROUP: Group = Group {
    lock: Lock::new(),
    next_bytes: AtomicUsize::new(held::FIRST_LOOK_BYTES),
    look_ms: AtomicU32::new(u32::MAX),
    folder: Cell::new(None),
    given: Cell::new(None),
    is_ignored: AtomicBool::new(false),
    stalled: Cell::new(0),
};

pub(crate) struct Group {
    pub lock: Lock,
    /// Bytes held beyond which the next look is due; `usize::MAX`: there is no limit.
    next_bytes: AtomicUsize,
    look_ms: AtomicU32,
    /// The folder whose limit counts, once it was found.
    folder: Cell<Option<Folder>>,
    /// The folder that the environment names.
    given: Cell<Option<Path>>,
    /// No file is ever read.
    is_ignored: AtomicBool,
    /// `memory.pressure`'s total at the last look, in microseconds.
    stalled: Cell<usize>,
}

// SAFETY: cells are touched under the lock only (or before there is a second thread).
unsafe impl Sync for Group {}

/// A folder of the control group's file system, and the names of its files.
#[derive(Clone, Copy)]
struct Folder {
    path: Path,
    files: &'static Files,
}

struct Files {
    limits: &'static [&'static CStr],
    usage: &'static CStr,
    inactive: &'static [u8],
}

static VERSION_1: Files = Files {
    limits: &[c"/memory.limit_in_bytes"],
    usage: c"/memory.usage_in_bytes",
    inactive: b"total_inactive_file",
};
static VERSION_2: Files = Files {
    limits: &[c"/memory.max", c"/memory.high"],
    usage: c"/memory.current",
    inactive: b"inactive_file",
};

/// Milliseconds that the background thread may sleep while free memory waits; `u32::MAX`: there is no limit.
pub(crate) fn look_ms() -> u32 {
    GROUP.look_ms.load(Ordering::Relaxed)
}

impl Group {
    /// Sets the group's folder, or (`0`) ignores the group. `None`: too long. Before there is a second thread.
    pub fn name(&self, folder: &[u8]) -> Option<()> {
        if folder == b"0" {
            self.ignore();
        } else {
            self.given.set(Some(Path::new(&[folder])?));
        }
        Some(())
    }

    /// Ignores the group: no file is read from now on.
    pub fn ignore(&self) {
        self.is_ignored.store(true, Ordering::Relaxed);
        self.next_bytes.store(usize::MAX, Ordering::Relaxed);
        self.look_ms.store(u32::MAX, Ordering::Relaxed);
    }

    /// Bytes held beyond which [`Group::look`] is due.
    pub fn next_bytes(&self) -> usize {
        self.next_bytes.load(Ordering::Relaxed)
    }

    /// Reads limit and usage. True when the group is short of memory; false when another thread is looking.
    pub fn look(&self) -> bool {
        let guard = self.lock.try_lock();
        guard.is_some() && !self.is_ignored() && self.look_locked()
    }

    /// The same as [`Group::look`] for the background thread, which waits for a look in progress.
    pub fn look_after_others(&self) -> bool {
        let _guard = self.lock.lock();
        !self.is_ignored() && self.look_locked()
    }

    fn is_ignored(&self) -> bool {
        self.is_ignored.load(Ordering::Relaxed)
    }

    fn look_locked(&self) -> bool {
        let folder = self.folder.get().or_else(|| self.find());
        self.folder.set(folder);
        let Some((limit, used)) = folder.and_then(|folder| folder.limit().zip(folder.used()))
        else {
            self.next_bytes.store(usize::MAX, Ordering::Relaxed);
            self.look_ms.store(u32::MAX, Ordering::Relaxed);
            return false;
        };
        self.look_ms.store(LOOK_MS, Ordering::Relaxed);
        let bound = limit - (limit / MARGIN_PART).min(MARGIN_MAX);
        let next = next_look(held::bytes(), used, bound);
        self.next_bytes.store(next, Ordering::Relaxed);
        used > bound || self.stands_still(folder)
    }

    /// Forgets the folder, in the child of a fork, after the lock was opened: it is found again.
    pub fn forget(&self) {
        self.folder.set(None);
        self.look_ms.store(u32::MAX, Ordering::Relaxed);
        if self.is_ignored() {
            return;
        }
        let next = held::FIRST_LOOK_BYTES.max(held::bytes());
        self.next_bytes.store(next, Ordering::Relaxed);
    }

    /// The folder with the lowest limit, from the process's own upwards.
    fn find(&self) -> Option<Folder> {
        let (own, files, top) = match self.given.get() {
            Some(path) => (path, self.files_of(path), path.len()),
            None => {
                let mut text = [0; 4096];
                let (path, is_version_1, top) =
                    folder_of(file::read_start(c"/proc/self/cgroup", &mut text)?)?;
                let files = if is_version_1 { &VERSION_1 } else { &VERSION_2 };
                (path, files, top)
            }
        };
        own.upwards(top)
            .take(LEVELS_MAX)
            .map(|path| Folder { path, files })
            .filter_map(|folder| Some((folder.limit()?, folder)))
            .min_by_key(|&(limit, _)| limit)
            .map(|(_, folder)| folder)
    }

    /// The files of a folder that the environment names: it may be of either version.
    #[expect(clippy::unused_self, reason = "called where a group is found")]
    fn files_of(&self, path: Path) -> &'static Files {
        let folder = Folder {
            path,
            files: &VERSION_2,
        };
        match folder.used() {
            Some(_) => &VERSION_2,
            None => &VERSION_1,
        }
    }

    /// True when tasks of the group stood still for want of memory since the last look.
    fn stands_still(&self, folder: Option<Folder>) -> bool {
        let mut text = [0; 256];
        let total = folder.and_then(|folder| {
            let text = folder.read(c"/memory.pressure", &mut text)?;
            field(
                text.get(..text.iter().position(|&byte| byte == b'\n')?)?,
                b"total",
                b'=',
            )
        });
        let Some(total) = total else { return false };
        let before = self.stalled.replace(total);
        before != 0 && total.saturating_sub(before) > STALL_MICROS
    }
}

impl Folder {
    fn limit(self) -> Option<usize> {
        let mut text = [0; 32];
        let limits = self.files.limits.iter();
        limits
            .filter_map(|name| number(self.read(name, &mut text)?))
            // Version 1 writes a number of pages that no machine has where there is no limit.
            .filter(|&limit| limit < 1 << 62)
            .min()
    }

    /// Memory of the group that the kernel can't drop: without file pages that were not used of late.
    fn used(self) -> Option<usize> {
        let mut text = [0; 4096];
        let used = number(self.read(self.files.usage, &mut text)?)?;
        let inactive = self.read(c"/memory.stat", &mut text);
        let inactive = inactive.and_then(|text| field(text, self.files.inactive, b' '));
        Some(used.saturating_sub(inactive.unwrap_or(0)))
    }

    fn read<'text>(self, name: &CStr, text: &'text mut [u8]) -> Option<&'text [u8]> {
        file::read_start(self.path.join(name)?.as_c_str()?, text)
    }
}

/// Bytes held when the next look is due. Memory that a program has asked for and not touched is held and not used: where
/// more is held than the bound leaves to this process, a quarter of the room may go before the next look.
fn next_look(held: usize, used: usize, bound: usize) -> usize {
    let room = bound.saturating_sub(used);
    let own_bound = bound.saturating_sub(used.saturating_sub(held));
    let step = (room / 4).max(bound / 64).max(STEP_MIN);
    match held < own_bound {
        true => (held + room).min(own_bound).max(held + bound / 64),
        false => held + step,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_look_is_due_before_the_bound() {
        const MIB: usize = 1 << 20;
        // All that is held is used: only the room is left.
        assert_eq!(next_look(20 * MIB, 22 * MIB, 64 * MIB), 62 * MIB);
        // Requested and not touched: all of it may be touched without another request.
        assert_eq!(next_look(30 * MIB, 5 * MIB, 64 * MIB), 64 * MIB);
        assert_eq!(next_look(100 * MIB, 4 * MIB, 64 * MIB), 115 * MIB);
        // The other processes of the group use it up.
        assert_eq!(next_look(10 * MIB, 60 * MIB, 64 * MIB), 14 * MIB);
        assert_eq!(next_look(60 * MIB, 70 * MIB, 64 * MIB), 61 * MIB);
    }
}
