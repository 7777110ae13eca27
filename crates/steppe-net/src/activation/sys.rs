//! Adopts inherited descriptors by number, and removes environment variables.
#![expect(
    unsafe_code,
    reason = "no safe function owns a descriptor by its number, or changes the environment"
)]

use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::Socket;

/// The first descriptor that a service manager passes (`SD_LISTEN_FDS_START`).
const FIRST: RawFd = 3;

/// Adopts `count` descriptors from [`FIRST`] on. Only the first call gets any.
pub(super) fn take_sockets(count: u16) -> Vec<Socket> {
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    if IS_TAKEN.swap(true, Ordering::AcqRel) {
        return Vec::new();
    }
    let numbers = (0..count).map(|index| FIRST + RawFd::from(index));
    numbers.filter_map(take_socket).collect()
}

/// `None` if no descriptor of this number is open.
fn take_socket(number: RawFd) -> Option<Socket> {
    // SAFETY: F_SETFD takes a number and an integer, and changes nothing where nothing is open.
    let result = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    if result == -1 {
        return None;
    }
    // SAFETY: it is open, as the call before says. The manager passed it to this process for its
    // own (LISTEN_PID), and the caller takes each number once, before anything else is opened.
    let owned = unsafe { OwnedFd::from_raw_fd(number) };
    Some(owned.into())
}

/// Removes `names` from the environment if no other thread can be reading it.
pub(super) fn clear_variables(names: &[&str]) {
    if !is_single_threaded() {
        return;
    }
    for name in names {
        // SAFETY: no other thread exists that could read the environment meanwhile.
        unsafe { std::env::remove_var(name) };
    }
}

fn is_single_threaded() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}
