//! Reads of memory that may not be there, and the bounds that the kernel sets.
//!
//! Invariant: no function here changes `errno`, allocates, or faults.

use core::ptr;

use crate::errno::{errno, keeping_errno};

/// Reads eight bytes at a multiple of eight. `None`: not mapped, or not readable.
///
/// The kernel is asked by a call that copies them and then fails, whatever their value: sigprocmask(2) with an
/// operation that does not exist. Filters of system calls let it pass, since the C library needs it.
#[must_use]
pub fn word(address: usize) -> Option<usize> {
    const NO_OPERATION: libc::c_int = -1;
    let word = ptr::with_exposed_provenance::<usize>(address);
    let (operation, none) = (NO_OPERATION, ptr::null_mut::<usize>());
    let is_readable = keeping_errno(|| {
        // SAFETY: the kernel reads eight bytes, or says that it can't; without an operation it changes nothing.
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, operation, word, none, 8_usize) };
        errno() != libc::EFAULT
    });
    // SAFETY: mapped and readable, as the kernel found. Others may write there meanwhile.
    (address.is_multiple_of(8) && is_readable).then(|| unsafe { word.read_volatile() })
}

/// The program break; 0 if there is none.
#[must_use]
pub fn program_break() -> usize {
    // SAFETY: moves nothing.
    let end = keeping_errno(|| unsafe { libc::sbrk(0) });
    if end.addr() == usize::MAX {
        0
    } else {
        end.addr()
    }
}

/// Bytes of a page of the system.
#[must_use]
pub fn page_bytes() -> usize {
    // SAFETY: takes a constant, returns a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}
