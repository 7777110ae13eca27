//! The error log: a line for each request that failed at its upstream.
//!
//! A worker queues a line, and a thread writes it: no worker waits for the log. Of one upstream and reason
//! [`ERROR_LINES_A_SECOND`] are written each second; the first line of a later second has the number that was left out.
//!
//! Invariant: lines that were written, left out or dropped are counted. A line has no query and no field of the
//! request, which may be secret, and bytes of the client are escaped.
//!
//! Non-goals: requests that failed for their client's sake, which the access log has.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use steppe_telemetry::Escaped;

#[cfg(doc)]
use crate::limits::ERROR_LINES_A_SECOND;
use crate::limits::{ERROR_LINES_MAX, REQUEST_NAME_BYTES};
use crate::metrics::{CloseReason, ErrorLine};
use crate::upstream::{TargetState, UpstreamState};

/// The most bytes of a request's host that a line keeps.
const HOST_BYTES: usize = REQUEST_NAME_BYTES / 2;

/// The error log of a gateway. Clones write to the same.
#[derive(Debug, Clone)]
pub(crate) struct ErrorLog(SyncSender<Failed>);

/// A request that failed at its upstream.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) client: Option<IpAddr>,
    pub(crate) name: RequestName,
    pub(crate) upstream: Arc<UpstreamState>,
    /// The server of the last attempt; `None`: none was asked.
    pub(crate) server: Option<Arc<TargetState>>,
    pub(crate) reason: CloseReason,
    pub(crate) status: u16,
    pub(crate) attempts: usize,
    /// Lines of its kind that were left out before it.
    pub(crate) omitted: u64,
}

/// Host and path of a request, as far as they fit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestName {
    bytes: [u8; REQUEST_NAME_BYTES],
    host: u8,
    path: u8,
}

impl ErrorLog {
    /// Starts the thread, which ends with the last clone. Where there is no thread to be had, lines are dropped.
    pub(crate) fn start() -> Self {
        let (to_thread, lines) = sync_channel(ERROR_LINES_MAX);
        let thread = thread::Builder::new().name("error-log".to_owned());
        if let Err(error) = thread.spawn(move || write_all(&lines)) {
            tracing::error!(%error, "cannot start the thread of the error log");
        }
        Self(to_thread)
    }

    /// Queues the line of a request that failed at `now`.
    pub(crate) fn write(&self, mut failed: Failed, now: Instant) -> ErrorLine {
        let Some(omitted) = failed.upstream.error_lines().admit(failed.reason, now) else {
            return ErrorLine::Omitted;
        };
        failed.omitted = omitted;
        match self.0.try_send(failed) {
            Ok(()) => ErrorLine::Written,
            Err(_) => ErrorLine::Dropped,
        }
    }
}

fn write_all(lines: &Receiver<Failed>) {
    for failed in lines {
        let Failed { ref name, .. } = failed;
        tracing::warn!(
            client = failed.client.map(tracing::field::display),
            host = %Escaped::new(name.host()),
            path = %Escaped::new(name.path()),
            upstream = failed.upstream.name(),
            server = failed.server.as_ref().map(|server| server.address()),
            reason = failed.reason.as_str(),
            status = failed.status,
            attempts = failed.attempts,
            omitted = (failed.omitted > 0).then_some(failed.omitted),
            "request failed at its upstream",
        );
    }
}

impl RequestName {
    /// Keeps the beginnings of `host` and `path`.
    pub(crate) fn set(&mut self, host: &[u8], path: &[u8]) {
        self.host = self.put(0, &host[..host.len().min(HOST_BYTES)]);
        self.path = self.put(usize::from(self.host), path);
    }

    fn put(&mut self, at: usize, bytes: &[u8]) -> u8 {
        let room = &mut self.bytes[at..];
        let count = room.len().min(bytes.len());
        room[..count].copy_from_slice(&bytes[..count]);
        u8::try_from(count).expect("the room is smaller")
    }

    fn host(&self) -> &[u8] {
        &self.bytes[..usize::from(self.host)]
    }

    fn path(&self) -> &[u8] {
        &self.bytes[usize::from(self.host)..][..usize::from(self.path)]
    }
}

const _: () = assert!(REQUEST_NAME_BYTES <= u8::MAX as usize);

impl Default for RequestName {
    fn default() -> Self {
        Self {
            bytes: [0; REQUEST_NAME_BYTES],
            host: 0,
            path: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_as_far_as_it_fits() {
        let mut name = RequestName::default();
        name.set(b"a.example", b"/p");
        assert_eq!((name.host(), name.path()), (&b"a.example"[..], &b"/p"[..]));
        name.set(&[b'a'; 500], &[b'/'; 500]);
        assert_eq!(name.host().len() + name.path().len(), REQUEST_NAME_BYTES);
    }
}
