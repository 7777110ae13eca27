//! A connection to a sound server, and its main loop.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::time::{Duration, Instant};

use super::abi::{
    self, CONTEXT_NO_AUTOSPAWN, Context, FACILITY_MASK, Library, Mainloop, OPERATION_RUNNING,
    Operation, SUBSCRIPTION_MASK, TYPE_MASK, context_state,
};
use crate::error::Error;
use crate::limits::{NAME_BYTES_MAX, SERVER_ANSWER_MS_MAX, TURN_MS};

/// A failure of libpulse: one of [`abi::error`]'s codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The function that failed, or whose outcome this is.
    pub call: &'static str,
    /// libpulse's code; 0 when it has none.
    pub code: i32,
}

/// Kinds of objects that have changed at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Change(u32);

impl Change {
    /// True if the defaults may have changed.
    #[must_use]
    pub fn is_of_server(self) -> bool {
        self.0 & 1 << 7 != 0
    }

    /// True if streams of programs came, went or changed.
    #[must_use]
    pub fn is_of_streams(self) -> bool {
        self.0 & 1 << 2 != 0
    }

    /// True if devices came or went.
    #[must_use]
    pub fn is_of_devices(self) -> bool {
        self.0 & 0b11 != 0
    }
}

/// True when the caller no longer wants an answer.
pub type IsStopped = Box<dyn Fn() -> bool>;

/// A connection that is ready, or was.
pub struct Connection {
    pub(super) library: &'static Library,
    mainloop: NonNull<Mainloop>,
    pub(super) context: NonNull<Context>,
    is_stopped: IsStopped,
    /// Bits of the changes; written by a callback.
    changes: Box<Cell<u32>>,
}

/// Wakes a connection's loop from another thread.
pub struct LoopWaker {
    library: &'static Library,
    mainloop: NonNull<Mainloop>,
}

// SAFETY: `pa_mainloop_wakeup` writes to a pipe, and is meant for other threads.
unsafe impl Send for LoopWaker {}

impl LoopWaker {
    /// Makes the loop's poll return.
    ///
    /// The connection of the waker must exist: its owner takes the waker back first.
    pub fn wake(&self) {
        // SAFETY: the loop is not freed before `Control::set_waker` has replaced this, see
        // `Connection::waker`.
        unsafe { (self.library.pa_mainloop_wakeup)(self.mainloop.as_ptr()) };
    }
}

impl Connection {
    /// Connects to the server that the environment and libpulse's configuration name.
    ///
    /// # Errors
    /// libpulse is missing, or no server is there, or it refuses.
    pub fn open(is_stopped: IsStopped) -> Result<Self, Error> {
        let library = Library::get().map_err(|reason| {
            Error::NoServer(format!(
                "libpulse can't be loaded ({reason}); install it (libpulse0), or capture with ALSA"
            ))
        })?;
        // SAFETY: no argument.
        let mainloop = NonNull::new(unsafe { (library.pa_mainloop_new)() }).ok_or(NO_MEMORY)?;
        // SAFETY: the loop is there.
        let api = unsafe { (library.pa_mainloop_get_api)(mainloop.as_ptr()) };
        // SAFETY: the API lives as long as its loop, and the name is a C string.
        let context = unsafe { (library.pa_context_new)(api, c"steppe-audio".as_ptr()) };
        let Some(context) = NonNull::new(context) else {
            // SAFETY: nothing refers to the loop.
            unsafe { (library.pa_mainloop_free)(mainloop.as_ptr()) };
            return Err(NO_MEMORY);
        };
        let connection = Self {
            library,
            mainloop,
            context,
            is_stopped,
            changes: Box::default(),
        };
        connection.connect()?;
        Ok(connection)
    }

