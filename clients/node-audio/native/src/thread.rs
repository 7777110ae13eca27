//! A thread that ends before its owner is dropped.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::error::{Error, Result};
use crate::session::Control;

/// A thread that is joined by [`close`](Self::close), and on drop.
pub struct Thread {
    control: Arc<Control>,
    handle: Option<JoinHandle<()>>,
}

impl Thread {
    /// Starts a thread of this name, which has to end soon after `control` is stopped.
    ///
    /// # Errors
    /// [`Error::Backend`]: the thread can't be started.
    pub fn start(
        name: &str,
        control: Arc<Control>,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<Self> {
        let thread = thread::Builder::new().name(name.to_owned());
        let handle = thread.spawn(run).map_err(|error| Error::Backend {
            call: "pthread_create",
            reason: error.to_string(),
        })?;
        Ok(Self {
            control,
            handle: Some(handle),
        })
    }

    /// The control that stops the thread.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Stops the thread, and waits until it has ended.
    pub fn close(&mut self) {
        self.control.stop();
        if let Some(handle) = self.handle.take() {
            // A thread that panicked has ended as well, and its message was printed.
            let _ = handle.join();
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.close();
    }
}
