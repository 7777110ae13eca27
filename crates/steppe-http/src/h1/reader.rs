//! Content of an HTTP/1.1 message, read from a wire as parts.

use std::task::{Context, Poll, ready};

use steppe_mem::{Buffer, Lease, OverBudget};

use super::chunked::{ChunkError, Decoder};
use super::framing::BodyLength;
use super::parse::{self, HeadLimits, ParseError};
use super::wire::Wire;
use crate::exchange::{Part, content_room};
use crate::field::{FieldBlock, FieldList};
use crate::limits::{CHUNK_BYTES_MIN, TRAILER_BYTES_MAX, TRAILER_FIELDS_MAX};

/// Where a message's content is at.
#[derive(Debug)]
pub(crate) struct ContentReader {
    state: ReaderState,
    /// Content that may still come; a limit of ours, not the message's own length.
    allowed: u64,
}

#[derive(Debug)]
enum ReaderState {
    Known(u64),
    Chunks(Decoder),
    /// So many bytes of the section were parsed, and were not all of it.
    Trailers {
        seen: usize,
    },
    UntilEnd,
    Done,
}

/// Why content can't be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// The stream ended or failed before the message did.
    Cut,
    /// The chunked coding is broken.
    Malformed,
    /// More content than is allowed.
    TooLarge,
    /// More trailers than are allowed.
    TrailersTooLarge,
    OverBudget,
}

const TRAILER_LIMITS: HeadLimits = HeadLimits {
    bytes: TRAILER_BYTES_MAX,
    fields: TRAILER_FIELDS_MAX,
};

impl ContentReader {
    pub(crate) fn new(length: BodyLength, allowed: u64) -> Self {
        let state = match length {
            BodyLength::Empty => ReaderState::Done,
            BodyLength::Known(length) => ReaderState::Known(length),
            BodyLength::Chunked => ReaderState::Chunks(Decoder::default()),
            BodyLength::UntilEnd => ReaderState::UntilEnd,
        };
        Self { state, allowed }
    }

    /// All content has been read.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, ReaderState::Done)
    }

    pub(crate) fn poll_part(
        &mut self,
        cx: &mut Context<'_>,
        wire: &mut Wire,
        lease: &Lease,
    ) -> Poll<Result<Part, ReadError>> {
        loop {
            match (&mut self.state, wire.pending.take()) {
                (ReaderState::Done, pending) => {
                    wire.pending = pending;
                    return Poll::Ready(Ok(Part::End(None)));
                }
                (ReaderState::Trailers { .. }, Some(pending)) => {
                    wire.pending = Some(pending);
                    let trailers = ready!(self.poll_trailers(cx, wire))?;
                    return Poll::Ready(Ok(Part::End(trailers)));
                }
                (_, Some(pending)) => {
                    if let Some(chunk) = self.take_chunk(pending, wire)? {
                        return Poll::Ready(Ok(Part::Chunk(chunk.into())));
                    }
                }
                (_, None) => {
                    let bytes = self.chunk_bytes(lease);
                    let count = ready!(wire.poll_fill(cx, lease, bytes));
                    if count.map_err(|_| ReadError::Cut)? == 0 {
                        return Poll::Ready(self.end_of_stream());
                    }
                }
            }
        }
    }

    /// Room for the next chunk: no more than the message still has.
    fn chunk_bytes(&self, lease: &Lease) -> usize {
        let room = content_room(lease);
        match self.state {
            // One more than there is: a short read tells the runtime that there is no more.
            ReaderState::Known(left) => room.min(
                usize::try_from(left)
                    .unwrap_or(usize::MAX)
                    .saturating_add(1),
            ),
            ReaderState::Trailers { .. } => CHUNK_BYTES_MIN,
            _ => room,
        }
    }

    fn end_of_stream(&mut self) -> Result<Part, ReadError> {
        match self.state {
            ReaderState::UntilEnd => {
                self.state = ReaderState::Done;
                Ok(Part::End(None))
            }
            _ => Err(ReadError::Cut),
        }
    }

    /// The content that `pending` begins with; what follows it is pending again.
    fn take_chunk(
        &mut self,
        mut pending: Buffer,
        wire: &mut Wire,
    ) -> Result<Option<Buffer>, ReadError> {
        let content = match &mut self.state {
            ReaderState::UntilEnd => pending.len(),
            ReaderState::Known(left) => {
                let count = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(pending.len());
                // First, since bytes may get lost here: the message must not look read then.
                wire.pending = split(&mut pending, count, count)?;
                *left -= count as u64;
                if *left == 0 {
                    self.state = ReaderState::Done;
                }
                count
            }
            ReaderState::Chunks(decoder) => {
                let decoded = decoder
                    .decode(pending.filled_mut())
                    .map_err(ReadError::from)?;
                if decoded.is_last {
                    self.state = ReaderState::Trailers { seen: 0 };
                }
                wire.pending = split(&mut pending, decoded.content, decoded.consumed)?;
                decoded.content
            }
            ReaderState::Trailers { .. } | ReaderState::Done => {
                unreachable!("these take no content")
            }
        };
        self.allowed = self
            .allowed
            .checked_sub(content as u64)
            .ok_or(ReadError::TooLarge)?;
        Ok((content > 0).then_some(pending))
    }

    /// The section that `pending` begins with, and its bytes. A section that comes byte by byte is
    /// not parsed as often as it has bytes.
    fn parse_trailers(
        &mut self,
        pending: &Buffer,
    ) -> Result<Option<(usize, FieldList)>, ReadError> {
        let ReaderState::Trailers { seen } = &mut self.state else {
            unreachable!("only where they come");
        };
        let bytes = pending.filled();
        let is_worth_it =
            bytes.len() >= TRAILER_LIMITS.bytes || parse::section_may_be_complete(bytes, *seen);
        *seen = bytes.len();
        if !is_worth_it {
            return Ok(None);
        }
        let mut fields = FieldList::take();
        let section = parse::trailers(bytes, TRAILER_LIMITS, &mut fields, pending.lease())?;
        Ok(section.map(|section_bytes| (section_bytes, fields)))
    }

    fn poll_trailers(
        &mut self,
        cx: &mut Context<'_>,
        wire: &mut Wire,
    ) -> Poll<Result<Option<FieldBlock>, ReadError>> {
        loop {
            let pending = wire
                .pending
                .as_mut()
                .expect("trailers begin with what is pending");
            if let Some((section_bytes, fields)) = self.parse_trailers(pending)? {
                let mut bytes = wire.pending.take().expect("as above");
                wire.pending = split(&mut bytes, section_bytes, section_bytes)?;
                self.state = ReaderState::Done;
                let has_some = !fields.is_empty();
                return Poll::Ready(Ok(has_some.then(|| FieldBlock::new(bytes, fields))));
            }
            let count = ready!(wire.poll_fill_more(cx, TRAILER_BYTES_MAX + 1));
            if count.map_err(|_| ReadError::Cut)? == 0 {
                return Poll::Ready(Err(ReadError::Cut));
            }
        }
    }
}

