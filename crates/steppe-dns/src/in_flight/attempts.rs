//! The queries that a worker has sent, and which datagrams answer them.
//!
//! Invariant: a response is accepted only with the socket, the id, the question and, where it was
//! randomized, the case of a query that is out: RFC 5452 §9.1. Whatever else comes is ignored, and the
//! query goes on waiting; a burst of it is told.
//!
//! An *exchange* is a question that is being asked; an *attempt* is one query for it to one server. Which
//! server is next, and when, is the shell's policy. That a datagram comes from the server's address is
//! ensured by sockets that are connected.

use std::time::{Duration, Instant};

use crate::limits::{
    ATTEMPTS_PER_SOCKET_MAX, DEADLINE_TICK_MS, MISMATCHES_PER_SOCKET_MAX, NAME_BYTES_MAX,
    SERVERS_PER_EXCHANGE_MAX,
};
use crate::wire::{
    CaseBits, Class, Flags, HEADER_BYTES, Header, Message, Opcode, Question, Rcode, Rtype,
};

use super::wheel::Wheel;

const NONE: u32 = u32::MAX;

/// How much a worker's table has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Questions.
    pub exchanges: u32,
    /// Queries for them.
    pub attempts: u32,
    /// Sockets, and connections of streams: numbers below this.
    pub sockets: u32,
}

/// An exchange; the number of one that is over names no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExchangeId {
    index: u32,
    generation: u32,
}

/// An attempt; the number of one that is over names no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttemptId {
    index: u32,
    generation: u32,
}

/// Whether an attempt's name has its letters' case randomized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// It has, and the response must repeat it: draft-vixie-dnsext-dns0x20.
    Randomized,
    /// It is lower case: the server is known to change it.
    Lower,
}

/// A query that is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing {
    /// Which of the upstream's servers, below [`SERVERS_PER_EXCHANGE_MAX`].
    pub server: u8,
    /// What it is sent on.
    pub socket: u32,
    /// Whether to use 0x20.
    pub case: Case,
    /// From a generator that nobody can predict: an id, and the letters' case.
    pub random: [u64; 2],
    /// When it counts as lost.
    pub deadline: Instant,
}

/// A query that may be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its message's id.
    pub id: u16,
    /// The case of its name.
    pub case: CaseBits,
}

/// What is known of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// The shell's own number.
    pub token: u64,
    /// The servers that were asked: a bit each.
    pub asked: u64,
    /// The servers that are asked now.
    pub pending: u64,
}

/// What a datagram, or a message of a stream, is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received<'a> {
    /// The response to an attempt, which is still open.
    Response(AttemptId, Message<'a>),
    /// A response but for the case of the name: a server that loses it, or somebody who guesses. The
    /// attempt is still open; the question is to be asked again over a stream.
    CaseMismatch(AttemptId),
    /// A response with this code that is a header alone: a server that did not understand the query. The attempt
    /// is still open.
    NoQuestion(AttemptId, Rcode),
    /// Not a response to anything. The attempts of its socket are still open.
    Ignored(Ignored),
    /// The same, and so many on this socket that its attempts are to be asked again over streams. This is
    /// said once a socket.
    Flood,
}

/// Why a datagram is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// It is no message, or no response.
    Malformed,
    /// No query with its id is out on its socket.
    Id,
    /// It has another question.
    Question,
}

/// What is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expired {
    /// The time of an exchange, which is still open: the next step of its policy is due, or its end.
    Exchange(ExchangeId),
    /// The time of an attempt, which is closed.
    Attempt(ExchangeId, u8),
}

/// A worker's table.
#[derive(Debug)]
pub struct Attempts {
    exchanges: Box<[ExchangeSlot]>,
    free_exchange: u32,
    attempts: Box<[AttemptSlot]>,
    free_attempt: u32,
    /// First attempt of each chain, by socket and id.
    heads: Box<[u32]>,
    sockets: Box<[Socket]>,
    /// Exchanges first, then attempts.
    wheel: Wheel,
    start: Instant,
}

#[derive(Debug, Clone)]
struct ExchangeSlot {
    generation: u32,
    is_open: bool,
    next_free: u32,
    first_attempt: u32,
    known: Exchange,
    qname: [u8; NAME_BYTES_MAX],
    qname_len: u8,
    qtype: Rtype,
    qclass: Class,
}

