//! Messages of libasound, which it would print: kept for our errors.
//!
//! The process-wide handler of libasound is variadic, which no function of Rust can be, and other code in
//! this process may set it. The handler of a thread is neither.
#![expect(unsafe_code, reason = "libasound calls back")]

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;

use super::Library;
use crate::limits::NAME_BYTES_MAX;

/// `va_list` as a parameter: on each ABI of Linux one word, since it is a pointer, an array, or a struct
/// that is passed by reference or is one pointer. It is passed on, and never read here.
type Arguments = *mut c_void;

/// `snd_local_error_handler_t`: file, line, function, code, format, and the arguments of the format.
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

/// Keeps libasound from printing on this thread while the value exists.
pub struct Words {
    library: &'static Library,
    before: Option<Handler>,
    /// Not `Send`: the handler is that of the thread that set it.
    _thread: PhantomData<*const ()>,
}

impl Words {
    /// Begins to keep messages.
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

/// The first message since the last call: later ones are its consequences.
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
    // Neither a thread that ends nor a borrow of `FIRST` makes this panic: it must not unwind into C.
    let _ = FIRST.try_with(|first| {
        if let Ok(mut first) = first.try_borrow_mut()
            && first.is_empty()
        {
            first.push_str(said.trim());
        }
    });
}
