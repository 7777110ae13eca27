//! The two sides of a stream: the half that sends, and the half that receives.
//!
//! Invariant: DATA is accepted only within credit that was announced, and only if its lengths agree with each
//! other and with the length in HEADERS.

use std::collections::VecDeque;

use bytes::Bytes;

use super::event::StreamId;
use super::violation::Violation;
use crate::frame::{FrameHeader, FrameType, Head, Payment, flag};
use crate::limits::{CREDIT_OWED_DIVISOR, PARTS_PER_STREAM_MAX};
use crate::status::Status;

/// State of one side of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Before HEADERS.
    Idle,
    /// Between HEADERS and END.
    Open,
    /// After END.
    Ended,
}

/// The half of a stream that this side sends.
#[derive(Debug)]
pub(super) struct SendHalf {
    pub(super) phase: Phase,
    pub(super) payment: Payment,
    /// Bytes of the body that the head announced and that the shell has not given yet.
    pub(super) length_left: Option<u64>,
    /// Bytes of the current message that the shell has not given yet.
    pub(super) message_left: u64,
    /// Messages and parts that wait to be sent.
    pub(super) parts: VecDeque<Part>,
    /// Bytes of the body that were sent.
    pub(super) offset: u64,
    /// Credit that was used.
    pub(super) used: u64,
    /// Sum of credit in the peer's CREDIT frames.
    pub(super) granted: u64,
    /// END to send after the parts.
    pub(super) end: Option<End>,
    /// True while the stream is in a queue to send.
    pub(super) is_queued: bool,
    /// True while the shell waits for [`Event::Writable`](super::Event::Writable).
    pub(super) is_wanted: bool,
}

/// A message, or a part of one.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) bytes: Bytes,
    /// Bytes of the message that come in later parts.
    pub(super) rest: u64,
}

/// The END that a half is waiting to send.
#[derive(Debug)]
pub(super) struct End {
    pub(super) status: Status,
    pub(super) retry_micros: u64,
    pub(super) detail: Bytes,
}

/// The half of a stream that this side receives.
#[derive(Debug)]
pub(super) struct ReceiveHalf {
    pub(super) phase: Phase,
    pub(super) payment: Payment,
    length_left: Option<u64>,
    message_len: u64,
    message_left: u64,
    /// Bytes of the body that were received.
    offset: u64,
    /// Cost of all received DATA, dropped payloads included.
    received: u64,
    /// Cost of DATA that was delivered to the shell.
    delivered: u64,
    /// Credit that the shell granted.
    granted: u64,
    /// Sum of credit that was announced to the peer.
    pub(super) told: u64,
    /// True while the stream is in the queue of credit to announce.
    pub(super) is_queued: bool,
}

impl SendHalf {
    pub(super) fn new(parts: VecDeque<Part>) -> Self {
        Self {
            phase: Phase::Idle,
            payment: Payment::Standing,
            length_left: None,
            message_left: 0,
            parts,
            offset: 0,
            used: 0,
            granted: 0,
            end: None,
            is_queued: false,
            is_wanted: false,
        }
    }

    pub(super) fn begin(&mut self, head: &Head<'_>) {
        self.phase = Phase::Open;
        self.payment = head.payment;
        self.length_left = head.length;
    }

    pub(super) fn is_full(&self) -> bool {
        self.parts.len() >= PARTS_PER_STREAM_MAX
    }

    /// Credit of the stream that is left. `standing`: initial standing credit of each body.
    pub(super) fn credit(&self, standing: u64) -> u64 {
        let standing = match self.payment {
            Payment::Standing => standing,
            Payment::Granted => 0,
        };
        (standing + self.granted).saturating_sub(self.used)
    }
}

