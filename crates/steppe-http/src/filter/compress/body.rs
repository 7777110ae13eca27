//! Content on its way through an encoder.
//!
//! Invariant: it holds one part of what came and one buffer of what goes, or short content that becomes gzip all at
//! once (`gathering.rs`), and does a bounded piece of work before others of its worker have their turn. When the server
//! pauses, what came so far goes on.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, ready};

use steppe_mem::{Buffer, Chunk, Lease, Waiter};
use tokio::time::Sleep;

use super::contexts::EncoderContext;
use super::encoder::Operation;
use super::gathering::{Gathering, fitted};
use super::padding::{self, Padding};
use crate::config::Coding;
use crate::error::GatewayError;
use crate::exchange::{Part, content_room};
use crate::field::FieldBlock;
use crate::filter::{BodyTransform, representation};
use crate::limits::{COMPRESSED_BUFFER_BYTES_MAX, COMPRESSED_PIECE_BYTES, FLUSH_AFTER};
use crate::metrics::FilterMetrics;

/// The manner of compression.
#[derive(Debug)]
pub(super) struct Manner {
    pub(super) coding: Coding,
    /// Each event goes on when it came.
    pub(super) is_event_stream: bool,
    /// The content's length, as far as that is known.
    pub(super) length: Option<u64>,
}

/// Encoders of content: of both, the gathering one comes first, and streams where that turns out to
/// be better.
#[derive(Debug)]
pub(super) struct Encoders {
    pub(super) gathering: Option<Gathering>,
    /// May be missing where content gathers: it takes one then.
    pub(super) stream: Option<EncoderContext>,
}

/// The content of one response.
#[derive(Debug)]
pub(super) struct EncodedBody {
    manner: Manner,
    encoders: Encoders,
    padding: Option<Padding>,
    stage: EncodingStage,
    /// Content that is not compressed yet.
    input: Option<Chunk>,
    /// Content behind `input`: where content gathered, and is streamed after all.
    behind: Option<Chunk>,
    /// The content's end came, with these trailers.
    end: Option<Option<FieldBlock>>,
    output: Option<Buffer>,
    waiter: Waiter,
    /// Bytes that the encoder has taken since it was flushed.
    unflushed: u64,
    /// Bytes compressed in this turn.
    turn_bytes: usize,
    pause: Option<Pin<Box<Sleep>>>,
    counts: EncodedBytes,
}

/// Counts what went by, once it is over.
#[derive(Debug)]
struct EncodedBytes {
    coding: Coding,
    read: u64,
    written: u64,
    meter: Option<Rc<FilterMetrics>>,
}

/// Stages of the encoder, in this order; [`EncodingStage::Flush`] leads back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EncodingStage {
    /// Content is gathered, and compressed once all of it is there. Only first.
    Gather,
    Content,
    /// The server pauses.
    Flush,
    /// Padding begins at a byte.
    Align,
    /// Padding within what the encoder gives.
    PadWithin,
    Finish,
    PadAfter,
    End,
    Over,
}

type Polled<T> = Poll<Result<T, GatewayError>>;

impl EncodedBody {
    pub(super) fn new(
        manner: Manner,
        encoders: Encoders,
        padding: Option<Padding>,
        meter: Option<Rc<FilterMetrics>>,
    ) -> Self {
        let coding = manner.coding;
        let stage = match encoders.gathering {
            Some(_) => EncodingStage::Gather,
            None => EncodingStage::Content,
        };
        Self {
            manner,
            encoders,
            padding,
            stage,
            input: None,
            behind: None,
            end: None,
            output: None,
            waiter: Waiter::default(),
            unflushed: 0,
            turn_bytes: 0,
            pause: None,
            counts: EncodedBytes {
                coding,
                read: 0,
                written: 0,
                meter,
            },
        }
    }

