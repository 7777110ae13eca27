//! The doorbell: a thread-safe function whose queue holds one call.
//!
//! It is Node-API's own and not napi's, which allocates for each call.

use std::ptr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use napi::bindgen_prelude::{Function, JsValue};
use napi::{Env, Status, sys};

use crate::session;

/// A share in the thread-safe function; the last one that goes takes it along.
pub struct Bell {
    function: sys::napi_threadsafe_function,
    /// Node.js has taken this share back.
    is_closing: AtomicBool,
}

// SAFETY: a thread-safe function may be called and released from any thread.
unsafe impl Send for Bell {}

impl Bell {
    /// Two shares: the capture's thread has one, the object in JavaScript the other.
    pub fn pair(env: &Env, callback: &Function<(), ()>) -> napi::Result<(Self, Self)> {
        let name = env.create_string("steppe-audio")?;
        let mut function = ptr::null_mut();
        // SAFETY: `env`, the callback and the name are of this call; no finalizer, no context, and
        // Node-API's own way to call the function, which takes no data.
        let status = unsafe {
            sys::napi_create_threadsafe_function(
                env.raw(),
                callback.raw(),
                ptr::null_mut(),
                name.raw(),
                1,
                2,
                ptr::null_mut(),
                None,
                ptr::null_mut(),
                None,
                &raw mut function,
            )
        };
        if status != sys::Status::napi_ok {
            let status = Status::from(status);
            return Err(napi::Error::new(
                status,
                "cannot create the thread-safe function of the capture",
            ));
        }
        let share = || Self {
            function,
            is_closing: AtomicBool::new(false),
        };
        Ok((share(), share()))
    }

    /// Has it keep the event loop alive.
    pub fn reference(&self, env: &Env) {
        // SAFETY: this share keeps the function, and `env` is its environment's.
        unsafe { sys::napi_ref_threadsafe_function(env.raw(), self.function) };
    }

    /// Lets the event loop end without it.
    pub fn unreference(&self, env: &Env) {
        // SAFETY: as for `reference`.
        unsafe { sys::napi_unref_threadsafe_function(env.raw(), self.function) };
    }
}

impl session::Bell for Bell {
    fn ring(&self) {
        let mode = sys::ThreadsafeFunctionCallMode::nonblocking;
        // SAFETY: this share keeps the function.
        let status =
            unsafe { sys::napi_call_threadsafe_function(self.function, ptr::null_mut(), mode) };
        // A full queue has the wake that this one asks for.
        if status == sys::Status::napi_closing {
            self.is_closing.store(true, Relaxed);
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        if self.is_closing.load(Relaxed) {
            return;
        }
        let mode = sys::ThreadsafeFunctionReleaseMode::release;
        // SAFETY: this share is released once, here.
        unsafe { sys::napi_release_threadsafe_function(self.function, mode) };
    }
}
