//! Snapshots of a service on their way to its workers.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout_at;

use super::Change;
use crate::clock;
use crate::limits::{CHANGE_TIME_MAX, CHANGES_MAX};
use crate::sockets::BoundSockets;

/// A channel to each worker of a service. `S` is a snapshot of its configuration.
#[derive(Debug)]
pub struct Changes<S> {
    senders: Vec<mpsc::Sender<Change<S>>>,
    /// By worker, until it takes its own.
    receivers: Mutex<Vec<Option<mpsc::Receiver<Change<S>>>>>,
}

impl<S> Changes<S> {
    /// Channels to `workers`.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        let channels = (0..workers).map(|_| mpsc::channel(CHANGES_MAX));
        let (senders, receivers) = channels
            .map(|(sender, receiver)| (sender, Some(receiver)))
            .unzip();
        Self {
            senders,
            receivers: Mutex::new(receivers),
        }
    }

    /// The receiver of the worker of this index.
    ///
    /// # Panics
    /// If it was taken before, or there is no such worker.
    pub fn take_receiver(&self, worker: usize) -> mpsc::Receiver<Change<S>> {
        let mut receivers = self
            .receivers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        receivers[worker]
            .take()
            .expect("a service serves once on each worker")
    }

    /// Tells every worker, and waits until each serves `next`. A worker that does
    /// not is named in the log.
    #[expect(
        clippy::disallowed_methods,
        reason = "one deadline for the change of all workers"
    )]
    pub async fn send(&self, next: &Arc<S>, sockets: Vec<BoundSockets>) {
        debug_assert_eq!(sockets.len(), self.senders.len(), "sockets for each worker");
        let tell = |(sender, sockets): (&mpsc::Sender<Change<S>>, BoundSockets)| {
            let (done, changed) = oneshot::channel();
            let next = Arc::clone(next);
            // A worker whose queue is full drops `done`, and is named below.
            let change = Change {
                next,
                sockets,
                done,
            };
            let _ = sender.try_send(change);
            changed
        };
        let told: Vec<_> = self.senders.iter().zip(sockets).map(tell).collect();
        // One deadline for all: several that are stuck do not add up.
        let deadline = clock::now() + CHANGE_TIME_MAX;
        for (worker, changed) in told.into_iter().enumerate() {
            if !matches!(timeout_at(deadline.into(), changed).await, Ok(Ok(()))) {
                tracing::error!(worker, "a worker does not change its configuration");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use steppe_testkit::virtual_time::{pass, run};
    use tokio::task::spawn_local;
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn workers_that_are_stuck_are_waited_for_once_and_together() {
        run(async {
            let changes = Arc::new(Changes::<()>::new(3));
            let mut prompt = changes.take_receiver(0);
            spawn_local(async move {
                while let Some(change) = prompt.recv().await {
                    let _ = change.done.send(());
                }
            });
            let _stuck = [1, 2].map(|worker| changes.take_receiver(worker));
            let sockets = (0..3).map(|_| BoundSockets::default()).collect();
            let telling = Arc::clone(&changes);
            let told = spawn_local(async move { telling.send(&Arc::new(()), sockets).await });
            pass(CHANGE_TIME_MAX - Duration::from_millis(10)).await;
            assert!(!told.is_finished());
            pass(Duration::from_millis(20)).await;
            assert!(told.is_finished());
        });
    }

    #[test]
    fn workers_that_change_are_not_waited_for_longer() {
        run(async {
            let changes = Arc::new(Changes::<()>::new(1));
            let mut prompt = changes.take_receiver(0);
            spawn_local(async move {
                while let Some(change) = prompt.recv().await {
                    tokio::time::sleep(CHANGE_TIME_MAX / 2).await;
                    let _ = change.done.send(());
                }
            });
            let began_at = Instant::now();
            let telling = Arc::clone(&changes);
            let told = spawn_local(async move {
                telling
                    .send(&Arc::new(()), vec![BoundSockets::default()])
                    .await;
                Instant::now() - began_at
            });
            pass(CHANGE_TIME_MAX).await;
            assert!(told.is_finished());
            let took = told.await.expect("it ends");
            assert!(
                took < CHANGE_TIME_MAX / 2 + Duration::from_millis(20),
                "{took:?}"
            );
        });
    }
}