#[derive(Debug, Clone)]
struct AttemptSlot {
    generation: u32,
    is_open: bool,
    /// In the chain of its socket and id, or the list of what is free.
    next: u32,
    /// In the list of its exchange.
    next_of_exchange: u32,
    exchange: u32,
    socket: u32,
    id: u16,
    server: u8,
    case: Option<CaseBits>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Socket {
    attempts: u16,
    mismatches: u32,
}

impl Attempts {
    /// A table of these sizes; deadlines are counted from `start`.
    #[must_use]
    pub fn new(sizes: Sizes, start: Instant) -> Self {
        let next = |index: u32, len: u32| if index + 1 < len { index + 1 } else { NONE };
        let exchange = |index| ExchangeSlot {
            generation: 0,
            is_open: false,
            next_free: next(index, sizes.exchanges),
            first_attempt: NONE,
            known: Exchange {
                token: 0,
                asked: 0,
                pending: 0,
            },
            qname: [0; NAME_BYTES_MAX],
            qname_len: 0,
            qtype: Rtype(0),
            qclass: Class(0),
        };
        let attempt = |index| AttemptSlot {
            generation: 0,
            is_open: false,
            next: next(index, sizes.attempts),
            next_of_exchange: NONE,
            exchange: NONE,
            socket: NONE,
            id: 0,
            server: 0,
            case: None,
        };
        let chains = (sizes.attempts as usize).next_power_of_two();
        Self {
            exchanges: (0..sizes.exchanges).map(exchange).collect(),
            free_exchange: 0,
            attempts: (0..sizes.attempts).map(attempt).collect(),
            free_attempt: 0,
            heads: vec![NONE; chains].into_boxed_slice(),
            sockets: vec![Socket::default(); sizes.sockets as usize].into_boxed_slice(),
            wheel: Wheel::new(sizes.exchanges.saturating_add(sizes.attempts)),
            start,
        }
    }

    /// Begins an exchange. `None`: there is no room.
    pub fn open(
        &mut self,
        question: &Question<'_>,
        token: u64,
        due: Instant,
    ) -> Option<ExchangeId> {
        let index = self.free_exchange;
        let slot = self.exchanges.get_mut(index as usize)?;
        let len = question.qname.len();
        let qname = slot.qname.get_mut(..len)?;
        qname.copy_from_slice(question.qname);
        qname.make_ascii_lowercase();
        slot.qname_len = u8::try_from(len).ok()?;
        (slot.qtype, slot.qclass) = (question.qtype, question.qclass);
        (slot.is_open, slot.first_attempt) = (true, NONE);
        slot.known = Exchange {
            token,
            asked: 0,
            pending: 0,
        };
        let id = ExchangeId {
            index,
            generation: slot.generation,
        };
        self.free_exchange = slot.next_free;
        self.wheel.set(index, self.tick(due));
        Some(id)
    }

    /// What is known of an exchange; `None` if it is over.
    #[must_use]
    pub fn exchange(&self, id: ExchangeId) -> Option<Exchange> {
        self.slot(id).map(|slot| slot.known)
    }

    /// The question of an exchange, in lower case; `None` if it is over.
    #[must_use]
    pub fn question(&self, id: ExchangeId) -> Option<Question<'_>> {
        self.slot(id).map(ExchangeSlot::question)
    }

    /// Sets when an exchange's next step is due.
    pub fn set_due(&mut self, id: ExchangeId, due: Instant) {
        if self.slot(id).is_some() {
            self.wheel.set(id.index, self.tick(due));
        }
    }

    /// Begins an attempt. `None`: the exchange is over, or there is no room, in the table or on the socket.
    pub fn send(&mut self, exchange: ExchangeId, outgoing: &Outgoing) -> Option<Sent> {
        self.slot(exchange)?;
        let socket = self.sockets.get(outgoing.socket as usize)?;
        let has_room = socket.attempts < ATTEMPTS_PER_SOCKET_MAX;
        if !has_room || outgoing.server >= SERVERS_PER_EXCHANGE_MAX {
            return None;
        }
        let id = self.free_id(outgoing.socket, outgoing.random[0])?;
        let index = self.free_attempt;
        let chain = self.chain(outgoing.socket, id);
        let slot = self.attempts.get_mut(index as usize)?;
        self.free_attempt = slot.next;
        let owner = &mut self.exchanges[exchange.index as usize];
        let case = match outgoing.case {
            Case::Randomized => CaseBits(outgoing.random[1]),
            Case::Lower => CaseBits(0),
        };
        *slot = AttemptSlot {
            generation: slot.generation,
            is_open: true,
            next: self.heads[chain],
            next_of_exchange: owner.first_attempt,
            exchange: exchange.index,
            socket: outgoing.socket,
            id,
            server: outgoing.server,
            case: (outgoing.case == Case::Randomized).then_some(case),
        };
        let attempt = AttemptId {
            index,
            generation: slot.generation,
        };
        owner.first_attempt = index;
        owner.known.asked |= 1 << outgoing.server;
        owner.known.pending |= 1 << outgoing.server;
        self.heads[chain] = index;
        self.sockets[outgoing.socket as usize].attempts += 1;
        let thing = self.timer_of(index);
        self.wheel.set(thing, self.tick(outgoing.deadline));
        Some(Sent { attempt, id, case })
    }

