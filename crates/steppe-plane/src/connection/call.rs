//! Received frames of streams: HEADERS, DATA, CREDIT, RESET, END. `docs/plane/protocol.md` §7 has the
//! states as a table.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::command::Processing;
use super::event::{DataPart, Event, HalfLeft, StreamId};
use super::half::{End, Phase, SendHalf, payment_of};
use super::machine::{Connection, Leaving, Side};
use super::receive::Seen;
use super::streams::Opener;
use super::violation::Violation;
use crate::frame::{
    Direction, FieldError, FrameHeader, FrameType, HEADER_BYTES, Head, Payment, flag,
};
use crate::limits::{
    CREDIT_BYTES_MAX, DETAIL_BYTES_MAX, HEADS_WAITING_BYTES_MAX, RESETS_PER_SECOND_MAX,
    RESETS_WAITING_PER_STREAM_MAX, STREAM_ID_MAX,
};
use crate::status::Status;

impl Connection {
    fn is_ours(&self, id: StreamId) -> bool {
        let is_odd = id.0 % 2 == 1;
        is_odd == (self.config.side == Side::Dialer)
    }

    /// The number of the peer's next stream. Numbers are not skipped: every lower one was opened.
    fn next_of_peer(&self) -> u32 {
        match (self.last_id, self.config.side) {
            (0, Side::Acceptor) => 1,
            (0, Side::Dialer) => 2,
            (last, _) => last.saturating_add(2),
        }
    }

    /// True if the stream is open, false if it was; an error if it never was.
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

    pub(super) fn receive_head(
        &mut self,
        header: FrameHeader,
        place: Range<usize>,
        now: Instant,
    ) -> Result<Option<Seen>, Violation> {
        let id = StreamId(header.stream);
        if self.is_ours(id) {
            return self.receive_response(header, place);
        }
        if id.0 != self.next_of_peer() || id.0 > STREAM_ID_MAX {
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

    /// Detects a peer that opens streams without reading, while RESETs for it pile up in the write queue.
    fn check_waiting(&self) -> Result<(), Violation> {
        let resets = (self.config.streams_max as usize + 1) * RESETS_WAITING_PER_STREAM_MAX;
        // The RESET that exceeds the bound may have a detail.
        let resets_bytes = resets * HEADER_BYTES + DETAIL_BYTES_MAX;
        let is_flood = self.output.waiting_bytes() > HEADS_WAITING_BYTES_MAX + resets_bytes;
        (!is_flood)
            .then_some(())
            .ok_or(Violation::Flood(FrameType::HEADERS))
    }

    /// Resets a stream that was not opened, as UNPROCESSED.
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

    pub(super) fn receive_data(&mut self, header: &FrameHeader) -> Result<Option<Seen>, Violation> {
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
            // This side has answered: the rest of the request is dropped.
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

    /// Charges a DATA frame to the connection's standing credit.
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

    pub(super) fn receive_credit(
        &mut self,
        header: &FrameHeader,
    ) -> Result<Option<Seen>, Violation> {
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

    pub(super) fn receive_reset(
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

    pub(super) fn receive_end(
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
}

/// Ends the request of a call whose response has ended: drops unsent parts and sends END with *cancelled*.
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

/// Checks that a sum of credit does not fall and is within [`CREDIT_BYTES_MAX`].
fn check_sum(header: &FrameHeader, before: u64) -> Result<(), Violation> {
    let granted = header.aux;
    let is_valid = (before..=CREDIT_BYTES_MAX).contains(&granted);
    is_valid.then_some(()).ok_or(Violation::CreditSum {
        stream: StreamId(header.stream),
        granted,
        before,
    })
}
