//! `prctl`, by which programs announce filters of system calls: the library makes no further calls that they may forbid.
//!
//! A process without CAP_SYS_ADMIN has to set `no_new_privs` before it installs a filter (seccomp(2)), whichever call
//! installs it, and programs do so in any case. A thread that is started later, or a file that is opened, may be the
//! end of the process; one that runs already makes the calls of any program: `madvise`, `munmap` and `futex`.

use core::ffi::{c_int, c_ulong};

use steppe_malloc::raw;

/// prctl(2). It is variadic; its further arguments are passed as these are.
///
/// # Safety
/// As the function of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(
    option: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    if matches!(option, libc::PR_SET_NO_NEW_PRIVS | libc::PR_SET_SECCOMP) {
        raw::expect_filters();
    }
    // SAFETY: the caller keeps the contract of prctl(2).
    let returned = unsafe { libc::syscall(libc::SYS_prctl, option, second, third, fourth, fifth) };
    c_int::try_from(returned).unwrap_or(-1)
}
