//! A client's query: answered at once, or left waiting.

use std::rc::Rc;
use std::time::Instant;

use super::clients::Destination;
use super::exchanges::Current;
use super::state::WorkerState;
use super::upstream::Upstream;
use crate::answer::{Reason, rcode_of};
use crate::cache::{Failure, Freshness, Hit, Key, Lookup, Refresh};
use crate::client::Client;
use crate::config::{Action, Block};
use crate::in_flight::{Join, Waiter};
use crate::limits::LOCAL_TTL_SECONDS;
use crate::special_use::{SpecialUse, special_use};
use crate::wire::{
    Class, ClientQuery, ExtendedError, Flags, Full, LocalRecord, Name, Rcode, Rejection, Reply,
    Rtype, write_rejection,
};

/// What becomes of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    /// The response, of this size, lies in `reply`.
    Now(usize),
    /// Its client waits for it.
    Later,
    /// There will be none.
    Never,
}

/// Why there is no response to a query now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unanswered {
    /// There will be none.
    Dropped,
    /// Its client waits for one.
    Waiting,
}

/// A query, and whose it is.
#[derive(Debug, Clone, Copy)]
struct From<'a> {
    query: &'a ClientQuery<'a>,
    destination: Destination,
    now: Instant,
}

/// Who waits for a refresh: nobody.
const NOBODY: u64 = u64::MAX;

impl std::convert::From<Full> for Unanswered {
    /// There is always room for a response without records.
    fn from(_: Full) -> Self {
        Self::Dropped
    }
}

impl WorkerState {
    /// Answers a query, in `reply`, or lets its client wait.
    pub(super) fn query(
        &mut self,
        bytes: &[u8],
        destination: Destination,
        client: &Client,
        now: Instant,
    ) -> Answered {
        self.metrics.queries.of(destination.kind()).increment();
        let decided = match ClientQuery::parse(bytes) {
            Err(rejection) => self.reject(bytes, rejection, client),
            Ok(query) => {
                let from = From {
                    query: &query,
                    destination,
                    now,
                };
                let decided = self.decide(from, client);
                decided.map(|len| (len, rcode_of(&self.reply)))
            }
        };
        match decided {
            Ok((len, rcode)) => {
                self.metrics.response(rcode);
                Answered::Now(len)
            }
            Err(Unanswered::Dropped) => {
                self.metrics.dropped.increment();
                Answered::Never
            }
            Err(Unanswered::Waiting) => Answered::Later,
        }
    }

    /// Answers bytes that are no query to be answered.
    fn reject(
        &mut self,
        bytes: &[u8],
        rejection: Rejection,
        client: &Client,
    ) -> Result<(usize, Rcode), Unanswered> {
        let rcode = match rejection {
            Rejection::Ignore => return Err(Unanswered::Dropped),
            Rejection::Respond(_) if !self.current.snapshot.admits(client) => Rcode::REFUSED,
            Rejection::Respond(rcode) => rcode,
        };
        Ok((write_rejection(bytes, rcode, &mut self.reply)?, rcode))
    }

    fn decide(&mut self, from: From<'_>, client: &Client) -> Result<usize, Unanswered> {
        let current = Rc::clone(&self.current);
        let question = from.query.question();
        if !current.snapshot.admits(client) {
            let reason = Some((ExtendedError::PROHIBITED, "client is not allowed"));
            return self.refuse(from, Rcode::REFUSED, reason);
        }
        if question.qclass != Class::IN {
            let reason = Some((ExtendedError::NOT_SUPPORTED, "class is not IN"));
            return self.refuse(from, Rcode::REFUSED, reason);
        }
        let qname = Name::from_wire(question.qname).map_err(|_| Unanswered::Dropped)?;
        let rule = current.snapshot.rule(client, &qname, question.qtype);
        let is_by_name = rule.is_some_and(|rule| rule.is_by_name());
        if !is_by_name && let Some(special) = special_use(&qname, question.qtype) {
            return self.special(from, special);
        }
        match rule.map(|rule| rule.action) {
            None => {
                let reason = Some((ExtendedError::PROHIBITED, "no rule for it"));
                self.refuse(from, Rcode::REFUSED, reason)
            }
            Some(Action::Block(block)) => self.block(from, block),
            Some(Action::Forward(index)) => self.forward(from, &current, index),
        }
    }

