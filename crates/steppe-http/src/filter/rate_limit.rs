//! `rate-limit`: so many requests of each key in a time, and so many at once; of the node, whatever its number
//! of workers, or of all nodes that share a store.
//!
//! Without a store it answers at once, by a compare-and-swap. Non-goals: limits of bytes, and of requests at once
//! that nodes share.

mod buckets;
mod counts;
mod in_flight;
mod sets;
mod store;

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use sha2::{Digest, Sha256};
use steppe_mem::{Account, Reservation};
use tokio::sync::oneshot;

use super::explained::Judgment;
use super::factory::{FilterFactory, FilterParts};
use super::token;
use super::{About, ExchangeFilter, Filter, Ready, Step, table_of};
use crate::config::{Rate, RateKey, RateLimit};
use crate::error::GatewayError;
use crate::head::RequestHead;
use crate::limits::{STORE_IN_FLIGHT_MAX, STORE_QUESTION_BYTES};
use crate::respond::Respond;
use buckets::{BucketSlot, Buckets};
use in_flight::{RequestPlace, RequestsInFlight};
use sets::WAYS;
use store::{Store, StoreAnswer};

pub use counts::Counts as LimitCounts;

/// Fewest sets, however little the budget has.
const SETS_MIN: usize = 8;

/// Refuses requests that come faster than their key's bucket fills, or beside too many others.
pub struct RateLimitFilter {
    config: RateLimit,
    rate: Option<Arc<Rated>>,
    in_flight: Option<Arc<RequestsInFlight>>,
    hasher: RandomState,
    epoch: OnceLock<Instant>,
    /// The charges for tables and questions; less where the budget had no room.
    _charges: [Option<Reservation>; 3],
}

/// A rate, and what decides by it.
struct Rated {
    name: String,
    burst: u32,
    buckets: Buckets,
    /// `None`: the limit is the node's.
    store: Option<Store>,
    counts: Arc<LimitCounts>,
}

/// A request of a key is on its way.
struct Limited {
    /// A pending answer of the store, with the hash of its key and its time.
    asked: Option<(oneshot::Receiver<StoreAnswer>, u64, u64)>,
    rate: Option<Arc<Rated>>,
    /// The place among requests in flight, until it is dropped.
    _place: Option<RequestPlace>,
}

/// The key by which requests are counted.
#[derive(Hash)]
enum BucketKey<'a> {
    Network(u8, u128),
    Value(Option<Cow<'a, [u8]>>),
}

impl RateLimitFilter {
    /// A filter whose tables are charged to `account`.
    #[must_use]
    pub fn new(config: RateLimit, account: &Account) -> Self {
        let wanted = config.entries.div_ceil(WAYS);
        let table = |bytes| table_of(account, wanted, SETS_MIN, WAYS * bytes);
        let mut charges = [None, None, None];
        let in_flight = config.concurrent.map(|limit| {
            let (sets, charge) = table(size_of::<AtomicU64>());
            charges[0] = charge;
            RequestsInFlight::new(limit, sets * WAYS)
        });
        let rate = config.rate.as_ref().map(|rate| {
            let (sets, charge) = table(size_of::<BucketSlot>());
            charges[1] = charge;
            Rated::new(&config, rate, sets * WAYS)
        });
        if config.store.is_some() {
            let questions = account.lease();
            charges[2] = questions
                .try_reserve(STORE_IN_FLIGHT_MAX * STORE_QUESTION_BYTES)
                .ok();
        }
        Self {
            rate: rate.map(Arc::new),
            in_flight,
            config,
            hasher: RandomState::new(),
            epoch: OnceLock::new(),
            _charges: charges,
        }
    }

