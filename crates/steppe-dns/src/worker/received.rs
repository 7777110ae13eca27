//! Handling of server responses, and of deadlines.

use std::time::{Duration, Instant};

use super::asking::Which;
use super::decide::stale_reason;
use super::denials::Wait;
use super::exchanges::{Exchange, Purpose};
use super::fallbacks::has_no_edns;
use super::server::Health;
use super::state::WorkerState;
use super::subnets::{is_for, look_up};
use crate::answer::{Answer, Audience, Reason, rcode_of};
use crate::cache::{Admission, Hit, Key, Lookup, admit, pass_on};
use crate::config::{Addresses, Rebinding, Transport, Truncated};
use crate::in_flight::{AttemptId, Expired, Received};
use crate::limits::PATIENCE_MIN;
use crate::rebinding::private_address;
use crate::snapshot::Keeps;
use crate::wire::{Asked, Denial, ExtendedError, Message, Outcome, Rcode, Response, Subnet};

/// A response to a client's question.
struct Arrived<'a> {
    /// The place of the exchange, and the index of the server that has responded.
    at: (u32, usize),
    transport: Transport,
    response: Response<'a>,
}

impl WorkerState {
    /// Handles a message that came on a carrier.
    pub(super) fn message(
        &mut self,
        (carrier, transport): (u32, Transport),
        bytes: &[u8],
        now: Instant,
    ) {
        match self.attempts.receive(carrier, bytes) {
            Received::Response(attempt, message) if !is_for(self.told(attempt), &message) => {
                self.metrics.upstream_mismatches.increment();
            }
            Received::Response(attempt, message) => {
                self.response((attempt, transport), message, now);
            }
            Received::CaseMismatch(attempt) => {
                self.metrics.upstream_mismatches.increment();
                if let Some(at) = self.end_attempt(attempt) {
                    self.case_lost(at, now);
                }
            }
            Received::NoQuestion(attempt, rcode) => {
                if let Some(of) = self.end_attempt(attempt)
                    && !self.ask_without_edns(of, now)
                {
                    self.bad(of.0, of.1, (rcode, None), now);
                }
            }
            Received::Ignored(_) => self.metrics.upstream_mismatches.increment(),
            // On a stream, these are not guesses but late answers.
            Received::Flood if transport != Transport::Udp => {
                self.metrics.upstream_mismatches.increment();
            }
            Received::Flood => {
                self.metrics.upstream_mismatches.increment();
                self.flooded(carrier, now);
            }
        }
    }

    /// The client subnet that the server of an attempt was sent.
    fn told(&self, attempt: AttemptId) -> Option<Subnet> {
        let (exchange, _) = self.attempts.attempt(attempt)?;
        let token = self.attempts.exchange(exchange)?.token;
        self.exchanges.get(u32::try_from(token).ok()?)?.subnet
    }

    /// Ends an attempt. Returns the place of its exchange, and its server.
    pub(super) fn end_attempt(&mut self, attempt: AttemptId) -> Option<(u32, usize)> {
        let (exchange, server) = self.attempts.attempt(attempt)?;
        let token = self.attempts.exchange(exchange)?.token;
        self.attempts.close_attempt(attempt);
        Some((u32::try_from(token).ok()?, usize::from(server)))
    }

    /// Handles a response that has not repeated the case of a name: the question is asked again by TCP, or in lower
    /// case if the server is known to change it.
    fn case_lost(&mut self, (place, server): (u32, usize), now: Instant) {
        let exchange = self.exchanges.get_mut(place);
        let is_known = exchange.is_some_and(|exchange| exchange.lose_case(server, now));
        if !(is_known && self.ask_in_lower_case((place, server), now)) {
            self.ask_by_stream(place, server, now);
        }
    }

    /// Asks a server again, by a stream.
    fn ask_by_stream(&mut self, place: u32, server: usize, now: Instant) {
        if let Some(exchange) = self.exchanges.get_mut(place) {
            exchange.by_stream |= 1 << server;
            if self.ask(place, server, now).is_err() {
                self.lost(place, server, now);
            }
        }
    }

    /// Handles many mismatches on a socket, which may be guesses of ids: its queries are sent again over streams.
    fn flooded(&mut self, carrier: u32, now: Instant) {
        if let Some(carrier) = self.carriers.get(carrier) {
            let server = &carrier.server.config;
            tracing::warn!(%server, "too many datagrams that match no query: pending queries are retried over TCP");
        }
        for attempt in self.attempts.attempts_of(carrier) {
            if let Some((place, server)) = self.end_attempt(attempt) {
                self.ask_by_stream(place, server, now);
            }
        }
        self.replace(carrier);
    }