    fn refuse(
        &mut self,
        from: From<'_>,
        rcode: Rcode,
        reason: Reason,
    ) -> Result<usize, Unanswered> {
        let mut reply = Reply::new(from.query, from.destination.transport());
        reply.extended_error = reason;
        Ok(reply.rcode(rcode, &mut self.reply)?)
    }

    fn block(&mut self, from: From<'_>, block: Block) -> Result<usize, Unanswered> {
        self.metrics.blocked.increment();
        let mut reply = Reply::new(from.query, from.destination.transport());
        reply.extended_error = Some((ExtendedError::BLOCKED, ""));
        let (ttl, out) = (LOCAL_TTL_SECONDS, &mut *self.reply);
        let record = |rdata| LocalRecord {
            owner: None,
            rtype: from.query.question().qtype,
            ttl,
            rdata,
        };
        Ok(match (block, from.query.question().qtype) {
            (Block::Refused, _) => reply.rcode(Rcode::REFUSED, out),
            (Block::NameError, _) => reply.negative(Rcode::NXDOMAIN, ttl, out),
            (Block::Zero, Rtype::A) => reply.records(&[record(&[0; 4])], out),
            (Block::Zero, Rtype::AAAA) => reply.records(&[record(&[0; 16])], out),
            (Block::Zero | Block::NoData, _) => reply.negative(Rcode::NOERROR, ttl, out),
        }?)
    }

    fn special(&mut self, from: From<'_>, special: SpecialUse) -> Result<usize, Unanswered> {
        let reply = Reply::new(from.query, from.destination.transport());
        let (ttl, out) = (LOCAL_TTL_SECONDS, &mut *self.reply);
        let rtype = from.query.question().qtype;
        let record = |rdata| LocalRecord {
            owner: None,
            rtype,
            ttl,
            rdata,
        };
        let loopback_v6 = std::net::Ipv6Addr::LOCALHOST.octets();
        Ok(match special {
            SpecialUse::Loopback if rtype == Rtype::A => {
                reply.records(&[record(&[127, 0, 0, 1])], out)
            }
            SpecialUse::Loopback => reply.records(&[record(&loopback_v6)], out),
            SpecialUse::LocalhostPtr => reply.records(&[record(b"\x09localhost\0")], out),
            SpecialUse::NameError => reply.negative(Rcode::NXDOMAIN, ttl, out),
            // There is no encrypted listener to designate yet.
            SpecialUse::NoData | SpecialUse::Designations => {
                reply.negative(Rcode::NOERROR, ttl, out)
            }
        }?)
    }

    fn forward(
        &mut self,
        from: From<'_>,
        current: &Rc<Current>,
        upstream: usize,
    ) -> Result<usize, Unanswered> {
        let upstream = &current.upstreams[upstream];
        let key = key(from.query, upstream);
        let (cache, serve) = (&current.snapshot.cache.cache, &upstream.plan.serve);
        match cache.lookup(&key, serve, from.now, &mut self.reply) {
            Lookup::Hit(hit) => self.hit(from, (current, upstream), &key, &hit),
            Lookup::Failure(failure) => {
                self.metrics.cache_failures.increment();
                self.remembered(from, &failure)
            }
            Lookup::Miss => {
                self.metrics.cache_misses.increment();
                self.wait(from, (current, upstream), &key, None)
            }
        }
    }

