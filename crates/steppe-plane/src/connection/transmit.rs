//! Choice of the next frame: control frames first, then streams in turn.

use bytes::Bytes;

use super::event::StreamId;
use super::half::{End, Phase};
use super::machine::Connection;
use super::output::Output;
use super::streams::Stream;
use crate::frame::{FrameHeader, FrameType, HEADER_BYTES, Payment, flag};
use crate::limits::{
    CREDIT_OWED_DIVISOR, DATA_BYTES_MAX, HEADS_WAITING_BYTES_MAX, SPLIT_BYTES_MIN,
};

/// The result of a stream's turn.
enum Turn {
    /// A frame was committed.
    Taken,
    /// The connection has no standing credit for it.
    Wait,
    /// The stream lacks credit or has nothing to send: it leaves the queue.
    Leave,
}

impl Connection {
    /// Commits frames, while there are any and the output has room.
    pub(super) fn transmit(&mut self) {
        self.fill_lane();
        if !self.output.commit_lane() || self.violation.is_some() {
            return;
        }
        while self.output.has_room() && self.take_turn() {}
        // GOAWAY with DRAINED may have been queued.
        self.output.commit_lane();
    }

    fn fill_lane(&mut self) {
        if self.violation.is_some() {
            return;
        }
        if let Some(opaque) = self.pong.take() {
            let mut header = FrameHeader::new(FrameType::PING, 0);
            (header.flags, header.aux) = (flag::ACK, opaque);
            self.output.push(&header, b"");
        }
        self.tell_standing();
        while self.output.waiting_bytes() < HEADS_WAITING_BYTES_MAX {
            let Some(id) = self.untold.pop() else { return };
            let Some(stream) = self.streams.find(id) else {
                continue;
            };
            stream.receive.is_queued = false;
            if stream.receive.phase != Phase::Ended && stream.receive.owed() > 0 {
                let sum = stream.receive.tell();
                push_credit(&mut self.output, id, sum);
            }
        }
    }

    /// Queues CREDIT for the connection, once enough standing credit was released.
    fn tell_standing(&mut self) {
        let standing = u64::from(self.config.connection_credit);
        let sum = standing + self.released;
        if sum - self.told >= standing / CREDIT_OWED_DIVISOR {
            self.told = sum;
            push_credit(&mut self.output, StreamId(0), self.released);
        }
    }

    /// Commits the frames of one turn. False if no stream can send.
    fn take_turn(&mut self) -> bool {
        self.is_standing_next = !self.is_standing_next;
        if self.is_standing_next && self.take_standing_turn() {
            return true;
        }
        self.take_granted_turn() || self.take_standing_turn()
    }

    /// True if an [`Event::Writable`](super::Event::Writable) is pending.
    pub(crate) fn has_writable(&self) -> bool {
        !self.writable.is_empty()
    }

    fn take_granted_turn(&mut self) -> bool {
        while let Some(id) = self.granted_turns.pop() {
            let Some(stream) = self.streams.find(id) else {
                continue;
            };
            let turn = send_granted(&mut self.output, id, stream);
            stream.send.is_queued = false;
            if let Turn::Taken = turn {
                self.finish_turn(id);
                return true;
            }
        }
        false
    }

    fn take_standing_turn(&mut self) -> bool {
        let Some(peer) = self.peer else { return false };
        while let Some(id) = self.standing_turns.first() {
            let left = (peer.connection_credit + self.granted).saturating_sub(self.used);
            let turn = match self.streams.find(id) {
                Some(stream) => {
                    let credits = (u64::from(peer.stream_credit), left);
                    let before = stream.send.used;
                    let turn = send_standing(&mut self.output, id, stream, credits);
                    self.used += stream.send.used - before;
                    turn
                }
                None => Turn::Leave,
            };
            if let Turn::Wait = turn {
                return false;
            }
            self.standing_turns.pop();
            if let Some(stream) = self.streams.find(id) {
                stream.send.is_queued = false;
            }
            if let Turn::Taken = turn {
                self.finish_turn(id);
                return true;
            }
        }
        false
    }

    /// Commits the END after the last part; then closes the stream, or queues it again.
    fn finish_turn(&mut self, id: StreamId) {
        let Some(stream) = self.streams.find(id) else {
            return;
        };
        if stream.send.is_wanted && !stream.send.is_full() && stream.send.end.is_none() {
            stream.send.is_wanted = false;
            self.writable.push(id);
        }
        if stream.send.parts.is_empty()
            && let Some(end) = stream.send.end.take()
        {
            commit_end(&mut self.output, id, end);
            stream.send.phase = Phase::Ended;
        }
        if stream.is_over() {
            self.close(id);
        } else {
            self.schedule(id);
        }
    }