    /// Handles a carrier that has ended, or that its server refused.
    pub(super) fn carrier_failed(&mut self, carrier: u32, now: Instant) {
        for attempt in self.attempts.attempts_of(carrier) {
            if let Some((place, server)) = self.end_attempt(attempt) {
                self.lost(place, server, now);
            }
        }
        self.replace(carrier);
    }

    /// Handles a query on a connection that has failed.
    pub(super) fn query_failed(&mut self, carrier: u32, id: u16, now: Instant) {
        let attempt = self.attempts.attempt_on(carrier, id);
        if let Some((place, server)) = attempt.and_then(|attempt| self.end_attempt(attempt)) {
            self.lost(place, server, now);
        }
    }

    /// Sends a query again that the server of a connection has not processed.
    pub(super) fn query_refused(&mut self, carrier: u32, id: u16, now: Instant) {
        if let Some(attempt) = self.attempts.attempt_on(carrier, id) {
            self.send_again(attempt, now);
        }
    }

    /// Takes a carrier away from its server, and retires it.
    pub(super) fn replace(&mut self, number: u32) {
        let Some(carrier) = self.carriers.get(number) else {
            return;
        };
        let server = std::rc::Rc::clone(&carrier.server);
        server.sockets.borrow_mut().retain(|&known| known != number);
        if server.stream.get() == Some(number) {
            server.stream.set(None);
        }
        self.retire(number);
    }

    /// Handles a query of an exchange that was lost: the next server is asked, or the same one in lower case.
    pub(super) fn lost(&mut self, place: u32, server: usize, now: Instant) {
        if self.ask_in_lower_case((place, server), now) {
            return;
        }
        self.query_lost((place, server), UNREACHABLE, now);
        self.ask_next(place, Which::Another, now);
    }

    fn response(
        &mut self,
        (attempt, transport): (AttemptId, Transport),
        message: Message<'_>,
        now: Instant,
    ) {
        let Some((place, server)) = self.end_attempt(attempt) else {
            return;
        };
        let Some(exchange) = self.exchanges.get(place) else {
            return;
        };
        if exchange.purpose == Purpose::Probe {
            self.probe_answered(place, server, now);
            return;
        }
        if has_no_edns(&message) && self.ask_without_edns((place, server), now) {
            return;
        }
        let Some(exchange) = self.exchanges.get_mut(place) else {
            return;
        };
        if message.opt().is_some() {
            exchange.has_seen_edns(server);
        }
        let asked = Asked {
            cname_depth: exchange.current.snapshot.config.limits.cname_depth,
            is_dnssec_ok: exchange.flags & Key::DNSSEC_OK != 0,
        };
        match Response::read(message, asked) {
            Ok(response) => {
                let arrived = Arrived {
                    at: (place, server),
                    transport,
                    response,
                };
                self.read(&arrived, now);
            }
            Err(_) => self.bad(place, server, (Rcode::SERVFAIL, INVALID), now),
        }
    }

    /// Handles a response to a client's question by its outcome.
    fn read(&mut self, arrived: &Arrived<'_>, now: Instant) {
        let (place, server) = arrived.at;
        let Some(exchange) = self.exchanges.get(place) else {
            return;
        };
        let truncated = exchange.upstream.config.truncated;
        match (arrived.response.outcome(), arrived.transport) {
            (Outcome::Truncated, Transport::Udp) => match truncated {
                // A client that asks again by a stream is to get the whole response.
                Truncated::Pass if !exchange.is_of_stream => {
                    self.finish(place, Answer::Truncated, now);
                }
                Truncated::AskByTcp | Truncated::Pass => self.ask_by_stream(place, server, now),
            },
            (Outcome::Truncated, _) => {
                self.bad(place, server, (Rcode::SERVFAIL, INVALID), now);
            }
            (Outcome::Failure(rcode), _) => self.bad(place, server, (rcode, None), now),
            (Outcome::Referral, _) => {
                self.bad(place, server, (Rcode::SERVFAIL, NO_AUTHORITY), now);
            }
            (Outcome::Negative { denial, ttl: None }, _)
                if exchange.pending(&self.attempts) != 0 =>
            {
                self.keep_back((place, server), denial);
            }
            (Outcome::Answer | Outcome::Negative { .. }, _) => {
                self.good((place, server), &arrived.response, now);
            }
        }
    }

