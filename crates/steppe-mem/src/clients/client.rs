//! A client: its memory over all of its connections, and its share.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use super::pause::Pause;
use super::queue::ClientQueue;

/// The share of every client, the number of times that one was held back, and the paused tasks.
#[derive(Debug)]
pub(super) struct Shares {
    /// The share in bytes; `u64::MAX`: none.
    bytes: AtomicU64,
    held_back_total: AtomicU64,
    pub(super) pause: Pause,
}

impl Default for Shares {
    fn default() -> Self {
        Self {
            bytes: AtomicU64::new(u64::MAX),
            held_back_total: AtomicU64::new(0),
            pause: Pause::default(),
        }
    }
}

impl Shares {
    /// Bytes that a client may hold while less than half of the budget is free.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn note_held_back(&self) {
        self.held_back_total.fetch_add(1, Ordering::Release);
    }

    pub(super) fn held_back_total(&self) -> u64 {
        self.held_back_total.load(Ordering::Acquire)
    }
}

/// An address, or a peer without one, on a Unix socket.
#[derive(Debug)]
pub(super) struct Client {
    /// The key in the table; `None`: in no table, and without a share.
    pub(super) address: Option<IpAddr>,
    pub(super) is_exempt: AtomicBool,
    /// Set when the client was held back for the first time, and until that is logged.
    was_held_back: AtomicBool,
    is_news: AtomicBool,
    /// Bytes reserved for the client. They lag by up to [`FLUSH_BYTES`](crate::limits::FLUSH_BYTES) a connection, and
    /// by about one [`UNSEEN_PART`](crate::limits::UNSEEN_PART)th of its share in all.
    pub(super) charged_bytes: AtomicI64,
    pub(super) connections: AtomicU64,
    /// Tasks that wait for the client to hold less.
    pub(super) queue: ClientQueue,
}

impl Client {
    pub(super) fn new(address: Option<IpAddr>) -> Self {
        Self {
            address,
            is_exempt: AtomicBool::new(address.is_none()),
            was_held_back: AtomicBool::new(false),
            is_news: AtomicBool::new(false),
            charged_bytes: AtomicI64::new(0),
            connections: AtomicU64::new(0),
            queue: ClientQueue::default(),
        }
    }

    pub(super) fn charged_bytes(&self) -> u64 {
        u64::try_from(self.charged_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    pub(super) fn note_held_back(&self) {
        if !self.was_held_back.swap(true, Ordering::Relaxed) {
            self.is_news.store(true, Ordering::Relaxed);
        }
    }

    /// True if the client was held back for the first time since the last call.
    pub(super) fn take_news(&self) -> bool {
        self.is_news.swap(false, Ordering::Relaxed)
    }
}
