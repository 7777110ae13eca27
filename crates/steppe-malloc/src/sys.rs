//! The operating system: mappings, sleep, time, keys of threads. All system calls of the crate.
//!
//! Invariant: no function here allocates, but those that say so (`start_thread`, `at_fork`,
//! `set_thread_value`), and a function that reports failure by its result leaves `errno` alone.
//!
//! Under Miri mappings come from the host's allocator, and giving back is writing zeros: Miri
//! checks how the core uses memory, not the kernel.

mod address_space;
pub mod file;
mod huge_pages;
#[cfg(miri)]
mod in_miri;

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

pub use crate::errno::{keeping_errno, set_errno};
#[cfg(not(loom))]
use crate::sync::AtomicU32;
#[cfg(not(miri))]
pub use address_space::map_aligned;
pub use address_space::{has_endless_addresses, is_resident};
pub use huge_pages::split_huge_pages;

static REFUSALS: AtomicUsize = AtomicUsize::new(0);

/// Bytes of a page in the books: 4 KiB, whatever the machine's page size.
pub const PAGE_BYTES: usize = 4 << 10;

/// The system's own page, in bytes: 4, 16 or 64 KiB. Asked for once.
#[must_use]
pub fn page_bytes() -> usize {
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let bytes = ask_page_bytes();
            KNOWN.store(bytes, Ordering::Relaxed);
            bytes
        }
        known => known,
    }
}

fn ask_page_bytes() -> usize {
    // SAFETY: takes a constant, returns a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(PAGE_BYTES)
}

/// Processors that this process may run on, at least one, at most 1,024.
#[must_use]
pub fn processors() -> usize {
    let mut set = [0_u64; 16];
    let bytes = size_of_val(&set);
    // SAFETY: writes at most as many bytes as the set has.
    keeping_errno(|| unsafe { libc::sched_getaffinity(0, bytes, set.as_mut_ptr().cast()) });
    let processors: u32 = set.iter().map(|word| word.count_ones()).sum();
    processors.max(1) as usize
}

/// Zeroed memory of `bytes`, near `hint` if that is free (null: anywhere). `None`: no memory.
#[cfg(not(miri))]
pub fn map(hint: usize, bytes: usize) -> Option<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    map_with(hint, bytes, protection)
}

#[cfg(not(miri))]
fn map_with(hint: usize, bytes: usize, protection: c_int) -> Option<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let hint = ptr::without_provenance_mut::<c_void>(hint);
    // SAFETY: a new private mapping; the address is a hint and replaces nothing.
    let base = keeping_errno(|| unsafe { libc::mmap(hint, bytes, protection, flags, -1, 0) });
    (base != libc::MAP_FAILED).then(|| base.cast())
}

/// Unmaps memory, address range included. False: the kernel refused, and nothing changed.
///
/// # Safety
/// The pages are mapped by [`map`] and are not used any more.
#[cfg(not(miri))]
pub unsafe fn unmap(base: *mut u8, bytes: usize) -> bool {
    // SAFETY: promised by the caller.
    keeping_errno(|| unsafe { libc::munmap(base.cast(), bytes) == 0 })
}

/// Gives the memory of whole pages back; they read as zeros afterwards. False: the kernel refused.
///
/// `MADV_DONTNEED`, not `MADV_FREE`: with the latter free memory still counts as resident, and
/// operators look at resident memory.
///
/// # Safety
/// The pages are mapped and their content is not used again.
#[cfg(not(miri))]
pub unsafe fn purge(base: *mut u8, bytes: usize) -> bool {
    // SAFETY: promised by the caller.
    let is_gone =
        keeping_errno(|| unsafe { libc::madvise(base.cast(), bytes, libc::MADV_DONTNEED) == 0 });
    if !is_gone {
        REFUSALS.fetch_add(1, Ordering::Relaxed);
    }
    is_gone
}

/// Number of purges that the kernel refused.
#[must_use]
pub fn refusals() -> usize {
    REFUSALS.load(Ordering::Relaxed)
}

/// Advises the kernel to back the pages with huge ones, or not to.
#[cfg(not(miri))]
#[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
pub fn advise_huge_pages(base: *mut u8, bytes: usize, wanted: bool) {
    let advice = match wanted {
        true => libc::MADV_HUGEPAGE,
        false => libc::MADV_NOHUGEPAGE,
    };
    // SAFETY: advice changes no content; the range was just mapped by the caller.
    keeping_errno(|| unsafe { libc::madvise(base.cast(), bytes, advice) });
}

