//! Keys bound to a lease that is kept alive while their writer lives.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::client::{Error, Etcd};
use crate::limits::{BEATS_PER_LEASE, LEASE, TIMEOUT};
use crate::message::{
    Done, GrantRequest, LeaseRequest, Leased, PutMissingRequest, PutRequest, base64,
};

/// Keys in etcd that are bound to a lease. After a drop, they expire with the lease.
#[derive(Debug)]
pub struct Lease {
    etcd: Etcd,
    /// Number of the lease; `None` until all keys have been written.
    held: watch::Receiver<Option<i64>>,
    task: JoinHandle<()>,
}

impl Lease {
    /// Writes `keys` with empty values under a lease, and keeps the lease alive in a task.
    ///
    /// The keys expire `time` after the last keep-alive, and are written again once etcd is reachable
    /// after an outage. A key that another client deletes is written again before `time` has passed.
    /// `time` is clamped to [`LEASE`] and cut to whole seconds.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(etcd: &Etcd, keys: Vec<String>, time: Duration) -> Self {
        let time = Duration::from_secs(time.clamp(LEASE.0, LEASE.1).as_secs());
        let (tell, held) = watch::channel(None);
        Self {
            etcd: etcd.clone(),
            held,
            task: tokio::spawn(keep(etcd.clone(), keys, time, tell)),
        }
    }

    /// Waits until the keys are there.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    pub async fn kept(&self) {
        // An error means that the task has ended: no reason to wait any longer.
        let _ = self.held.clone().wait_for(Option::is_some).await;
    }

    /// Revokes the lease, which deletes the keys. On an error, they expire with the lease.
    ///
    /// # Errors
    /// Returns the error of the request; the keys may still exist.
    pub async fn withdraw(self) -> Result<(), Error> {
        self.task.abort();
        let held = *self.held.borrow();
        let Some(id) = held else { return Ok(()) };
        let request = LeaseRequest { id: id.to_string() };
        let Done {} = self.etcd.ask("/v3/lease/revoke", &request).await?;
        Ok(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Writes the keys and keeps their lease alive, until the task is aborted.
async fn keep(etcd: Etcd, keys: Vec<String>, time: Duration, tell: watch::Sender<Option<i64>>) {
    let mut beats = interval(time / BEATS_PER_LEASE);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut was_told = false;
    loop {
        beats.tick().await;
        let held = *tell.borrow();
        let kept = match held {
            Some(id) => renewed(&etcd, &keys, id).await,
            None => Ok(None),
        };
        let kept = match kept {
            Ok(None) => write(&etcd, &keys, time).await.map(Some),
            kept => kept,
        };
        match kept {
            Ok(id) => {
                was_told = false;
                tell.send_replace(id);
            }
            // Logged once per outage. The lease in etcd may outlive the outage.
            Err(error) if !std::mem::replace(&mut was_told, true) => {
                tracing::warn!(%error, "cannot announce this worker in etcd");
            }
            Err(_) => {}
        }
    }
}

/// Keeps a lease alive and writes its missing keys. `None` if the lease has expired.
async fn renewed(etcd: &Etcd, keys: &[String], id: i64) -> Result<Option<i64>, Error> {
    if !is_alive(etcd, id).await? {
        return Ok(None);
    }
    for key in keys {
        let Done {} = etcd
            .ask("/v3/kv/txn", &PutMissingRequest::new(key, id))
            .await?;
    }
    Ok(Some(id))
}

/// Sends a keep-alive, which renews the lease. True if the lease still exists.
async fn is_alive(etcd: &Etcd, id: i64) -> Result<bool, Error> {
    let request = LeaseRequest { id: id.to_string() };
    let asked = async {
        let mut answers = etcd.stream("/v3/lease/keepalive", &request).await?;
        let leased: Leased = answers.next().await?.ok_or(Error::Ended)?;
        Ok(leased.seconds > 0)
    };
    let asked = timeout(TIMEOUT, asked).await;
    asked.unwrap_or(Err(Error::Timeout))
}

/// Writes the keys under a new lease.
async fn write(etcd: &Etcd, keys: &[String], time: Duration) -> Result<i64, Error> {
    let request = GrantRequest {
        seconds: time.as_secs().to_string(),
    };
    let leased: Leased = etcd.ask("/v3/lease/grant", &request).await?;
    for key in keys {
        let request = PutRequest {
            key: base64(key),
            lease: leased.id.to_string(),
        };
        let Done {} = etcd.ask("/v3/kv/put", &request).await?;
    }
    Ok(leased.id)
}
