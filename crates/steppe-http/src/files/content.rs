//! Bytes of a file on their way to a client.
//!
//! Invariant: a file that lies in the page cache is read where it is asked for; one that has to
//! come from a disk is read by a thread that may wait, and its worker goes on meanwhile. At most one
//! buffer an exchange is filled at a time.

use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::ops::Range;
use std::task::{Context, Poll, ready};

use steppe_mem::{Buffer, Lease};
use steppe_net::{File, Reading};

use crate::error::GatewayError;
use crate::exchange::{Part, fair_share};
use crate::limits::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN};
use crate::metrics::CloseReason;

/// What is still to be sent.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// Goes first.
    made: Option<Buffer>,
    /// `None` while it is with `reading`, or where there is none.
    file: Option<File>,
    /// Of the file, the part under way.
    part: Range<u64>,
    reading: Option<Reading>,
    several: Option<Box<Several>>,
    is_starved: bool,
}

/// Parts of one file in a `multipart/byteranges` (RFC 9110 §14.6).
#[derive(Debug)]
pub(super) struct Several {
    boundary: String,
    /// What stands before each part, and after the last.
    between: Vec<String>,
    parts: Vec<Range<u64>>,
    next: usize,
}

impl Content {
    /// Bytes that are no file's.
    pub(super) fn made(bytes: Buffer) -> Self {
        Self {
            made: Some(bytes),
            ..Self::default()
        }
    }

    /// One part of `file`.
    pub(super) fn part(file: File, part: Range<u64>) -> Self {
        Self {
            file: Some(file),
            part,
            ..Self::default()
        }
    }

    pub(super) fn several(file: File, several: Several) -> Self {
        Self {
            file: Some(file),
            several: Some(Box::new(several)),
            ..Self::default()
        }
    }

    /// How many there are, before any was sent.
    pub(super) fn bytes(&self) -> u64 {
        match &self.several {
            Some(several) => several.bytes(),
            None => self.part.end - self.part.start,
        }
    }

    pub(super) fn is_starved(&self) -> bool {
        self.is_starved
    }

    pub(super) fn poll_part(
        &mut self,
        cx: &mut Context<'_>,
        lease: &Lease,
    ) -> Poll<Result<Part, GatewayError>> {
        if let Some(made) = self.made.take() {
            return Poll::Ready(Ok(Part::Chunk(made)));
        }
        if let Some(several) = &mut self.several
            && self.part.is_empty()
        {
            let Some((between, part)) = several.next() else {
                return Poll::Ready(Ok(Part::End(None)));
            };
            let mut bytes = Buffer::take(lease, between.len())?;
            bytes.put(between.as_bytes()).expect("it was taken for it");
            self.part = part;
            return Poll::Ready(Ok(Part::Chunk(bytes)));
        }
        if self.part.is_empty() {
            return Poll::Ready(Ok(Part::End(None)));
        }
        let chunk = ready!(self.poll_read(cx, lease))?;
        if chunk.is_empty() {
            // It was cut while it was sent.
            return Poll::Ready(Err(lost()));
        }
        self.part.start += chunk.len() as u64;
        Poll::Ready(Ok(Part::Chunk(chunk)))
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        lease: &Lease,
    ) -> Poll<Result<Buffer, GatewayError>> {
        if self.reading.is_none() {
            let left = usize::try_from(self.part.end - self.part.start).unwrap_or(usize::MAX);
            let room = fair_share(lease).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
            let taken = Buffer::poll_take(cx, lease, left.min(room));
            self.is_starved = taken.is_pending();
            let mut buffer = ready!(taken);
            let file = self.file.take().expect("nobody reads it");
            match file.try_read(&mut buffer, left, self.part.start) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.reading = Some(file.read(buffer, left, self.part.start));
                }
                read => {
                    self.file = Some(file);
                    return Poll::Ready(read.map(|_| buffer).map_err(|_| lost()));
                }
            }
        }
        let reading = self.reading.as_mut().expect("it was begun");
        let read = ready!(reading.poll(cx));
        self.reading = None;
        let (file, buffer, read) = read.map_err(|_| lost())?;
        self.file = Some(file);
        Poll::Ready(read.map(|_| buffer).map_err(|_| lost()))
    }
}

/// The rest can't be had.
fn lost() -> GatewayError {
    GatewayError::upstream(CloseReason::UpstreamReset, 502)
}

impl Several {
    /// `parts` of a file of so many `bytes`, of the media type `kind`.
    pub(super) fn new(parts: Vec<Range<u64>>, kind: &str, bytes: u64) -> Self {
        // 128 bits that nobody who writes a file can know.
        let boundary = format!("{:016x}{:016x}", random(), random());
        let before = |part: &Range<u64>| {
            let (first, last) = (part.start, part.end - 1);
            format!(
                "\r\n--{boundary}\r\ncontent-type: {kind}\r\n\
                 content-range: bytes {first}-{last}/{bytes}\r\n\r\n"
            )
        };
        let mut between: Vec<_> = parts.iter().map(before).collect();
        between.push(format!("\r\n--{boundary}--\r\n"));
        Self {
            boundary,
            between,
            parts,
            next: 0,
        }
    }

    pub(super) fn boundary(&self) -> &str {
        &self.boundary
    }

    fn bytes(&self) -> u64 {
        let between: usize = self.between.iter().map(String::len).sum();
        let parts: u64 = self.parts.iter().map(|part| part.end - part.start).sum();
        between as u64 + parts
    }

    /// What stands before the next part, and the part; for the end an empty one.
    fn next(&mut self) -> Option<(&str, Range<u64>)> {
        let between = self.between.get(self.next)?;
        let part = self.parts.get(self.next).cloned().unwrap_or_default();
        self.next += 1;
        Some((between, part))
    }
}

fn random() -> u64 {
    RandomState::new().hash_one(())
}