    /// Keeps a denial without an SOA back, since other servers may have a better answer.
    fn keep_back(&mut self, at: (u32, usize), denial: Denial) {
        let now = self.turn_at;
        self.server_answered(at.0, at.1, now);
        if let Some(exchange) = self.exchanges.get_mut(at.0) {
            let attempts = &self.attempts;
            exchange.keep_back(at.1, denial, Wait { attempts, now });
            self.attempts.set_due(exchange.id, exchange.due());
        }
    }

    /// Notes a response that clients get only if no better one comes, and asks the next server.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn bad(&mut self, place: u32, server: usize, what: (Rcode, Reason), now: Instant) {
        self.metrics.upstream_failures.increment();
        self.note_failure(place, server, what);
        self.ask_next(place, Which::Another, now);
    }

    /// Handles an answer: caches it, and ends the exchange.
    fn good(&mut self, (place, server): (u32, usize), response: &Response<'_>, now: Instant) {
        self.server_answered(place, server, now);
        let Some(exchange) = self.exchanges.get(place) else {
            return;
        };
        let limits = &exchange.current.snapshot.config.limits;
        let is_guarded = exchange.upstream.config.addresses == Addresses::Public
            && limits.rebinding == Rebinding::Refuse;
        if is_guarded && private_address(response).is_some() {
            self.metrics.rebinding.increment();
            let refusal = (Rcode::REFUSED, REBINDING);
            self.remember_failure(place, refusal, now);
            self.finish(place, Answer::Rcode(refusal.0, refusal.1), now);
            return;
        }
        let plan = &exchange.plan;
        let admission = Admission {
            ttl: &plan.ttl,
            serve: &plan.serve,
            now,
        };
        let cache = &exchange.current.snapshot.cache.cache;
        let audience = exchange.audience(response);
        let key = exchange.key_for(audience, &response.message().question());
        let written = match (exchange.purpose, plan.keeps) {
            (Purpose::AnyNetwork, _) | (_, Keeps::Failures) => {
                pass_on(response, &plan.ttl, &mut self.body)
            }
            (Purpose::Answer | Purpose::Probe, Keeps::Responses) => {
                admit(cache, &key, response, &admission, &mut self.body)
            }
        };
        match written {
            Ok(body) => self.finish(place, Answer::Body(body, None, audience), now),
            Err(_) => self.bad(place, server, (Rcode::SERVFAIL, INVALID), now),
        }
    }

    pub(super) fn server_answered(&mut self, place: u32, server: usize, now: Instant) {
        let took = self.waited(place, server, now);
        let Some(exchange) = self.exchanges.get(place) else {
            return;
        };
        let upstream = &exchange.upstream;
        let known = &upstream.servers[server];
        let name = upstream.config.name.as_str();
        let address = &known.config;
        if known.succeeded(took) == Health::Up {
            tracing::info!(upstream = name, server = %address, "DNS server responds again");
            exchange.current.snapshot.cache.cache.void_failures(now);
        }
        known.settle_fallbacks(exchange, server, now);
    }

    /// Ends an exchange that has no answer.
    pub(super) fn fail(&mut self, place: u32, now: Instant) {
        let Some(exchange) = self.exchanges.get(place) else {
            return;
        };
        if exchange.purpose == Purpose::Probe {
            self.end_probe(place);
            return;
        }
        if let Some(denial) = exchange.kept_back() {
            self.finish(place, Answer::Rcode(denial, None), now);
            return;
        }
        let failure = exchange.worst.unwrap_or((Rcode::SERVFAIL, UNREACHABLE));
        // RFC 9520 is about questions that were asked.
        if exchange.sent > 0 {
            self.remember_failure(place, failure, now);
        }
        let answer = self.stale(place, now);
        let answer = answer.unwrap_or(Answer::Rcode(failure.0, failure.1));
        self.finish(place, answer, now);
    }

    /// Caches a failure, so that the question is not asked again at once. RFC 9520.
    fn remember_failure(&mut self, place: u32, (rcode, reason): (Rcode, Reason), now: Instant) {
        let Some(exchange) = self.exchanges.get(place) else {
            return;
        };
        let Some(question) = self.attempts.question(exchange.id) else {
            return;
        };
        let failure = (rcode, reason.map_or(0, |(code, _)| code.0));
        let (cache, serve) = (&exchange.current.snapshot.cache.cache, &exchange.plan.serve);
        // Without room in the cache, the question is asked again.
        let key = exchange.key_for(Audience::All, &question);
        let _ = cache.insert_failure(&key, failure, serve, now);
        // A response for the client's network is looked up first, and is as stale.
        let of_network = exchange.key(&question);
        if of_network.subnet.is_some() {
            cache.quiet(&of_network, serve, now);
        }
    }

    /// The stale response that the cache has for an exchange.
    fn stale(&mut self, place: u32, now: Instant) -> Option<Answer> {
        let exchange = self.exchanges.get(place)?;
        let question = self.attempts.question(exchange.id)?;
        let cache = &exchange.current.snapshot.cache.cache;
        let serve = &exchange.plan.serve;
        let key = exchange.key(&question);
        let (found, audience) = look_up(cache, &key, (serve, now), &mut self.body);
        match found {
            Lookup::Hit(Hit { body, .. }) => {
                self.metrics.cache_stale.increment();
                let reason = stale_reason(rcode_of(&self.body));
                Some(Answer::Body(body, reason, audience))
            }
            Lookup::Failure(_) | Lookup::Miss => None,
        }
    }

    /// Notes latencies and timeouts of the servers that have not answered by the end of an exchange.
    fn settle(&mut self, place: u32, now: Instant) {
        let Some(exchange) = self.exchanges.get(place) else {
            return;
        };
        let is_over = now >= exchange.deadline;
        let pending = self.attempts.exchange(exchange.id);
        let pending = pending.map_or(0, |known| known.pending);
        let upstream = std::rc::Rc::clone(&exchange.upstream);
        for (server, known) in upstream.servers.iter().enumerate() {
            if pending & (1 << server) == 0 {
                continue;
            }
            let waited = self.waited(place, server, now);
            known.takes_longer_than(waited);
            if is_over || waited >= PATIENCE_MIN {
                self.metrics.upstream_timeouts.increment();
                self.server_failed(place, server, now);
            }
        }
    }

    /// The time since a server was asked last.
    fn waited(&mut self, place: u32, server: usize, now: Instant) -> Duration {
        let sent_at = *self.exchanges.sent_at_us(place, server);
        Duration::from_micros(self.elapsed_us(now).wrapping_sub(sent_at).into())
    }

    /// Ends an exchange, and answers the clients that wait for it.
    fn finish(&mut self, place: u32, answer: Answer, now: Instant) {
        self.settle(place, now);
        let Some(Exchange { id, ticket, .. }) = self.exchanges.remove(place) else {
            return;
        };
        self.attempts.close(id);
        if let Some(ticket) = ticket {
            self.complete(ticket, answer);
        }
    }

    /// Handles the deadlines that have passed.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(expired) = self.attempts.pop_expired(now) {
            match expired {
                Expired::Attempt(exchange, server) => {
                    self.metrics.upstream_timeouts.increment();
                    let token = self.attempts.exchange(exchange).map(|known| known.token);
                    if let Some(place) = token.and_then(|token| u32::try_from(token).ok()) {
                        self.server_failed(place, usize::from(server), now);
                    }
                }
                Expired::Exchange(exchange) => {
                    let token = self.attempts.exchange(exchange).map(|known| known.token);
                    if let Some(place) = token.and_then(|token| u32::try_from(token).ok()) {
                        self.exchange_due(place, now);
                    }
                }
            }
        }
    }

    fn exchange_due(&mut self, place: u32, now: Instant) {
        let Some(exchange) = self.exchanges.get_mut(place) else {
            return;
        };
        if now >= exchange.deadline {
            self.fail(place, now);
            return;
        }
        if exchange.stale_at.is_some_and(|stale_at| now >= stale_at) {
            exchange.stale_at = None;
            self.answer_stale(place, now);
        }
        let Some(exchange) = self.exchanges.get(place) else {
            return;
        };
        self.attempts.set_due(exchange.id, exchange.due());
        match now >= exchange.next_at {
            true if exchange.kept_back().is_some() => self.fail(place, now),
            true => self.ask_next(place, Which::Again, now),
            false => {}
        }
    }

    /// Answers clients with the stale response, since servers take too long; the exchange goes on for the cache. RFC
    /// 8767 §5.
    fn answer_stale(&mut self, place: u32, now: Instant) {
        self.remember_failure(place, (Rcode::SERVFAIL, UNREACHABLE), now);
        let Some(answer) = self.stale(place, now) else {
            return;
        };
        let exchange = self.exchanges.get_mut(place);
        if let Some(ticket) = exchange.and_then(|exchange| exchange.ticket.take()) {
            self.complete(ticket, answer);
        }
    }
}

const UNREACHABLE: Reason = Some((ExtendedError::NO_REACHABLE_AUTHORITY, ""));
const NO_AUTHORITY: Reason = Some((ExtendedError::NO_REACHABLE_AUTHORITY, "referral"));
const INVALID: Reason = Some((ExtendedError::INVALID_DATA, ""));
const REBINDING: Reason = Some((ExtendedError::BLOCKED, "private address for a public name"));
