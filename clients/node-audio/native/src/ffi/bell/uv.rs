//! A wake of the event loop by libuv itself: `uv_async_t`, which writes to an eventfd and nothing else.
//!
//! Node-API's thread-safe function does the same under a lock: the woken thread waits for that lock when both are on
//! one processor, which costs two more switches. libuv's functions are those of the program that loaded the addon.
//! **Invariant:** the handle's memory is freed by libuv's close callback alone, and the environment waits for that:
//! its asynchronous cleanup hook is removed there.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use napi::bindgen_prelude::{Function, JsObjectValue, JsValue};
use napi::{Env, sys};

/// `uv_async_t`, whose size is known to libuv only.
#[repr(C)]
struct Handle {
    _opaque: [u8; 0],
}

/// `uv_handle_type` of `uv_async_t`: the first of libuv 1.
const UV_ASYNC: c_uint = 1;
/// Upper bound of the size of any version's `uv_async_t`: 128 bytes on Linux.
const HANDLE_BYTES_MAX: usize = 1_024;

type OnHandle = unsafe extern "C" fn(*mut Handle);

/// Functions of libuv.
struct Uv {
    handle_size: unsafe extern "C" fn(c_uint) -> usize,
    async_init: unsafe extern "C" fn(*mut sys::uv_loop_s, *mut Handle, OnHandle) -> c_int,
    async_send: unsafe extern "C" fn(*mut Handle) -> c_int,
    set_data: unsafe extern "C" fn(*mut Handle, *mut c_void),
    get_data: unsafe extern "C" fn(*const Handle) -> *mut c_void,
    close: unsafe extern "C" fn(*mut Handle, OnHandle),
    reference: unsafe extern "C" fn(*mut Handle),
    unreference: unsafe extern "C" fn(*mut Handle),
}

impl Uv {
    /// The functions of the program's libuv. `None`: it has none.
    fn get() -> Option<&'static Self> {
        static UV: OnceLock<Option<Uv>> = OnceLock::new();
        UV.get_or_init(Self::load).as_ref()
    }

    fn load() -> Option<Self> {
        #[cfg(unix)]
        let library = libloading::os::unix::Library::this();
        #[cfg(windows)]
        let library = libloading::os::windows::Library::this().ok()?;
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the type of the field is the function's of libuv 1, whose interface is stable.
                *unsafe { library.get($name) }.ok()?
            };
        }
        let uv = Self {
            handle_size: symbol!(b"uv_handle_size\0"),
            async_init: symbol!(b"uv_async_init\0"),
            async_send: symbol!(b"uv_async_send\0"),
            set_data: symbol!(b"uv_handle_set_data\0"),
            get_data: symbol!(b"uv_handle_get_data\0"),
            close: symbol!(b"uv_close\0"),
            reference: symbol!(b"uv_ref\0"),
            unreference: symbol!(b"uv_unref\0"),
        };
        // SAFETY: it takes a number.
        let bytes = unsafe { (uv.handle_size)(UV_ASYNC) };
        (bytes > 0 && bytes <= HANDLE_BYTES_MAX).then_some(uv)
    }
}

/// Memory of the handle and its callbacks: libuv has the pointer to it, and its close callback frees it.
#[repr(C, align(16))]
struct State {
    handle: [u8; HANDLE_BYTES_MAX],
    uv: &'static Uv,
    env: sys::napi_env,
    context: sys::napi_async_context,
    callback: sys::napi_ref,
    cleanup: sys::napi_async_cleanup_hook_handle,
    is_closing: bool,
}

/// Rings from any thread, while the [`Doorbell`] exists.
#[derive(Clone, Copy)]
pub struct Ringer {
    uv: &'static Uv,
    handle: *mut Handle,
}

// SAFETY: `uv_async_send` is for any thread.
unsafe impl Send for Ringer {}

impl Ringer {
    /// Makes libuv call the callback, once for any number of rings before it.
    pub fn ring(self) {
        // SAFETY: the doorbell is there: its owner ends the thread that rings first.
        unsafe { (self.uv.async_send)(self.handle) };
    }
}

