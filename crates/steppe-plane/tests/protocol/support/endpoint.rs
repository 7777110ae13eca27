//! A shell around a connection: reserves the credit that it grants, and holds payloads until it is told to drop them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use steppe_mem::{Budget, Lease, Reservation};
use steppe_plane::frame::{HEADER_BYTES, Head, Payment};
use steppe_plane::{
    Config, Connection, DataPart, Event, HalfLeft, Processing, SendError, Status, StreamId,
};

/// Bytes that each end reserves for standing credit.
pub const OPEN_CREDIT: u64 = 256 << 10;

/// One end of a connection.
#[derive(Debug)]
pub struct Endpoint {
    pub connection: Connection,
    budget: Budget,
    lease: Lease,
    /// Reservation for standing credit, while the connection lives.
    _standing: Reservation,
    streams: BTreeMap<StreamId, Known>,
    held: Vec<(StreamId, DataPart, Option<Reservation>)>,
    sent: BTreeMap<StreamId, u64>,
    ended: BTreeMap<StreamId, (Status, u64)>,
    /// The part of a message that is being read: stream, buffer, and bytes read.
    part: Option<(StreamId, Vec<u8>, usize)>,
    pub is_stopped: bool,
    pub refused: usize,
}

/// The state of a stream in the shell.
#[derive(Debug)]
struct Known {
    /// Reservation for bytes that were granted and not received.
    grant: Reservation,
    is_ours: bool,
    has_responded: bool,
    has_ended: bool,
    peer_ended: bool,
    payment: Payment,
    received: u64,
}

/// The bytes of a body from `offset` on.
fn pattern(stream: StreamId, offset: u64, len: usize) -> Vec<u8> {
    let at = |index: u64| {
        (offset + index)
            .wrapping_mul(31)
            .wrapping_add(u64::from(stream.0))
    };
    (0..len as u64)
        .map(|index| at(index).to_le_bytes()[0])
        .collect()
}

impl Endpoint {
    pub fn new(config: Config, now: Instant) -> Self {
        let budget = Budget::new(1 << 40);
        let lease = budget.root().lease();
        let standing = lease.try_reserve(config.connection_credit as usize);
        Self {
            connection: Connection::new(config, now),
            _standing: standing.expect("room"),
            budget,
            lease,
            streams: BTreeMap::new(),
            held: Vec::new(),
            sent: BTreeMap::new(),
            ended: BTreeMap::new(),
            part: None,
            is_stopped: false,
            refused: 0,
        }
    }

    pub fn reserved_bytes(&self) -> u64 {
        self.budget.root().reserved_bytes()
    }

    pub fn granted_bytes(&self) -> usize {
        self.streams.values().map(|known| known.grant.bytes()).sum()
    }

    /// Bodies that the peer ended with *ok*.
    pub fn ended(&self) -> impl Iterator<Item = (StreamId, u64)> {
        let whole = |(_, (status, _)): &(&StreamId, &(Status, u64))| *status == Status::Ok;
        let ended = self.ended.iter().filter(whole);
        ended.map(|(stream, (_, bytes))| (*stream, *bytes))
    }

    pub fn sent_bytes(&self, stream: StreamId) -> u64 {
        self.sent.get(&stream).copied().unwrap_or(0)
    }

    /// The stream at an index among the known ones.
    pub fn pick(&self, index: usize) -> Option<StreamId> {
        let count = self.streams.len();
        self.streams.keys().nth(index.checked_rem(count)?).copied()
    }

    pub fn open(&mut self, payment: Payment, deadline: Option<Duration>, now: Instant) {
        let head = Head {
            payment,
            deadline,
            ..Head::request("service")
        };
        if let Ok(stream) = self.connection.open(&head, now) {
            self.know(stream, true);
        }
    }

    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
    fn know(&mut self, stream: StreamId, is_ours: bool) {
        let known = Known {
            grant: self.lease.try_reserve(0).expect("nothing"),
            is_ours,
            has_responded: is_ours,
            has_ended: false,
            peer_ended: false,
            payment: Payment::Granted,
            received: 0,
        };
        self.streams.insert(stream, known);
    }