impl ReceiveHalf {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Idle,
            // Before its HEADERS, a response has only the credit that it was granted.
            payment: Payment::Granted,
            length_left: None,
            message_len: 0,
            message_left: 0,
            offset: 0,
            received: 0,
            delivered: 0,
            granted: 0,
            told: 0,
            is_queued: false,
        }
    }

    pub(super) fn begin(&mut self, head: &Head<'_>) {
        self.phase = Phase::Open;
        self.payment = head.payment;
        self.length_left = head.length;
    }

    pub(super) fn is_announced(&self) -> bool {
        self.phase == Phase::Open && self.payment == Payment::Granted
    }

    /// Adds granted credit, to be announced.
    pub(super) fn grant(&mut self, bytes: u64) {
        self.granted += bytes;
    }

    /// Takes the granted credit whose bytes were not delivered to the shell; later calls return 0. Always 0 for a
    /// body on standing credit: its stream's credit is only a bound; the connection's is the one that is reserved.
    pub(super) fn take_unspent(&mut self) -> u64 {
        let unspent = self.granted.saturating_sub(self.delivered);
        self.granted = 0;
        self.delivered = 0;
        match self.payment {
            Payment::Granted => unspent,
            Payment::Standing => 0,
        }
    }

    /// Granted credit that was not announced to the peer yet.
    pub(super) fn owed(&self) -> u64 {
        self.granted.saturating_sub(self.told)
    }

    /// True if a CREDIT frame is due: for granted credit at once, for standing credit when a part of it is owed.
    pub(super) fn is_worth_telling(&self, standing: u64) -> bool {
        let owed_min = match (self.payment, self.phase) {
            (Payment::Standing, Phase::Open) => standing / CREDIT_OWED_DIVISOR,
            _ => 1,
        };
        self.phase != Phase::Ended && self.owed() >= owed_min
    }

    /// The sum for a CREDIT frame; it counts as announced from now on.
    pub(super) fn tell(&mut self) -> u64 {
        self.told = self.granted.max(self.told);
        self.told
    }

    /// Checks a DATA frame against credit and lengths, and counts it. Returns the length of its message, and
    /// the bytes of the message in earlier frames.
    ///
    /// # Errors
    /// [`Violation`].
    pub(super) fn receive(
        &mut self,
        id: StreamId,
        header: &FrameHeader,
        standing: u64,
    ) -> Result<(u64, u64), Violation> {
        if self.phase != Phase::Open || self.payment != payment_of(header) {
            return Err(Violation::State(FrameType::DATA, id));
        }
        let standing = match self.payment {
            Payment::Standing => standing,
            Payment::Granted => 0,
        };
        let cost = header.cost();
        let left = (standing + self.told).saturating_sub(self.received);
        if cost > left {
            return Err(Violation::Credit {
                stream: id,
                cost,
                left,
            });
        }
        self.received += cost;
        let place = self.advance(header).ok_or(Violation::Length(id))?;
        Ok(place)
    }

    /// Counts the cost of DATA that is delivered to the shell.
    pub(super) fn deliver(&mut self, cost: u64) {
        self.delivered += cost;
    }

    /// Counts the lengths of a DATA frame; `None` if they contradict each other.
    fn advance(&mut self, header: &FrameHeader) -> Option<(u64, u64)> {
        let (len, rest) = (u64::from(header.len), u64::from(header.code));
        if self.message_left == 0 {
            self.message_len = len + rest;
        } else if self.message_left != len + rest {
            return None;
        }
        let is_split = rest > 0 || self.message_left > 0;
        let is_valid_split = !is_split || (self.payment == Payment::Granted && len > 0);
        if !is_valid_split || header.aux != self.offset {
            return None;
        }
        if let Some(left) = &mut self.length_left {
            *left = left.checked_sub(len)?;
            if *left < rest {
                return None;
            }
        }
        let before = self.message_len - (len + rest);
        self.message_left = rest;
        self.offset = self.offset.checked_add(len)?;
        Some((self.message_len, before))
    }

    /// True if the body may end with `status`: incomplete bodies must not end with *ok*.
    pub(super) fn may_end(&self, status: Status) -> bool {
        let is_whole = self.message_left == 0 && self.length_left.unwrap_or(0) == 0;
        is_whole || status != Status::Ok
    }
}

/// The kind of credit that a DATA frame declares.
pub(super) fn payment_of(header: &FrameHeader) -> Payment {
    if header.has(flag::ANNOUNCED) {
        Payment::Granted
    } else {
        Payment::Standing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: StreamId = StreamId(1);

    fn data(len: u32, rest: u32, offset: u64) -> FrameHeader {
        FrameHeader {
            len,
            code: rest,
            aux: offset,
            flags: flag::ANNOUNCED,
            ..FrameHeader::new(FrameType::DATA, 1)
        }
    }

    fn announced(length: Option<u64>, granted: u64) -> ReceiveHalf {
        let mut half = ReceiveHalf::new();
        half.begin(&Head {
            payment: Payment::Granted,
            length,
            ..Head::response()
        });
        half.grant(granted);
        half.tell();
        half
    }

    #[test]
    fn parts_of_messages_add_up() {
        let mut half = announced(Some(300), 1 << 20);
        assert_eq!(half.receive(ID, &data(100, 50, 0), 0), Ok((150, 0)));
        assert_eq!(half.receive(ID, &data(50, 0, 100), 0), Ok((150, 100)));
        assert!(!half.may_end(Status::Ok) && half.may_end(Status::Internal));
        assert_eq!(half.receive(ID, &data(150, 0, 150), 0), Ok((150, 0)));
        assert!(half.may_end(Status::Ok));
        let more = half.receive(ID, &data(1, 0, 300), 0);
        assert_eq!(more, Err(Violation::Length(ID)));
    }

    #[test]
    fn lengths_that_contradict_are_told() {
        for second in [
            data(50, 1, 100),
            data(49, 0, 100),
            data(50, 0, 99),
            data(0, 50, 100),
        ] {
            let mut half = announced(None, 1 << 20);
            half.receive(ID, &data(100, 50, 0), 0).expect("valid");
            let result = half.receive(ID, &second, 0);
            assert_eq!(result, Err(Violation::Length(ID)), "{second:?}");
        }
        let mut half = announced(Some(100), 1 << 20);
        let result = half.receive(ID, &data(50, 51, 0), 0);
        assert_eq!(result, Err(Violation::Length(ID)), "more than announced");
    }

    #[test]
    fn credit_is_what_was_told() {
        let mut half = announced(None, 100);
        half.grant(1000);
        assert!(half.receive(ID, &data(100, 0, 0), 0).is_ok());
        let error = Violation::Credit {
            stream: ID,
            cost: 24,
            left: 0,
        };
        assert_eq!(half.receive(ID, &data(0, 0, 100), 0), Err(error));
        half.tell();
        assert!(half.receive(ID, &data(0, 0, 100), 0).is_ok());
        half.deliver(124);
        assert_eq!((half.take_unspent(), half.take_unspent()), (976, 0));
    }
}