/// The doorbell; see the module. Belongs to the thread of its environment.
pub struct Doorbell {
    state: NonNull<State>,
}

// SAFETY: napi keeps what an object owns on the object's thread, and asks for `Send` all the same.
unsafe impl Send for Doorbell {}

impl Doorbell {
    /// A doorbell that calls back without arguments. `None`: the program has no usable libuv.
    pub fn new(env: &Env, callback: &Function<(), ()>) -> Option<Self> {
        let uv = Uv::get().filter(|_| !is_bun(env))?;
        let event_loop = event_loop(env)?;
        let state = Box::new(State {
            handle: [0; HANDLE_BYTES_MAX],
            uv,
            env: env.raw(),
            context: async_context(env)?,
            callback: reference(env, callback)?,
            cleanup: ptr::null_mut(),
            is_closing: false,
        });
        let state = NonNull::from(Box::leak(state));
        let handle = handle_of(state);
        // SAFETY: the loop is the environment's, the memory large enough and not used by anything else.
        let status = unsafe { (uv.async_init)(event_loop, handle, on_ring) };
        if status != 0 {
            // SAFETY: libuv has not taken the memory.
            let state = unsafe { Box::from_raw(state.as_ptr()) };
            state.forget();
            return None;
        }
        // SAFETY: the handle was initialized.
        unsafe { (uv.set_data)(handle, state.as_ptr().cast()) };
        let doorbell = Self { state };
        doorbell.hook(env)?;
        Some(doorbell)
    }

    /// Makes the environment wait for the close callback when it ends.
    fn hook(&self, env: &Env) -> Option<()> {
        let mut cleanup = ptr::null_mut();
        let data = self.state.as_ptr().cast();
        // SAFETY: the state lives until its close callback, which removes the hook.
        let status = unsafe {
            sys::napi_add_async_cleanup_hook(env.raw(), Some(on_cleanup), data, &raw mut cleanup)
        };
        // SAFETY: the state is there, and this thread is its own.
        unsafe { (*self.state.as_ptr()).cleanup = cleanup };
        (status == sys::Status::napi_ok).then_some(())
    }

    /// A ringer for this doorbell.
    pub fn ringer(&self) -> Ringer {
        // SAFETY: the state is there until this is dropped.
        let uv = unsafe { self.state.as_ref() }.uv;
        Ringer {
            uv,
            handle: handle_of(self.state),
        }
    }

    /// Makes the doorbell keep the event loop alive.
    pub fn reference(&self) {
        let Ringer { uv, handle } = self.ringer();
        // SAFETY: the handle is open.
        unsafe { (uv.reference)(handle) };
    }

    /// Lets the event loop end without the doorbell.
    pub fn unreference(&self) {
        let Ringer { uv, handle } = self.ringer();
        // SAFETY: the handle is open.
        unsafe { (uv.unreference)(handle) };
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        close(self.state);
    }
}

impl State {
    /// Releases the objects of Node-API.
    fn forget(&self) {
        // SAFETY: both were made in this environment, and are given back once.
        unsafe { sys::napi_delete_reference(self.env, self.callback) };
        // SAFETY: as above.
        unsafe { sys::napi_async_destroy(self.env, self.context) };
    }
}

fn handle_of(state: NonNull<State>) -> *mut Handle {
    // The handle is the first field.
    state.as_ptr().cast()
}

/// Closes the handle, unless it is closing already.
fn close(state: NonNull<State>) {
    // SAFETY: the state lives until the close callback, and this thread is its own.
    let fields = unsafe { &mut *state.as_ptr() };
    if std::mem::replace(&mut fields.is_closing, true) {
        return;
    }
    fields.forget();
    // SAFETY: the handle is open, and closed once.
    unsafe { (fields.uv.close)(handle_of(state), on_close) };
}

