//! Signals that the node listens to.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Handlers of the signals, from the moment it is made: none of them ends the process any more.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Installs the handlers. Must be called within a runtime.
    pub(super) fn install() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for SIGINT or SIGTERM (`Stop`), or SIGHUP (`Reload`).
    ///
    /// # Cancel safety
    /// Safe: a signal that was not returned is returned by the next call.
    pub(super) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.hangup.recv() => Asked::Reload,
        }
    }

    /// Waits for SIGINT or SIGTERM.
    ///
    /// # Cancel safety
    /// As [`Self::next`].
    pub(super) async fn stop(&mut self) {
        while self.next().await != Asked::Stop {}
    }
}

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Stop,
    Reload,
}
