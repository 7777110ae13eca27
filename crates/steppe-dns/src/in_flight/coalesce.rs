//! Coalescing of identical questions: servers are asked once, whichever workers the questions come to. RFC
//! 5452 §5: a forger's chance grows with the number of identical queries in flight.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cache::Key;
use crate::limits::{
    COALESCER_SHARDS, NAME_BYTES_MAX, SUBNETS_PER_QUESTION_MAX, WAITERS_PER_QUESTION_MAX,
};
use crate::siphash::SipKey;
use crate::wire::{Class, Rtype, Subnet};

const NONE: u32 = u32::MAX;

/// A client that waits: numbers of the shell, which are returned to it when the question is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiter {
    /// Worker that the client's query came to.
    pub worker: u16,
    /// The worker's number for the client.
    pub token: u64,
}

/// The result of joining a question.
#[derive(Debug, PartialEq, Eq)]
pub enum Join {
    /// The question is new: this worker asks it, and completes the ticket when it is answered or has failed.
    Lead(Ticket),
    /// The question is in flight: the waiter is returned when it is answered.
    Wait,
    /// There is no room for the question or the waiter.
    Refused(Crowded),
}

/// The reason why a question or a waiter has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crowded {
    /// The table has no room for another question, or for another waiter.
    Full,
    /// The question has [`WAITERS_PER_QUESTION_MAX`] waiters.
    Waiters,
    /// The question is in flight for [`SUBNETS_PER_QUESTION_MAX`] subnets.
    Subnets,
}

/// A question that this worker has to answer. It can't be cloned, and is used up by
/// [`Coalescer::complete`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "waiters of a ticket that is dropped wait forever"]
pub struct Ticket {
    shard: u16,
    entry: u32,
}

/// The questions in flight of all workers.
#[derive(Debug)]
pub struct Coalescer {
    shards: Box<[Locked]>,
    hash_key: SipKey,
}

#[derive(Debug)]
#[repr(align(128))]
struct Locked(Mutex<Shard>);

#[derive(Debug)]
struct Shard {
    /// First entry of each chain.
    heads: Box<[u32]>,
    entries: Box<[Entry]>,
    free_entry: u32,
    nodes: Box<[Node]>,
    free_node: u32,
}

#[derive(Debug, Clone)]
struct Entry {
    next: u32,
    hash: u64,
    qname: [u8; NAME_BYTES_MAX],
    qname_len: u8,
    qtype: Rtype,
    qclass: Class,
    view: u16,
    flags: u8,
    subnet: Option<Subnet>,
    first_waiter: u32,
    waiters: u32,
}

#[derive(Debug, Clone)]
struct Node {
    waiter: Waiter,
    next: u32,
}

impl Coalescer {
    /// A table of about `questions` in flight for `waiters` clients, both shared evenly by shards.
    #[must_use]
    pub fn new(questions: usize, waiters: usize, hash_key: SipKey) -> Self {
        let share = |count: usize| count.div_ceil(COALESCER_SHARDS).max(1);
        let shard = || Locked(Mutex::new(Shard::new(share(questions), share(waiters))));
        Self {
            shards: (0..COALESCER_SHARDS).map(|_| shard()).collect(),
            hash_key,
        }
    }

    /// Begins a question, or adds a waiter to it if it is in flight.
    pub fn join(&self, key: &Key<'_>, waiter: Waiter) -> Join {
        self.begin_or_join(key, Some(waiter))
    }

    /// Begins a question that no client waits for, unless it is in flight.
    pub fn begin(&self, key: &Key<'_>) -> Join {
        self.begin_or_join(key, None)
    }

    fn begin_or_join(&self, key: &Key<'_>, waiter: Option<Waiter>) -> Join {
        // All subnets of a question are in one chain, so that they can be counted.
        let hash = Key {
            subnet: None,
            ..*key
        }
        .hash(&self.hash_key);
        let index = usize::try_from(hash % COALESCER_SHARDS as u64).unwrap_or_default();
        match lock(&self.shards[index]).join(key, hash, waiter) {
            Ok(Some(entry)) => Join::Lead(Ticket {
                shard: u16::try_from(index).unwrap_or_default(),
                entry,
            }),
            Ok(None) => Join::Wait,
            Err(crowded) => Join::Refused(crowded),
        }
    }

