//! A shard of the cache: three rings, and the index of their entries.
//!
//! Responses come into *probation*. Those with two hits by the time they reach its end move to *main*, and so
//! do the others while *main* has room. The rest is evicted, and its hashes are kept as ghosts: a response
//! whose hash is a ghost goes to *main* at once. An entry that reaches the end of *main* goes to the back
//! again, once for each hit. This is S3-FIFO (Yang et al., SOSP 2023): a scan passes through probation and
//! evicts no entry that is in use. Negative responses and failures have a ring of their own.
//!
//! Spec: RFC 8767 for stale responses, RFC 9520 for failures. A refresh before the expiry is what Unbound
//! calls prefetch.

use crate::limits::{
    CACHE_ENTRY_BYTES_EXPECTED, CACHE_MOVES_MAX, CACHE_NEGATIVE_PERCENT, CACHE_PROBATION_PERCENT,
    CACHED_BODY_BYTES_MAX, FAILURE_SECONDS_MAX, FAILURE_SECONDS_MIN, NAME_BYTES_MAX,
    PREFETCH_HITS_MIN, PREFETCH_QUIET_SECONDS, STALE_RECHECK_SECONDS, STALE_SECONDS_MAX,
    STALE_TTL_SECONDS,
};
use crate::wire::{Body, Flags, Name, Question, Rcode, age_ttls};

use super::entry::{self, EntryRef, Facts, Kind};
use super::index::{Index, Position};
use super::key::Key;
use super::lookup::{Failure, Freshness, Hit, Lookup, Refresh, ServePolicy};
use super::ring::{DEAD, LIVE, Ring};

mod eviction;

const PROBATION: usize = 0;
const MAIN: usize = 1;
const NEGATIVE: usize = 2;

/// A response to keep.
#[derive(Debug, Clone, Copy)]
pub struct NewEntry<'a> {
    /// The message as [`crate::wire::Response::write_body`] wrote it.
    pub message: &'a [u8],
    /// Offset of the authority section in the message.
    pub authority_at: usize,
    /// Offsets of the TTLs in the message: [`crate::wire::apply_policy`].
    pub ttl_offsets: &'a [u16],
    /// Positive or negative.
    pub kind: Kind,
    /// Seconds for which the response is fresh.
    pub lifetime: u32,
    /// Seconds of its lifetime that have passed already, as with a response from a snapshot.
    pub age: u32,
}

/// The entries that a flush removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flush {
    /// All entries.
    All,
    /// The entries of a name.
    Name(Name),
    /// The entries of a name and of all names below it.
    Suffix(Name),
}

/// Counts of a shard: current ones, and totals since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShardStats {
    /// Entries now.
    pub entries: u64,
    /// Bytes that the rings have in use now.
    pub used_bytes: u64,
    /// Entries written.
    pub insertions: u64,
    /// Entries that were evicted to make room.
    pub evictions: u64,
    /// Entries that were moved to main, or to the back of their ring, instead of being evicted.
    pub moves: u64,
    /// Responses that were too large.
    pub refused: u64,
}

/// The time, as a shard counts it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// Seconds of the cache's time.
    pub now: u32,
    /// Failures that were cached up to this second are void.
    pub failures_void_at: u32,
}

/// The time, and the policy by which entries are served then.
#[derive(Clone, Copy)]
pub(super) struct ServedAt<'a> {
    pub(super) moment: Moment,
    pub(super) policy: &'a ServePolicy,
}

#[derive(Debug)]
pub(super) struct Shard {
    rings: [Ring; 3],
    index: Index,
    stats: ShardStats,
}

impl Shard {
    /// A shard of `bytes` in all.
    pub(super) fn new(bytes: usize) -> Self {
        let index = Index::new(bytes / CACHE_ENTRY_BYTES_EXPECTED);
        let rings_bytes = bytes - index.bytes();
        let share = |percent: usize| rings_bytes / 100 * percent;
        let main = 100 - CACHE_PROBATION_PERCENT - CACHE_NEGATIVE_PERCENT;
        let rings = [CACHE_PROBATION_PERCENT, main, CACHE_NEGATIVE_PERCENT];
        Self {
            rings: rings.map(|percent| Ring::new(share(percent))),
            index,
            stats: ShardStats::default(),
        }
    }

    /// Bytes of the index and the rings.
    pub(super) fn bytes(&self) -> usize {
        self.index.bytes() + self.rings.iter().map(Ring::capacity).sum::<usize>()
    }

    pub(super) fn stats(&self) -> ShardStats {
        let used: usize = self.rings.iter().map(Ring::used).sum();
        ShardStats {
            used_bytes: used as u64,
            ..self.stats
        }
    }