    fn connect(&self) -> Result<(), Error> {
        let context = self.context.as_ptr();
        let connect = self.library.pa_context_connect;
        // SAFETY: the context is there; no server is named, and no API to spawn one is given.
        let status = unsafe { connect(context, ptr::null(), CONTEXT_NO_AUTOSPAWN, ptr::null()) };
        if status < 0 {
            return Err(self.no_server());
        }
        let is_decided = || {
            let state = self.state();
            state == context_state::READY || is_over(state)
        };
        self.turn_until(is_decided, "pa_context_connect")
            .map_err(|_| self.no_server())?;
        if is_over(self.state()) {
            return Err(self.no_server());
        }
        Ok(())
    }

    fn no_server(&self) -> Error {
        let fault = self.fault("pa_context_connect");
        match fault.code {
            abi::error::ACCESS | abi::error::AUTH_KEY => Error::Permission(format!(
                "the sound server refused the connection: {}; run as the user that runs the server",
                self.text_of(fault)
            )),
            _ => Error::NoServer(format!(
                "PulseAudio or PipeWire: {}; start a sound server, or set PULSE_SERVER",
                self.text_of(fault)
            )),
        }
    }

    /// A waker of the loop. The caller ensures that the waker is gone before the connection is dropped.
    #[must_use]
    pub fn waker(&self) -> LoopWaker {
        LoopWaker {
            library: self.library,
            mainloop: self.mainloop,
        }
    }

    fn state(&self) -> i32 {
        // SAFETY: the context is there.
        unsafe { (self.library.pa_context_get_state)(self.context.as_ptr()) }
    }

    /// True while the server is there.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.state() == context_state::READY
    }

    /// Waits until an event or the time limit, and runs the callbacks that are due.
    ///
    /// # Errors
    /// The loop broke.
    pub fn turn(&self, timeout: Duration) -> Result<(), Fault> {
        let (library, mainloop) = (self.library, self.mainloop.as_ptr());
        let timeout_us = c_int::try_from(timeout.as_micros()).unwrap_or(c_int::MAX);
        // SAFETY: the loop is there, and this thread runs it.
        let prepared = unsafe { (library.pa_mainloop_prepare)(mainloop, timeout_us) };
        checked(prepared, "pa_mainloop_prepare")?;
        // SAFETY: it has been prepared.
        let polled = unsafe { (library.pa_mainloop_poll)(mainloop) };
        checked(polled, "pa_mainloop_poll")?;
        // SAFETY: it has been polled. Callbacks refer to what their owners keep until they have
        // taken the callback back.
        let dispatched = unsafe { (library.pa_mainloop_dispatch)(mainloop) };
        checked(dispatched, "pa_mainloop_dispatch")
    }

    /// Turns until `is_done` returns true.
    ///
    /// # Errors
    /// The connection ended first, or nothing came for too long, or `is_stopped` returned true.
    pub(super) fn turn_until(
        &self,
        is_done: impl Fn() -> bool,
        call: &'static str,
    ) -> Result<(), Fault> {
        let until = Instant::now() + Duration::from_millis(SERVER_ANSWER_MS_MAX);
        while !is_done() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || (self.is_stopped)() || is_over(self.state()) {
                return Err(self.fault(call));
            }
            self.turn(left.min(Duration::from_millis(TURN_MS)))?;
        }
        Ok(())
    }

    /// The last failure, as that of `call`.
    #[must_use]
    pub fn fault(&self, call: &'static str) -> Fault {
        // SAFETY: the context is there.
        let code = unsafe { (self.library.pa_context_errno)(self.context.as_ptr()) };
        Fault { call, code }
    }

    /// libpulse's description of a failure.
    #[must_use]
    pub fn text_of(&self, fault: Fault) -> String {
        if fault.code == 0 {
            return "no response".to_owned();
        }
        // SAFETY: any number is accepted, and the text is static.
        text(unsafe { (self.library.pa_strerror)(fault.code) })
    }

    /// Converts a failure to an error of ours.
    #[must_use]
    pub fn error(&self, fault: Fault, device: &str) -> Error {
        let reason = self.text_of(fault);
        match fault.code {
            abi::error::ACCESS => Error::Permission(reason),
            abi::error::NO_ENTITY => Error::NoDevice(format!("'{device}'")),
            abi::error::KILLED => Error::Unplugged(format!("'{device}'")),
            abi::error::CONNECTION_REFUSED
            | abi::error::CONNECTION_TERMINATED
            | abi::error::INVALID_SERVER => Error::NoServer(reason),
            _ => Error::Backend {
                call: fault.call,
                reason,
            },
        }
    }

    /// Subscribes to changes, see [`changes`](Self::changes).
    pub fn subscribe(&self) {
        let (library, context) = (self.library, self.context.as_ptr());
        let cell = ptr::from_ref(&*self.changes).cast_mut().cast();
        // SAFETY: the cell lives as long as the context, in a box.
        unsafe { (library.pa_context_set_subscribe_callback)(context, Some(on_change), cell) };
        let subscribe = library.pa_context_subscribe;
        // SAFETY: the context is there, and no callback is asked for.
        let operation =
            unsafe { subscribe(context, SUBSCRIPTION_MASK, ptr::null(), ptr::null_mut()) };
        self.release(operation);
    }

    /// Changes since the last call.
    #[must_use]
    pub fn changes(&self) -> Change {
        Change(self.changes.take())
    }

    pub(super) fn is_running(&self, operation: *mut Operation) -> bool {
        // SAFETY: the caller has a reference to the operation.
        let state = unsafe { (self.library.pa_operation_get_state)(operation) };
        state == OPERATION_RUNNING
    }

    /// Releases an operation, which may go on.
    pub(super) fn release(&self, operation: *mut Operation) {
        if !operation.is_null() {
            // SAFETY: the caller's reference to it ends here.
            unsafe { (self.library.pa_operation_unref)(operation) };
        }
    }

    /// Cancels an operation: its callback is not called again.
    pub(super) fn cancel(&self, operation: *mut Operation) {
        // SAFETY: the caller has a reference to the operation.
        unsafe { (self.library.pa_operation_cancel)(operation) };
        self.release(operation);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let (library, context) = (self.library, self.context.as_ptr());
        // SAFETY: the context is there, and the cell that the callback has until here as well.
        unsafe { (library.pa_context_set_subscribe_callback)(context, None, ptr::null_mut()) };
        // SAFETY: as above; streams borrow the connection, and are gone.
        unsafe { (library.pa_context_disconnect)(context) };
        // SAFETY: this is the only reference.
        unsafe { (library.pa_context_unref)(context) };
        // SAFETY: nothing uses the loop any more.
        unsafe { (library.pa_mainloop_free)(self.mainloop.as_ptr()) };
    }
}

