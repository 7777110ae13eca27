//! `rate-limit`: a token bucket for each key, one for the node whatever its number of workers.
//!
//! The bucket is the generic cell rate algorithm: all that is kept of a key is its theoretical arrival
//! time (ITU-T I.371), one word that workers change by compare-and-swap. Keys lie in a table of a fixed
//! size, in sets of eight: a key that is new takes the place of the one whose bucket is fullest, and has
//! no more than that one had, so that many keys make limits stricter, never wider.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use steppe_mem::{Account, Reservation};

use super::token;
use super::{About, Filter, Step, refusal, table_of};
use crate::config::{RateKey, RateLimit};
use crate::error::GatewayError;
use crate::head::RequestHead;

/// Keys of a set.
const WAYS: usize = 8;

/// Fewest sets, however little the budget has.
const SETS_MIN: usize = 8;

/// Refuses requests that come faster than their key's bucket fills.
pub struct RateLimitFilter {
    config: RateLimit,
    buckets: Buckets,
    hasher: RandomState,
    epoch: OnceLock<Instant>,
    /// `None`: the least table, which the budget had no room for.
    _charge: Option<Reservation>,
}

/// Theoretical arrival times by key.
struct Buckets {
    slots: Box<[Slot]>,
    /// Nanoseconds in which one token comes.
    interval: u64,
    /// Nanoseconds in which a bucket fills.
    capacity: u64,
}

#[derive(Default)]
struct Slot {
    /// Hash of a key; 0: none.
    key: AtomicU64,
    /// When its bucket is full again.
    full_at: AtomicU64,
}

impl RateLimitFilter {
    /// A filter whose table is charged to `account`.
    #[must_use]
    pub fn new(config: RateLimit, account: &Account) -> Self {
        let bytes = WAYS * size_of::<Slot>();
        let wanted = config.entries.div_ceil(WAYS);
        let (sets, charge) = table_of(account, (wanted, SETS_MIN), bytes);
        Self {
            buckets: Buckets::new(&config, sets * WAYS),
            config,
            hasher: RandomState::new(),
            epoch: OnceLock::new(),
            _charge: charge,
        }
    }

    fn key(&self, about: &About<'_>, head: &RequestHead) -> u64 {
        match &self.config.key {
            RateKey::Ip => self
                .hasher
                .hash_one(network(about.client, self.config.prefix)),
            RateKey::Header(name) => {
                let mut values = head.fields.values_named(name.as_bytes());
                self.hasher.hash_one(values.next())
            }
            RateKey::Claim(name) => {
                let token = about.identity.token();
                let claim = token.as_ref().and_then(|token| token.claim(name));
                self.hasher.hash_one(claim.and_then(token::text))
            }
            RateKey::Route => self.hasher.hash_one(about.route),
        }
    }

    fn refusal(&self, wait_nanos: u64) -> Step {
        let RateLimit { name, burst, .. } = &self.config;
        // A string of structured fields (RFC 9651 §3.3.3).
        let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && !matches!(byte, b'"' | b'\\');
        let name = if name.bytes().all(is_plain) {
            name
        } else {
            "limit"
        };
        let seconds = wait_nanos.div_ceil(1_000_000_000).max(1);
        let window = self.buckets.capacity.div_ceil(1_000_000_000).max(1);
        let fields = [
            ("retry-after", seconds.to_string()),
            (
                "ratelimit-policy",
                format!("\"{name}\";q={burst};w={window}"),
            ),
            ("ratelimit", format!("\"{name}\";r=0;t={seconds}")),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value));
        refusal(429, "too many requests\n", fields.into())
    }
}

impl Filter for RateLimitFilter {
    fn begin(&self, about: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        let epoch = self.epoch.get_or_init(|| about.now);
        let now = about.now.saturating_duration_since(*epoch).as_nanos();
        // 584 years.
        let now = u64::try_from(now).unwrap_or(u64::MAX / 2);
        Ok(match self.buckets.take(self.key(about, head), now) {
            Ok(()) => Step::Continue,
            Err(wait_nanos) => self.refusal(wait_nanos),
        })
    }
}

impl Buckets {
    fn new(config: &RateLimit, entries: usize) -> Self {
        let per = u64::try_from(config.per.as_nanos()).unwrap_or(u64::MAX);
        let interval = (per / u64::from(config.rate.max(1))).max(1);
        Self {
            slots: std::iter::repeat_with(Slot::default)
                .take(entries)
                .collect(),
            interval,
            capacity: interval.saturating_mul(u64::from(config.burst.max(1))),
        }
    }

