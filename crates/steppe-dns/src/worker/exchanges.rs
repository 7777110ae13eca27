//! Questions that this worker is asking of servers, and the next step of each.

use std::rc::Rc;
use std::time::Instant;

use super::times_asked::TimesAsked;
use super::upstream::Upstream;
use crate::answer::{Audience, Reason};
use crate::cache::Key;
use crate::config::Transport;
use crate::in_flight::{ExchangeId, Ticket};
use crate::limits::SERVERS_PER_EXCHANGE_MAX;
use crate::snapshot::{Plan, Snapshot};
use crate::wire::{Question, Rcode, Subnet};

/// A question that is being asked.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) id: ExchangeId,
    pub(super) purpose: Purpose,
    /// Ticket of the clients that wait. `None`: they have their answer, and the exchange goes on for the cache; or
    /// it is a probe.
    pub(super) ticket: Option<Ticket>,
    pub(super) current: Rc<Current>,
    pub(super) upstream: Rc<Upstream>,
    /// The client that began it has come by a stream, as after a truncated response.
    pub(super) is_of_stream: bool,
    /// Plan by which the answer is cached.
    pub(super) plan: Plan,
    /// Flags of the cache key.
    pub(super) flags: u8,
    /// Client subnet that servers are sent.
    pub(super) subnet: Option<Subnet>,
    /// Index in the order of servers that is next.
    pub(super) next: usize,
    pub(super) sent: u16,
    /// Time at which the exchange fails.
    pub(super) deadline: Instant,
    /// Time at which the next server is asked.
    pub(super) next_at: Instant,
    /// Time at which clients get the stale response of the cache.
    pub(super) stale_at: Option<Instant>,
    /// Sets of servers, a bit each: those that have failed the exchange, those that are asked over streams
    /// (`by_stream`), and those that have changed the case of the name (`lost_case`).
    pub(super) failed: u64,
    pub(super) by_stream: u64,
    pub(super) lost_case: u64,
    /// Servers that are asked without EDNS, and those that are asked in lower case (`lower`).
    pub(super) plain: u64,
    pub(super) lower: u64,
    /// Servers whose connection failed, and that are asked again on the next one.
    pub(super) unreached: u64,
    pub(super) asked: TimesAsked,
    /// Servers that are not asked again, though they may still answer.
    pub(super) exhausted: u64,
    /// Failure or denial that clients get if no better answer comes.
    pub(super) worst: Option<(Rcode, Reason)>,
}

/// The purpose of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The answer of the question.
    Answer,
    /// An answer for any network, since the question is in flight for too many: it is not cached.
    AnyNetwork,
    /// A probe, to detect that a server is back.
    Probe,
}

/// A request for an answer.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Ticket of the clients that wait.
    pub(super) ticket: Ticket,
    /// The client that asks has come by a stream, as after a truncated response.
    pub(super) is_of_stream: bool,
    /// Time at which these clients get the stale response of the cache.
    pub(super) stale_at: Option<Instant>,
    pub(super) purpose: Purpose,
    /// Plan by which the answer is cached.
    pub(super) plan: Plan,
}

/// A snapshot, with one worker's state of its upstreams.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) snapshot: std::sync::Arc<Snapshot>,
    pub(super) upstreams: Vec<Rc<Upstream>>,
}

/// All exchanges of a worker, by place. The table of attempts has the place of an exchange as its token.
#[derive(Debug)]
pub(super) struct Exchanges {
    places: Box<[Option<Exchange>]>,
    free: Vec<u32>,
    orders: Box<[u8]>,
    sent_at_us: Box<[u32]>,
}

const SERVERS: usize = SERVERS_PER_EXCHANGE_MAX as usize;

impl Exchange {
    /// An exchange that no client waits for, without any query so far.
    pub(super) fn new(
        id: ExchangeId,
        (current, upstream): (&Rc<Current>, &Rc<Upstream>),
        deadline: Instant,
    ) -> Self {
        Self {
            id,
            purpose: Purpose::Answer,
            ticket: None,
            current: Rc::clone(current),
            upstream: Rc::clone(upstream),
            is_of_stream: false,
            plan: upstream.plan,
            flags: 0,
            subnet: None,
            next: 0,
            sent: 0,
            deadline,
            next_at: deadline,
            stale_at: None,
            failed: 0,
            by_stream: 0,
            lost_case: 0,
            plain: 0,
            lower: 0,
            unreached: 0,
            asked: TimesAsked::default(),
            exhausted: 0,
            worst: None,
        }
    }