    /// Queues a stream that has something to send, unless it is queued already.
    pub(super) fn schedule(&mut self, id: StreamId) {
        let Some(stream) = self.streams.find(id) else {
            return;
        };
        let send = &mut stream.send;
        let is_idle = send.parts.is_empty() && send.end.is_none();
        if send.is_queued || is_idle {
            return;
        }
        send.is_queued = true;
        // END needs no credit: it does not wait behind streams that lack some.
        if send.payment == Payment::Standing && !send.parts.is_empty() {
            self.standing_turns.push(id);
        } else {
            self.granted_turns.push(id);
        }
    }

    /// Removes a stream; returns its granted credit that will not be used.
    pub(super) fn close(&mut self, id: StreamId) -> u64 {
        let unspent = self.streams.close(id);
        if self.body == Some(id) {
            self.reader.skip_body();
            self.body = None;
        }
        self.sweep();
        self.note_drained();
        unspent
    }

    /// Removes entries of ended streams from the queues, if there are many.
    fn sweep(&mut self) {
        let streams = &self.streams;
        let is_live = |id| streams.has(id);
        self.deadlines.sweep(streams.len(), is_live);
        for queue in [
            &mut self.untold,
            &mut self.granted_turns,
            &mut self.standing_turns,
            &mut self.writable,
        ] {
            queue.sweep(streams.len(), is_live);
        }
    }
}

fn push_credit(output: &mut Output, id: StreamId, sum: u64) {
    let mut header = FrameHeader::new(FrameType::CREDIT, id.0);
    header.aux = sum;
    output.push(&header, b"");
}

fn commit_end(output: &mut Output, id: StreamId, end: End) {
    let mut header = FrameHeader::new(FrameType::END, id.0);
    header.len = u32::try_from(end.detail.len()).expect("details are cut");
    header.code = end.status.code();
    header.aux = end.retry_micros;
    output.commit(&header, end.detail);
}

/// Commits one whole message on standing credit.
fn send_standing(
    output: &mut Output,
    id: StreamId,
    stream: &mut Stream,
    (standing, connection): (u64, u64),
) -> Turn {
    let send = &mut stream.send;
    let Some(part) = send.parts.front() else {
        // A queued END is in the other queue, or is committed with this turn.
        return if send.end.is_some() {
            Turn::Taken
        } else {
            Turn::Leave
        };
    };
    let cost = (part.bytes.len() + HEADER_BYTES) as u64;
    if cost > send.credit(standing) {
        return Turn::Leave;
    }
    if cost > connection {
        return Turn::Wait;
    }
    let part = send.parts.pop_front().expect("it was looked at");
    commit_data(output, id, stream, part.bytes, 0);
    Turn::Taken
}

/// Commits as much of a message as the credit allows, or nothing if only END is left.
fn send_granted(output: &mut Output, id: StreamId, stream: &mut Stream) -> Turn {
    let credit = stream.send.credit(0);
    let Some(part) = stream.send.parts.front_mut() else {
        let is_ending = stream.send.end.is_some();
        return if is_ending { Turn::Taken } else { Turn::Leave };
    };
    if part.bytes.is_empty() && credit < HEADER_BYTES as u64 {
        return Turn::Leave;
    }
    let room = usize::try_from(credit).unwrap_or(usize::MAX);
    let len = part.bytes.len().min(DATA_BYTES_MAX).min(room);
    if len < part.bytes.len().min(SPLIT_BYTES_MIN) {
        return Turn::Leave;
    }
    let bytes = part.bytes.split_to(len);
    let rest = part.bytes.len() as u64 + part.rest;
    if part.bytes.is_empty() {
        stream.send.parts.pop_front();
    }
    commit_data(output, id, stream, bytes, rest);
    Turn::Taken
}

#[expect(clippy::too_many_arguments, reason = "older than the limit")]
fn commit_data(output: &mut Output, id: StreamId, stream: &mut Stream, bytes: Bytes, rest: u64) {
    let send = &mut stream.send;
    let mut header = FrameHeader::new(FrameType::DATA, id.0);
    header.len = u32::try_from(bytes.len()).expect("a frame's payload is bounded");
    header.code = u32::try_from(rest).expect("a message's length was checked");
    header.aux = send.offset;
    if send.payment == Payment::Granted {
        header.flags = flag::ANNOUNCED;
    }
    send.offset += u64::from(header.len);
    send.used += header.cost();
    output.commit(&header, bytes);
}