    /// Takes a token of `key` at `now`, in nanoseconds.
    ///
    /// # Errors
    /// How long it is until there is one.
    fn take(&self, key: u64, now: u64) -> Result<(), u64> {
        // 0 says that a slot is free.
        let slot = self.slot(key.max(1));
        let mut full_at = slot.full_at.load(Ordering::Relaxed);
        loop {
            let next = full_at.max(now).saturating_add(self.interval);
            let beyond = (next - now).saturating_sub(self.capacity);
            if beyond > 0 {
                return Err(beyond);
            }
            let taken = slot.full_at.compare_exchange_weak(
                full_at,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match taken {
                Ok(_) => return Ok(()),
                Err(other) => full_at = other,
            }
        }
    }

    /// The slot of a key, which may have been another's until now.
    fn slot(&self, key: u64) -> &Slot {
        let sets = (self.slots.len() / WAYS) as u64;
        let set = u64::try_from((u128::from(key) * u128::from(sets)) >> 64).unwrap_or(0);
        let first = usize::try_from(set).unwrap_or(0) * WAYS;
        let set = &self.slots[first..first + WAYS];
        loop {
            if let Some(slot) = set
                .iter()
                .find(|slot| slot.key.load(Ordering::Relaxed) == key)
            {
                return slot;
            }
            let fullest = set
                .iter()
                .min_by_key(|slot| slot.full_at.load(Ordering::Relaxed));
            let slot = fullest.expect("a set has slots");
            let had = slot.key.load(Ordering::Relaxed);
            let swapped = slot
                .key
                .compare_exchange(had, key, Ordering::Relaxed, Ordering::Relaxed);
            if swapped.is_ok() {
                return slot;
            }
        }
    }
}

impl fmt::Debug for RateLimitFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RateLimitFilter")
            .field(&self.config)
            .finish()
    }
}

/// The network of an address: its leading bits.
fn network(address: IpAddr, (v4, v6): (u8, u8)) -> (u8, u128) {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let bits = u32::from(address);
            let kept = bits.checked_shr(32 - u32::from(v4)).unwrap_or(0);
            (4, kept.into())
        }
        IpAddr::V6(address) => {
            let bits = u128::from(address);
            (6, bits.checked_shr(128 - u32::from(v6)).unwrap_or(0))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use steppe_mem::Budget;

    use super::*;

    fn config(rate: u32, burst: u32, entries: usize) -> RateLimit {
        RateLimit {
            name: "limit".to_owned(),
            rate,
            per: Duration::from_secs(1),
            burst,
            key: RateKey::Route,
            prefix: (32, 64),
            entries,
        }
    }

    fn buckets(rate: u32, burst: u32, entries: usize) -> Buckets {
        Buckets::new(&config(rate, burst, entries), entries)
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let buckets = buckets(10, 20, 64);
        let passed = |now| (0..100).filter(|_| buckets.take(7, now).is_ok()).count();
        assert_eq!(passed(0), 20);
        assert_eq!(passed(SECOND), 10);
        assert_eq!(passed(SECOND), 0);
        assert_eq!(buckets.take(7, SECOND), Err(SECOND / 10));
        assert_eq!(passed(100 * SECOND), 20);
    }

    #[test]
    fn keys_have_buckets_of_their_own() {
        let buckets = buckets(1, 1, 64);
        assert!(buckets.take(1, 0).is_ok());
        assert!(buckets.take(2, 0).is_ok());
        assert!(buckets.take(1, 0).is_err());
    }

    #[test]
    fn too_many_keys_make_limits_stricter_never_wider() {
        let buckets = buckets(1, 1, WAYS);
        let keys = (1..=100).map(|key: u64| key << 40);
        let passed = keys.filter(|key| buckets.take(*key, 0).is_ok()).count();
        assert_eq!(passed, WAYS);
    }

    #[test]
    fn threads_share_one_limit() {
        let buckets = buckets(1, 100, 64);
        let passed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let is_ok = buckets.take(9, 0).is_ok();
                        passed.fetch_add(u64::from(is_ok), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(passed.into_inner(), 100);
    }

    #[test]
    fn a_table_is_charged_and_shrinks_to_the_budget() {
        let budget = Budget::new(64 << 10);
        let filter = RateLimitFilter::new(config(1, 1, 65_536), budget.root());
        assert!(filter.buckets.slots.len() >= 1024);
        let bytes = filter.buckets.slots.len() * size_of::<Slot>();
        assert!(budget.root().reserved_bytes() >= bytes as u64);
        assert_eq!(bytes.count_ones(), 1);
    }

    #[test]
    fn networks_are_told_apart_by_their_leading_bits() {
        let of = |text: &str, prefix| network(text.parse().expect("an address"), prefix);
        assert_eq!(of("10.1.2.3", (24, 64)), of("10.1.2.200", (24, 64)));
        assert_ne!(of("10.1.2.3", (24, 64)), of("10.1.3.3", (24, 64)));
        assert_eq!(of("10.1.2.3", (0, 0)), of("200.1.3.3", (0, 0)));
        assert_eq!(of("::ffff:10.1.2.3", (32, 64)), of("10.1.2.3", (32, 64)));
        assert_eq!(of("2001:db8::1", (32, 64)), of("2001:db8::2", (32, 64)));
        assert_ne!(of("2001:db8::1", (32, 64)), of("2001:db8:0:1::1", (32, 64)));
    }
}
