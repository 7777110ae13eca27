//! State that workers share across reloads: questions in flight with their waiting clients, and wake-ups.

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

/// State that workers share across reloads.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Created with the first configuration that forwards queries: a node without a forwarder pays nothing.
    coalescer: OnceLock<Coalescer>,
    rate_limiter: OnceLock<RateLimiter>,
    pub(crate) wakes: Wakes,
    pub(crate) servers: ServerBoard,
    /// Keys of the cache, of the questions in flight, of the names in rules, lists and hosts, of cookies, and
    /// of rate-limit buckets.
    hash_keys: [SipKey; 5],
    workers: usize,
    /// Sizes of each worker's tables.
    pub(crate) sizes: TableSizes,
}

impl Shared {
    /// # Errors
    /// If the system provides no random numbers.
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

    /// Hash key of the cache.
    pub(crate) fn cache_key(&self) -> SipKey {
        self.hash_keys[0]
    }

    /// Hash key of the names in a configuration.
    pub(crate) fn names_key(&self) -> SipKey {
        self.hash_keys[2]
    }

    /// Seed of the secrets for DNS cookies.
    pub(crate) fn cookie_seed(&self) -> SipKey {
        self.hash_keys[3]
    }

    /// Token buckets of clients and zones.
    #[expect(
        clippy::disallowed_methods,
        reason = "the buckets' time begins with them"
    )]
    pub(crate) fn rate_limiter(&self) -> &RateLimiter {
        let make = || RateLimiter::new(self.hash_keys[4], Instant::now());
        self.rate_limiter.get_or_init(make)
    }

    /// The maximum of questions in flight over all workers, and of waiters for them.
    pub(crate) fn questions(workers: usize, sizes: TableSizes) -> (usize, usize) {
        let each = |count: u32| workers * count as usize;
        // A refresh occupies a waiter too, although no client waits.
        (each(sizes.exchanges), each(sizes.exchanges + sizes.waiting))
    }

    /// Questions in flight.
    pub(crate) fn coalescer(&self) -> &Coalescer {
        self.coalescer.get_or_init(|| {
            let (questions, waiters) = Self::questions(self.workers, self.sizes);
            Coalescer::new(questions, waiters, self.hash_keys[1])
        })
    }
}

/// A random number generator seeded by the system, which clients can't predict.
pub(crate) fn rng() -> io::Result<StdRng> {
    StdRng::try_from_rng(&mut SysRng).map_err(io::Error::other)
}