    /// Looks a response up, and copies it to `out` with its TTLs aged.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn lookup(
        &mut self,
        key: &Key<'_>,
        hash: u64,
        moment: Moment,
        policy: &ServePolicy,
        out: &mut [u8],
    ) -> Lookup {
        let Some((position, facts)) = self.find(key, hash) else {
            return Lookup::Miss;
        };
        let age = moment.now.saturating_sub(facts.stored_at);
        if facts.kind == Kind::Failure {
            return self.lookup_failure(position, &facts, moment);
        }
        let freshness = match facts.lifetime {
            lifetime if age < lifetime => Freshness::Fresh,
            lifetime if age < lifetime.saturating_add(stale_seconds(&facts, policy)) => {
                Freshness::Stale
            }
            _ => return Lookup::Miss,
        };
        let entry = self.entry(position);
        let body = entry.body(&facts);
        let Some(place) = out.get_mut(..body.len()) else {
            return Lookup::Miss;
        };
        place.copy_from_slice(body);
        match freshness {
            Freshness::Fresh => age_ttls(place, entry.ttl_offsets(&facts), age, 0),
            Freshness::Stale => {
                age_ttls(
                    place,
                    entry.ttl_offsets(&facts),
                    u32::MAX,
                    STALE_TTL_SECONDS,
                );
            }
        }
        let body = Body {
            len: body.len(),
            authority_at: facts.authority_at.into(),
            additional_at: body.len(),
        };
        entry::count_hit(self.rings[position.ring()].memory_mut(), position.at());
        Lookup::Hit(Hit {
            body,
            kind: facts.kind,
            freshness,
            refresh: self.refresh(position, &facts, freshness, moment, policy),
        })
    }

    fn lookup_failure(&self, position: Position, facts: &Facts, moment: Moment) -> Lookup {
        let until = facts.stored_at.saturating_add(facts.lifetime);
        if moment.now >= until || facts.stored_at <= moment.failures_void_at {
            return Lookup::Miss;
        }
        let body = self.entry(position).body(facts);
        Lookup::Failure(Failure {
            rcode: Rcode(u16::from_be_bytes([body[0], body[1]])),
            extended_error: facts.extended_error,
            seconds_left: until - moment.now,
        })
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn refresh(
        &mut self,
        position: Position,
        facts: &Facts,
        freshness: Freshness,
        moment: Moment,
        policy: &ServePolicy,
    ) -> Refresh {
        let is_void = facts.quiet_until
            <= moment
                .failures_void_at
                .saturating_add(STALE_RECHECK_SECONDS)
            && moment.failures_void_at > 0;
        let is_quiet = moment.now < facts.quiet_until;
        match freshness {
            Freshness::Stale if is_quiet && !is_void => Refresh::NotDue,
            Freshness::Stale => Refresh::Due,
            Freshness::Fresh if is_quiet || facts.hits < PREFETCH_HITS_MIN => Refresh::NotDue,
            Freshness::Fresh => {
                let age = moment.now.saturating_sub(facts.stored_at);
                let left = u64::from(facts.lifetime - age);
                let part = u64::from(facts.lifetime) * u64::from(policy.prefetch_percent);
                if left * 100 > part {
                    return Refresh::NotDue;
                }
                let memory = self.rings[position.ring()].memory_mut();
                let until = moment.now.saturating_add(PREFETCH_QUIET_SECONDS);
                entry::set_quiet_until(memory, position.at(), until);
                Refresh::Due
            }
        }
    }

    /// True if the key has a response; a failure is none.
    pub(super) fn has(&self, key: &Key<'_>, hash: u64) -> bool {
        let found = self.find(key, hash);
        found.is_some_and(|(_, facts)| facts.kind != Kind::Failure)
    }

    /// Caches a response in place of the entry that the key has.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn insert(
        &mut self,
        key: &Key<'_>,
        hash: u64,
        new: &NewEntry<'_>,
        moment: Moment,
        policy: &ServePolicy,
    ) -> Result<(), NotCached> {
        let facts = Facts {
            kind: new.kind,
            hits: 0,
            key_bits: key.bits(),
            hash,
            stored_at: moment.now.saturating_sub(new.age),
            lifetime: new.lifetime,
            quiet_until: 0,
            view: key.view,
            ttl_count: number(new.ttl_offsets.len())?,
            body_len: number(new.message.len())?,
            authority_at: number(new.authority_at)?,
            extended_error: 0,
            failures: 0,
        };
        self.replace(key, facts, new.ttl_offsets, new.message, moment, policy)
    }

    /// Keeps a response that may still be served from being refreshed for a while; false: there is none.
    pub(super) fn quiet(
        &mut self,
        key: &Key<'_>,
        hash: u64,
        ServedAt { moment, policy }: ServedAt<'_>,
    ) -> bool {
        let found = self.find(key, hash).filter(|(_, facts)| {
            facts.kind != Kind::Failure && self.is_useful(facts, moment.now, policy)
        });
        if let Some((position, _)) = found {
            let memory = self.rings[position.ring()].memory_mut();
            let until = moment.now.saturating_add(STALE_RECHECK_SECONDS);
            entry::set_quiet_until(memory, position.at(), until);
        }
        found.is_some()
    }

    /// Caches the failure of servers to answer, for longer each time that it repeats. A response that may
    /// still be served stays in its place, and is not refreshed for a while.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn insert_failure(
        &mut self,
        key: &Key<'_>,
        hash: u64,
        failure: (Rcode, u16),
        moment: Moment,
        policy: &ServePolicy,
    ) -> Result<(), NotCached> {
        if self.quiet(key, hash, ServedAt { moment, policy }) {
            return Ok(());
        }
        let mut failures = 1;
        if let Some((_, facts)) = self.find(key, hash) {
            let age = moment.now.saturating_sub(facts.stored_at);
            let is_repeated = facts.kind == Kind::Failure
                && facts.stored_at > moment.failures_void_at
                && age < facts.lifetime.saturating_add(FAILURE_SECONDS_MAX);
            if is_repeated {
                failures = facts.failures.saturating_add(1);
            }
        }
        let doubled = FAILURE_SECONDS_MIN << (failures - 1).min(16);
        let (body, body_len) = failure_body(key, failure.0);
        let facts = Facts {
            kind: Kind::Failure,
            hits: 0,
            key_bits: key.bits(),
            hash,
            stored_at: moment.now,
            lifetime: doubled.min(FAILURE_SECONDS_MAX),
            quiet_until: 0,
            view: key.view,
            ttl_count: 0,
            body_len: number(body_len)?,
            authority_at: number(body_len)?,
            extended_error: failure.1,
            failures,
        };
        self.replace(key, facts, &[], &body[..body_len], moment, policy)
    }

    /// Removes entries, and returns their number.
    pub(super) fn flush(&mut self, flush: &Flush) -> u64 {
        let before = self.stats.entries;
        if *flush == Flush::All {
            self.rings.iter_mut().for_each(Ring::clear);
            self.index.clear();
            self.stats.entries = 0;
            return before;
        }
        for ring in 0..self.rings.len() {
            let mut cursor = self.rings[ring].cursor();
            while let Some(record) = self.rings[ring].next(&mut cursor) {
                let position = Position::new(ring, record.at);
                if record.state == LIVE
                    && let Some(hash) = self.flushed(position, flush)
                {
                    self.bury(position, hash);
                }
            }
        }
        before - self.stats.entries
    }

    /// The hash of an entry, if the flush removes it.
    fn flushed(&self, position: Position, flush: &Flush) -> Option<u64> {
        let entry = self.entry(position);
        let facts = entry.facts();
        let name = Name::from_wire(entry.key(&facts).qname).ok()?;
        let is_flushed = match flush {
            Flush::All => true,
            Flush::Name(flushed) => name == *flushed,
            Flush::Suffix(flushed) => name.is_at_or_below(flushed),
        };
        is_flushed.then_some(facts.hash)
    }

    /// Calls `each` with every response, oldest first in each ring; failures are left out.
    pub(super) fn for_each(&self, now: u32, mut each: impl FnMut(&Key<'_>, &NewEntry<'_>)) {
        for ring in &self.rings {
            for record in ring.live() {
                let entry = EntryRef::new(ring.memory(), record.at);
                let facts = entry.facts();
                if facts.kind != Kind::Failure {
                    let response = NewEntry {
                        message: entry.body(&facts),
                        authority_at: facts.authority_at.into(),
                        ttl_offsets: &[],
                        kind: facts.kind,
                        lifetime: facts.lifetime,
                        age: now.saturating_sub(facts.stored_at),
                    };
                    each(&entry.key(&facts), &response);
                }
            }
        }
    }

    fn entry(&self, position: Position) -> EntryRef<'_> {
        EntryRef::new(self.rings[position.ring()].memory(), position.at())
    }

    fn find(&self, key: &Key<'_>, hash: u64) -> Option<(Position, Facts)> {
        let is_it = |position| {
            let entry = self.entry(position);
            entry.is_of(&entry.facts(), key)
        };
        let position = self.index.find(hash, is_it)?;
        Some((position, self.entry(position).facts()))
    }

    fn is_useful(&self, facts: &Facts, now: u32, policy: &ServePolicy) -> bool {
        let seconds = facts.lifetime.saturating_add(stale_seconds(facts, policy));
        now.saturating_sub(facts.stored_at) < seconds
    }

    /// Writes an entry in place of the one that the key has.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn replace(
        &mut self,
        key: &Key<'_>,
        mut facts: Facts,
        ttl_offsets: &[u16],
        body: &[u8],
        moment: Moment,
        policy: &ServePolicy,
    ) -> Result<(), NotCached> {
        if !has_question(body, key) {
            return Err(NotCached::OtherQuestion);
        }
        let (hash, old) = (facts.hash, self.find(key, facts.hash));
        let size = entry::size(key, ttl_offsets.len(), body.len());
        let ring = match facts.kind {
            Kind::Negative | Kind::Failure => NEGATIVE,
            Kind::Positive => match old {
                // A response that was in main before its refresh stays there.
                Some((position, _)) if position.ring() == MAIN => MAIN,
                _ if self.index.take_ghost(hash) => MAIN,
                _ => PROBATION,
            },
        };
        let is_too_large =
            body.len() > CACHED_BODY_BYTES_MAX || size > self.rings[ring].capacity() / 2;
        if let Some((position, old)) = old {
            facts.hits = old.hits;
            self.bury(position, hash);
        }
        if is_too_large {
            self.stats.refused += 1;
            return Err(NotCached::TooLarge);
        }
        let at = self.room(ring, size, moment.now, policy, &mut { CACHE_MOVES_MAX });
        let memory = self.rings[ring].memory_mut();
        entry::write(memory, at, &facts, key.subnet, ttl_offsets, body);
        let position = Position::new(ring, at);
        let rings = &self.rings;
        let evicted = self
            .index
            .insert(hash, position, |positions| worst(rings, positions));
        if let Some(evicted) = evicted {
            entry::set_state(self.rings[evicted.ring()].memory_mut(), evicted.at(), DEAD);
            self.stats.evictions += 1;
            self.stats.entries -= 1;
        }
        self.stats.insertions += 1;
        self.stats.entries += 1;
        Ok(())
    }

    /// Takes an entry out of the index and marks it as dead; its bytes are free when it comes to the end of
    /// its ring.
    fn bury(&mut self, position: Position, hash: u64) {
        self.index.remove(hash, position);
        entry::set_state(
            self.rings[position.ring()].memory_mut(),
            position.at(),
            DEAD,
        );
        self.stats.entries -= 1;
    }
}