    /// # Errors
    /// 400 of several lines of the field: a server may read another one than is counted here.
    fn key<'a>(
        &'a self,
        about: &About<'a>,
        head: &'a RequestHead,
    ) -> Result<BucketKey<'a>, GatewayError> {
        Ok(match &self.config.key {
            RateKey::Ip => {
                let (v4, v6) = self.config.prefix;
                let (family, bits) = network(about.client, v4, v6);
                BucketKey::Network(family, bits)
            }
            RateKey::Header(name) => {
                let mut values = head.fields.values_named(name.as_bytes());
                let value = values.next();
                if values.next().is_some() {
                    return Err(GatewayError::bad_request());
                }
                BucketKey::Value(value.map(Cow::Borrowed))
            }
            RateKey::Claim(name) => {
                let token = about.identity.token();
                let claim = token.as_ref().and_then(|token| token.claim(name));
                let text = claim.and_then(token::text);
                BucketKey::Value(text.map(|text| Cow::Owned(text.into_bytes())))
            }
            RateKey::ApiKey => {
                let name = about.identity.api_key();
                BucketKey::Value(name.map(|name| Cow::Owned(name.as_bytes().to_vec())))
            }
            RateKey::Route => BucketKey::Value(Some(Cow::Borrowed(about.route.as_bytes()))),
        })
    }

    fn nanos(&self, now: Instant) -> u64 {
        let epoch = self.epoch.get_or_init(|| now);
        let nanos = now.saturating_duration_since(*epoch).as_nanos();
        // Only after 584 years; half of them leave room for sums.
        u64::try_from(nanos).unwrap_or(i64::MAX.unsigned_abs())
    }
}

impl FilterFactory for RateLimit {
    fn build(&self, parts: &FilterParts<'_>) -> Arc<dyn Filter> {
        Arc::new(RateLimitFilter::new(self.clone(), parts.account))
    }

    fn explain(
        &self,
        _: &dyn Filter,
        _: &About<'_>,
        _: &mut RequestHead,
    ) -> Result<Judgment, GatewayError> {
        let rate = self.rate.as_ref().map(|rate| {
            let Rate {
                requests,
                per,
                burst,
            } = rate;
            format!("{requests} requests per {per:?}, burst {burst}")
        });
        let concurrent = self.concurrent;
        let concurrent = concurrent.map(|most| format!("{most} requests in flight"));
        let limits: Vec<_> = rate.into_iter().chain(concurrent).collect();
        Ok(Judgment::depends(format!(
            "429 above {}",
            limits.join(", or ")
        )))
    }
}

impl Filter for RateLimitFilter {
    fn begin(&self, about: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        let key = self.key(about, head)?;
        let hash = self.hasher.hash_one(&key);
        let mut place = None;
        if let Some(in_flight) = &self.in_flight {
            place = in_flight.enter(hash);
            if place.is_none() {
                return Ok(Step::Respond(self.crowded()));
            }
        }
        let mut asked = None;
        if let Some(rate) = &self.rate {
            let now = self.nanos(about.now);
            let question = rate.store.as_ref();
            let answer = question.and_then(|store| store.ask(key.text(&self.config.name)));
            match answer {
                Some(answer) => asked = Some((answer, hash, now)),
                None => {
                    if let Some(respond) = rate.decide(hash, now) {
                        return Ok(Step::Respond(respond));
                    }
                }
            }
        }
        if place.is_none() && asked.is_none() {
            return Ok(Step::Continue);
        }
        Ok(Step::Attach(Box::new(Limited {
            asked,
            rate: self.rate.clone(),
            _place: place,
        })))
    }

    fn limits(&self) -> Option<&LimitCounts> {
        let rate = self.rate.as_ref()?;
        rate.store.as_ref()?;
        Some(&rate.counts)
    }
}

impl RateLimitFilter {
    /// Too many are in flight.
    fn crowded(&self) -> Respond {
        let name = plain(&self.config.name);
        let most = self.config.concurrent.unwrap_or(0);
        let policy = format!("\"{name}\";q={most};qu=\"concurrent-requests\"");
        let remaining = format!("\"{name}\";r=0;t=1");
        refusal([
            ("retry-after", "1".to_owned()),
            ("ratelimit-policy", policy),
            ("ratelimit", remaining),
        ])
    }
}

