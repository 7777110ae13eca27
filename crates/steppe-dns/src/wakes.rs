//! Wake-ups of clients whose question another worker has in flight, by one channel for each worker.
//!
//! Invariant: a channel is never full. A client is woken at most once for each wait, and the channel of a
//! worker has room for as many wake-ups as clients can wait.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use crate::answer::Answer;
use crate::limits::WAITING_PER_WORKER;

/// The end of a client's wait, with the answer.
#[derive(Debug)]
pub(crate) struct Wake {
    /// Token of the client at its worker.
    pub(crate) token: u64,
    pub(crate) answer: Arc<SharedAnswer>,
}

/// An answer for clients of several workers.
#[derive(Debug)]
pub(crate) struct SharedAnswer {
    pub(crate) answer: Answer,
    /// The body, if there is one.
    pub(crate) bytes: Box<[u8]>,
}

/// A channel to each worker.
#[derive(Debug)]
pub(crate) struct Wakes {
    senders: Vec<mpsc::Sender<Wake>>,
    receivers: Mutex<Vec<Option<mpsc::Receiver<Wake>>>>,
}

impl Wakes {
    pub(crate) fn new(workers: usize) -> Self {
        let channels = (0..workers).map(|_| mpsc::channel(WAITING_PER_WORKER as usize));
        let (senders, receivers) = channels
            .map(|(sender, receiver)| (sender, Some(receiver)))
            .unzip();
        Self {
            senders,
            receivers: Mutex::new(receivers),
        }
    }

    /// Takes the receiver of a worker.
    ///
    /// # Panics
    /// If it was taken before, or if there is no such worker.
    pub(crate) fn take_receiver(&self, worker: usize) -> mpsc::Receiver<Wake> {
        let receivers = self.receivers.lock();
        let mut receivers = receivers.unwrap_or_else(PoisonError::into_inner);
        receivers[worker]
            .take()
            .expect("a service serves once on each worker")
    }

    /// Sends a wake-up to a worker. A worker that has ended has no clients left.
    pub(crate) fn send(&self, worker: u16, wake: Wake) {
        if let Some(sender) = self.senders.get(usize::from(worker)) {
            let _ = sender.try_send(wake);
        }
    }
}
