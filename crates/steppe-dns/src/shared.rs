//! What workers share whatever the configuration: who waits for which question, and how they are told.

use std::io;
use std::sync::OnceLock;
use std::time::Instant;

use rand::rngs::{StdRng, SysRng};
use rand::{Rng, SeedableRng};

use crate::in_flight::Coalescer;
use crate::limits::{EXCHANGES_PER_WORKER, WAITING_PER_WORKER};
use crate::rate_limit::RateLimiter;
use crate::servers::ServerBoard;
use crate::siphash::SipKey;
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
}

impl Shared {
    /// # Errors
    /// When the system has no random numbers to give.
    pub(crate) fn new(workers: usize) -> io::Result<Self> {
        let mut rng = rng()?;
        Ok(Self {
            coalescer: OnceLock::new(),
            rate_limiter: OnceLock::new(),
            wakes: Wakes::new(workers),
            servers: ServerBoard::default(),
            hash_keys: [0; 5].map(|_: u8| SipKey([rng.next_u64(), rng.next_u64()])),
            workers,
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

    /// The questions in flight.
    pub(crate) fn coalescer(&self) -> &Coalescer {
        self.coalescer.get_or_init(|| {
            let each = |count: u32| self.workers * count as usize;
            let sizes = (each(EXCHANGES_PER_WORKER), each(WAITING_PER_WORKER));
            // A refresh waits too, though no client does.
            Coalescer::new(sizes.0, sizes.0 + sizes.1, self.hash_keys[1])
        })
    }
}

/// A generator that nobody can predict.
pub(crate) fn rng() -> io::Result<StdRng> {
    StdRng::try_from_rng(&mut SysRng).map_err(io::Error::other)
}
