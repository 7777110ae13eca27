//! Asking servers: the choice of the next server, and of the socket or connection for its query.

use std::rc::Rc;
use std::time::Instant;

use rand::{Rng, RngExt};
use steppe_net::{connect_datagram, send_connected};

use super::carriers::{Carrier, Means, Stage};
use super::datagrams::read_server;
use super::exchanges::{Current, Exchange, Purpose, Wanted};
use super::fallbacks::AfterRefusal;
use super::queue::NotSent;
use super::server::{Health, Server};
use super::state::WorkerState;
use super::upstream::Upstream;
use crate::answer::{Answer, Reason};
use crate::cache::Key;
use crate::config::{Policy, Transport};
use crate::in_flight::{Case, Outgoing};
use crate::limits::{
    ATTEMPTS_PER_EXCHANGE_MAX, SOCKETS_PER_SERVER, UPSTREAM_QUERY_BYTES_MAX,
    UPSTREAM_RECEIVE_BYTES, UPSTREAM_SOCKETS_PER_WORKER,
};
use crate::wire::{ExtendedError, Flags, Opt, Padding, Question, Rcode, UpstreamQuery};

/// The servers that may be asked next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Servers without a query that is out.
    Another,
    /// Servers with a query that is out too, since a datagram may be lost.
    Again,
}