    /// The cache key that the answer is looked up under.
    pub(super) fn key<'a>(&self, question: &Question<'a>) -> Key<'a> {
        Key {
            qname: question.qname,
            qtype: question.qtype,
            qclass: question.qclass,
            view: self.plan.view,
            flags: self.flags,
            subnet: self.subnet,
        }
    }

    /// The cache key of an answer for this audience; that of a failure is for all clients.
    pub(super) fn key_for<'a>(&self, audience: Audience, question: &Question<'a>) -> Key<'a> {
        let key = self.key(question);
        match audience {
            Audience::Subnet => key,
            Audience::All => Key {
                subnet: None,
                ..key
            },
        }
    }

    /// Counts a query to a server. A server that stays silent over UDP is asked by TCP next, which a path that
    /// loses datagrams may let through.
    pub(super) fn was_asked(&mut self, server: usize, transport: Transport) {
        self.sent += 1;
        self.asked.count(server);
        if !self.asked.is_enough(server) {
            return;
        }
        // A probe is to cost little.
        if transport == Transport::Udp && self.purpose != Purpose::Probe {
            self.by_stream |= 1 << server;
            self.asked.begin_anew(server);
        } else {
            self.exhausted |= 1 << server;
        }
    }

    /// The time of the next step of the exchange.
    pub(super) fn due(&self) -> Instant {
        let next = self.deadline.min(self.next_at);
        self.stale_at.map_or(next, |stale| stale.min(next))
    }
}

impl Exchanges {
    /// Bytes of an exchange.
    pub(super) const BYTES_EACH: usize = size_of::<Option<Exchange>>() + 4 + 5 * SERVERS;

    pub(super) fn new(count: u32) -> Self {
        Self {
            places: (0..count).map(|_| None).collect(),
            free: (0..count).rev().collect(),
            orders: vec![0; count as usize * SERVERS].into_boxed_slice(),
            sent_at_us: vec![0; count as usize * SERVERS].into_boxed_slice(),
        }
    }

    /// The next free place.
    pub(super) fn vacant(&self) -> Option<u32> {
        self.free.last().copied()
    }

    /// Takes the place that [`Self::vacant`] returned.
    pub(super) fn insert(&mut self, place: u32, exchange: Exchange) {
        debug_assert_eq!(self.free.last(), Some(&place), "the vacant one");
        self.free.pop();
        self.places[place as usize] = Some(exchange);
    }

    pub(super) fn get(&self, place: u32) -> Option<&Exchange> {
        self.places.get(place as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, place: u32) -> Option<&mut Exchange> {
        self.places.get_mut(place as usize)?.as_mut()
    }

    pub(super) fn remove(&mut self, place: u32) -> Option<Exchange> {
        let exchange = self.places.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(exchange)
    }

    /// The number of exchanges.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// True if there are exchanges other than probes: clients may wait for them, or the cache.
    pub(super) fn are_awaited(&self) -> bool {
        let mut exchanges = self.places.iter().flatten();
        exchanges.any(|exchange| exchange.purpose != Purpose::Probe)
    }

    /// The order in which the first `servers` are asked.
    pub(super) fn order_mut(&mut self, place: u32, servers: usize) -> &mut [u8] {
        let start = place as usize * SERVERS;
        &mut self.orders[start..start + servers]
    }

    pub(super) fn order(&self, place: u32, servers: usize) -> &[u8] {
        let start = place as usize * SERVERS;
        &self.orders[start..start + servers]
    }

    /// The time at which a server was asked last, in microseconds that wrap.
    pub(super) fn sent_at_us(&mut self, place: u32, server: usize) -> &mut u32 {
        &mut self.sent_at_us[place as usize * SERVERS + server]
    }
}
