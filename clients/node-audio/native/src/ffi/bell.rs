//! The doorbell: libuv's wake of the event loop, or a thread-safe function whose queue holds one call.
//!
//! The latter is for programs without libuv. It is Node-API's own and not napi's, which allocates for each
//! call.

mod uv;

use std::ptr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use napi::bindgen_prelude::{Function, JsValue};
use napi::{Env, Status, sys};

use crate::session;
use uv::{Doorbell, Ringer};

/// A share in the doorbell: the object in JavaScript has one, and outlives the capture's thread, which has
/// the other.
pub enum Bell {
    /// The object's share, with libuv.
    Kept(Doorbell),
    /// The thread's share, with libuv.
    Lent(Ringer),
    /// Either share, without libuv.
    Queued(Queued),
}

impl Bell {
    /// Two shares: the object in JavaScript has the first, the capture's thread the second.
    pub fn pair(env: &Env, callback: &Function<(), ()>) -> napi::Result<(Self, Self)> {
        if let Some(doorbell) = Doorbell::new(env, callback) {
            let ringer = doorbell.ringer();
            return Ok((Self::Kept(doorbell), Self::Lent(ringer)));
        }
        let (kept, lent) = Queued::pair(env, callback)?;
        Ok((Self::Queued(kept), Self::Queued(lent)))
    }

    /// Makes the doorbell keep the event loop alive.
    pub fn reference(&self, env: &Env) {
        match self {
            Self::Kept(doorbell) => doorbell.reference(),
            Self::Queued(queued) => queued.reference(env),
            Self::Lent(_) => {}
        }
    }

    /// Lets the event loop end without the doorbell.
    pub fn unreference(&self, env: &Env) {
        match self {
            Self::Kept(doorbell) => doorbell.unreference(),
            Self::Queued(queued) => queued.unreference(env),
            Self::Lent(_) => {}
        }
    }
}

impl session::Bell for Bell {
    fn ring(&self) {
        match self {
            Self::Kept(doorbell) => doorbell.ringer().ring(),
            Self::Lent(ringer) => ringer.ring(),
            Self::Queued(queued) => queued.ring(),
        }
    }
}

/// A share in a thread-safe function, which is released with the last one.
pub struct Queued {
    function: sys::napi_threadsafe_function,
    /// Node.js has taken this share back.
    is_closing: AtomicBool,
}

// SAFETY: a thread-safe function may be called and released from any thread.
unsafe impl Send for Queued {}

impl Queued {
    fn pair(env: &Env, callback: &Function<(), ()>) -> napi::Result<(Self, Self)> {
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

    fn reference(&self, env: &Env) {
        // SAFETY: this share keeps the function, and `env` is its environment's.
        unsafe { sys::napi_ref_threadsafe_function(env.raw(), self.function) };
    }

    fn unreference(&self, env: &Env) {
        // SAFETY: as for `reference`.
        unsafe { sys::napi_unref_threadsafe_function(env.raw(), self.function) };
    }

    fn ring(&self) {
        let mode = sys::ThreadsafeFunctionCallMode::nonblocking;
        // SAFETY: this share keeps the function.
        let status =
            unsafe { sys::napi_call_threadsafe_function(self.function, ptr::null_mut(), mode) };
        // A full queue has a pending wake already, which serves for this one.
        if status == sys::Status::napi_closing {
            self.is_closing.store(true, Relaxed);
        }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        if self.is_closing.load(Relaxed) {
            return;
        }
        let mode = sys::ThreadsafeFunctionReleaseMode::release;
        // SAFETY: this share is released once, here.
        unsafe { sys::napi_release_threadsafe_function(self.function, mode) };
    }
}
