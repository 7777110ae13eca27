//! Short content that becomes gzip all at once.
//!
//! Invariant: it holds no more than [`WHOLE_CONTENT_BYTES_MAX`] of content, charged as what is read is. What turns out
//! to be longer, or does not come at once, is streamed instead, from its first byte on.

use std::task::{Context as TaskContext, Poll, ready};

use steppe_mem::{Buffer, Chunk, Lease, Waiter};

use super::contexts::{EncoderContext, Whole};
use super::padding::Padding;
use crate::limits::{CHUNK_BYTES_MIN, WHOLE_CONTENT_BYTES_MAX};

/// Content as far as it came, and what will compress it.
#[derive(Debug)]
pub(super) struct Gathering {
    whole: Whole,
    /// `None`: what comes first is all of it, or it is streamed.
    length: Option<usize>,
    held: GatheredContent,
}

#[derive(Debug)]
enum GatheredContent {
    Nothing,
    /// As it came: content that is there at once is not copied.
    One(Chunk),
    /// In a buffer for all of it.
    Several(Buffer),
}

impl Gathering {
    /// True when content of `length` bytes, as far as that is known, may become gzip all at once.
    pub(super) fn is_for(length: Option<u64>) -> bool {
        length.is_none_or(|length| length <= WHOLE_CONTENT_BYTES_MAX as u64)
    }

    pub(super) fn new(whole: Whole, length: Option<u64>) -> Self {
        Self {
            whole,
            length: length.and_then(|length| usize::try_from(length).ok()),
            held: GatheredContent::Nothing,
        }
    }

    /// The content gathered so far.
    pub(super) fn content(&self) -> &[u8] {
        match &self.held {
            GatheredContent::Nothing => &[],
            GatheredContent::One(chunk) => chunk.filled(),
            GatheredContent::Several(buffer) => buffer.filled(),
        }
    }

    /// True when so much more may be added; else all of it is to be streamed.
    pub(super) fn takes(&self, bytes: usize) -> bool {
        let allowed = match (&self.held, self.length) {
            (_, Some(length)) => length,
            (GatheredContent::Nothing, None) => WHOLE_CONTENT_BYTES_MAX,
            (_, None) => 0,
        };
        self.content().len() + bytes <= allowed
    }

    /// Ready when there is room for what it [takes](Self::takes).
    pub(super) fn poll_room(
        &mut self,
        cx: &mut TaskContext<'_>,
        lease: &Lease,
        waiter: &mut Waiter,
    ) -> Poll<()> {
        if let (GatheredContent::One(first), Some(length)) = (&self.held, self.length) {
            let mut buffer = ready!(Buffer::poll_take(cx, lease, length, waiter));
            buffer.put(first.filled()).expect("it is a part of all");
            self.held = GatheredContent::Several(buffer);
        }
        Poll::Ready(())
    }

    /// Takes some of it over, for which there is room.
    pub(super) fn add(&mut self, chunk: Chunk) {
        match &mut self.held {
            GatheredContent::Several(buffer) => buffer.put(chunk.filled()).expect("room was made"),
            held => *held = GatheredContent::One(chunk),
        }
    }

    /// Most bytes that the gzip of all that came has, padded.
    pub(super) fn gzip_bytes_max(&self, padding: Option<&Padding>) -> usize {
        let bytes_max = self.whole.bytes_max(self.content().len());
        bytes_max + padding.map_or(0, |padding| padding.bytes_max(bytes_max))
    }

    /// Writes the gzip of all that came into a buffer with room for [so much](Self::gzip_bytes_max).
    pub(super) fn encode(&self, gzip: &mut Buffer, padding: Option<Padding>) {
        let content = self.content();
        let written = self.whole.encode(content, gzip.spare_mut());
        gzip.advance(written);
        if let Some(mut padding) = padding {
            padding.see(content);
            padding.insert(gzip);
        }
    }

    /// An encoder that takes it piece by piece instead; `None` where the budget has no room for one.
    pub(super) fn stream(&self) -> Option<EncoderContext> {
        self.whole.stream()
    }

    /// The content gathered so far, for the streaming encoder.
    pub(super) fn into_chunk(self) -> Option<Chunk> {
        match self.held {
            GatheredContent::Nothing => None,
            GatheredContent::One(chunk) => Some(chunk),
            GatheredContent::Several(buffer) => Some(buffer.into()),
        }
    }
}

/// `buffer`, or a smaller one with what it holds, where that is little of it and the budget has room for both.
pub(super) fn fitted(buffer: Buffer, lease: &Lease) -> Buffer {
    let is_tight = buffer.len() > buffer.capacity() / 2 || buffer.capacity() <= CHUNK_BYTES_MIN;
    if is_tight {
        return buffer;
    }
    match Buffer::take(lease, buffer.len()) {
        Ok(mut smaller) => {
            let put = smaller.put(buffer.filled());
            put.expect("it was taken for it");
            smaller
        }
        Err(_) => buffer,
    }
}