impl WorkerState {
    /// Begins to ask a question.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn begin(
        &mut self,
        wanted: Wanted,
        (current, upstream): (&Rc<Current>, &Rc<Upstream>),
        (question, key): (&Question<'_>, &Key<'_>),
        now: Instant,
    ) {
        if upstream.servers.is_empty() {
            self.complete(wanted.ticket, Answer::Rcode(Rcode::SERVFAIL, NO_SERVER));
            return;
        }
        let deadline = now + upstream.config.timeout;
        let opened = self.exchanges.vacant().and_then(|place| {
            let id = self.attempts.open(question, u64::from(place), deadline)?;
            Some((place, id))
        });
        let Some((place, id)) = opened else {
            let reason = Some((ExtendedError::NOT_READY, "too many questions in flight"));
            self.complete(wanted.ticket, Answer::Rcode(Rcode::SERVFAIL, reason));
            return;
        };
        let servers = upstream.servers.len();
        let random = self.rng.next_u32();
        upstream.order(now, random, self.exchanges.order_mut(place, servers));
        let exchange = Exchange {
            ticket: Some(wanted.ticket),
            is_of_stream: wanted.is_of_stream,
            flags: key.flags,
            subnet: key.subnet,
            purpose: wanted.purpose,
            stale_at: wanted.stale_at,
            plan: wanted.plan,
            ..Exchange::new(id, (current, upstream), deadline)
        };
        self.exchanges.insert(place, exchange);
        let at_once = match upstream.config.policy {
            Policy::Race => usize::from(upstream.config.concurrent).clamp(1, servers),
            Policy::Hedge | Policy::Fastest | Policy::RoundRobin | Policy::Failover => 1,
        };
        for _ in 0..at_once {
            self.ask_next(place, Which::Another, now);
        }
    }

    /// Asks the next server; the exchange fails if none is left, and no query is out.
    pub(super) fn ask_next(&mut self, place: u32, which: Which, now: Instant) {
        while self.exchanges.get(place).is_some() {
            let Some((server, next)) = self.next_server(place, which, now) else {
                self.none_left(place, which, now);
                return;
            };
            if let Some(exchange) = self.exchanges.get_mut(place) {
                exchange.next = next;
            }
            if self.ask(place, server, now).is_ok() {
                return;
            }
            let exchange = self.exchanges.get_mut(place);
            if exchange.is_some_and(|exchange| exchange.awaits_connection(server, now)) {
                continue;
            }
            self.query_lost((place, server), NOT_REACHED, now);
        }
    }

    /// Asks a server that did not understand a query again, without EDNS. False: it was asked so already, or is
    /// expected to support EDNS.
    pub(super) fn ask_without_edns(&mut self, at: (u32, usize), now: Instant) -> bool {
        let Some(exchange) = self.exchanges.get_mut(at.0) else {
            return false;
        };
        match exchange.drop_edns(at.1, &self.attempts) {
            AfterRefusal::AskAgain => self.ask_again(at, now),
            AfterRefusal::Wait => {}
            AfterRefusal::Fail => return false,
        }
        true
    }

    /// Asks a server that has changed the case of a name again, in lower case. False: it has not changed it, or
    /// was asked so already.
    pub(super) fn ask_in_lower_case(&mut self, at: (u32, usize), now: Instant) -> bool {
        let exchange = self.exchanges.get_mut(at.0);
        let is_due = exchange.is_some_and(|exchange| exchange.drop_case(at.1));
        if is_due {
            self.ask_again(at, now);
        }
        is_due
    }

    fn ask_again(&mut self, (place, server): (u32, usize), now: Instant) {
        if self.ask(place, server, now).is_err() {
            self.lost(place, server, now);
        }
    }

    /// Notes that a query to a server was lost. The server has failed the exchange, unless another query to it is
    /// out.
    pub(super) fn query_lost(
        &mut self,
        (place, server): (u32, usize),
        reason: Reason,
        now: Instant,
    ) {
        let Some(exchange) = self.exchanges.get_mut(place) else {
            return;
        };
        let known = self.attempts.exchange(exchange.id);
        if known.is_some_and(|known| known.pending & (1 << server) != 0) {
            exchange.exhausted |= 1 << server;
            return;
        }
        self.server_failed(place, server, now);
        self.note_failure(place, server, (Rcode::SERVFAIL, reason));
    }

    /// The next server that has not failed the exchange, and the index in the exchange's order that follows.
    fn next_server(&self, place: u32, which: Which, now: Instant) -> Option<(usize, usize)> {
        let exchange = self.exchanges.get(place)?;
        let servers = exchange.upstream.servers.len();
        let order = self.exchanges.order(place, servers);
        if exchange.sent >= ATTEMPTS_PER_EXCHANGE_MAX {
            return None;
        }
        let pending = self.attempts.exchange(exchange.id)?.pending;
        let passed_over = match which {
            Which::Another => exchange.failed | exchange.exhausted | pending | exchange.unreached,
            Which::Again => exchange.failed | exchange.exhausted | exchange.not_yet(now),
        };
        (exchange.next..exchange.next + servers).find_map(|at| {
            let server = usize::from(order[at % servers]);
            (passed_over & (1 << server) == 0).then_some((server, at + 1))
        })
    }

    /// Waits for the servers that were asked, when none is left to ask; fails the exchange if there are none.
    fn none_left(&mut self, place: u32, which: Which, now: Instant) {
        let Some(exchange) = self.exchanges.get_mut(place) else {
            return;
        };
        let known = self.attempts.exchange(exchange.id);
        let is_pending = known.is_some_and(|known| known.pending != 0);
        let connects_at = exchange.connects_at(now);
        if !is_pending && connects_at.is_none() {
            self.fail(place, now);
            return;
        }
        if which == Which::Again || !is_pending {
            exchange.next_at = connects_at.unwrap_or(exchange.deadline);
        }
        self.attempts.set_due(exchange.id, exchange.due());
    }

    /// Asks a server over its transport, or over TCP in place of UDP if the exchange has it asked by stream.
    pub(super) fn ask(&mut self, place: u32, server: usize, now: Instant) -> Result<(), NotSent> {
        let exchange = self.exchanges.get_mut(place).ok_or(NotSent)?;
        exchange.apply_fallbacks(server, &self.attempts, now);
        let upstream = Rc::clone(&exchange.upstream);
        let asked = &upstream.servers[server];
        let case = match exchange.lower & (1 << server) {
            0 => upstream.case(),
            _ => Case::Lower,
        };
        let transport = match asked.config.transport {
            Transport::Udp if exchange.by_stream & (1 << server) != 0 => Transport::Tcp,
            transport => transport,
        };
        let (carrier, case) = match transport {
            Transport::Udp => (self.socket_to(asked, now)?, case),
            // On a stream, a response can't be forged by guessing.
            Transport::Tcp | Transport::Tls | Transport::Https => {
                (self.stream_to(asked, now)?, Case::Lower)
            }
        };
        self.send_on(place, (server, carrier, case))?;
        let exchange = self.exchanges.get_mut(place).ok_or(NotSent)?;
        exchange.next_at = now + upstream.pause(server, exchange.sent);
        exchange.was_asked(server, transport);
        exchange.unreached &= !(1 << server);
        asked.cells.queries.increment();
        self.attempts.set_due(exchange.id, exchange.due());
        *self.exchanges.sent_at_us(place, server) = self.elapsed_us(now);
        self.metrics.upstream_queries.of(transport).increment();
        if transport != asked.config.transport {
            self.metrics.upstream_by_stream.increment();
        }
        Ok(())
    }

    fn send_on(
        &mut self,
        place: u32,
        (server, carrier, case): (usize, u32, Case),
    ) -> Result<(), NotSent> {
        let exchange = self.exchanges.get(place).ok_or(NotSent)?;
        let outgoing = Outgoing {
            server: u8::try_from(server).map_err(|_| NotSent)?,
            socket: carrier,
            case,
            random: [self.rng.next_u64(), self.rng.next_u64()],
            deadline: exchange.deadline,
        };
        let sent = self.attempts.send(exchange.id, &outgoing).ok_or(NotSent)?;
        let question = self.attempts.question(exchange.id).ok_or(NotSent)?;
        let is_dnssec_ok = exchange.flags & Key::DNSSEC_OK != 0;
        let has_edns = exchange.plain & (1 << server) == 0;
        let is_unchecked = exchange.flags & Key::CHECKING_DISABLED != 0;
        let padding = match exchange.upstream.servers[server].config.is_secure() {
            true => Padding::Blocks,
            false => Padding::None,
        };
        let query = UpstreamQuery {
            question,
            flags: Flags(Flags::RD | Flags::AD | if is_unchecked { Flags::CD } else { 0 }),
            edns_flags: has_edns.then_some(if is_dnssec_ok { Opt::DNSSEC_OK } else { 0 }),
            subnet: exchange.subnet,
            cookie: None,
            padding,
        };
        let mut bytes = [0; UPSTREAM_QUERY_BYTES_MAX];
        let len = query.write(sent.id, sent.case, &mut bytes);
        let carrier = self.carriers.get_mut(carrier).ok_or(NotSent)?;
        carrier.queries = carrier.queries.saturating_add(1);
        let is_sent = len.is_ok_and(|len| match &carrier.means {
            // A datagram without room in the socket's buffer is lost, and sent again later.
            Means::Datagrams(socket) => match send_connected(socket, &bytes[..len]) {
                Ok(()) => true,
                Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
            },
            Means::Stream(queue) => queue.push(&bytes[..len]).is_ok(),
        });
        if !is_sent {
            self.attempts.close_attempt(sent.attempt);
            return Err(NotSent);
        }
        Ok(())
    }

    /// A socket to a server, at random among its sockets, of which some may have to be opened.
    fn socket_to(&mut self, server: &Rc<Server>, now: Instant) -> Result<u32, NotSent> {
        let at = self.rng.random_range(0..SOCKETS_PER_SERVER);
        let known = server.sockets.borrow().get(at).copied();
        let Some(number) = known else {
            if !self.carriers.has_room() && !server.sockets.borrow().is_empty() {
                let at = self.rng.random_range(0..server.sockets.borrow().len());
                return Ok(server.sockets.borrow()[at]);
            }
            let number = self.open_socket(server, now)?;
            server.sockets.borrow_mut().push(number);
            return Ok(number);
        };
        let is_worn = self
            .carriers
            .get(number)
            .is_none_or(|carrier| carrier.is_worn(now));
        if !is_worn {
            return Ok(number);
        }
        match self.open_socket(server, now) {
            Ok(fresh) => {
                server.sockets.borrow_mut()[at] = fresh;
                self.retire(number);
                Ok(fresh)
            }
            // The old socket is better than none.
            Err(NotSent) => Ok(number),
        }
    }

    fn open_socket(&mut self, server: &Rc<Server>, now: Instant) -> Result<u32, NotSent> {
        let address = server.config.socket_address().ok_or(NotSent)?;
        let socket = connect_datagram(address, UPSTREAM_RECEIVE_BYTES);
        let socket = Rc::new(socket.map_err(|error| {
            tracing::debug!(server = %server.config, %error, "cannot open a socket to a DNS server");
            NotSent
        })?);
        let means = Means::Datagrams(Rc::clone(&socket));
        let carrier = Carrier::new(Rc::clone(server), means, now);
        let number = self.carriers.insert(carrier).ok_or(NotSent)?;
        self.attempts.renew_socket(number);
        let reader = tokio::task::spawn_local(read_server(self.me.clone(), socket, number));
        self.carriers.set_reader(number, reader.abort_handle());
        Ok(number)
    }

    /// Retires a carrier: no further query goes on it, and it is closed when no response is awaited on it.
    pub(super) fn retire(&mut self, number: u32) {
        if self.attempts.attempts_on(number) == 0 {
            self.carriers.remove(number);
        } else if let Some(carrier) = self.carriers.get_mut(number) {
            carrier.stage = Stage::Retired;
        }
    }

    /// Closes sockets that were open for long enough.
    pub(super) fn sweep(&mut self, now: Instant) {
        for number in 0..UPSTREAM_SOCKETS_PER_WORKER {
            let Some(carrier) = self.carriers.get(number) else {
                continue;
            };
            if carrier.stage == Stage::InUse && carrier.is_worn(now) {
                let server = Rc::clone(&carrier.server);
                server.sockets.borrow_mut().retain(|&known| known != number);
                self.retire(number);
            } else if carrier.stage == Stage::Retired {
                self.retire(number);
            }
        }
    }

    /// Notes that a server has failed an exchange, and the failure for clients if it is the first one.
    pub(super) fn note_failure(&mut self, place: u32, server: usize, what: (Rcode, Reason)) {
        if let Some(exchange) = self.exchanges.get_mut(place) {
            exchange.failed |= 1 << server;
            exchange.worst.get_or_insert(what);
        }
    }

    /// Counts that a server has not answered. After some times in a row, it is down.
    pub(super) fn server_failed(&mut self, place: u32, server: usize, now: Instant) {
        self.metrics.upstream_failures.increment();
        let random = self.rng.next_u32();
        let Some(exchange) = self.exchanges.get(place) else {
            return;
        };
        let server = &exchange.upstream.servers[server];
        // A probe that fails does not prolong the time for which its server rests.
        if exchange.purpose != Purpose::Probe && server.failed(now, random) == Health::Down {
            let upstream = exchange.upstream.config.name.as_str();
            tracing::warn!(upstream, server = %server.config, "DNS server does not respond");
        }
    }
}

/// The reason of a failure of an upstream without servers: `resolv_conf` may name the forwarder's own listeners alone.
const NO_SERVER: Reason = Some((
    ExtendedError::NO_REACHABLE_AUTHORITY,
    "upstream has no server",
));

/// The reason of a failure when no query could be sent.
const NOT_REACHED: Reason = Some((ExtendedError::NETWORK_ERROR, ""));
