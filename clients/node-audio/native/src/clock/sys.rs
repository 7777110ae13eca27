//! The monotonic clock of each operating system, as libuv's `uv_hrtime` reads it.
#![expect(unsafe_code, reason = "libc and windows-sys have no safe calls")]

#[cfg(unix)]
pub(super) fn monotonic_ns() -> u64 {
    // The same clock as libuv: on macOS that of `mach_absolute_time`, which stops while the machine
    // sleeps.
    #[cfg(target_os = "macos")]
    let clock = libc::CLOCK_UPTIME_RAW;
    #[cfg(not(target_os = "macos"))]
    let clock = libc::CLOCK_MONOTONIC;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a timespec that lives through the call.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    #[allow(clippy::useless_conversion, reason = "32 bits wide on some targets")]
    let (seconds, ns) = (i64::from(time.tv_sec), i64::from(time.tv_nsec));
    part(seconds) * 1_000_000_000 + part(ns)
}

#[cfg(windows)]
pub(super) fn monotonic_ns() -> u64 {
    use windows_sys::Win32::System::Performance::{
        QueryPerformanceCounter, QueryPerformanceFrequency,
    };
    let (mut count, mut frequency) = (0_i64, 0_i64);
    // SAFETY: both are integers that live through the calls, which can't fail since Windows XP.
    unsafe { QueryPerformanceCounter(&raw mut count) };
    // SAFETY: as above.
    unsafe { QueryPerformanceFrequency(&raw mut frequency) };
    let ns = i128::from(count) * 1_000_000_000 / i128::from(frequency.max(1));
    u64::try_from(ns).unwrap_or(0)
}
