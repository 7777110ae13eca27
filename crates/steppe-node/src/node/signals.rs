//! Signals that the node handles.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Handlers of the signals: from their installation on, none of the signals ends the process.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    user1: Signal,
    user2: Signal,
}

impl Signals {
    /// Installs the handlers. Must be called within a runtime.
    pub(super) fn install() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    /// Waits for SIGINT or SIGTERM (`Stop`), SIGHUP (`Reload`), or SIGUSR1 (`ReopenLogs`). SIGUSR2 is
    /// reserved: it is logged and ignored.
    ///
    /// # Cancel safety
    /// Safe: a signal that was not returned is returned by the next call.
    pub(super) async fn next(&mut self) -> Asked {
        loop {
            return tokio::select! {
                _ = self.interrupt.recv() => Asked::Stop,
                _ = self.terminate.recv() => Asked::Stop,
                _ = self.hangup.recv() => Asked::Reload,
                _ = self.user1.recv() => Asked::ReopenLogs,
                _ = self.user2.recv() => {
                    tracing::warn!("SIGUSR2 ignored: it has no meaning yet");
                    continue;
                }
            };
        }
    }
}

/// The action of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Stop,
    Reload,
    ReopenLogs,
}