    /// Says what bytes are that came on a socket.
    pub fn receive<'a>(&mut self, socket: u32, bytes: &'a [u8]) -> Received<'a> {
        match self.matching(socket, bytes) {
            Ok(received) => received,
            Err(ignored) => self.mismatch(socket, ignored),
        }
    }

    /// The exchange of an attempt, and its server.
    #[must_use]
    pub fn attempt(&self, id: AttemptId) -> Option<(ExchangeId, u8)> {
        let slot = self.attempts.get(id.index as usize)?;
        let is_it = slot.is_open && slot.generation == id.generation;
        is_it.then(|| (self.exchange_id(slot.exchange), slot.server))
    }

    /// Ends an attempt, after its response or the loss of its connection.
    pub fn close_attempt(&mut self, id: AttemptId) {
        if self.attempt(id).is_some() {
            self.remove_attempt(id.index);
        }
    }

    /// Ends an exchange and its attempts. Late responses are ignored from now on.
    pub fn close(&mut self, id: ExchangeId) {
        if self.slot(id).is_none() {
            return;
        }
        loop {
            let first = self.exchanges[id.index as usize].first_attempt;
            if first == NONE {
                break;
            }
            self.remove_attempt(first);
        }
        self.wheel.clear(id.index);
        let slot = &mut self.exchanges[id.index as usize];
        slot.is_open = false;
        slot.generation = slot.generation.wrapping_add(1);
        slot.next_free = self.free_exchange;
        self.free_exchange = id.index;
    }

    /// The next thing whose time is over.
    pub fn pop_expired(&mut self, now: Instant) -> Option<Expired> {
        let tick = self.elapsed_ms(now) / DEADLINE_TICK_MS;
        let thing = self.wheel.pop_due(tick)?;
        let exchanges = u32::try_from(self.exchanges.len()).unwrap_or(NONE);
        let Some(attempt) = thing.checked_sub(exchanges) else {
            return Some(Expired::Exchange(self.exchange_id(thing)));
        };
        let slot = &self.attempts[attempt as usize];
        let (exchange, server) = (self.exchange_id(slot.exchange), slot.server);
        self.remove_attempt(attempt);
        Some(Expired::Attempt(exchange, server))
    }

    /// Attempts that are out on a socket.
    #[must_use]
    pub fn attempts_on(&self, socket: u32) -> u16 {
        self.sockets
            .get(socket as usize)
            .map_or(0, |socket| socket.attempts)
    }

    /// The attempt with this id on a socket.
    #[must_use]
    pub fn attempt_on(&self, socket: u32, id: u16) -> Option<AttemptId> {
        let index = self.find(socket, id)?;
        Some(AttemptId {
            index,
            generation: self.attempts[index as usize].generation,
        })
    }

    /// The attempts that are out on a socket, when it fails or somebody guesses there. It is rare, and
    /// goes through the whole table.
    #[must_use]
    pub fn attempts_of(&self, socket: u32) -> Vec<AttemptId> {
        let slots = (0..).zip(&*self.attempts);
        let of_socket = slots.filter(|(_, slot)| slot.is_open && slot.socket == socket);
        of_socket
            .map(|(index, slot)| AttemptId {
                index,
                generation: slot.generation,
            })
            .collect()
    }

    /// Says that a socket's number stands for a new socket, on which no attempt is out.
    pub fn renew_socket(&mut self, socket: u32) {
        if let Some(socket) = self.sockets.get_mut(socket as usize) {
            socket.mismatches = 0;
        }
    }

    /// Bytes that it takes, but for its deadlines'.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.exchanges) + size_of_val(&*self.attempts) + size_of_val(&*self.heads)
    }

    fn matching<'a>(&self, socket: u32, bytes: &'a [u8]) -> Result<Received<'a>, Ignored> {
        let header = Header::read(bytes).map_err(|_| Ignored::Malformed)?;
        if !header.flags.has(Flags::QR) || header.flags.opcode() != Opcode::QUERY {
            return Err(Ignored::Malformed);
        }
        let index = self.find(socket, header.id).ok_or(Ignored::Id)?;
        let attempt = AttemptId {
            index,
            generation: self.attempts[index as usize].generation,
        };
        let rcode = header.flags.rcode();
        let is_header_alone = header.counts == [0; 4] && bytes.len() == HEADER_BYTES;
        if is_header_alone && matches!(rcode, Rcode::FORMERR | Rcode::NOTIMP) {
            return Ok(Received::NoQuestion(attempt, rcode));
        }
        let message = Message::parse(bytes).map_err(|_| Ignored::Malformed)?;
        let slot = &self.attempts[index as usize];
        let expected = self.exchanges[slot.exchange as usize].question();
        let question = message.question();
        let is_same = question.qname.eq_ignore_ascii_case(expected.qname)
            && (question.qtype, question.qclass) == (expected.qtype, expected.qclass);
        if !is_same {
            return Err(Ignored::Question);
        }
        Ok(match slot.case {
            Some(case) if !case.fits(question.qname) => Received::CaseMismatch(attempt),
            _ => Received::Response(attempt, message),
        })
    }

    fn mismatch<'a>(&mut self, socket: u32, ignored: Ignored) -> Received<'a> {
        let Some(socket) = self.sockets.get_mut(socket as usize) else {
            return Received::Ignored(ignored);
        };
        socket.mismatches = socket.mismatches.saturating_add(1);
        if socket.mismatches == MISMATCHES_PER_SOCKET_MAX {
            return Received::Flood;
        }
        Received::Ignored(ignored)
    }

    /// An id that is not out on the socket: four random ones are tried.
    fn free_id(&self, socket: u32, random: u64) -> Option<u16> {
        let [a, b, c, d, e, f, g, h] = random.to_be_bytes();
        let mut ids = [[a, b], [c, d], [e, f], [g, h]]
            .into_iter()
            .map(u16::from_be_bytes);
        ids.find(|id| self.find(socket, *id).is_none())
    }

    fn find(&self, socket: u32, id: u16) -> Option<u32> {
        let mut at = self.heads[self.chain(socket, id)];
        while let Some(slot) = self.attempts.get(at as usize) {
            if slot.socket == socket && slot.id == id {
                return Some(at);
            }
            at = slot.next;
        }
        None
    }

    /// Ids are random, so they spread by themselves.
    fn chain(&self, socket: u32, id: u16) -> usize {
        let mixed = (socket.wrapping_mul(0x9e37_79b1)) ^ u32::from(id).wrapping_mul(0x85eb_ca6b);
        (mixed ^ mixed >> 16) as usize & (self.heads.len() - 1)
    }

    fn remove_attempt(&mut self, index: u32) {
        self.wheel.clear(self.timer_of(index));
        let slot = &self.attempts[index as usize];
        let (next, next_of_exchange, exchange) = (slot.next, slot.next_of_exchange, slot.exchange);
        let (socket, server, chain) = (slot.socket, slot.server, self.chain(slot.socket, slot.id));
        // Out of its chain.
        let mut at = self.heads[chain];
        if at == index {
            self.heads[chain] = next;
        }
        while let Some(slot) = self.attempts.get_mut(at as usize) {
            if slot.next == index && at != index {
                slot.next = next;
                break;
            }
            at = slot.next;
        }
        // Out of its exchange's list.
        let owner = &mut self.exchanges[exchange as usize];
        let mut at = owner.first_attempt;
        if at == index {
            owner.first_attempt = next_of_exchange;
        }
        let mut pending = 0;
        while let Some(slot) = self.attempts.get_mut(at as usize) {
            if slot.next_of_exchange == index {
                slot.next_of_exchange = next_of_exchange;
            }
            pending |= if at == index { 0 } else { 1 << slot.server };
            at = slot.next_of_exchange;
        }
        debug_assert!(
            server < SERVERS_PER_EXCHANGE_MAX,
            "checked when it was sent"
        );
        owner.known.pending = pending;
        self.sockets[socket as usize].attempts -= 1;
        let slot = &mut self.attempts[index as usize];
        (slot.is_open, slot.socket, slot.next) = (false, NONE, self.free_attempt);
        slot.generation = slot.generation.wrapping_add(1);
        self.free_attempt = index;
    }

    fn slot(&self, id: ExchangeId) -> Option<&ExchangeSlot> {
        let slot = self.exchanges.get(id.index as usize)?;
        (slot.is_open && slot.generation == id.generation).then_some(slot)
    }

    fn exchange_id(&self, index: u32) -> ExchangeId {
        ExchangeId {
            index,
            generation: self.exchanges[index as usize].generation,
        }
    }

    /// Which of the wheel's things an attempt is.
    fn timer_of(&self, attempt: u32) -> u32 {
        let exchanges = u32::try_from(self.exchanges.len()).unwrap_or(NONE);
        exchanges.saturating_add(attempt)
    }

    fn elapsed_ms(&self, at: Instant) -> u64 {
        let elapsed: Duration = at.saturating_duration_since(self.start);
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX / 2)
    }

    /// Never before the time.
    fn tick(&self, at: Instant) -> u64 {
        self.elapsed_ms(at) / DEADLINE_TICK_MS + 1
    }
}

impl ExchangeSlot {
    fn question(&self) -> Question<'_> {
        Question {
            qname: &self.qname[..usize::from(self.qname_len)],
            qtype: self.qtype,
            qclass: self.qclass,
        }
    }
}