    /// The next part; `None` when another must be put first.
    fn poll_next(&mut self, cx: &mut TaskContext<'_>, lease: &Lease) -> Polled<Option<Part>> {
        loop {
            let operation = match self.stage {
                EncodingStage::Gather if self.input.is_some() => {
                    ready!(self.poll_gather(cx, lease))?;
                    continue;
                }
                EncodingStage::Gather if self.end.is_some() => {
                    ready!(self.poll_whole(cx, lease));
                    continue;
                }
                EncodingStage::Gather => return Poll::Ready(Ok(None)),
                EncodingStage::Content if self.input.is_some() => Operation::Process,
                EncodingStage::Content if self.end.is_some() => {
                    self.stage = self.after_content();
                    continue;
                }
                EncodingStage::Content => return Poll::Ready(Ok(None)),
                EncodingStage::Flush | EncodingStage::Align => Operation::Flush,
                EncodingStage::Finish => Operation::Finish,
                EncodingStage::PadWithin | EncodingStage::PadAfter => {
                    if let Some(full) = ready!(self.poll_pad(cx, lease)) {
                        return Poll::Ready(Ok(Some(full)));
                    }
                    continue;
                }
                EncodingStage::End => {
                    if let Some(last) = self.take_output() {
                        return Poll::Ready(Ok(Some(last)));
                    }
                    self.stage = EncodingStage::Over;
                    let mut trailers = self.end.take().flatten();
                    if let Some(trailers) = &mut trailers {
                        representation::change_trailers(trailers);
                    }
                    return Poll::Ready(Ok(Some(Part::End(trailers))));
                }
                EncodingStage::Over => return Poll::Ready(Ok(None)),
            };
            if self.turn_bytes >= COMPRESSED_PIECE_BYTES {
                // Others of the worker have their turn.
                self.turn_bytes = 0;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            ready!(self.poll_room(cx, lease, 1));
            if self.encode(operation)? {
                let is_flushed = self.stage == EncodingStage::Flush;
                self.stage = self.after(self.stage);
                if is_flushed && let Some(flushed) = self.take_output() {
                    return Poll::Ready(Ok(Some(flushed)));
                }
            }
            if self
                .output
                .as_ref()
                .is_some_and(|output| output.spare() == 0)
            {
                return Poll::Ready(Ok(self.take_output()));
            }
        }
    }

    /// One call of the encoder; says whether `operation` is complete.
    fn encode(&mut self, operation: Operation) -> Result<bool, GatewayError> {
        let output = self.output.as_mut().expect("room was made");
        let input = self.input.as_ref().map_or(&[][..], Chunk::filled);
        let piece = &input[..input.len().min(COMPRESSED_PIECE_BYTES)];
        let stream = self.encoders.stream.as_mut().expect("else it gathers");
        let encoded = stream.encode(piece, output.spare_mut(), operation);
        let encoded = encoded.map_err(|_| GatewayError::over_budget())?;
        if let Some(padding) = &mut self.padding {
            padding.see(&piece[..encoded.read]);
        }
        output.advance(encoded.written);
        self.counts.read += encoded.read as u64;
        self.counts.written += encoded.written as u64;
        self.unflushed += encoded.read as u64;
        self.turn_bytes += encoded.read;
        if let Some(input) = &mut self.input {
            input.consume(encoded.read);
            if input.is_empty() {
                self.input = self.behind.take();
            }
        }
        Ok(encoded.is_done && operation != Operation::Process && self.input.is_none())
    }

    /// Ready when what came is gathered, or when all of it is streamed.
    fn poll_gather(&mut self, cx: &mut TaskContext<'_>, lease: &Lease) -> Polled<()> {
        let gathering = self.encoders.gathering.as_mut();
        let gathering = gathering.expect("the stage says so");
        let bytes = self.input.as_ref().map_or(0, Chunk::len);
        if gathering.takes(bytes) {
            ready!(gathering.poll_room(cx, lease, &mut self.waiter));
            if let Some(chunk) = self.input.take() {
                gathering.add(chunk);
            }
        } else if !self.stream() {
            // It has more than was said, which no server and no filter may give.
            return Poll::Ready(Err(GatewayError::over_budget()));
        }
        Poll::Ready(Ok(()))
    }

    /// Ready when gathered content is compressed.
    fn poll_whole(&mut self, cx: &mut TaskContext<'_>, lease: &Lease) -> Poll<()> {
        let gathering = self.encoders.gathering.as_ref();
        let gathering = gathering.expect("the stage says so");
        let bytes_max = gathering.gzip_bytes_max(self.padding.as_ref());
        let mut gzip = ready!(Buffer::poll_take(cx, lease, bytes_max, &mut self.waiter));
        gathering.encode(&mut gzip, self.padding.take());
        self.counts.read = gathering.content().len() as u64;
        self.counts.written = gzip.len() as u64;
        // What they hold makes room first.
        (self.encoders.gathering, self.encoders.stream) = (None, None);
        self.output = Some(fitted(gzip, lease));
        self.stage = EncodingStage::End;
        Poll::Ready(())
    }

    /// Has content that gathered pass from now on; says whether the budget has room for what that takes.
    fn stream(&mut self) -> bool {
        let encoders = &mut self.encoders;
        let Some(gathering) = encoders.gathering.take() else {
            return true;
        };
        if encoders.stream.is_none() {
            encoders.stream = gathering.stream();
        }
        if encoders.stream.is_none() {
            encoders.gathering = Some(gathering);
            return false;
        }
        if let Some(first) = gathering.into_chunk() {
            self.behind = self.input.replace(first);
        }
        self.stage = EncodingStage::Content;
        true
    }

    fn after_content(&self) -> EncodingStage {
        if self.padding.is_some() && Padding::is_within(self.manner.coding) {
            EncodingStage::Align
        } else {
            EncodingStage::Finish
        }
    }

    fn after(&mut self, stage: EncodingStage) -> EncodingStage {
        match stage {
            EncodingStage::Flush => {
                self.unflushed = 0;
                EncodingStage::Content
            }
            EncodingStage::Align => EncodingStage::PadWithin,
            EncodingStage::PadWithin => EncodingStage::Finish,
            EncodingStage::Finish if self.padding.is_some() => EncodingStage::PadAfter,
            EncodingStage::Finish | EncodingStage::PadAfter => EncodingStage::End,
            EncodingStage::Gather
            | EncodingStage::Content
            | EncodingStage::End
            | EncodingStage::Over => stage,
        }
    }

    /// Ready with what must go on first, or with `None` when it is padded.
    fn poll_pad(&mut self, cx: &mut TaskContext<'_>, lease: &Lease) -> Poll<Option<Part>> {
        let Some(padding) = self.padding.take() else {
            self.stage = self.after(self.stage);
            return Poll::Ready(None);
        };
        // The longest of all fits into an empty buffer.
        let spare = self.output.as_ref().map_or(0, Buffer::spare);
        let longest = padding.bytes_max(usize::MAX);
        if spare < longest {
            if let Some(full) = self.take_output() {
                self.padding = Some(padding);
                return Poll::Ready(Some(full));
            }
            if self.poll_room(cx, lease, longest).is_pending() {
                self.padding = Some(padding);
                return Poll::Pending;
            }
        }
        let bytes = padding.bytes(self.counts.written);
        let output = self.output.as_mut().expect("room was made");
        padding::fill(self.manner.coding, &mut output.spare_mut()[..bytes]);
        output.advance(bytes);
        self.counts.written += bytes as u64;
        self.stage = self.after(self.stage);
        Poll::Ready(None)
    }

    /// Ready when there is a buffer, of at least `bytes` where it is new.
    fn poll_room(&mut self, cx: &mut TaskContext<'_>, lease: &Lease, bytes: usize) -> Poll<()> {
        if self.output.is_none() {
            let room = content_room(lease).min(COMPRESSED_BUFFER_BYTES_MAX);
            let length = self.manner.length.unwrap_or(u64::MAX);
            // Content that does not grow by half.
            let room = room.min(usize::try_from(length).unwrap_or(usize::MAX) / 2);
            let buffer = ready!(Buffer::poll_take(
                cx,
                lease,
                room.max(bytes),
                &mut self.waiter
            ));
            self.output = Some(buffer);
        }
        Poll::Ready(())
    }

    fn take_output(&mut self) -> Option<Part> {
        let output = self.output.take()?;
        (!output.is_empty()).then(|| Part::Chunk(output.into()))
    }

    /// Ready when the server has paused for so long that what there is goes on.
    fn poll_pause(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        if self.manner.is_event_stream {
            return Poll::Ready(());
        }
        let pause = self
            .pause
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(FLUSH_AFTER)));
        pause.as_mut().poll(cx)
    }
}

