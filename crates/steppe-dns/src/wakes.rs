//! Clients of one worker whose question another one asked: they are told by a channel a worker.
//!
//! Invariant: a channel never is full. A client is woken once at most for each time that it waits, and a
//! worker has room for as many wakes as for clients that wait.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use crate::answer::Answer;
use crate::limits::WAITING_PER_WORKER;

/// The end of a client's wait.
#[derive(Debug)]
pub(crate) struct Wake {
    /// What its worker knows it by.
    pub(crate) token: u64,
    pub(crate) answer: Arc<SharedAnswer>,
}

/// An answer that several workers' clients get.
#[derive(Debug)]
pub(crate) struct SharedAnswer {
    pub(crate) answer: Answer,
    /// The body, where there is one.
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

    /// The end of a worker.
    ///
    /// # Panics
    /// Where it was taken before, or there is no such worker.
    pub(crate) fn take_receiver(&self, worker: usize) -> mpsc::Receiver<Wake> {
        let receivers = self.receivers.lock();
        let mut receivers = receivers.unwrap_or_else(PoisonError::into_inner);
        receivers[worker]
            .take()
            .expect("a service serves once on each worker")
    }

    /// Tells a worker. One that has ended has no client left.
    pub(crate) fn send(&self, worker: u16, wake: Wake) {
        if let Some(sender) = self.senders.get(usize::from(worker)) {
            let _ = sender.try_send(wake);
        }
    }
}
