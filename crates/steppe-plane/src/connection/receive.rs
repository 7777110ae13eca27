//! Handling of received frames and of timeouts, one event at a time. `call.rs` has the frames of
//! streams.

use std::ops::Range;
use std::time::Instant;

use super::command::Processing;
use super::event::{Closed, Event, HalfLeft, Peer, StreamId};
use super::machine::{Connection, VERSION};
use super::violation::Violation;
use crate::frame::{Direction, FrameHeader, FrameType, Head, Hello, Services, flag};
use crate::limits::{GOAWAYS_MAX, STALE_MAX};
use crate::status::{Reason, Status};

/// A received event, before it borrows its payload from the connection.
pub(super) enum Seen {
    Event(Event<'static>),
    Head(FrameHeader, Direction, Range<usize>),
    Ended(FrameHeader, Range<usize>, u64, HalfLeft),
    Stopped(FrameHeader, Range<usize>),
    Reset(FrameHeader, Range<usize>, u64),
    Services(Range<usize>),
}

impl Connection {
    /// The next event, from received bytes and the time; `None` if there is none now.
    ///
    /// # Errors
    /// [`Violation`]: the peer is dismissed. The remaining output has GOAWAY with the reason; later calls return
    /// the same error.
    pub fn next_event(&mut self, now: Instant) -> Result<Option<Event<'_>>, Violation> {
        if let Some(violation) = self.violation {
            return Err(violation);
        }
        match self.step(now) {
            Ok(seen) => Ok(seen.map(|seen| self.event_of(seen))),
            Err(violation) => {
                self.dismiss(violation);
                Err(violation)
            }
        }
    }

    /// Dismisses the peer: queues GOAWAY, and lets [`Connection::next_event`] fail from now on. The first violation
    /// is kept.
    pub fn dismiss(&mut self, violation: Violation) {
        if self.violation.is_some() {
            return;
        }
        self.violation = Some(violation);
        self.reader.skip_body();
        // An ACK would tell the peer that its SERVICES were accepted.
        self.pong = None;
        self.push_goaway(violation.code(), 0, violation.to_string().as_bytes());
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
                self.ping();
            }
            let Some((header, place)) = self.reader.next()? else {
                return Ok(None);
            };
            if let Some(seen) = self.receive(header, place, now)? {
                return Ok(Some(seen));
            }
        }
    }

    /// The next event without a frame: a closed or writable stream, or an expired deadline.
    fn local_event(&mut self, now: Instant) -> Option<Event<'static>> {
        if let Some((stream, unspent, closed)) = self.closed.pop_front() {
            if self.closed.is_empty() {
                self.closed.shrink_to(STALE_MAX);
            }
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

    /// True if the shell gets no more events of the stream.
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
                    return Ok(None);
                }
                let was_registered = self.is_registered();
                self.acknowledged = header.aux;
                let is_news = self.is_registered() && !was_registered;
                Ok(is_news.then_some(Seen::Event(Event::Registered)))
            }
            FrameType::GOAWAY => self.receive_goaway(&header).map(Some),
            FrameType::SERVICES => {
                let services = Services::read(self.reader.payload(place.clone()));
                services.map_err(|error| Violation::Fields(header.frame_type, error))?;
                Ok(Some(Seen::Services(place)))
            }
            // A second HELLO. The reader skips unknown types.
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
