//! The stack of an allocation: return addresses, the innermost first.
//!
//! Programs are built without frame pointers, so the unwinder of the compiler's library walks them
//! by its tables. It is looked up while the program runs: most have it already, and the library must
//! not ask for more than libc. Since glibc 2.35 it takes no lock and allocates nothing on the way.
//!
//! Leaves out: programs that were linked without an unwinder and can't load one.

use core::ffi::{c_int, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::sys;

/// Most frames of a stack; callers beyond are left out.
pub const DEPTH_MAX: usize = 64;

type Backtrace = unsafe extern "C" fn(Visit, *mut c_void) -> c_int;
type Visit = extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Ask = unsafe extern "C" fn(*mut c_void) -> usize;

/// `_Unwind_Backtrace`, `_Unwind_GetIP`, `_Unwind_GetRegionStart`; 0: not there.
static BACKTRACE: AtomicUsize = AtomicUsize::new(0);
static ADDRESS: AtomicUsize = AtomicUsize::new(0);
static FUNCTION: AtomicUsize = AtomicUsize::new(0);

const GO_ON: c_int = 0;
/// `_URC_NORMAL_STOP` of the Itanium C++ ABI's unwinder: any other value ends the walk as well.
const ENOUGH: c_int = 4;

/// Addresses of functions between a request and the profile.
pub type Skipped = fn() -> [usize; 7];

/// A walked stack.
pub struct Stack {
    frames: [usize; DEPTH_MAX],
    depth: usize,
    address: Ask,
    function: Ask,
    skipped: Skipped,
}

/// Finds the unwinder. Allocates, so never to be called within a call of the allocator. False:
/// there is none.
pub fn prepare() -> bool {
    if BACKTRACE.load(Ordering::Acquire) != 0 {
        return true;
    }
    let Some([backtrace, address, function]) = sys::unwinder() else {
        return false;
    };
    ADDRESS.store(address, Ordering::Relaxed);
    FUNCTION.store(function, Ordering::Relaxed);
    BACKTRACE.store(backtrace, Ordering::Release);
    // The first walk may set something up.
    Stack::here(|| [0; 7]);
    true
}

impl Stack {
    /// The calling thread's stack, without this crate's own functions at its end: those of the profile,
    /// and `skipped`.
    #[inline(never)]
    pub fn here(skipped: Skipped) -> Self {
        let backtrace = BACKTRACE.load(Ordering::Acquire);
        let (address, function) = (
            ADDRESS.load(Ordering::Relaxed),
            FUNCTION.load(Ordering::Relaxed),
        );
        // SAFETY: `prepare` found them by these names, which have these types, and ran first.
        let (address, function) = unsafe {
            (
                transmute::<usize, Ask>(address),
                transmute::<usize, Ask>(function),
            )
        };
        let mut stack = Self {
            frames: [0; DEPTH_MAX],
            depth: 0,
            address,
            function,
            skipped,
        };
        // SAFETY: as above.
        let backtrace = unsafe { transmute::<usize, Backtrace>(backtrace) };
        // SAFETY: `visit` takes the pointer passed here, which outlives the call.
        unsafe { backtrace(visit, (&raw mut stack).cast()) };
        stack
    }

    /// Return addresses, the innermost first.
    pub fn frames(&self) -> &[usize] {
        self.frames.get(..self.depth).unwrap_or(&[])
    }

    /// True if a function is one of those on the way from a request to here. Functions that were
    /// inlined into each other don't occur.
    fn is_ours(&self, function: usize) -> bool {
        let here = Self::here as *const () as usize;
        let of_profile = super::long_ways();
        let of_request = (self.skipped)();
        function == here || of_profile.contains(&function) || of_request.contains(&function)
    }
}

extern "C" fn visit(context: *mut c_void, stack: *mut c_void) -> c_int {
    // SAFETY: the pointer that `here` passed, which no other code uses meanwhile.
    let stack = unsafe { &mut *stack.cast::<Stack>() };
    // SAFETY: asks about the frame that is being visited.
    let address = unsafe { (stack.address)(context) };
    // SAFETY: as above.
    let function = unsafe { (stack.function)(context) };
    if address == 0 || (stack.depth == 0 && stack.is_ours(function)) {
        return GO_ON;
    }
    match stack.frames.get_mut(stack.depth) {
        Some(frame) => *frame = address,
        None => return ENOUGH,
    }
    stack.depth += 1;
    GO_ON
}
