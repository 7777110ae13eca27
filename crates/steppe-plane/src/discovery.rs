//! Workers that are found in etcd: each writes a key there for as long as it lives, and whoever calls
//! watches them.
//!
//! ```text
//!  PREFIX/workers/SERVICE/ADDRESS      kept by the worker's lease; its value is empty
//! ```
//! Invariant: through an outage of etcd the last list holds. After it, a worker that is not in the list
//! yet stays for as long as a lease, in which it is announced again if it is there: etcd may have lost it.
//!
//! Leaves out: who dials them.

mod known;

use std::convert::Infallible;
use std::time::{Duration, Instant};

use steppe_etcd::{Endpoint, Etcd, Keys, Lease};
use tokio::time::{sleep, sleep_until};

use crate::dial::Backoff;
use crate::limits::FOUND_WORKERS_MAX;
use crate::relay::DialedWorker;
use known::Known;

/// Where workers are found in etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Members of the cluster.
    pub endpoints: Vec<Endpoint>,
    /// What keys begin with: `/steppe`.
    pub prefix: String,
    /// How long a worker that is silent stays there.
    pub lease: Duration,
}

impl Directory {
    /// Tells the workers whenever they change. It ends by being dropped alone: what fails is tried again, with
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
                // Not while there is no list: nothing is known of them then.
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
                    // Once, for as long as it lasts.
                    if !std::mem::replace(&mut was_told, true) {
                        tracing::warn!(%error, "cannot read workers from etcd: the last list stays in use");
                    }
                    sleep(backoff.next()).await;
                }
            }
        }
    }

    /// Names a worker there for as long as what is returned lives: `services` at `address`, a host and a port
    /// by which those who call can reach it.
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

    /// What keys of workers begin with.
    fn folder(&self) -> String {
        format!("{}/workers/", self.prefix.trim_end_matches('/'))
    }
}
