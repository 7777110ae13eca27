//! Hot-plug notification: a thread that reports changes of devices.

use std::cell::Cell;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::error::Result;
use crate::limits::WATCH_EVERY_MS;
use crate::session::{Bell, Control};
use crate::source;
use crate::thread::Thread;

/// A watch for changes of devices; ends on drop.
pub struct Watch {
    _thread: Thread,
}

impl Watch {
    /// Rings the bell whenever devices have changed, or a sound server came or went.
    ///
    /// # Errors
    /// [`Error::Backend`]: the thread can't be started.
    pub fn start(bell: Box<dyn Bell>) -> Result<Self> {
        let control = Arc::new(Control::default());
        let theirs = control.clone();
        let run = move || run(&theirs, &*bell);
        let thread = Thread::start("steppe-audio-watch", control, run)?;
        Ok(Self { _thread: thread })
    }
}

/// Watches, and retries for a sound system that is not there.
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
