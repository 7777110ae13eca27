//! A client's query: answered at once, or left waiting.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;

use super::clients::Destination;
use super::exchanges::{Current, Purpose, Wanted};
use super::state::WorkerState;
use super::subnets::{look_up, subnet_told};
use super::upstream::Upstream;
use crate::answer::{AnswerName, Audience, Reason, rcode_of, write_alias, write_blocked};
use crate::cache::{Failure, Freshness, Hit, Key, Lookup, Refresh};
use crate::client::Client;
use crate::config::{Action, Block, Protocol, Rule};
use crate::cookie::Proof;
use crate::designation::DesignationData;
use crate::hosts::Records;
use crate::in_flight::{Crowded, Join, Waiter};
use crate::limits::{CLIENT_QUERY_BYTES_MAX, DESIGNATIONS_MAX, LOCAL_TTL_SECONDS};
use crate::manner::Manner;
use crate::query_log::Decision;
use crate::rate_limit::Verdict;
use crate::rules::{self, Found, ListSet, Settings, Why};
use crate::snapshot::{Plan, Snapshot};
use crate::special_use::{SpecialUse, special_use};
use crate::wire::{
    Alias, Class, ClientQuery, ExtendedError, Flags, Full, LocalRecord, Name, Question, Rcode,
    Rejection, Reply, Rtype, write_rejection,
};

/// The outcome of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    /// The response, of this size, is in `reply`.
    Now(usize),
    /// The client waits for the response.
    Later,
    /// The query gets no response.
    Never,
}

/// The reason why a query has no response now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unanswered {
    /// The query gets no response.
    Dropped,
    /// The client waits for the response.
    Waiting,
}

/// A query, and its client.
#[derive(Debug, Clone, Copy)]
struct From<'a> {
    query: &'a ClientQuery<'a>,
    destination: Destination,
    client: &'a Client,
    manner: Manner,
    now: Instant,
}

/// A name that is to be answered for a query.
#[derive(Debug, Clone, Copy)]
struct Sought<'a> {
    from: From<'a>,
    name: &'a Name,
    /// The query's own name, or the target of its alias.
    is: AnswerName,
    /// Settings of rules for the query so far.
    settings: Settings,
}

/// The upstream of a question, and the plan by which the answer is cached.
#[derive(Debug, Clone, Copy)]
struct Way<'a> {
    current: &'a Rc<Current>,
    upstream: &'a Rc<Upstream>,
    plan: &'a Plan,
}

impl<'a> Sought<'a> {
    /// The question about the name.
    fn question(&self) -> Question<'a> {
        let asked = self.from.query.question();
        match self.is {
            AnswerName::Asked => asked,
            AnswerName::Alias => Question {
                qname: self.name.wire(),
                ..asked
            },
        }
    }

    /// A reply to the query, with an alias from its own name to this one if they differ.
    fn reply(&self) -> Reply<'a> {
        let mut reply = self.from.reply();
        reply.alias = (self.is == AnswerName::Alias).then_some(Alias {
            target: self.name,
            ttl: LOCAL_TTL_SECONDS,
        });
        reply
    }

    /// A record of the name that the forwarder makes itself.
    fn record<'r>(&self, rtype: Rtype, rdata: &'r [u8]) -> LocalRecord<'r>
    where
        'a: 'r,
    {
        LocalRecord {
            owner: (self.is == AnswerName::Alias).then_some(self.name),
            rtype,
            ttl: LOCAL_TTL_SECONDS,
            rdata,
        }
    }
}

/// The records of an alias alone.
const NO_RECORDS: [LocalRecord<'static>; 0] = [];

impl<'a> From<'a> {
    /// A reply to the query.
    fn reply(&self) -> Reply<'a> {
        self.manner.reply(self.query)
    }
}