    /// Ends a question, and calls `each` with every waiter, the leader's own included, in no order. The answer
    /// has to be in the cache or at hand by then. A shard is locked meanwhile: `each` must not join questions.
    pub fn complete(&self, ticket: Ticket, each: impl FnMut(Waiter)) {
        if let Some(shard) = self.shards.get(usize::from(ticket.shard)) {
            lock(shard).complete(ticket.entry, each);
        }
    }

    /// Questions in flight.
    #[must_use]
    pub fn questions(&self) -> usize {
        let count = |shard: MutexGuard<'_, Shard>| shard.entries.len() - shard.free();
        self.shards.iter().map(lock).map(count).sum()
    }

    /// Bytes that a table of [`Self::new`] takes.
    #[must_use]
    pub fn bytes_of(questions: usize, waiters: usize) -> usize {
        let share = |count: usize| count.div_ceil(COALESCER_SHARDS).max(1);
        let of_shard = size_of::<Locked>()
            + share(questions) * (size_of::<u32>() + size_of::<Entry>())
            + share(waiters) * size_of::<Node>();
        COALESCER_SHARDS * of_shard
    }
}

fn lock(shard: &Locked) -> MutexGuard<'_, Shard> {
    shard.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The index after `index` in a list of all slots, which are free at first; `NONE` after the last.
fn linked(index: usize, len: usize) -> u32 {
    let next = u32::try_from(index + 1).unwrap_or(NONE);
    if index + 1 < len { next } else { NONE }
}

impl Shard {
    fn new(questions: usize, waiters: usize) -> Self {
        let entry = |index| Entry {
            next: linked(index, questions),
            hash: 0,
            qname: [0; NAME_BYTES_MAX],
            qname_len: 0,
            qtype: Rtype(0),
            qclass: Class(0),
            view: 0,
            flags: 0,
            subnet: None,
            first_waiter: NONE,
            waiters: 0,
        };
        let node = |index| Node {
            waiter: Waiter {
                worker: 0,
                token: 0,
            },
            next: linked(index, waiters),
        };
        Self {
            heads: vec![NONE; questions].into_boxed_slice(),
            entries: (0..questions).map(entry).collect(),
            free_entry: 0,
            nodes: (0..waiters).map(node).collect(),
            free_node: 0,
        }
    }

    fn free(&self) -> usize {
        let mut at = self.free_entry;
        let next = std::iter::from_fn(|| {
            let entry = self.entries.get(at as usize)?;
            at = entry.next;
            Some(())
        });
        next.count()
    }

    fn chain(&self, hash: u64) -> usize {
        (((hash >> 32) * self.heads.len() as u64) >> 32) as usize
    }

    /// Adds a waiter. Returns the entry to lead, if the question is new.
    fn join(
        &mut self,
        key: &Key<'_>,
        hash: u64,
        waiter: Option<Waiter>,
    ) -> Result<Option<u32>, Crowded> {
        let chain = self.chain(hash);
        let (mut at, mut subnets) = (self.heads[chain], 0);
        while let Some(entry) = self.entries.get(at as usize) {
            if entry.hash == hash && entry.is_question(key) {
                if entry.subnet == key.subnet {
                    return self.add_waiter(at, waiter).map(|()| None);
                }
                subnets += u32::from(entry.subnet.is_some());
            }
            at = entry.next;
        }
        if key.subnet.is_some() && subnets >= SUBNETS_PER_QUESTION_MAX {
            return Err(Crowded::Subnets);
        }
        let new = self.free_entry;
        let next = self.heads[chain];
        let entry = self.entries.get_mut(new as usize).ok_or(Crowded::Full)?;
        let after = entry.next;
        entry.fill(key, hash);
        entry.next = next;
        self.free_entry = after;
        self.heads[chain] = new;
        if let Err(crowded) = self.add_waiter(new, waiter) {
            self.complete(new, |_| ());
            return Err(crowded);
        }
        Ok(Some(new))
    }