/// Forbids or allows any use of pages.
///
/// # Safety
/// The pages are mapped and are not used while that is forbidden.
#[cfg(all(feature = "hardened", not(miri)))]
pub unsafe fn protect(base: *mut u8, bytes: usize, accessible: bool) {
    let protection = match accessible {
        true => libc::PROT_READ | libc::PROT_WRITE,
        false => libc::PROT_NONE,
    };
    // SAFETY: promised by the caller.
    keeping_errno(|| unsafe { libc::mprotect(base.cast(), bytes, protection) });
}

/// Makes a mapping longer or shorter where it stands. False: the kernel refused.
///
/// # Safety
/// `base` and `old` are a whole mapping; the part that a shorter one loses is not used again.
#[cfg(not(miri))]
pub unsafe fn resize(base: *mut u8, old: usize, new: usize) -> bool {
    // SAFETY: promised by the caller; without flags it stays where it is or fails.
    let base = keeping_errno(|| unsafe { libc::mremap(base.cast(), old, new, 0) });
    base != libc::MAP_FAILED
}

/// Moves a mapping to `target`, where nothing else may be, with `new` bytes. False: refused, and
/// nothing changed.
///
/// The place is taken first by a mapping without access, so the fixed move replaces only that
/// mapping.
///
/// # Safety
/// As [`resize`]; pointers into the old place are not used again.
#[cfg(not(miri))]
pub unsafe fn relocate(base: *mut u8, old: usize, new: usize, target: usize) -> bool {
    let Some(place) = map_with(target, new, libc::PROT_NONE) else {
        return false;
    };
    if place.addr() != target {
        // SAFETY: just mapped, at another address than the requested one.
        unsafe { unmap(place, new) };
        return false;
    }
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let to = place.cast::<c_void>();
    // SAFETY: the old range is the caller's, the new one was taken above.
    let moved = keeping_errno(|| unsafe { libc::mremap(base.cast(), old, new, flags, to) });
    if moved == libc::MAP_FAILED {
        // SAFETY: still the mapping without access.
        unsafe { unmap(place, new) };
        return false;
    }
    true
}

#[cfg(miri)]
pub use in_miri::*;

/// Milliseconds since some point, for decay: coarse, wraps after 49 days.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "differences are taken modulo 2^32; the clock is not negative"
)]
pub fn now_ms() -> u32 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    #[cfg(not(miri))]
    let clock = libc::CLOCK_MONOTONIC_COARSE;
    #[cfg(miri)]
    let clock = libc::CLOCK_MONOTONIC;
    // SAFETY: `time` is written and outlives the call.
    keeping_errno(|| unsafe { libc::clock_gettime(clock, &raw mut time) });
    (time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000) as u32
}

/// Sleeps for at least `us` microseconds, by calls that the library's thread makes anyway.
#[cfg(not(loom))]
pub fn rest(us: u64) {
    static NEVER_WOKEN: AtomicU32 = AtomicU32::new(0);
    let start = now_us();
    while now_us().wrapping_sub(start) < us {
        futex_wait(&NEVER_WOKEN, 0, Some(1));
    }
}

/// Microseconds since some point.
#[cfg(not(loom))]
#[expect(clippy::cast_sign_loss, reason = "the clock is not negative")]
fn now_us() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is written and outlives the call.
    keeping_errno(|| unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) });
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

/// Sleeps while `word` holds `value`, until woken or for `timeout_ms`.
#[cfg(not(loom))]
pub fn futex_wait(word: &AtomicU32, value: u32, timeout_ms: Option<u32>) {
    let time = timeout_ms.map(|ms| libc::timespec {
        tv_sec: (ms / 1000).into(),
        tv_nsec: libc::c_long::from(ms % 1000) * 1_000_000,
    });
    let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let word = word.as_ptr();
    // SAFETY: `word` outlives the call, `time` is null or a live timespec.
    keeping_errno(|| unsafe { libc::syscall(libc::SYS_futex, word, operation, value, time) });
}

/// Wakes up to `sleepers` of [`futex_wait`].
#[cfg(not(loom))]
pub fn futex_wake(word: &AtomicU32, sleepers: c_int) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    let word = word.as_ptr();
    // SAFETY: only the address is used.
    keeping_errno(|| unsafe { libc::syscall(libc::SYS_futex, word, operation, sleepers) });
}