impl BodyTransform for EncodedBody {
    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        self.pause = None;
        match part {
            Part::Chunk(chunk) => self.input = Some(chunk),
            Part::End(trailers) => self.end = Some(trailers),
        }
        Ok(())
    }

    fn poll_part(&mut self, cx: &mut TaskContext<'_>, lease: &Lease) -> Polled<Option<Part>> {
        self.poll_next(cx, lease)
    }

    fn poll_paused(&mut self, cx: &mut TaskContext<'_>, lease: &Lease) -> Polled<Part> {
        self.turn_bytes = 0;
        let gathered = self.encoders.gathering.as_ref().map(Gathering::content);
        let has_more = gathered.is_some_and(|content| !content.is_empty())
            || self.unflushed > 0
            || self.output.as_ref().is_some_and(|out| !out.is_empty());
        if !matches!(self.stage, EncodingStage::Gather | EncodingStage::Content) || !has_more {
            return Poll::Pending;
        }
        ready!(self.poll_pause(cx));
        if !self.stream() {
            // All of it is waited for.
            return Poll::Pending;
        }
        self.pause = None;
        self.stage = EncodingStage::Flush;
        match ready!(self.poll_next(cx, lease))? {
            Some(part) => Poll::Ready(Ok(part)),
            None => Poll::Pending,
        }
    }
}

impl Drop for EncodedBytes {
    fn drop(&mut self) {
        if let Some(meter) = &self.meter {
            meter.compressed(self.coding, self.read, self.written);
        }
    }
}