    /// Answers from the cache: the body lies in `reply`.
    fn hit(
        &mut self,
        from: From<'_>,
        (current, upstream): (&Rc<Current>, &Rc<Upstream>),
        key: &Key<'_>,
        hit: &Hit,
    ) -> Result<usize, Unanswered> {
        let after = current.snapshot.config.cache.serve_stale;
        let after = after.map(|stale| stale.after).unwrap_or_default();
        let is_stale = hit.freshness == Freshness::Stale;
        if is_stale && hit.refresh == Refresh::Due && !after.is_zero() {
            self.metrics.cache_misses.increment();
            let stale_at = Some(from.now + after);
            return self.wait(from, (current, upstream), key, stale_at);
        }
        let mut reply = Reply::new(from.query, from.destination.transport());
        if is_stale {
            self.metrics.cache_stale.increment();
            reply.extended_error = stale_reason(rcode_of(&self.reply));
        } else {
            self.metrics.cache_hits.increment();
        }
        let len = reply.finish(&mut self.reply, hit.body)?;
        if hit.refresh == Refresh::Due {
            self.metrics.refreshes.increment();
            self.join(from, (current, upstream), key, (NOBODY, None));
        }
        Ok(len)
    }

    fn remembered(&mut self, from: From<'_>, failure: &Failure) -> Result<usize, Unanswered> {
        let reason = match failure.extended_error {
            0 => (ExtendedError::CACHED_ERROR, ""),
            code => (ExtendedError(code), "cached"),
        };
        self.refuse(from, failure.rcode, Some(reason))
    }

    /// Lets a client wait for the answer of servers.
    fn wait(
        &mut self,
        from: From<'_>,
        asked: (&Rc<Current>, &Rc<Upstream>),
        key: &Key<'_>,
        stale_at: Option<Instant>,
    ) -> Result<usize, Unanswered> {
        let bytes = from.query.message().bytes();
        let Some(token) = self.clients.park(bytes, from.destination) else {
            let reason = Some((ExtendedError::NOT_READY, "too many clients wait"));
            return self.refuse(from, Rcode::SERVFAIL, reason);
        };
        if self.join(from, asked, key, (token, stale_at)) {
            return Err(Unanswered::Waiting);
        }
        self.clients.leave(token);
        let reason = Some((ExtendedError::NOT_READY, "too many wait for it"));
        self.refuse(from, Rcode::SERVFAIL, reason)
    }

    /// Asks a question, or waits for its answer. False: there is no room to.
    fn join(
        &mut self,
        from: From<'_>,
        (current, upstream): (&Rc<Current>, &Rc<Upstream>),
        key: &Key<'_>,
        (token, stale_at): (u64, Option<Instant>),
    ) -> bool {
        let waiter = Waiter {
            worker: self.index,
            token,
        };
        let shared = std::sync::Arc::clone(&self.shared);
        match shared.coalescer().join(key, waiter) {
            Join::Refused(_) => return false,
            Join::Wait => self.metrics.coalesced.increment(),
            Join::Lead(ticket) => {
                let question = from.query.question();
                self.begin(
                    (ticket, stale_at),
                    (current, upstream),
                    (&question, key),
                    from.now,
                );
            }
        }
        true
    }
}

/// What a query's answer is kept under.
fn key<'a>(query: &ClientQuery<'a>, upstream: &Upstream) -> Key<'a> {
    let question = query.question();
    let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    Key {
        qname: question.qname,
        qtype: question.qtype,
        qclass: question.qclass,
        view: upstream.plan.view,
        flags: bit(query.is_dnssec_ok(), Key::DNSSEC_OK)
            | bit(query.flags().has(Flags::CD), Key::CHECKING_DISABLED),
        subnet: None,
    }
}

/// RFC 8914 §4.4, §4.20.
pub(super) fn stale_reason(rcode: Rcode) -> Reason {
    Some(match rcode {
        Rcode::NXDOMAIN => (ExtendedError::STALE_NXDOMAIN, ""),
        _ => (ExtendedError::STALE_ANSWER, ""),
    })
}
