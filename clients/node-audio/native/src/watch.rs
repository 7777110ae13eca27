//! Hot-plug: a thread that tells when devices have changed.

use std::cell::Cell;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::error::Result;
use crate::limits::WATCH_EVERY_MS;
use crate::session::{Bell, Control};
use crate::source;
use crate::thread::Thread;

/// A watch; it ends when it is dropped.
pub struct Watch {
    _thread: Thread,
}

impl Watch {
    /// Rings the bell whenever devices have changed, a sound server that comes or goes among it.
    ///
    /// # Errors
    /// [`Error::Backend`]: there is no thread to be had.
    pub fn start(bell: Box<dyn Bell>) -> Result<Self> {
        let control = Arc::new(Control::default());
        let theirs = control.clone();
        let run = move || run(&theirs, &*bell);
        let thread = Thread::start("steppe-audio-watch", control, run)?;
        Ok(Self { _thread: thread })
    }
}

/// Watches, and asks again for a sound system that is not there.
fn run(control: &Arc<Control>, bell: &dyn Bell) {
    let this_thread = thread::current();
    control.set_waker(Some(Box::new(move || this_thread.unpark())));
    while !control.is_stopped() {
        let was_there = Cell::new(false);
        let on_change = || {
            was_there.set(true);
            bell.ring();
        };
        let ended = source::watch(control, &on_change);
        if ended.is_err() && was_there.get() {
            // All devices are gone.
            bell.ring();
        }
        if !control.is_stopped() {
            thread::park_timeout(Duration::from_millis(WATCH_EVERY_MS));
        }
    }
    control.set_waker(None);
}
