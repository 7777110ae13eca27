//! Workers that a relay dials.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::peers::{Origin, Peers};
use super::registry::lock;
use crate::dial::{Backoff, Target, TargetTls};
use crate::io::{Link, Memory};

/// A worker that the relay dials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialedWorker {
    /// Address of the worker: a host name or an IP address, and a port.
    pub address: String,
    /// Services that the worker may offer: others that it names are ignored.
    pub services: Vec<String>,
}

/// The workers that are dialed now.
#[derive(Debug, Default)]
pub(super) struct Dialed(Mutex<Vec<Kept>>);

/// A dialed worker, and the task that dials it.
#[derive(Debug)]
struct Kept {
    worker: DialedWorker,
    tls: Option<TargetTls>,
    kept: Arc<Connection>,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct Connection {
    link: Mutex<Weak<Link>>,
    is_over: AtomicBool,
}

impl Dialed {
    /// Dials the new ones of `workers`, and leaves workers that are not among them: their open calls are
    /// finished.
    pub(super) fn set(
        &self,
        peers: &Arc<Peers>,
        workers: &[DialedWorker],
        tls: Option<&TargetTls>,
    ) {
        let mut all = lock(&self.0);
        let (stay, go): (Vec<_>, Vec<_>) = std::mem::take(&mut *all)
            .into_iter()
            .partition(|one| workers.contains(&one.worker) && one.tls.as_ref() == tls);
        for one in &go {
            one.leave(peers);
        }
        *all = stay;
        for worker in workers {
            if !all.iter().any(|one| one.worker == *worker) {
                all.push(Kept::new(peers, worker.clone(), tls.cloned()));
            }
        }
    }
}

impl Kept {
    fn new(peers: &Arc<Peers>, worker: DialedWorker, tls: Option<TargetTls>) -> Self {
        let kept = Arc::new(Connection::default());
        let task = tokio::spawn(keep(
            (Arc::downgrade(peers), Arc::clone(peers.memory())),
            (worker.clone(), tls.clone()),
            Arc::clone(&kept),
        ));
        Self {
            worker,
            tls,
            kept,
            task: task.abort_handle(),
        }
    }

    fn leave(&self, peers: &Peers) {
        self.kept.is_over.store(true, Ordering::Release);
        match lock(&self.kept.link).upgrade() {
            Some(link) => peers.leave(&link),
            None => self.task.abort(),
        }
    }
}

/// Keeps a connection to a worker: dials it whenever it is not connected.
#[expect(
    clippy::disallowed_methods,
    reason = "how long a connection lasts decides when it is dialed again"
)]
async fn keep(
    (peers, memory): (Weak<Peers>, Arc<Memory>),
    (worker, tls): (DialedWorker, Option<TargetTls>),
    kept: Arc<Connection>,
) {
    let target = Target::new(worker.address.as_str()).with_tls(tls);
    let services: Arc<[Box<str>]> = worker.services.iter().map(|name| (**name).into()).collect();
    let mut backoff = Backoff::new();
    let mut was_told = false;
    loop {
        let began = Instant::now();
        match target.dial(&memory).await {
            Ok(socket) => {
                was_told = false;
                let Some(peers) = peers.upgrade() else { return };
                match peers.serve(socket, Origin::Worker(Arc::clone(&services))) {
                    Ok((link, serving)) => {
                        drop(peers);
                        *lock(&kept.link) = link;
                        serving.await;
                    }
                    Err(error) => {
                        tracing::warn!(%error, worker = %target, "cannot use the connection to a worker");
                    }
                }
            }
            // Logged once per outage.
            Err(error) if !std::mem::replace(&mut was_told, true) => {
                tracing::warn!(%error, worker = %target, "cannot connect to a worker");
            }
            Err(_) => {}
        }
        if kept.is_over.load(Ordering::Acquire) {
            return;
        }
        backoff.lasted(began.elapsed());
        sleep(backoff.next()).await;
    }
}
