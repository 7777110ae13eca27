//! A connection of a capture, whose owner can wake its loop.

use std::sync::Arc;
use std::thread::{self, Thread};

use super::sys::Connection;
use crate::error::Result;
use crate::session::Control;

/// A connection whose loop the capture's owner can wake.
pub struct Connected {
    /// The connection.
    pub connection: Connection,
    control: Arc<Control>,
}

impl Connected {
    /// Connects, and makes the owner's waker wake the loop.
    ///
    /// # Errors
    /// Those of [`Connection::open`].
    pub fn open(control: &Arc<Control>) -> Result<Self> {
        let asked = control.clone();
        let connection = Connection::open(Box::new(move || asked.is_stopped()))?;
        let (waker, this_thread) = (connection.waker(), thread::current());
        control.set_waker(Some(Box::new(move || {
            waker.wake();
            this_thread.unpark();
        })));
        Ok(Self {
            connection,
            control: control.clone(),
        })
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        // The loop is freed with the connection: the waker must not use it any more.
        self.control.set_waker(Some(unparking(thread::current())));
    }
}

fn unparking(thread: Thread) -> Box<dyn Fn() + Send> {
    Box::new(move || thread.unpark())
}
