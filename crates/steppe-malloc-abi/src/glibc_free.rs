//! Look-up of glibc's own `free`, for blocks of its `malloc`.
//!
//! Another allocator of the process may export glibc's inner names too, so the function has to be in the same library
//! as one that no allocator has. Otherwise blocks of glibc are reported like any foreign pointer.

use core::ffi::{c_int, c_void};
use core::slice;

use steppe_malloc::foreign;

/// Runs while the library is loaded: a request for memory must not wait for the dynamic linker's lock.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    // SAFETY: reads a number.
    let is_static = unsafe { libc::getauxval(libc::AT_BASE) } == 0;
    if is_static {
        // A static program has no malloc of glibc's, and no library to find it in.
        return;
    }
    let names = [c"__libc_free", c"gnu_get_libc_version"];
    // SAFETY: the name ends with a nul.
    let mut found = names.map(|name| unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) });
    // SAFETY: the callback gets `found`, which outlives the call.
    let are_together = unsafe { libc::dl_iterate_phdr(Some(has_both), (&raw mut found).cast()) };
    if are_together == 1 {
        // SAFETY: glibc has exported its `free` by this name since 2.0.
        unsafe { foreign::adopt(found[0]) };
    }
}

/// Ends the walk over all libraries with 1 at the one that has both addresses of `data`.
unsafe extern "C" fn has_both(
    library: *mut libc::dl_phdr_info,
    _bytes: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: the C library passes the description of a library that is loaded.
    let library = unsafe { &*library };
    // SAFETY: `at_load` passes two addresses.
    let addresses = unsafe { *data.cast::<[*mut c_void; 2]>() };
    let count = usize::from(library.dlpi_phnum);
    // SAFETY: as many headers as the library says.
    let headers = unsafe { slice::from_raw_parts(library.dlpi_phdr, count) };
    let has = |address: *mut c_void| {
        let offset = (address.addr() as u64).wrapping_sub(library.dlpi_addr);
        headers.iter().any(|header| {
            header.p_type == libc::PT_LOAD && offset.wrapping_sub(header.p_vaddr) < header.p_memsz
        })
    };
    c_int::from(addresses.into_iter().all(has))
}