const NO_MEMORY: Error = Error::Backend {
    call: "pa_mainloop_new",
    reason: String::new(),
};

fn is_over(state: i32) -> bool {
    state == context_state::FAILED || state == context_state::TERMINATED
}

fn checked(status: c_int, call: &'static str) -> Result<(), Fault> {
    if status < 0 {
        return Err(Fault { call, code: 0 });
    }
    Ok(())
}

/// Notes the facility: of new and removed objects of any kind, of changed ones for streams of programs and the
/// server only.
extern "C" fn on_change(_: *mut Context, event: c_int, _: u32, cell: *mut c_void) {
    let event = event.cast_unsigned();
    let facility = event & FACILITY_MASK;
    let is_change = event & TYPE_MASK == 0x0010;
    if is_change && !matches!(facility, 2 | 7) {
        return;
    }
    // SAFETY: the connection's cell, which it keeps until it takes the callback back; the loop's
    // thread is the one that reads it.
    let cell = unsafe { &*cell.cast::<Cell<u32>>() };
    cell.set(cell.get() | 1 << facility);
}

/// A C string of a server, bounded; empty for none.
pub(super) fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: libpulse hands out terminated strings that live at least through the callback.
    let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
    let kept = &bytes[..bytes.len().min(NAME_BYTES_MAX)];
    String::from_utf8_lossy(kept).into_owned()
}