#[cfg(loom)]
pub use crate::sync::{futex_wait, futex_wake};

/// Returns at once: there is no time under loom.
#[cfg(loom)]
pub fn rest(_us: u64) {
    loom::thread::yield_now();
}

/// A moment's rest in a loop.
#[cfg(not(loom))]
pub fn spin_hint() {
    core::hint::spin_loop();
}

#[cfg(loom)]
pub fn spin_hint() {
    loom::thread::yield_now();
}

/// A key for a value a thread; its destructor runs when a thread ends that set one.
pub fn thread_key(
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
) -> Option<libc::pthread_key_t> {
    let mut key = 0;
    // SAFETY: `key` is written on success; the destructor is a function of this library, which is
    // never unloaded.
    let refused = unsafe { libc::pthread_key_create(&raw mut key, destructor) };
    (refused == 0).then_some(key)
}

/// The calling thread's value, as a number; 0 before it is set.
pub fn thread_number(key: libc::pthread_key_t) -> usize {
    // SAFETY: the key was made by `thread_key` and is never deleted.
    unsafe { libc::pthread_getspecific(key) }.addr()
}

/// Sets the calling thread's value. May allocate.
pub fn set_thread_value(key: libc::pthread_key_t, value: *const c_void) {
    // SAFETY: the key was made by `thread_key` and is never deleted.
    unsafe { libc::pthread_setspecific(key, value) };
}

/// Has functions called before and after every fork. May allocate.
#[cfg(not(miri))]
pub fn at_fork(
    prepare: unsafe extern "C" fn(),
    parent: unsafe extern "C" fn(),
    child: unsafe extern "C" fn(),
) {
    // SAFETY: functions of this library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}

#[cfg(miri)]
pub fn at_fork(
    _prepare: unsafe extern "C" fn(),
    _parent: unsafe extern "C" fn(),
    _child: unsafe extern "C" fn(),
) {
}

/// Has a function called when the process ends by `exit`. May allocate.
pub fn at_exit(function: extern "C" fn()) {
    // SAFETY: a function of this library, which is never unloaded.
    unsafe { libc::atexit(function) };
}

/// Stack of the background thread, in bytes.
#[cfg(not(miri))]
const STACK_BYTES: usize = 256 << 10;

/// Starts a thread that takes no signals. Allocates. False: refused.
#[cfg(not(miri))]
pub fn start_thread(body: extern "C" fn(*mut c_void) -> *mut c_void) -> bool {
    use core::mem::MaybeUninit;
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: each is initialized by the first call that takes it, and outlives the calls.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES);
        let refused = libc::pthread_create(
            thread.as_mut_ptr(),
            attributes.as_ptr(),
            body,
            ptr::null_mut(),
        );
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        refused == 0
    }
}

#[cfg(miri)]
pub fn start_thread(_body: extern "C" fn(*mut c_void) -> *mut c_void) -> bool {
    false
}

/// Has a function called when a signal comes, on any thread. False: refused.
pub fn on_signal(signal: c_int, handler: extern "C" fn(c_int)) -> bool {
    // SAFETY: zeros are a value of it.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    // Calls of the program go on, and programs with small stacks have another for handlers.
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: a function of this library, which is never unloaded; it is safe in a signal handler.
    unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) == 0 }
}

/// The calling thread, for [`join_thread`]; not 0.
#[expect(clippy::cast_possible_truncation, reason = "as wide as a pointer")]
pub fn this_thread() -> usize {
    // SAFETY: cannot fail.
    unsafe { libc::pthread_self() as usize }
}

/// Waits until a thread of [`start_thread`] has ended.
pub fn join_thread(thread: usize) {
    // SAFETY: the caller names a thread that was started and not joined.
    unsafe { libc::pthread_join(thread as libc::pthread_t, ptr::null_mut()) };
}

/// Names the calling thread, for `ps` and debuggers.
pub fn name_thread(name: &'static core::ffi::CStr) {
    #[cfg(not(miri))]
    // SAFETY: the name ends with a nul and is at most 16 bytes with it.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, name.as_ptr())
    };
    #[cfg(miri)]
    let _ = name;
}

