//! C++ `operator new` in the forms that return null.
//!
//! [new.delete.single]: they call the throwing form and catch what it throws. Where that form is the
//! C++ library's, it calls `malloc`, and doing so directly is the same but for the handler that it
//! calls when memory is short. So two cases go to the C++ library's nothrow form, which can catch: a
//! program with a throwing form of its own, and a lack of memory.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::{MaybeUninit, transmute};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU8, Ordering};

use steppe_malloc::raw;

use crate::allocation;

/// `operator new(size_t, nothrow_t)`.
#[unsafe(no_mangle)]
pub extern "C" fn _ZnwmRKSt9nothrow_t(size: usize, tag: *const c_void) -> *mut c_void {
    allocate(c"_ZnwmRKSt9nothrow_t", size, tag)
}

/// `operator new[](size_t, nothrow_t)`.
#[unsafe(no_mangle)]
pub extern "C" fn _ZnamRKSt9nothrow_t(size: usize, tag: *const c_void) -> *mut c_void {
    allocate(c"_ZnamRKSt9nothrow_t", size, tag)
}

/// `operator new(size_t, align_val_t, nothrow_t)`.
#[unsafe(no_mangle)]
pub extern "C" fn _ZnwmSt11align_val_tRKSt9nothrow_t(
    size: usize,
    align: usize,
    tag: *const c_void,
) -> *mut c_void {
    allocate_aligned(c"_ZnwmSt11align_val_tRKSt9nothrow_t", size, align, tag)
}

/// `operator new[](size_t, align_val_t, nothrow_t)`.
#[unsafe(no_mangle)]
pub extern "C" fn _ZnamSt11align_val_tRKSt9nothrow_t(
    size: usize,
    align: usize,
    tag: *const c_void,
) -> *mut c_void {
    allocate_aligned(c"_ZnamSt11align_val_tRKSt9nothrow_t", size, align, tag)
}

fn allocate(form: &CStr, size: usize, tag: *const c_void) -> *mut c_void {
    type Form = unsafe extern "C" fn(usize, *const c_void) -> *mut c_void;
    if !is_replaced() {
        let block = raw::allocate(size);
        if !block.is_null() {
            return block.cast();
        }
    }
    let found = in_library(form);
    if found.is_null() {
        return raw::allocate(size).cast();
    }
    // SAFETY: the symbol is this form, whose name tells its parameters.
    let library_form = unsafe { transmute::<*mut c_void, Form>(found) };
    // SAFETY: the arguments are the caller's own.
    unsafe { library_form(size, tag) }
}

fn allocate_aligned(form: &CStr, size: usize, align: usize, tag: *const c_void) -> *mut c_void {
    type Form = unsafe extern "C" fn(usize, usize, *const c_void) -> *mut c_void;
    if !align.is_power_of_two() {
        return null_mut();
    }
    if !is_replaced() {
        let block = allocation::aligned(align, size);
        if !block.is_null() {
            return block.cast();
        }
    }
    let found = in_library(form);
    if found.is_null() {
        return allocation::aligned(align, size).cast();
    }
    // SAFETY: the symbol is this form, whose name tells its parameters.
    let library_form = unsafe { transmute::<*mut c_void, Form>(found) };
    // SAFETY: the arguments are the caller's own.
    unsafe { library_form(size, align, tag) }
}

/// The throwing forms, which a program may replace.
const THROWING: [&CStr; 4] = [
    c"_Znwm",
    c"_Znam",
    c"_ZnwmSt11align_val_t",
    c"_ZnamSt11align_val_t",
];

/// Whether some throwing form in force is not the C++ library's.
fn is_replaced() -> bool {
    const UNKNOWN: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;
    static REPLACED: AtomicU8 = AtomicU8::new(UNKNOWN);
    match REPLACED.load(Ordering::Relaxed) {
        UNKNOWN => {
            let is_replaced = find_replaced();
            // Threads that ask at once find the same.
            REPLACED.store(if is_replaced { YES } else { NO }, Ordering::Relaxed);
            is_replaced
        }
        known => known == YES,
    }
}

/// The C++ library is the object that the next nothrow form is in.
#[cold]
fn find_replaced() -> bool {
    let Some(linker) = Linker::of_process() else {
        return false;
    };
    let library = linker.object_of(in_library(c"_ZnwmRKSt9nothrow_t"));
    let is_foreign = |form: &CStr| {
        // SAFETY: the symbol is a string.
        let in_force = unsafe { (linker.symbol)(libc::RTLD_DEFAULT, form.as_ptr()) };
        linker.object_of(in_force) != library
    };
    !library.is_null() && THROWING.into_iter().any(is_foreign)
}

/// The symbol as the C++ library defines it; null when the program has none, or has it inside.
#[cold]
fn in_library(symbol: &CStr) -> *mut c_void {
    let Some(linker) = Linker::of_process() else {
        return null_mut();
    };
    // SAFETY: the symbol is a string.
    unsafe { (linker.symbol)(libc::RTLD_NEXT, symbol.as_ptr()) }
}

/// `dlsym`.
type Symbol = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
/// `dladdr`.
type Address = unsafe extern "C" fn(*const c_void, *mut libc::Dl_info) -> c_int;

/// The dynamic linker's functions, by weak references: a program that is linked statically has none.
struct Linker {
    symbol: Symbol,
    address: Address,
}

/// The address of a symbol, null when the program has none of that name.
macro_rules! weak_symbol {
    ($name:literal) => {{
        let address: *mut c_void;
        // SAFETY: it reads the symbol's slot of the global offset table, which the linker has filled
        // in, and writes one register.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!("mov {}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                out(reg) address,
                options(pure, nomem, nostack, preserves_flags),
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!("adrp {0}, :got:", $name),
                concat!("ldr {0}, [{0}, :got_lo12:", $name, "]"),
                out(reg) address,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        address
    }};
}

impl Linker {
    fn of_process() -> Option<Self> {
        let (symbol, address) = (weak_symbol!("dlsym"), weak_symbol!("dladdr"));
        if symbol.is_null() || address.is_null() {
            return None;
        }
        Some(Self {
            // SAFETY: dlsym(3) has these parameters.
            symbol: unsafe { transmute::<*mut c_void, Symbol>(symbol) },
            // SAFETY: dladdr(3) has these parameters.
            address: unsafe { transmute::<*mut c_void, Address>(address) },
        })
    }

    /// Where the object begins that has the address; null when none has.
    fn object_of(&self, address: *const c_void) -> *mut c_void {
        let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: there is room for what it writes; any address will do.
        let found = unsafe { (self.address)(address, info.as_mut_ptr()) };
        if found == 0 {
            return null_mut();
        }
        // SAFETY: all zeros are a valid value, and `dladdr` wrote the rest.
        unsafe { info.assume_init() }.dli_fbase
    }
}
