//! Worker discovery by etcd: each worker keeps a key there while it lives, and callers and relays watch the
//! keys.
//!
//! ```text
//!  PREFIX/workers/SERVICE/ADDRESS      bound to the worker's lease; the value is empty
//! ```
//! Invariant: during an outage of etcd the last list stays in use. A worker that is missing from the first list
//! after it is kept for the time of a lease, in which a live worker writes its key again: etcd may have lost it.
//!
//! Non-goals: connections to the workers.

mod known;

use std::convert::Infallible;
use std::time::{Duration, Instant};

use steppe_etcd::{Endpoint, Etcd, Keys, Lease};
use tokio::time::{sleep, sleep_until};

use crate::dial::Backoff;
use crate::limits::FOUND_WORKERS_MAX;
use crate::relay::DialedWorker;
use known::Known;

/// The directory of workers in etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Members of the cluster.
    pub endpoints: Vec<Endpoint>,
    /// Prefix of all keys, such as `/steppe`.
    pub prefix: String,
    /// Time that the keys of a silent worker stay in etcd.
    pub lease: Duration,
}

impl Directory {
    /// Calls `tell` with the workers whenever they change. The future never completes: errors are retried with
    /// a back-off.
    #[expect(clippy::disallowed_methods, reason = "etcd says who is there")]
    pub async fn follow(&self, mut tell: impl FnMut(&[DialedWorker])) -> Infallible {
        let etcd = Etcd::new(self.endpoints.iter().cloned());
        let folder = self.folder();
        let mut keys = Keys::new(&etcd, &folder, FOUND_WORKERS_MAX);
        let mut known = Known::new(folder, self.lease);
        let (mut backoff, mut was_told) = (Backoff::new(), false);
        loop {
            let over = known.next_over();
            let next = tokio::select! {
                next = keys.next() => next,
                // Not during an outage: whether the workers are there is unknown then.
                () = sleep_until(over.unwrap_or_else(Instant::now).into()), if over.is_some() && !was_told => {
                    known.forget(Instant::now());
                    tell(&known.workers());
                    continue;
                }
            };
            match next {
                Ok(change) => {
                    if std::mem::take(&mut was_told) {
                        tracing::info!("etcd responds again");
                        backoff = Backoff::new();
                    }
                    if known.learn(change, Instant::now()) {
                        tell(&known.workers());
                    }
                }
                Err(error) => {
                    // Logged once per outage.
                    if !std::mem::replace(&mut was_told, true) {
                        tracing::warn!(%error, "cannot read workers from etcd: the last list stays in use");
                    }
                    sleep(backoff.next()).await;
                }
            }
        }
    }

    /// Registers a worker of `services` until the returned lease is dropped. `address` is the host and port at
    /// which callers reach it.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn announce<'a>(
        &self,
        services: impl IntoIterator<Item = &'a str>,
        address: &str,
    ) -> Lease {
        let folder = self.folder();
        let keys = services.into_iter();
        let keys = keys.map(|service| format!("{folder}{service}/{address}"));
        let etcd = Etcd::new(self.endpoints.iter().cloned());
        Lease::new(&etcd, keys.collect(), self.lease)
    }

    /// Prefix of the workers' keys.
    fn folder(&self) -> String {
        format!("{}/workers/", self.prefix.trim_end_matches('/'))
    }
}