    pub fn respond(&mut self, stream: StreamId, payment: Payment) {
        let head = Head {
            payment,
            ..Head::response()
        };
        match self.connection.respond(stream, &head) {
            Ok(()) => self.known(stream).has_responded = true,
            Err(SendError::State | SendError::Busy | SendError::Gone) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn known(&mut self, stream: StreamId) -> &mut Known {
        self.streams.get_mut(&stream).expect("known")
    }

    /// Sends a message of `len` bytes, if the stream's state permits it.
    pub fn send(&mut self, stream: StreamId, len: usize) {
        let offset = self.sent_bytes(stream);
        let bytes = Bytes::from(pattern(stream, offset, len));
        match self.connection.send(stream, &bytes, 0) {
            Ok(()) => *self.sent.entry(stream).or_default() += len as u64,
            Err(SendError::Length | SendError::Fields(_)) => panic!("no length was said"),
            Err(_) => {}
        }
    }

    pub fn end(&mut self, stream: StreamId, status: Status) {
        if self.connection.end(stream, &status.into()).is_ok() {
            self.known(stream).has_ended = true;
            self.forget_ended(stream);
        }
    }

    pub fn stop(&mut self, stream: StreamId) {
        let _ = self.connection.stop(stream, &Status::Cancelled.into());
    }

    pub fn reset(&mut self, stream: StreamId, processing: Processing) {
        let reason = Status::Cancelled.into();
        if let Some(unspent) = self.connection.reset(stream, &reason, processing) {
            self.gone(stream, unspent);
        }
    }

    pub fn grant(&mut self, stream: StreamId, bytes: usize) {
        let known = self.streams.get_mut(&stream).expect("known");
        let is_useful = known.payment == Payment::Granted && !known.peer_ended;
        if is_useful && self.connection.grant(stream, bytes as u64).is_ok() {
            known.grant.try_grow(bytes).expect("room");
        }
    }

    /// Drops the oldest payload and releases its credit.
    pub fn release(&mut self) -> bool {
        if self.held.is_empty() {
            return false;
        }
        let (stream, part, charge) = self.held.remove(0);
        if part.payment == Payment::Standing {
            self.connection.release(stream, part.cost);
        }
        drop(charge);
        true
    }

    /// Finishes everything that is open. True if there was something to do.
    pub fn finish(&mut self, now: Instant) -> bool {
        self.events(now);
        let mut is_moving = false;
        while self.release() {
            is_moving = true;
        }
        for stream in self.streams.keys().copied().collect::<Vec<_>>() {
            let known = self.known(stream);
            let is_short = known.grant.bytes() < 1 << 20 && !known.peer_ended;
            if is_short && known.payment == Payment::Granted {
                self.grant(stream, 1 << 20);
                is_moving = true;
            }
            if !self.known(stream).has_responded {
                self.respond(stream, Payment::Standing);
            }
            if self
                .streams
                .get(&stream)
                .is_some_and(|known| !known.has_ended)
            {
                self.end(stream, Status::Ok);
                is_moving = true;
            }
        }
        is_moving
    }

    /// Reads received bytes.
    pub fn read(&mut self, mut bytes: &[u8], now: Instant) {
        loop {
            self.events(now);
            if bytes.is_empty() {
                return;
            }
            let mut empty = (StreamId(0), Vec::new(), 0);
            let (_, body, at) = self.part.as_mut().unwrap_or(&mut empty);
            let mut count = 0;
            for slice in &mut self.connection.room(&mut body[*at..]) {
                let len = slice.len().min(bytes.len());
                slice[..len].copy_from_slice(&bytes[..len]);
                bytes = &bytes[len..];
                count += len;
            }
            assert!(count > 0, "no room to read");
            *at += self.connection.filled(count, now);
        }
    }

    fn events(&mut self, now: Instant) {
        loop {
            self.take_part();
            let event = self.connection.next_event(now).expect("an honest peer");
            let Some(event) = event else { return };
            match event {
                Event::Connected(peer) => assert_eq!(peer.version, 1),
                Event::Request { stream, head } => {
                    let payment = head.payment;
                    assert_eq!(head.service, "service");
                    self.know(stream, false);
                    self.known(stream).payment = payment;
                }
                Event::Response { stream, head } => {
                    let payment = head.payment;
                    let known = self.known(stream);
                    known.payment = payment;
                    if payment == Payment::Standing {
                        // A grant before HEADERS is not used by a body on standing credit.
                        known.grant.shrink(known.grant.bytes());
                    }
                }
                Event::Data(part) => self.receive(part),
                Event::Ended {
                    stream,
                    reason,
                    unspent,
                    side,
                } => {
                    let status = reason.status;
                    self.peer_ended(stream, status, unspent);
                    if side == HalfLeft::None {
                        self.streams.remove(&stream);
                    }
                }
                Event::Stopped { .. } => self.is_stopped = true,
                Event::Reset {
                    stream, unspent, ..
                }
                | Event::Expired { stream, unspent } => {
                    self.refused += 1;
                    self.gone(stream, unspent);
                }
                Event::Granted { bytes, .. } => assert!(bytes > 0),
                Event::Writable(stream) => assert!(self.streams.contains_key(&stream)),
                Event::Services(services) => assert!(services.iter().count() < 3),
                Event::Registered => assert!(self.connection.is_registered()),
                Event::GoingAway { code, .. } => assert_eq!(code, 0),
            }
        }
    }

    fn receive(&mut self, part: DataPart) {
        let known = self.streams.get_mut(&part.stream).expect("known");
        let cost = usize::try_from(part.cost).expect("small");
        match part.payment {
            Payment::Granted if part.len > 0 => assert_eq!(cost, part.len),
            _ => assert_eq!(cost, part.len + HEADER_BYTES),
        }
        assert!(part.offset + part.len as u64 <= part.message_len);
        assert_eq!(part.payment, known.payment);
        let charge = match part.payment {
            Payment::Granted => Some(known.grant.split(cost)),
            Payment::Standing => None,
        };
        self.held.push((part.stream, part, charge));
        self.part = Some((part.stream, vec![0; part.len], 0));
        self.take_part();
    }

    /// Copies the payload that was read, and checks the part once it is complete.
    fn take_part(&mut self) {
        let Some((stream, body, at)) = &mut self.part else {
            return;
        };
        *at += self.connection.take_body(&mut body[*at..]);
        if *at < body.len() {
            if self.connection.body_left().is_none() {
                // The stream was closed meanwhile.
                self.part = None;
            }
            return;
        }
        let known = self.streams.get_mut(stream);
        if let Some(known) = known {
            let expected = pattern(*stream, known.received, body.len());
            assert!(*body == expected, "stream {stream} at {}", known.received);
            known.received += body.len() as u64;
        }
        self.part = None;
    }

    fn peer_ended(&mut self, stream: StreamId, status: Status, unspent: u64) {
        let known = self.streams.get_mut(&stream).expect("known");
        known.peer_ended = true;
        assert_eq!(known.grant.bytes() as u64, unspent, "stream {stream}");
        known.grant.shrink(known.grant.bytes());
        // The rest of a request that was answered is not read.
        if known.is_ours || !known.has_ended {
            self.ended.insert(stream, (status, known.received));
        }
        self.forget_ended(stream);
    }

    fn forget_ended(&mut self, stream: StreamId) {
        let known = self.streams.get(&stream);
        if known.is_some_and(|known| known.has_ended && known.peer_ended) {
            self.streams.remove(&stream);
        }
    }

    fn gone(&mut self, stream: StreamId, unspent: u64) {
        let known = self.streams.remove(&stream).expect("known");
        assert_eq!(known.grant.bytes() as u64, unspent, "stream {stream}");
    }
}
