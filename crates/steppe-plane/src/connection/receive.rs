//! What frames of the peer's do. `docs/plane-protocol.md` §7 has the states as a table.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::command::Processing;
use super::event::{Closed, DataPart, Event, HalfLeft, Peer, StreamId};
use super::machine::{Connection, Leaving, Side, VERSION};
use super::streams::{End, Opener, Phase, SendHalf, payment_of};
use super::violation::Violation;
use crate::frame::{
    Direction, FieldError, FrameHeader, FrameType, HEADER_BYTES, Head, Hello, Payment, Services,
    flag,
};
use crate::limits::{
    CREDIT_BYTES_MAX, DETAIL_BYTES_MAX, GOAWAYS_MAX, HEADS_WAITING_BYTES_MAX,
    RESETS_PER_SECOND_MAX, RESETS_WAITING_PER_STREAM_MAX, STREAM_ID_MAX,
};
use crate::status::{Reason, Status};

/// What was seen, before it borrows from the connection.
enum Seen {
    Event(Event<'static>),
    Head(FrameHeader, Direction, Range<usize>),
    Ended(FrameHeader, Range<usize>, u64, HalfLeft),
    Stopped(FrameHeader, Range<usize>),
    Reset(FrameHeader, Range<usize>, u64),
    Services(Range<usize>),
}

impl Connection {
    /// What has happened next, by what was read and by the time; `None`: nothing more.
    ///
    /// # Errors
    /// [`Violation`]: the peer is dismissed. It is told so by what is still to be written, and the same
    /// is returned from then on.
    pub fn next_event(&mut self, now: Instant) -> Result<Option<Event<'_>>, Violation> {
        if let Some(violation) = self.violation {
            return Err(violation);
        }
        match self.step(now) {
            Ok(seen) => Ok(seen.map(|seen| self.event_of(seen))),
            Err(violation) => {
                self.violation = Some(violation);
                self.reader.skip_body();
                self.push_goaway(violation.code(), 0, violation.to_string().as_bytes());
                Err(violation)
            }
        }
    }