/// The reason why a response is not cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotCached {
    /// The response is larger than [`CACHED_BODY_BYTES_MAX`], or its entry than half of its ring.
    #[error("response too large to be cached")]
    TooLarge,
    /// The question of the response is not the key's.
    #[error("the response is for another question")]
    OtherQuestion,
    /// The key has a newer response.
    #[error("the cached response is newer")]
    Newer,
}

fn number(len: usize) -> Result<u16, NotCached> {
    u16::try_from(len).map_err(|_| NotCached::TooLarge)
}

/// True if a message has the key's question, so that the entry's key can be read from it again.
fn has_question(message: &[u8], key: &Key<'_>) -> bool {
    Question::read(message).is_ok_and(|question| {
        question.qname.eq_ignore_ascii_case(key.qname)
            && (question.qtype, question.qclass) == (key.qtype, key.qclass)
    })
}

fn stale_seconds(facts: &Facts, policy: &ServePolicy) -> u32 {
    match facts.kind {
        Kind::Positive => policy.stale_positive.min(STALE_SECONDS_MAX),
        Kind::Negative => policy.stale_negative.min(STALE_SECONDS_MAX),
        Kind::Failure => 0,
    }
}

/// The entry of a full bucket that is evicted: negative answers and failures before positive ones, then
/// entries in probation before those in main, then the one with the fewest hits.
fn worst<const N: usize>(rings: &[Ring; 3], positions: [Position; N]) -> usize {
    let rank = |position: &Position| {
        let facts = EntryRef::new(rings[position.ring()].memory(), position.at()).facts();
        (
            facts.kind == Kind::Positive,
            position.ring() == MAIN,
            facts.hits,
        )
    };
    let ranked = positions.iter().enumerate();
    ranked
        .min_by_key(|(_, position)| rank(position))
        .map_or(0, |(index, _)| index)
}

/// The body of a failure, and its length: a header and the key's question. In place of an id, the header has
/// all twelve bits of the response code.
fn failure_body(key: &Key<'_>, rcode: Rcode) -> ([u8; 12 + NAME_BYTES_MAX + 4], usize) {
    let mut body = [0; 12 + NAME_BYTES_MAX + 4];
    let qname = &key.qname[..key.qname.len().min(NAME_BYTES_MAX)];
    let name_end = 12 + qname.len();
    body[..2].copy_from_slice(&rcode.0.to_be_bytes());
    body[2..4].copy_from_slice(&(Flags::QR | rcode.low()).to_be_bytes());
    body[5] = 1;
    body[12..name_end].copy_from_slice(qname);
    body[name_end..name_end + 2].copy_from_slice(&key.qtype.0.to_be_bytes());
    body[name_end + 2..name_end + 4].copy_from_slice(&key.qclass.0.to_be_bytes());
    (body, name_end + 4)
}