/// Cuts `buffer` to its first `kept` bytes; what follows `consumed` moves to a buffer of its own.
pub(crate) fn split(
    buffer: &mut Buffer,
    kept: usize,
    consumed: usize,
) -> Result<Option<Buffer>, OverBudget> {
    let rest = &buffer.filled()[consumed..];
    let rest = if rest.is_empty() {
        None
    } else {
        let mut copy = Buffer::take(buffer.lease(), rest.len())?;
        copy.put(rest).expect("it was taken for them");
        Some(copy)
    };
    buffer.truncate(kept);
    Ok(rest)
}

impl From<OverBudget> for ReadError {
    fn from(_: OverBudget) -> Self {
        Self::OverBudget
    }
}

impl From<ChunkError> for ReadError {
    fn from(_: ChunkError) -> Self {
        Self::Malformed
    }
}

impl From<ParseError> for ReadError {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::TooLarge | ParseError::TooManyFields => Self::TrailersTooLarge,
            ParseError::OverBudget => Self::OverBudget,
            _ => Self::Malformed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use steppe_mem::Budget;

    use super::*;
    use crate::h1::wire::tests::{pair, run};

    /// Checks a message whose next part can't be separated from the bytes behind it for want of
    /// memory: the read fails, and keeps the bytes.
    fn check(length: BodyLength, bytes: &[u8]) {
        run(async {
            // Room for what was read, and none for a copy of what follows.
            let budget = Budget::new(1024);
            let lease = budget.root().lease();
            let (mut wire, _far) = pair();
            let mut pending = Buffer::take(&lease, bytes.len()).expect("room");
            pending.put(bytes).expect("room");
            wire.pending = Some(pending);
            let mut reader = ContentReader::new(length, u64::MAX);
            let mut cx = Context::from_waker(Waker::noop());
            let part = reader.poll_part(&mut cx, &mut wire, &lease);
            assert!(
                matches!(part, Poll::Ready(Err(ReadError::OverBudget))),
                "{part:?}"
            );
            assert!(!reader.is_done(), "bytes of the next message are lost");
        });
    }

    #[test]
    fn a_message_whose_successor_was_lost_does_not_look_read() {
        check(BodyLength::Known(5), b"helloGET / HTTP/1.1\r\n");
        check(BodyLength::Chunked, b"0\r\n\r\nGET / HTTP/1.1\r\n");
    }
}