    fn event_of(&self, seen: Seen) -> Event<'_> {
        let reason = |header: FrameHeader, place| {
            Reason::read(header.code, header.aux, self.reader.payload(place))
        };
        match seen {
            Seen::Event(event) => event,
            Seen::Head(header, direction, place) => {
                let payload = self.reader.payload(place);
                let head = Head::read(direction, header.flags, payload).expect("read before");
                let stream = StreamId(header.stream);
                match direction {
                    Direction::Request => Event::Request { stream, head },
                    Direction::Response => Event::Response { stream, head },
                }
            }
            Seen::Ended(header, place, unspent, side) => Event::Ended {
                stream: StreamId(header.stream),
                reason: reason(header, place),
                unspent,
                side,
            },
            Seen::Stopped(header, place) => Event::Stopped {
                stream: StreamId(header.stream),
                reason: reason(header, place),
            },
            Seen::Reset(header, place, unspent) => Event::Reset {
                stream: StreamId(header.stream),
                reason: reason(header, place),
                is_unprocessed: header.has(flag::UNPROCESSED),
                unspent,
            },
            Seen::Services(place) => {
                let services = Services::read(self.reader.payload(place));
                Event::Services(services.expect("read before"))
            }
        }
    }

    fn step(&mut self, now: Instant) -> Result<Option<Seen>, Violation> {
        loop {
            if let Some(event) = self.local_event(now) {
                return Ok(Some(Seen::Event(event)));
            }
            if self.keepalive.is_ping_due(now)? {
                self.output.push(&FrameHeader::new(FrameType::PING, 0), b"");
            }
            let Some((header, place)) = self.reader.next()? else {
                return Ok(None);
            };
            if let Some(seen) = self.receive(header, place, now)? {
                return Ok(Some(seen));
            }
        }
    }

    /// What happened without a frame.
    fn local_event(&mut self, now: Instant) -> Option<Event<'static>> {
        if let Some((stream, unspent, closed)) = self.closed.pop_front() {
            return Some(closed.event(stream, unspent));
        }
        while let Some(stream) = self.writable.pop() {
            if !self.is_done(stream) {
                return Some(Event::Writable(stream));
            }
        }
        while let Some(stream) = self.deadlines.pop_due(now) {
            let is_done = self.is_done(stream);
            let reason = Status::DeadlineExceeded.into();
            let unspent = self.reset(stream, &reason, Processing::Begun);
            if let Some(unspent) = unspent.filter(|_| !is_done) {
                return Some(Closed::Expired.event(stream, unspent));
            }
        }
        None
    }

    /// Whether the shell hears no more of a stream.
    fn is_done(&mut self, id: StreamId) -> bool {
        self.streams.find(id).is_none_or(|stream| stream.is_done())
    }

    fn receive(
        &mut self,
        header: FrameHeader,
        place: Range<usize>,
        now: Instant,
    ) -> Result<Option<Seen>, Violation> {
        if self.peer.is_none() {
            return self.receive_hello(&header, place).map(Some);
        }
        match header.frame_type {
            FrameType::HEADERS => self.receive_head(header, place, now),
            FrameType::DATA => self.receive_data(&header),
            FrameType::CREDIT => self.receive_credit(&header),
            FrameType::RESET => self.receive_reset(header, place, now),
            FrameType::END => self.receive_end(header, place),
            FrameType::PING => {
                if !header.has(flag::ACK) {
                    self.pong = Some(header.aux);
                }
                Ok(None)
            }
            FrameType::GOAWAY => self.receive_goaway(&header).map(Some),
            FrameType::SERVICES => {
                let services = Services::read(self.reader.payload(place.clone()));
                services.map_err(|error| Violation::Fields(header.frame_type, error))?;
                Ok(Some(Seen::Services(place)))
            }
            // HELLO; the reader skips what is unknown.
            frame_type => Err(Violation::Hello(frame_type)),
        }
    }

    fn receive_hello(
        &mut self,
        header: &FrameHeader,
        place: Range<usize>,
    ) -> Result<Seen, Violation> {
        let hello = Hello::read(header, self.reader.payload(place));
        let hello = hello.ok_or(Violation::Hello(header.frame_type))?;
        let hello = hello.map_err(|error| Violation::Fields(header.frame_type, error))?;
        let own = Hello {
            oldest: VERSION,
            newest: VERSION,
            ..hello
        };
        let version = own.agree(&hello).ok_or(Violation::Version {
            oldest: hello.oldest,
            newest: hello.newest,
        })?;
        self.keepalive.connected();
        self.peer = Some(hello);
        Ok(Seen::Event(Event::Connected(Peer {
            version,
            streams_max: hello.streams_max,
        })))
    }

    fn is_ours(&self, id: StreamId) -> bool {
        let is_odd = id.0 % 2 == 1;
        is_odd == (self.config.side == Side::Dialer)
    }

    /// Whether a stream is open; one that is not must have been.
    fn is_open(&self, frame_type: FrameType, id: StreamId) -> Result<bool, Violation> {
        if self.streams.has(id) {
            return Ok(true);
        }
        let was_open = if self.is_ours(id) {
            id.0 < self.next_id
        } else {
            id.0 <= self.last_id
        };
        was_open
            .then_some(false)
            .ok_or(Violation::StreamId(frame_type, id))
    }

    fn receive_head(
        &mut self,
        header: FrameHeader,
        place: Range<usize>,
        now: Instant,
    ) -> Result<Option<Seen>, Violation> {
        let id = StreamId(header.stream);
        if self.is_ours(id) {
            return self.receive_response(header, place);
        }
        if id.0 <= self.last_id || id.0 > STREAM_ID_MAX {
            return Err(Violation::StreamId(header.frame_type, id));
        }
        self.last_id = id.0;
        self.check_waiting()?;
        let payload = self.reader.payload(place.clone());
        let head = match Head::read(Direction::Request, header.flags, payload) {
            Ok(head) => head,
            Err(FieldError::Unknown(_)) => {
                self.refuse(id, Status::Unsupported);
                return Ok(None);
            }
            Err(error) => return Err(Violation::Fields(header.frame_type, error)),
        };
        if self.leaving != Leaving::No {
            self.refuse(id, Status::Draining);
            return Ok(None);
        }
        if self.streams.theirs >= self.config.streams_max {
            return Err(Violation::Flood(header.frame_type));
        }
        self.last_taken = id.0;
        if let Some(deadline) = head.deadline {
            self.deadlines.push(now + deadline, id);
        }
        self.streams.open(id, Opener::Peer);
        self.streams.begin_receive(id, &head);
        Ok(Some(Seen::Head(header, Direction::Request, place)))
    }

    /// Dismisses a peer that opens streams, reads nothing, and opens on when they are reset.
    fn check_waiting(&self) -> Result<(), Violation> {
        let resets = (self.config.streams_max as usize + 1) * RESETS_WAITING_PER_STREAM_MAX;
        let resets_bytes = resets * (HEADER_BYTES + DETAIL_BYTES_MAX);
        let is_flood = self.output.waiting_bytes() > HEADS_WAITING_BYTES_MAX + resets_bytes;
        (!is_flood)
            .then_some(())
            .ok_or(Violation::Flood(FrameType::HEADERS))
    }

    /// Resets a stream that was not opened.
    fn refuse(&mut self, id: StreamId, status: Status) {
        self.push_reset(id, &status.into(), flag::UNPROCESSED);
    }

    fn receive_response(
        &mut self,
        header: FrameHeader,
        place: Range<usize>,
    ) -> Result<Option<Seen>, Violation> {
        let id = StreamId(header.stream);
        if !self.is_open(header.frame_type, id)? {
            return Ok(None);
        }
        let stream = self.streams.find(id).expect("it is open");
        if stream.receive.phase != Phase::Idle {
            return Err(Violation::State(header.frame_type, id));
        }
        let payload = self.reader.payload(place.clone());
        let head = match Head::read(Direction::Response, header.flags, payload) {
            Ok(head) => head,
            Err(FieldError::Unknown(_)) => {
                let reason = Status::Unsupported.into();
                let unspent = self.reset(id, &reason, Processing::Begun).unwrap_or(0);
                return Ok(Some(Seen::Event(Event::Reset {
                    stream: id,
                    reason,
                    is_unprocessed: false,
                    unspent,
                })));
            }
            Err(error) => return Err(Violation::Fields(header.frame_type, error)),
        };
        self.streams.begin_receive(id, &head);
        Ok(Some(Seen::Head(header, Direction::Response, place)))
    }

    fn receive_data(&mut self, header: &FrameHeader) -> Result<Option<Seen>, Violation> {
        let id = StreamId(header.stream);
        let is_open = self.is_open(header.frame_type, id)?;
        let payment = payment_of(header);
        if payment == Payment::Standing {
            self.receive_standing(header)?;
        }
        self.body = None;
        let standing = u64::from(self.config.stream_credit);
        let stream = self.streams.find(id).filter(|_| is_open);
        if let Some(stream) = stream {
            let (message_len, offset) = stream.receive.receive(id, header, standing)?;
            // Nobody here wants the rest of a request that was answered.
            let is_answered = stream.opener == Opener::Peer && stream.send.phase == Phase::Ended;
            if !is_answered {
                stream.receive.deliver(header.cost());
                self.body = Some(id);
                return Ok(Some(Seen::Event(Event::Data(DataPart {
                    stream: id,
                    offset,
                    len: self.reader.body_left(),
                    message_len,
                    payment,
                    cost: header.cost(),
                }))));
            }
        }
        self.reader.skip_body();
        if payment == Payment::Standing {
            self.released += header.cost();
        }
        Ok(None)
    }

    /// Counts DATA against the connection's standing credit.
    fn receive_standing(&mut self, header: &FrameHeader) -> Result<(), Violation> {
        let (cost, left) = (header.cost(), self.told - self.received);
        if cost > left {
            return Err(Violation::Credit {
                stream: StreamId(0),
                cost,
                left,
            });
        }
        self.received += cost;
        Ok(())
    }

    fn receive_credit(&mut self, header: &FrameHeader) -> Result<Option<Seen>, Violation> {
        let id = StreamId(header.stream);
        if header.stream == 0 {
            check_sum(header, self.granted)?;
            self.granted = header.aux;
            return Ok(None);
        }
        if !self.is_open(header.frame_type, id)? {
            return Ok(None);
        }
        let stream = self.streams.find(id).expect("it is open");
        let send = &mut stream.send;
        check_sum(header, send.granted)?;
        let bytes = header.aux - send.granted;
        send.granted = header.aux;
        let is_passed_on = send.payment == Payment::Granted || send.phase == Phase::Idle;
        let is_told = bytes > 0 && is_passed_on && !stream.is_done();
        self.schedule(id);
        Ok(is_told.then_some(Seen::Event(Event::Granted { stream: id, bytes })))
    }

    fn receive_reset(
        &mut self,
        header: FrameHeader,
        place: Range<usize>,
        now: Instant,
    ) -> Result<Option<Seen>, Violation> {
        let id = StreamId(header.stream);
        if !self.is_open(header.frame_type, id)? {
            return Ok(None);
        }
        let stream = self.streams.find(id).expect("it is open");
        if header.has(flag::STOP) {
            let is_new = !std::mem::replace(&mut stream.is_stopped, true) && !stream.is_done();
            return Ok(is_new.then_some(Seen::Stopped(header, place)));
        }
        let is_done = stream.is_done();
        if stream.opener == Opener::Peer {
            self.count_reset(now)?;
        }
        let unspent = self.close(id);
        Ok((!is_done).then_some(Seen::Reset(header, place, unspent)))
    }

    fn count_reset(&mut self, now: Instant) -> Result<(), Violation> {
        if now.saturating_duration_since(self.resets.since) >= Duration::from_secs(1) {
            (self.resets.since, self.resets.count) = (now, 0);
        }
        self.resets.count += 1;
        let is_flood = self.resets.count > RESETS_PER_SECOND_MAX;
        (!is_flood)
            .then_some(())
            .ok_or(Violation::Flood(FrameType::RESET))
    }

    fn receive_end(
        &mut self,
        header: FrameHeader,
        place: Range<usize>,
    ) -> Result<Option<Seen>, Violation> {
        let id = StreamId(header.stream);
        if !self.is_open(header.frame_type, id)? {
            return Ok(None);
        }
        let stream = self.streams.find(id).expect("it is open");
        if stream.receive.phase == Phase::Ended {
            return Err(Violation::State(header.frame_type, id));
        }
        if !stream.receive.may_end(Status::of_code(header.code)) {
            return Err(Violation::Length(id));
        }
        let is_response = stream.opener == Opener::Us;
        if is_response && stream.send.phase != Phase::Ended {
            cancel(&mut stream.send);
        }
        let side = if is_response || stream.send.phase == Phase::Ended || stream.send.end.is_some()
        {
            HalfLeft::None
        } else {
            HalfLeft::Open
        };
        self.streams.end_receive(id);
        let stream = self.streams.find(id).expect("it is open");
        let unspent = stream.receive.take_unspent();
        if stream.is_over() {
            self.close(id);
        } else {
            self.schedule(id);
        }
        Ok(Some(Seen::Ended(header, place, unspent, side)))
    }

    fn receive_goaway(&mut self, header: &FrameHeader) -> Result<Seen, Violation> {
        self.goaways += 1;
        if self.goaways > GOAWAYS_MAX {
            return Err(Violation::Flood(header.frame_type));
        }
        self.is_peer_leaving = true;
        let last = u32::try_from(header.aux).unwrap_or(u32::MAX);
        for id in self.streams.ours_above(last) {
            let is_done = self.is_done(id);
            let unspent = self.close(id);
            if !is_done {
                self.closed.push_back((id, unspent, Closed::Refused));
            }
        }
        Ok(Seen::Event(Event::GoingAway {
            code: header.code,
            is_drained: header.has(flag::DRAINED),
        }))
    }
}

/// Ends a request that was answered: the peer wants no more of it.
fn cancel(send: &mut SendHalf) {
    if send.parts.is_empty() && send.end.is_some() {
        return;
    }
    send.parts.clear();
    send.is_wanted = false;
    send.end = Some(End {
        status: Status::Cancelled,
        retry_micros: 0,
        detail: bytes::Bytes::new(),
    });
}

/// Checks a sum of credit against the one before.
fn check_sum(header: &FrameHeader, before: u64) -> Result<(), Violation> {
    let granted = header.aux;
    let is_valid = (before..=CREDIT_BYTES_MAX).contains(&granted);
    is_valid.then_some(()).ok_or(Violation::CreditSum {
        stream: StreamId(header.stream),
        granted,
        before,
    })
}
