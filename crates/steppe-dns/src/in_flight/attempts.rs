//! The queries that a worker has sent, matched with the responses that it receives.
//!
//! Invariant: a response is accepted only with the socket, the id, the question and, where it was
//! randomized, the case of a query that is out: RFC 5452 §9.1. Any other message is ignored, and the query
//! goes on waiting; many of them are reported as [`Received::Flood`].
//!
//! An *exchange* is a question that is being asked; an *attempt* is one query for it to one server. The shell
//! chooses the next server, and when it is asked. Connected sockets ensure that a datagram comes from the
//! server's address.

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

/// The capacity of a worker's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Questions.
    pub exchanges: u32,
    /// Queries for them.
    pub attempts: u32,
    /// Sockets and stream connections, whose numbers are below this.
    pub sockets: u32,
}

/// Identifies an exchange; that of an exchange that is over refers to no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExchangeId {
    index: u32,
    generation: u32,
}

/// Identifies an attempt; that of an attempt that is over refers to no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttemptId {
    index: u32,
    generation: u32,
}

/// The case of the letters in an attempt's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// Random case, which the response must repeat: draft-vixie-dnsext-dns0x20.
    Randomized,
    /// Lower case: the server is known to change the case of names.
    Lower,
}

/// A query that is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing {
    /// Index of the server in its upstream, below [`SERVERS_PER_EXCHANGE_MAX`].
    pub server: u8,
    /// Socket that the query is sent on.
    pub socket: u32,
    /// Case of the letters in the name.
    pub case: Case,
    /// Unpredictable random numbers, for the id and for the letters' case.
    pub random: [u64; 2],
    /// Time at which the query counts as lost.
    pub deadline: Instant,
}

/// A query that may be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// The attempt.
    pub attempt: AttemptId,
    /// Id of the message.
    pub id: u16,
    /// Case of the name.
    pub case: CaseBits,
}

/// The state of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// The shell's own number.
    pub token: u64,
    /// The servers that were asked: a bit each.
    pub asked: u64,
    /// The servers with an attempt that is out: a bit each.
    pub pending: u64,
}

/// The meaning of a datagram, or of a message of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received<'a> {
    /// The response to an attempt, which is still open.
    Response(AttemptId, Message<'a>),
    /// A response except for the case of the name: from a server that changes it, or forged. The attempt is
    /// still open; the question is to be asked again over a stream.
    CaseMismatch(AttemptId),
    /// A response with this code that is a header alone, from a server that did not understand the query. The
    /// attempt is still open.
    NoQuestion(AttemptId, Rcode),
    /// A message that is no response to an attempt. The attempts of its socket are still open.
    Ignored(Ignored),
    /// Such a message, after so many on this socket that its attempts are to be sent again over streams.
    /// Returned once for each socket.
    Flood,
}

/// The reason why a message is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// The bytes are no message, or no response.
    Malformed,
    /// No query with its id is out on its socket.
    Id,
    /// The response has another question.
    Question,
}

/// A deadline that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expired {
    /// The deadline of an exchange, which is still open: the next step of its policy is due, or its end.
    Exchange(ExchangeId),
    /// The deadline of an attempt, which is closed now: its exchange and server.
    Attempt(ExchangeId, u8),
}

/// The exchanges and attempts of a worker.
#[derive(Debug)]
pub struct Attempts {
    exchanges: Box<[ExchangeSlot]>,
    free_exchange: u32,
    attempts: Box<[AttemptSlot]>,
    free_attempt: u32,
    /// First attempt of each chain, by socket and id.
    heads: Box<[u32]>,
    sockets: Box<[Socket]>,
    /// Deadlines: those of exchanges first, then those of attempts.
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
    /// Next attempt in the chain of its socket and id, or in the list of free slots.
    next: u32,
    /// Next attempt in the list of its exchange.
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

    /// The state of an exchange; `None` if it is over.
    #[must_use]
    pub fn exchange(&self, id: ExchangeId) -> Option<Exchange> {
        self.slot(id).map(|slot| slot.known)
    }

    /// The question of an exchange, in lower case; `None` if it is over.
    #[must_use]
    pub fn question(&self, id: ExchangeId) -> Option<Question<'_>> {
        self.slot(id).map(ExchangeSlot::question)
    }

    /// Sets the time at which an exchange's next step is due.
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

    /// Matches bytes that came on a socket with the attempts on it.
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

    /// The next deadline that has passed.
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

    /// The number of attempts that are out on a socket.
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

    /// The attempts that are out on a socket, for when it fails or has a flood of mismatches. Searches the
    /// whole table, since that is rare.
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

    /// Resets the count of mismatches of a number that is reused for a new socket, without attempts.
    pub fn renew_socket(&mut self, socket: u32) {
        if let Some(socket) = self.sockets.get_mut(socket as usize) {
            socket.mismatches = 0;
        }
    }

    /// Bytes of the table, without those of deadlines.
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

    /// An id that no query on the socket has: four random ones are tried.
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

    /// The chain of a socket and an id.
    fn chain(&self, socket: u32, id: u16) -> usize {
        let mixed = (socket.wrapping_mul(0x9e37_79b1)) ^ u32::from(id).wrapping_mul(0x85eb_ca6b);
        (mixed ^ mixed >> 16) as usize & (self.heads.len() - 1)
    }

    fn remove_attempt(&mut self, index: u32) {
        self.wheel.clear(self.timer_of(index));
        let slot = &self.attempts[index as usize];
        let (next, next_of_exchange, exchange) = (slot.next, slot.next_of_exchange, slot.exchange);
        let (socket, server, chain) = (slot.socket, slot.server, self.chain(slot.socket, slot.id));
        // Takes it out of its chain.
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
        // Takes it out of its exchange's list.
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

    /// The wheel's number for an attempt.
    fn timer_of(&self, attempt: u32) -> u32 {
        let exchanges = u32::try_from(self.exchanges.len()).unwrap_or(NONE);
        exchanges.saturating_add(attempt)
    }

    fn elapsed_ms(&self, at: Instant) -> u64 {
        let elapsed: Duration = at.saturating_duration_since(self.start);
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX / 2)
    }

    /// The first tick that is not before the time.
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
