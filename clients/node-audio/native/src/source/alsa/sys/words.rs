//! What libasound says beside its codes, which it would print: kept for the errors of ours.
//!
//! Its handler for the whole process is variadic, which no function of Rust can be, and may be set by
//! somebody else in this process. The one of a thread is neither.
#![expect(unsafe_code, reason = "libasound calls back")]

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;

use super::Library;
use crate::limits::NAME_BYTES_MAX;

/// `va_list` as a parameter: on each ABI of Linux one word, since it is a pointer, an array, or a struct
/// that is passed by reference or is one pointer. It is handed on, and never looked into.
type Arguments = *mut c_void;

/// `snd_local_error_handler_t`: file, line, function, code, format, and what it formats.
pub type Handler =
    unsafe extern "C" fn(*const c_char, c_int, *const c_char, c_int, *const c_char, Arguments);

unsafe extern "C" {
    fn vsnprintf(
        buffer: *mut c_char,
        bytes: usize,
        format: *const c_char,
        arguments: Arguments,
    ) -> c_int;
}

thread_local! {
    static FIRST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Has libasound print nothing on this thread for as long as this is there.
pub struct Words {
    library: &'static Library,
    before: Option<Handler>,
    /// It is of the thread that made it.
    _thread: PhantomData<*const ()>,
}

impl Words {
    /// Keeps what it says from now on.
    pub fn keep(library: &'static Library) -> Self {
        // SAFETY: the handler has the type that libasound calls, and is there until `drop` has put the one
        // before in its place, on this same thread.
        let before = unsafe { (library.snd_lib_error_set_local)(Some(keep_first)) };
        Self {
            library,
            before,
            _thread: PhantomData,
        }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: the handler that was there before; whoever set it keeps it.
        unsafe { (self.library.snd_lib_error_set_local)(self.before) };
        take();
    }
}

/// What was said first since this was last asked: what comes after it is what follows from it.
pub fn take() -> String {
    FIRST.take()
}

unsafe extern "C" fn keep_first(
    _file: *const c_char,
    _line: c_int,
    _function: *const c_char,
    _code: c_int,
    format: *const c_char,
    arguments: Arguments,
) {
    let mut buffer = [0_u8; NAME_BYTES_MAX];
    // SAFETY: the buffer has so many bytes, of which the last is written as zero; format and arguments are
    // a `printf`'s, as libasound promises its handlers, and the arguments are read once, here.
    unsafe { vsnprintf(buffer.as_mut_ptr().cast(), buffer.len(), format, arguments) };
    let Ok(said) = CStr::from_bytes_until_nul(&buffer) else {
        return;
    };
    let said = said.to_string_lossy();
    // No thread that ends, and nobody who is looking, makes this panic: it may not unwind into C.
    let _ = FIRST.try_with(|first| {
        if let Ok(mut first) = first.try_borrow_mut()
            && first.is_empty()
        {
            first.push_str(said.trim());
        }
    });
}