    fn add_waiter(&mut self, at: u32, waiter: Option<Waiter>) -> Result<(), Crowded> {
        let Some(waiter) = waiter else {
            return Ok(());
        };
        let entry = &mut self.entries[at as usize];
        if entry.waiters >= WAITERS_PER_QUESTION_MAX {
            return Err(Crowded::Waiters);
        }
        let new = self.free_node;
        let node = self.nodes.get_mut(new as usize).ok_or(Crowded::Full)?;
        self.free_node = node.next;
        *node = Node {
            waiter,
            next: entry.first_waiter,
        };
        entry.first_waiter = new;
        entry.waiters += 1;
        Ok(())
    }

    fn complete(&mut self, at: u32, mut each: impl FnMut(Waiter)) {
        self.unlink(at);
        let entry = &mut self.entries[at as usize];
        let mut waiter = entry.first_waiter;
        (entry.first_waiter, entry.waiters) = (NONE, 0);
        while let Some(node) = self.nodes.get_mut(waiter as usize) {
            each(node.waiter);
            let next = node.next;
            node.next = self.free_node;
            self.free_node = waiter;
            waiter = next;
        }
        self.entries[at as usize].next = self.free_entry;
        self.free_entry = at;
    }

    fn unlink(&mut self, at: u32) {
        let (chain, after) = {
            let entry = &self.entries[at as usize];
            (self.chain(entry.hash), entry.next)
        };
        let mut before = self.heads[chain];
        if before == at {
            self.heads[chain] = after;
            return;
        }
        while let Some(entry) = self.entries.get_mut(before as usize) {
            if entry.next == at {
                entry.next = after;
                return;
            }
            before = entry.next;
        }
    }
}

impl Entry {
    fn fill(&mut self, key: &Key<'_>, hash: u64) {
        let len = key.qname.len().min(NAME_BYTES_MAX);
        self.qname[..len].copy_from_slice(&key.qname[..len]);
        self.qname_len = u8::try_from(len).unwrap_or(u8::MAX);
        self.hash = hash;
        (self.qtype, self.qclass) = (key.qtype, key.qclass);
        (self.view, self.flags, self.subnet) = (key.view, key.flags, key.subnet);
        (self.first_waiter, self.waiters) = (NONE, 0);
    }

    /// True if the entry is for this question, with any subnet.
    fn is_question(&self, key: &Key<'_>) -> bool {
        self.qname[..usize::from(self.qname_len)].eq_ignore_ascii_case(key.qname)
            && (self.qtype, self.qclass) == (key.qtype, key.qclass)
            && (self.view, self.flags) == (key.view, key.flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key<'_> = Key {
        qname: b"\x01a\x07example\x00",
        qtype: Rtype(1),
        qclass: Class(1),
        view: 0,
        flags: 0,
        subnet: None,
    };

    /// Different questions may have the same hash: each part of the question is compared.
    #[test]
    fn questions_of_one_hash_are_told_apart() {
        let shard = Shard::new(1, 1);
        let mut entries = shard.entries.into_iter();
        let mut entry = entries.next().expect("one entry");
        entry.fill(&KEY, 7);
        let upper = b"\x01A\x07EXAMPLE\x00";
        assert!(entry.is_question(&KEY));
        assert!(entry.is_question(&Key {
            qname: upper,
            ..KEY
        }));
        for other in [
            Key {
                qname: b"\x01b\x07example\x00",
                ..KEY
            },
            Key {
                qname: b"\x07example\x00",
                ..KEY
            },
            Key {
                qtype: Rtype(28),
                ..KEY
            },
            Key {
                qclass: Class(3),
                ..KEY
            },
            Key { view: 1, ..KEY },
            Key {
                flags: Key::DNSSEC_OK,
                ..KEY
            },
        ] {
            assert!(!entry.is_question(&other), "{other:?}");
        }
    }
}