impl Rated {
    fn new(config: &RateLimit, rate: &Rate, entries: usize) -> Self {
        let counts = Arc::<LimitCounts>::default();
        let store = config.store.as_ref();
        Self {
            name: plain(&config.name).to_owned(),
            burst: rate.burst,
            buckets: Buckets::new(rate, entries),
            store: store.map(|store| Store::start(store, rate, Arc::clone(&counts))),
            counts,
        }
    }

    /// Decides by what this node knows; a response where the request does not pass.
    fn decide(&self, key: u64, now: u64) -> Option<Respond> {
        if self.store.is_some() {
            self.counts.local.fetch_add(1, Ordering::Relaxed);
        }
        let taken = self.buckets.take(key, now);
        taken.err().map(|wait_nanos| self.refusal(wait_nanos))
    }

    fn refusal(&self, wait_nanos: u64) -> Respond {
        let Self { name, burst, .. } = self;
        let seconds = wait_nanos.div_ceil(1_000_000_000).max(1);
        let window = self.buckets.capacity.div_ceil(1_000_000_000).max(1);
        let policy = format!("\"{name}\";q={burst};w={window}");
        let remaining = format!("\"{name}\";r=0;t={seconds}");
        refusal([
            ("retry-after", seconds.to_string()),
            ("ratelimit-policy", policy),
            ("ratelimit", remaining),
        ])
    }
}

impl ExchangeFilter for Limited {
    fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
        _head: &mut RequestHead,
    ) -> Poll<Result<Ready, GatewayError>> {
        let (Some((answer, key, now)), Some(rate)) = (&mut self.asked, &self.rate) else {
            return Poll::Ready(Ok(Ready::Continue));
        };
        // The thread has ended: the store is away.
        let answer = ready!(Pin::new(answer).poll(cx)).unwrap_or(StoreAnswer::Away);
        if answer != StoreAnswer::Away {
            rate.counts.shared.fetch_add(1, Ordering::Relaxed);
        }
        let refused = match answer {
            StoreAnswer::Pass => None,
            StoreAnswer::Wait(nanos) => Some(rate.refusal(nanos)),
            StoreAnswer::Away => rate.decide(*key, *now),
        };
        self.asked = None;
        Poll::Ready(Ok(refused.map_or(Ready::Continue, Ready::Respond)))
    }
}

impl BucketKey<'_> {
    /// The name of its bucket in the store: the same on every node, and none of a client's secrets.
    fn text(&self, filter: &str) -> String {
        use fmt::Write as _;
        let digest = match self {
            Self::Network(family, bits) => Sha256::new()
                .chain_update([*family])
                .chain_update(bits.to_be_bytes()),
            Self::Value(None) => Sha256::new().chain_update([0]),
            Self::Value(Some(value)) => Sha256::new().chain_update([1]).chain_update(value),
        };
        let mut text = format!("steppe:limit:{filter}:");
        for byte in &digest.finalize()[..16] {
            write!(text, "{byte:02x}").expect("a string takes everything");
        }
        text
    }
}

impl fmt::Debug for RateLimitFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RateLimitFilter")
            .field(&self.config)
            .finish()
    }
}

impl fmt::Debug for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_asked = self.asked.is_some();
        f.debug_struct("Limited").field("asked", &is_asked).finish()
    }
}

/// A string of structured fields (RFC 9651 §3.3.3), which has not every character that a name may have.
fn plain(name: &str) -> &str {
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && !matches!(byte, b'"' | b'\\');
    if name.bytes().all(is_plain) {
        name
    } else {
        "limit"
    }
}

fn refusal(fields: [(&str, String); 3]) -> Respond {
    let own = fields.map(|(name, value)| (name.to_owned(), value));
    let media_type = ("content-type".to_owned(), "text/plain".to_owned());
    Respond {
        status: 429,
        body: b"too many requests\n".to_vec(),
        fields: own.into_iter().chain([media_type]).collect(),
    }
}

/// The network of an address: its leading bits.
fn network(address: IpAddr, v4: u8, v6: u8) -> (u8, u128) {
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
mod tests;