/// A variable of the environment, but not in a program with another's rights.
#[must_use]
pub fn environment(name: &'static core::ffi::CStr) -> Option<&'static [u8]> {
    #[cfg(not(miri))]
    unsafe extern "C" {
        fn secure_getenv(name: *const c_char) -> *mut c_char;
    }
    #[cfg(miri)]
    use libc::getenv as secure_getenv;
    // SAFETY: the name ends with a nul.
    let value = unsafe { secure_getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    let value = value.cast_const().cast::<c_char>();
    // SAFETY: a string of the environment ends with a nul; it is read before main changes it.
    let value = unsafe { core::ffi::CStr::from_ptr(value) };
    Some(value.to_bytes())
}

/// The process ID.
#[must_use]
pub fn process_id() -> u32 {
    // SAFETY: cannot fail.
    u32::try_from(unsafe { libc::getpid() }).unwrap_or(0)
}

// A static program has no `dlsym` that finds anything; its linker fills these in, or leaves 0.
#[cfg(all(target_env = "musl", not(miri)))]
core::arch::global_asm!(
    ".weak _Unwind_Backtrace",
    ".weak _Unwind_GetIP",
    ".weak _Unwind_GetRegionStart",
    ".pushsection .data.rel.ro.steppe_malloc_unwinder,\"aw\",@progbits",
    ".p2align 3",
    ".globl steppe_malloc_unwinder",
    ".hidden steppe_malloc_unwinder",
    "steppe_malloc_unwinder:",
    ".quad _Unwind_Backtrace",
    ".quad _Unwind_GetIP",
    ".quad _Unwind_GetRegionStart",
    ".popsection",
);

/// Addresses of the unwinder's `_Unwind_Backtrace`, `_Unwind_GetIP` and `_Unwind_GetRegionStart`.
/// Allocates, and may load a library. `None`: there is none.
#[cfg(not(miri))]
#[must_use]
pub fn unwinder() -> Option<[usize; 3]> {
    linked_unwinder().or_else(loaded_unwinder)
}

/// The unwinder that the program's linker found.
#[cfg(all(target_env = "musl", not(miri)))]
fn linked_unwinder() -> Option<[usize; 3]> {
    unsafe extern "C" {
        static steppe_malloc_unwinder: [usize; 3];
    }
    // SAFETY: defined above, as large, and written by the loader only.
    let found = unsafe { steppe_malloc_unwinder };
    (!found.contains(&0)).then_some(found)
}

#[cfg(not(any(target_env = "musl", miri)))]
fn linked_unwinder() -> Option<[usize; 3]> {
    None
}

#[cfg(not(miri))]
fn loaded_unwinder() -> Option<[usize; 3]> {
    let find = |library: *mut c_void| {
        let names = [
            c"_Unwind_Backtrace",
            c"_Unwind_GetIP",
            c"_Unwind_GetRegionStart",
        ];
        // SAFETY: the name ends with a nul; the library is open, or stands for all there are.
        let found = names.map(|name| unsafe { libc::dlsym(library, name.as_ptr()) }.addr());
        (!found.contains(&0)).then_some(found)
    };
    find(libc::RTLD_DEFAULT).or_else(|| {
        // SAFETY: the compiler's own library; its initializers are trusted.
        let library = unsafe { libc::dlopen(c"libgcc_s.so.1".as_ptr(), libc::RTLD_NOW) };
        (!library.is_null()).then(|| find(library)).flatten()
    })
}

#[cfg(miri)]
pub fn unwinder() -> Option<[usize; 3]> {
    None
}

/// A secret number: the kernel's random bytes, or where it has none yet, the address of the stack.
///
/// Not `AT_RANDOM`: the C library makes its own secrets of these bytes.
#[must_use]
pub fn random() -> u64 {
    let mut number = 0_u64;
    #[cfg(not(miri))]
    {
        let (to, bytes) = ((&raw mut number).cast::<c_void>(), size_of::<u64>());
        // SAFETY: `number` has as many bytes as are asked for.
        keeping_errno(|| unsafe {
            libc::syscall(libc::SYS_getrandom, to, bytes, libc::GRND_NONBLOCK)
        });
    }
    if number == 0 {
        number = ((&raw const number).addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    number
}

/// Ends the process by SIGABRT.
pub fn abort() -> ! {
    // SAFETY: does not return.
    unsafe { libc::abort() }
}

/// The kernel's thread ID of the calling thread.
#[must_use]
pub fn thread_id() -> u32 {
    #[cfg(not(miri))]
    // SAFETY: cannot fail.
    return u32::try_from(unsafe { libc::syscall(libc::SYS_gettid) }).unwrap_or(0);
    #[cfg(miri)]
    1
}
