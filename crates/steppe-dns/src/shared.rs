//! What workers share whatever the configuration: who waits for which question, and how they are told.

use std::io;
use std::sync::OnceLock;
use std::time::Instant;

use rand::rngs::{StdRng, SysRng};
use rand::{Rng, SeedableRng};

use crate::in_flight::Coalescer;
use crate::rate_limit::RateLimiter;
use crate::servers::ServerBoard;
use crate::siphash::SipKey;
use crate::sizes::TableSizes;
use crate::wakes::Wakes;

/// What workers share whatever the configuration.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Made with the first configuration that forwards anything: a node without a forwarder pays nothing.
    coalescer: OnceLock<Coalescer>,
    rate_limiter: OnceLock<RateLimiter>,
    pub(crate) wakes: Wakes,
    pub(crate) servers: ServerBoard,
    /// Of the cache, of the questions in flight, of names of rules, lists and hosts, the seed of cookies, and
    /// of the buckets.
    hash_keys: [SipKey; 5],
    workers: usize,
    /// Of each worker's tables.
    pub(crate) sizes: TableSizes,
}

impl Shared {
    /// # Errors
    /// When the system has no random numbers to give.
    pub(crate) fn new(workers: usize, sizes: TableSizes) -> io::Result<Self> {
        let mut rng = rng()?;
        Ok(Self {
            coalescer: OnceLock::new(),
            rate_limiter: OnceLock::new(),
            wakes: Wakes::new(workers),
            servers: ServerBoard::default(),
            hash_keys: [0; 5].map(|_: u8| SipKey([rng.next_u64(), rng.next_u64()])),
            workers,
            sizes,
        })
    }

    /// What the cache's hashes are made with.
    pub(crate) fn cache_key(&self) -> SipKey {
        self.hash_keys[0]
    }

    /// What hashes of names of the configuration are made with.
    pub(crate) fn names_key(&self) -> SipKey {
        self.hash_keys[2]
    }

    /// What secrets of cookies follow from.
    pub(crate) fn cookie_seed(&self) -> SipKey {
        self.hash_keys[3]
    }

    /// What clients and zones have had of this second.
    #[expect(
        clippy::disallowed_methods,
        reason = "the buckets' time begins with them"
    )]
    pub(crate) fn rate_limiter(&self) -> &RateLimiter {
        let make = || RateLimiter::new(self.hash_keys[4], Instant::now());
        self.rate_limiter.get_or_init(make)
    }

    /// Questions in flight of all workers, and who may wait for them.
    pub(crate) fn questions(workers: usize, sizes: TableSizes) -> (usize, usize) {
        let each = |count: u32| workers * count as usize;
        // A refresh waits too, though no client does.
        (each(sizes.exchanges), each(sizes.exchanges + sizes.waiting))
    }

    /// The questions in flight.
    pub(crate) fn coalescer(&self) -> &Coalescer {
        self.coalescer.get_or_init(|| {
            let (questions, waiters) = Self::questions(self.workers, self.sizes);
            Coalescer::new(questions, waiters, self.hash_keys[1])
        })
    }
}

/// A generator that nobody can predict.
pub(crate) fn rng() -> io::Result<StdRng> {
    StdRng::try_from_rng(&mut SysRng).map_err(io::Error::other)
}