unsafe extern "C" fn on_close(handle: *mut Handle) {
    // SAFETY: the handle is the first field of a state that `new` leaked; this is libuv's last use of it.
    let state = unsafe { Box::from_raw(handle.cast::<State>()) };
    if !state.cleanup.is_null() {
        // SAFETY: the hook was added, and is removed once.
        unsafe { sys::napi_remove_async_cleanup_hook(state.cleanup) };
    }
}

unsafe extern "C" fn on_cleanup(_: sys::napi_async_cleanup_hook_handle, state: *mut c_void) {
    if let Some(state) = NonNull::new(state.cast()) {
        close(state);
    }
}

unsafe extern "C" fn on_ring(handle: *mut Handle) {
    // SAFETY: the handle is open, and is the first field of a state.
    let state = unsafe { &*handle.cast::<State>() };
    // SAFETY: the handle's data is what `new` has set.
    debug_assert!(!unsafe { (state.uv.get_data)(handle) }.is_null());
    let env = state.env;
    let (context, callback) = (state.context, state.callback);
    let mut scope = ptr::null_mut();
    // SAFETY: the environment is there as long as the handle is open, and this is its thread.
    if unsafe { sys::napi_open_handle_scope(env, &raw mut scope) } != sys::Status::napi_ok {
        return;
    }
    // The callback may close the handle: nothing of the state is read after it.
    call(env, context, callback);
    // SAFETY: the scope was opened above.
    unsafe { sys::napi_close_handle_scope(env, scope) };
}

/// Calls back as Node.js does from its loop: with the asynchronous context, and with queued callbacks run
/// afterwards.
fn call(env: sys::napi_env, context: sys::napi_async_context, callback: sys::napi_ref) {
    let mut function = ptr::null_mut();
    // SAFETY: the reference is of this environment, and a handle scope is open.
    unsafe { sys::napi_get_reference_value(env, callback, &raw mut function) };
    let mut result = ptr::null_mut();
    // SAFETY: all are of this environment; there is no argument. `this` is the function itself, an object that is at
    // hand: an arrow function has none.
    let status = unsafe {
        let no_argument = ptr::null();
        sys::napi_make_callback(
            env,
            context,
            function,
            function,
            0,
            no_argument,
            &raw mut result,
        )
    };
    if status == sys::Status::napi_pending_exception {
        let mut error = ptr::null_mut();
        // SAFETY: an exception is pending.
        unsafe { sys::napi_get_and_clear_last_exception(env, &raw mut error) };
        // SAFETY: the value is that of the exception.
        unsafe { sys::napi_fatal_exception(env, error) };
    }
}

/// True in Bun, which has libuv's functions by name only.
fn is_bun(env: &Env) -> bool {
    let global = env.get_global();
    global.is_ok_and(|global| global.has_named_property("Bun").unwrap_or(false))
}

fn event_loop(env: &Env) -> Option<*mut sys::uv_loop_s> {
    let mut event_loop = ptr::null_mut();
    // SAFETY: `env` is of this call.
    let status = unsafe { sys::napi_get_uv_event_loop(env.raw(), &raw mut event_loop) };
    (status == sys::Status::napi_ok && !event_loop.is_null()).then_some(event_loop)
}

fn async_context(env: &Env) -> Option<sys::napi_async_context> {
    let name = env.create_string("steppe-audio").ok()?;
    let mut context = ptr::null_mut();
    // SAFETY: `env` and the name are of this call; Node-API makes the resource.
    let status =
        unsafe { sys::napi_async_init(env.raw(), ptr::null_mut(), name.raw(), &raw mut context) };
    (status == sys::Status::napi_ok).then_some(context)
}

fn reference(env: &Env, callback: &Function<(), ()>) -> Option<sys::napi_ref> {
    let mut reference = ptr::null_mut();
    // SAFETY: `env` and the callback are of this call.
    let status =
        unsafe { sys::napi_create_reference(env.raw(), callback.raw(), 1, &raw mut reference) };
    (status == sys::Status::napi_ok).then_some(reference)
}