/// No place is free for a client that would wait, for this reason.
struct NoPlace(&'static str);

impl std::convert::From<Full> for Unanswered {
    /// Drops the query, which does not happen: there is always room for a response without records.
    fn from(_: Full) -> Self {
        Self::Dropped
    }
}

impl WorkerState {
    /// Answers a query, in `reply`, or lets its client wait.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn query(
        &mut self,
        bytes: &[u8],
        destination: Destination,
        client: &Client,
        now: Instant,
    ) -> Answered {
        self.metrics.queries.of(destination.protocol()).increment();
        if let Some(answered) = self.beyond_rate(bytes, destination, client.address, now) {
            return answered;
        }
        let decided = match ClientQuery::parse(bytes) {
            Err(rejection) => self.reject(bytes, rejection, client),
            Ok(query) => {
                let protocol = destination.protocol();
                let cookies = (&mut self.cookies, now);
                let from = From {
                    query: &query,
                    destination,
                    client,
                    manner: Manner::new(&query, protocol, client.address, cookies),
                    now,
                };
                if protocol == Protocol::Udp && from.manner.proof == Proof::Address {
                    self.metrics.cookies.increment();
                    self.prove(client.address, now);
                }
                if let Some(log) = &mut self.log {
                    log.begin(*client, now);
                }
                let decided = self.decide(from);
                let decided = decided.map(|len| (len, rcode_of(&self.reply[..len])));
                if let (Some(log), Ok((_, rcode))) = (&mut self.log, &decided) {
                    log.answered((query.question(), *rcode), destination);
                }
                decided
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

    /// Rejects bytes that are not a query that can be answered.
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

    fn decide(&mut self, from: From<'_>) -> Result<usize, Unanswered> {
        let current = Rc::clone(&self.current);
        let question = from.query.question();
        if !current.snapshot.admits(from.client) {
            let reason = Some((ExtendedError::PROHIBITED, "client is not allowed"));
            return self.refuse(from, Rcode::REFUSED, reason);
        }
        if question.qclass != Class::IN {
            let reason = Some((ExtendedError::NOT_SUPPORTED, "class is not IN"));
            return self.refuse(from, Rcode::REFUSED, reason);
        }
        let qname = Name::from_wire(question.qname).map_err(|_| Unanswered::Dropped)?;
        let sought = Sought {
            from,
            name: &qname,
            is: AnswerName::Asked,
            settings: Settings::default(),
        };
        self.seek(sought, &current)
    }

    /// Answers a name by hosts, as a special-use name, or by the first rule that decides about it.
    fn seek(&mut self, sought: Sought<'_>, current: &Rc<Current>) -> Result<usize, Unanswered> {
        let (from, snapshot) = (sought.from, &current.snapshot);
        let qtype = from.query.question().qtype;
        if let Some(records) = snapshot.host(sought.name) {
            self.metrics.hosts.increment();
            return self.local(sought, records);
        }
        let Found { decision, settings } = snapshot.rule(rules::Asked {
            client: from.client,
            qname: sought.name,
            qtype,
            rewriting: sought.is.rewriting(),
        });
        let why = decision.map(|decision| decision.why);
        let is_overruled =
            decision.is_some_and(|decision| decision.overrules_special_use(sought.name));
        if !is_overruled && let Some(special) = special_use(sought.name, qtype) {
            return self.special(sought, special);
        }
        // Settings for the name that the client asked for go before those for the target of its alias.
        let new = settings.without(sought.settings);
        let settings = sought.settings.or(settings);
        let sought = Sought { settings, ..sought };
        if self.heed(from, new, &snapshot.config.rules) == Verdict::Beyond {
            return self.too_often(from);
        }
        if let Some(Why::Lists(lists)) = why {
            self.count_lists(snapshot, lists);
        }
        match decision.map(|decision| decision.action) {
            None => {
                let reason = Some((ExtendedError::PROHIBITED, "no rule matches"));
                self.refuse(from, Rcode::REFUSED, reason)
            }
            Some(Action::Block(block)) => self.block(from, *block),
            Some(Action::Records(records)) => self.local(sought, records.iter()),
            Some(Action::Rewrite(target)) => {
                let target = Sought {
                    name: target,
                    is: AnswerName::Alias,
                    ..sought
                };
                match qtype {
                    Rtype::CNAME => Ok(target.reply().records(NO_RECORDS, &mut self.reply)?),
                    _ => self.seek(target, current),
                }
            }
            Some(Action::Forward(index)) => self.forward(sought, current, *index),
        }
    }

    /// Applies the settings `log` and `rate` of rules to a query. [`Verdict::Beyond`]: above a rule's rate.
    fn heed(&mut self, from: From<'_>, settings: Settings, rules: &[Rule]) -> Verdict {
        let rule = |number: usize| rules.get(number);
        let said = settings.log.and_then(|number| rule(number)?.log.as_ref());
        if let (Some(log), Some(said)) = (&mut self.log, said) {
            log.follow(said);
        }
        let rate = settings
            .rate
            .and_then(|number| Some((number, rule(number)?.rate?)));
        rate.map_or(Verdict::Within, |rate| {
            self.of_rule(rate, from.client.address, from.now)
        })
    }

    /// Drops or refuses a query above a rule's rate, like one above the client limit.
    fn too_often(&mut self, from: From<'_>) -> Result<usize, Unanswered> {
        self.log_decision(Decision::Limited);
        match from.destination {
            Destination::Datagram { .. } => Err(Unanswered::Dropped),
            Destination::Stream { .. } | Destination::InProcess { .. } => {
                let reason = Some((ExtendedError::PROHIBITED, "rate limit exceeded"));
                self.refuse(from, Rcode::REFUSED, reason)
            }
        }
    }

    /// Answers with records of hosts or of a rule: those of the queried type, or NODATA.
    fn local(&mut self, sought: Sought<'_>, records: Records<'_>) -> Result<usize, Unanswered> {
        self.log_decision(Decision::Local);
        let qtype = sought.from.query.question().qtype;
        let is_asked_for = |rtype: Rtype| qtype == rtype || qtype == Rtype::ANY;
        let mut found = records.filter(|(rtype, _)| is_asked_for(*rtype)).peekable();
        let (reply, out) = (sought.reply(), &mut *self.reply);
        Ok(match found.peek() {
            None => reply.negative(Rcode::NOERROR, LOCAL_TTL_SECONDS, out),
            Some(_) => {
                let records = found.map(|(rtype, rdata)| sought.record(rtype, rdata));
                reply.records(records, out)
            }
        }?)
    }

    fn refuse(
        &mut self,
        from: From<'_>,
        rcode: Rcode,
        reason: Reason,
    ) -> Result<usize, Unanswered> {
        let mut reply = from.reply();
        reply.extended_error = reason;
        Ok(reply.rcode(rcode, &mut self.reply)?)
    }

    fn block(&mut self, from: From<'_>, block: Block) -> Result<usize, Unanswered> {
        self.metrics.blocked.increment();
        self.log_decision(Decision::Blocked);
        Ok(write_blocked(from.reply(), block, &mut self.reply)?)
    }

    /// Counts a query that these lists have decided about.
    pub(super) fn count_lists(&self, snapshot: &Snapshot, lists: ListSet) {
        for place in snapshot.list_places(lists) {
            self.metrics.list_hits.at(place.into()).increment();
        }
    }

    fn special(&mut self, sought: Sought<'_>, special: SpecialUse) -> Result<usize, Unanswered> {
        self.log_decision(Decision::Local);
        let reply = sought.reply();
        let (ttl, out) = (LOCAL_TTL_SECONDS, &mut *self.reply);
        let rtype = sought.from.query.question().qtype;
        let record = |rdata| sought.record(rtype, rdata);
        let loopback_v6 = std::net::Ipv6Addr::LOCALHOST.octets();
        Ok(match special {
            SpecialUse::Loopback if rtype == Rtype::A => {
                reply.records([record(&[127, 0, 0, 1])], out)
            }
            SpecialUse::Loopback => reply.records([record(&loopback_v6)], out),
            SpecialUse::LocalhostPtr => reply.records([record(b"\x09localhost\0")], out),
            SpecialUse::NameError => reply.negative(Rcode::NXDOMAIN, ttl, out),
            SpecialUse::NoData => reply.negative(Rcode::NOERROR, ttl, out),
            SpecialUse::Designations => {
                let local = self.asked_at(sought.from.destination);
                let designations = &self.current.snapshot.designations;
                let data = DesignationData::new(designations, local);
                let mut records = [record(&[]); DESIGNATIONS_MAX];
                let mut count = 0;
                for (place, rdata) in records.iter_mut().zip(data.records()) {
                    place.rdata = rdata;
                    count += 1;
                }
                match count {
                    0 => reply.negative(Rcode::NOERROR, ttl, &mut self.reply),
                    _ => reply.records(records.into_iter().take(count), &mut self.reply),
                }
            }
        }?)
    }

    /// The local address that a query came to, if it is known.
    fn asked_at(&self, destination: Destination) -> Option<IpAddr> {
        match destination {
            Destination::Datagram {
                listener, local, ..
            } => local.or_else(|| {
                let listener = self.listeners.get(listener as usize)?.as_ref()?;
                Some(listener.address.ip()).filter(|ip| !ip.is_unspecified())
            }),
            Destination::Stream { connection, .. } => self.connections.get(connection)?.peer.local,
            Destination::InProcess { .. } => None,
        }
    }

    fn forward(
        &mut self,
        sought: Sought<'_>,
        current: &Rc<Current>,
        upstream: usize,
    ) -> Result<usize, Unanswered> {
        let plan = current.snapshot.plans.of(upstream, sought.settings.cache);
        let upstream = &current.upstreams[upstream];
        let way = Way {
            current,
            upstream,
            plan: &plan.unwrap_or(upstream.plan),
        };
        let key = key(&sought, way);
        if let Some(log) = &mut self.log {
            log.forward(upstream);
        }
        let (cache, serve) = (&current.snapshot.cache.cache, &way.plan.serve);
        // The body for an alias's target is no response yet: one is written to `reply` from it later.
        let out = match sought.is {
            AnswerName::Asked => &mut self.reply,
            AnswerName::Alias => &mut self.body,
        };
        let (found, audience) = look_up(cache, &key, (serve, sought.from.now), out);
        match found {
            Lookup::Hit(hit) => self.hit(sought, way, &key, (&hit, audience)),
            Lookup::Failure(failure) => {
                self.metrics.cache_failures.increment();
                self.log_decision(Decision::Failure);
                self.remembered(sought.from, &failure)
            }
            Lookup::Miss => {
                self.metrics.cache_misses.increment();
                let from = sought.from;
                if let Some(reason) = self.too_many_misses(sought.name, current, from.now) {
                    self.log_decision(Decision::Limited);
                    return self.refuse(from, Rcode::SERVFAIL, reason);
                }
                match self.try_wait(sought, way, &key, None)? {
                    Ok(()) => Err(Unanswered::Waiting),
                    Err(NoPlace(text)) => {
                        let reason = Some((ExtendedError::NOT_READY, text));
                        self.refuse(from, Rcode::SERVFAIL, reason)
                    }
                }
            }
        }
    }

    /// Answers from the cache, or lets the client wait for a fresh answer. Begins a refresh if it is due.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn hit(
        &mut self,
        sought: Sought<'_>,
        way: Way<'_>,
        key: &Key<'_>,
        found: (&Hit, Audience),
    ) -> Result<usize, Unanswered> {
        let (hit, after) = (found.0, way.plan.stale_after);
        let is_due = hit.refresh == Refresh::Due;
        if hit.freshness == Freshness::Stale && is_due && !after.is_zero() {
            self.metrics.cache_misses.increment();
            let stale_at = Some(sought.from.now + after);
            return match self.try_wait(sought, way, key, stale_at)? {
                Ok(()) => Err(Unanswered::Waiting),
                // The stale response is at hand.
                Err(NoPlace(_)) => self.cached(sought, found),
            };
        }
        let answered = self.cached(sought, found);
        if is_due {
            self.metrics.refreshes.increment();
            self.join(sought, way, key, (None, None));
        }
        answered
    }

    /// Answers from the cache: the body is in `reply`, that of an alias's target in `body`.
    fn cached(
        &mut self,
        sought: Sought<'_>,
        (hit, audience): (&Hit, Audience),
    ) -> Result<usize, Unanswered> {
        let from = sought.from;
        let is_stale = hit.freshness == Freshness::Stale;
        let body = match sought.is {
            AnswerName::Asked => &self.reply[..hit.body.len],
            AnswerName::Alias => &self.body[..hit.body.len],
        };
        let snapshot = &self.current.snapshot;
        if let Some(blocked) = snapshot.blocked_alias(from.client, sought.is.rewriting(), body) {
            self.count_lists(snapshot, blocked.lists);
            return self.block(from, blocked.block);
        }
        let mut reply = from.reply();
        reply.subnet_scope = audience.scope(from.query);
        if is_stale {
            self.metrics.cache_stale.increment();
            self.log_decision(Decision::Stale);
            let body = match sought.is {
                AnswerName::Asked => &self.reply,
                AnswerName::Alias => &self.body,
            };
            reply.extended_error = stale_reason(rcode_of(body));
        } else {
            self.metrics.cache_hits.increment();
            self.log_decision(Decision::Hit);
        }
        Ok(match sought.is {
            AnswerName::Asked => reply.finish(&mut self.reply, hit.body),
            AnswerName::Alias => write_alias(reply, &self.body[..hit.body.len], &mut self.reply),
        }?)
    }

    fn remembered(&mut self, from: From<'_>, failure: &Failure) -> Result<usize, Unanswered> {
        let reason = match failure.extended_error {
            0 => (ExtendedError::CACHED_ERROR, ""),
            code => (ExtendedError(code), "cached"),
        };
        self.refuse(from, failure.rcode, Some(reason))
    }

    fn log_decision(&mut self, decision: Decision) {
        if let Some(log) = &mut self.log {
            log.decide(decision);
        }
    }

    /// Lets a client wait for the answer of servers, where there is a place for it.
    ///
    /// # Errors
    /// As for a query that is not answered now.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn try_wait(
        &mut self,
        sought: Sought<'_>,
        way: Way<'_>,
        key: &Key<'_>,
        stale_at: Option<Instant>,
    ) -> Result<Result<(), NoPlace>, Unanswered> {
        let from = sought.from;
        let mut room = [0; CLIENT_QUERY_BYTES_MAX];
        let bytes = from.query.kept(&mut room)?;
        let Some(token) = self.clients.park(bytes, from.destination, sought.is) else {
            return Ok(Err(NoPlace("too many waiting clients")));
        };
        // Joining the question may answer the client at once, with a failure.
        if let Some(log) = &mut self.log {
            log.wait(token);
        }
        if self.join(sought, way, key, (Some(token), stale_at)) {
            return Ok(Ok(()));
        }
        self.clients.leave(token);
        if let Some(log) = &mut self.log {
            log.wait_no_more(token);
        }
        Ok(Err(NoPlace("too many waiting clients for this question")))
    }

    /// Begins a question, or adds the client of `token` to those that wait for it if it is in flight; `None`: it is
    /// asked for the cache alone. False: there is no room.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn join(
        &mut self,
        sought: Sought<'_>,
        way: Way<'_>,
        key: &Key<'_>,
        (token, stale_at): (Option<u64>, Option<Instant>),
    ) -> bool {
        let (shared, worker) = (std::sync::Arc::clone(&self.shared), self.index);
        let join = |key: &Key<'_>| match token {
            Some(token) => shared.coalescer().join(key, Waiter { worker, token }),
            None => shared.coalescer().begin(key),
        };
        let for_all = Key {
            subnet: None,
            ..*key
        };
        let (joined, key, purpose) = match join(key) {
            // A client that makes up subnets must not cause more queries than one that sends none.
            Join::Refused(Crowded::Subnets) => (join(&for_all), &for_all, Purpose::AnyNetwork),
            joined => (joined, key, Purpose::Answer),
        };
        match joined {
            Join::Refused(_) => return false,
            Join::Wait if token.is_none() => {}
            Join::Wait => self.metrics.coalesced.increment(),
            Join::Lead(ticket) => {
                let question = sought.question();
                let wanted = Wanted {
                    ticket,
                    is_of_stream: sought.from.destination.protocol() != Protocol::Udp,
                    stale_at,
                    purpose,
                    plan: *way.plan,
                };
                let (servers, asked) = ((way.current, way.upstream), (&question, key));
                self.begin(wanted, servers, asked, sought.from.now);
            }
        }
        true
    }
}

/// The cache key of a query's answer.
fn key<'a>(sought: &Sought<'a>, way: Way<'_>) -> Key<'a> {
    let (query, question) = (sought.from.query, sought.question());
    let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    Key {
        qname: question.qname,
        qtype: question.qtype,
        qclass: question.qclass,
        view: way.plan.view,
        flags: bit(query.is_dnssec_ok(), Key::DNSSEC_OK)
            | bit(query.flags().has(Flags::CD), Key::CHECKING_DISABLED),
        subnet: subnet_told(way.upstream.config.client_subnet, query, sought.from.client),
    }
}

/// The extended error of a stale response. RFC 8914 §4.4, §4.20.
pub(super) fn stale_reason(rcode: Rcode) -> Reason {
    Some(match rcode {
        Rcode::NXDOMAIN => (ExtendedError::STALE_NXDOMAIN, ""),
        _ => (ExtendedError::STALE_ANSWER, ""),
    })
}
