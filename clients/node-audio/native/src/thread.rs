//! A thread that has ended when its owner is gone.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::error::{Error, Result};
use crate::session::Control;

/// See the module. It ends by [`close`](Self::close), and when it is dropped.
pub struct Thread {
    control: Arc<Control>,
    handle: Option<JoinHandle<()>>,
}

impl Thread {
    /// Starts a thread of this name, which ends soon after `control` tells it to stop.
    ///
    /// # Errors
    /// [`Error::Backend`]: there is no thread to be had.
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

    /// What tells it to stop.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Tells it to stop, and waits until it has ended.
    pub fn close(&mut self) {
        self.control.stop();
        if let Some(handle) = self.handle.take() {
            // A panic has ended it as well, and was printed.
            let _ = handle.join();
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.close();
    }
}
