//! Notifies the service manager: ready, reloading, stopping, alive.
//!
//! Invariant: without a manager (`NOTIFY_SOCKET` unset) it does nothing, and a manager that doesn't
//! listen costs a bounded wait and a warning, never the node. `WATCHDOG=1` is sent only while every
//! worker runs its tasks.
//!
//! Leaves out: passing descriptors to the manager. Spec: `sd_notify(3)`, `sd_watchdog_enabled(3)`.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use steppe_net::Heartbeat;

/// Time for which a full queue of the manager is awaited before a message is dropped.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Shortest interval between looks: workers beat once a second, so a shorter one would take
/// sleeping workers for dead.
const LOOK_EVERY_MIN: Duration = Duration::from_secs(2);

/// The service manager, if there is one. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ServiceManager {
    socket: Option<Arc<Channel>>,
    watchdog: Option<Duration>,
}

#[derive(Debug)]
struct Channel {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl ServiceManager {
    /// The manager that the environment names.
    #[must_use]
    pub fn from_environment() -> Self {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET") else {
            return Self::default();
        };
        let variable = |name: &str| std::env::var(name).ok();
        match Channel::open(&name) {
            Ok(channel) => Self {
                socket: Some(Arc::new(channel)),
                watchdog: watchdog(
                    variable("WATCHDOG_USEC").as_deref(),
                    variable("WATCHDOG_PID").as_deref(),
                    std::process::id(),
                ),
            },
            Err(error) => {
                tracing::warn!(socket = ?name, %error, "can't notify the service manager");
                Self::default()
            }
        }
    }

    /// Notifies that everything listens, or that a reload is over.
    pub fn ready(&self, status: impl Display) {
        self.send(&format!("READY=1\nSTATUS={}", one_line(&status)));
    }

    /// Notifies that a reload begins, which [`Self::ready`] ends, whether or not it changed
    /// anything.
    pub fn reloading(&self) {
        if self.socket.is_none() {
            return;
        }
        let now = clock_gettime(ClockId::Monotonic);
        let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
        self.send(&format!(
            "RELOADING=1\nMONOTONIC_USEC={micros}\nSTATUS=reloading"
        ));
    }

    /// Notifies that the node stops, which may take `at_most`: the manager is asked to extend its
    /// timeout.
    pub fn stopping(&self, at_most: Duration) {
        let timeout = at_most.saturating_add(Duration::from_secs(5)).as_micros();
        self.send(&format!(
            "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC={timeout}"
        ));
    }

    /// Keeps the manager's watchdog quiet while all of `workers` run their tasks. Ends at once if
    /// no watchdog is configured.
    pub async fn keep_watchdog(self, workers: Vec<Heartbeat>) {
        let Some(period) = self.watchdog else { return };
        self.send("WATCHDOG=1");
        let mut beats: Vec<_> = workers.iter().map(Heartbeat::beats).collect();
        loop {
            // Twice in the period: one message may be late.
            tokio::time::sleep((period / 2).max(LOOK_EVERY_MIN)).await;
            let hung = |(worker, before): (&Heartbeat, &u64)| !worker.is_alive_since(*before);
            match workers.iter().zip(&beats).position(hung) {
                None => self.send("WATCHDOG=1"),
                Some(worker) => {
                    tracing::error!(worker, "a worker hangs: the watchdog is not notified")
                }
            }
            beats = workers.iter().map(Heartbeat::beats).collect();
        }
    }

    fn send(&self, message: &str) {
        let Some(channel) = &self.socket else { return };
        if let Err(error) = channel.send(message) {
            tracing::warn!(%error, message, "can't notify the service manager");
        }
    }
}

impl Channel {
    fn open(name: &OsStr) -> io::Result<Self> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => {
                return Err(io::Error::other(
                    "NOTIFY_SOCKET is neither a path nor an abstract name",
                ));
            }
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(SEND_TIMEOUT))?;
        Ok(Self { socket, address })
    }

    fn send(&self, message: &str) -> io::Result<()> {
        let sent = self
            .socket
            .send_to_addr(message.as_bytes(), &self.address)?;
        debug_assert_eq!(sent, message.len(), "datagrams go whole");
        Ok(())
    }
}

/// The period of the watchdog, if it is meant for process `id`.
fn watchdog(micros: Option<&str>, pid: Option<&str>, id: u32) -> Option<Duration> {
    let is_ours = pid.is_none_or(|pid| pid.parse() == Ok(id));
    let micros: u64 = micros?.parse().ok()?;
    (is_ours && micros > 0).then(|| Duration::from_micros(micros))
}

/// The status on one line: a line break would begin another assignment.
fn one_line(status: &impl Display) -> String {
    status.to_string().replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_of_another_process_is_not_ours() {
        let period = Some(Duration::from_secs(3));
        assert_eq!(watchdog(Some("3000000"), None, 7), period);
        assert_eq!(watchdog(Some("3000000"), Some("7"), 7), period);
        assert_eq!(watchdog(Some("3000000"), Some("8"), 7), None);
        assert_eq!(watchdog(Some("0"), None, 7), None);
        assert_eq!(watchdog(None, Some("7"), 7), None);
    }

    #[test]
    fn messages_reach_an_abstract_socket_and_stay_one_assignment_a_line() {
        let name = format!("steppe-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a short name");
        let manager = UnixDatagram::bind_addr(&address).expect("nobody has it");
        let channel = Channel::open(OsStr::new(&format!("@{name}"))).expect("opens");
        let node = ServiceManager {
            socket: Some(Arc::new(channel)),
            watchdog: None,
        };
        let next = || {
            let mut message = [0; 256];
            let length = manager.recv(&mut message).expect("a message");
            String::from_utf8_lossy(&message[..length]).into_owned()
        };
        node.ready("serving\nSTOPPING=1");
        assert_eq!(next(), "READY=1\nSTATUS=serving STOPPING=1");
        node.reloading();
        let reloading = next();
        let micros = reloading
            .lines()
            .nth(1)
            .and_then(|line| line.strip_prefix("MONOTONIC_USEC="));
        assert!(reloading.starts_with("RELOADING=1\n"), "{reloading}");
        assert!(micros.is_some_and(|micros| micros.parse::<u64>().is_ok_and(|micros| micros > 0)));
        node.stopping(Duration::from_secs(30));
        assert_eq!(
            next(),
            "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=35000000"
        );
    }

    #[test]
    fn a_manager_that_is_gone_is_no_reason_to_fail() {
        let channel = Channel::open(OsStr::new("/nowhere/notify")).expect("nothing is connected");
        channel.send("READY=1").expect_err("nobody is there");
        let node = ServiceManager {
            socket: Some(Arc::new(channel)),
            watchdog: None,
        };
        node.ready("serving");
    }
}
