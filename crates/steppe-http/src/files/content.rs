//! The content of a file, read in chunks.
//!
//! Invariant: exactly the announced length is sent, or the exchange fails: a truncated file
//! is never padded, and bytes appended to a file are not sent.

use std::io;
use std::ops::Range;
use std::task::{Context, Poll, ready};

use steppe_mem::{Buffer, Lease, Waiter};
use steppe_net::{File, Reading};

use crate::conditional::multipart::Multipart;
use crate::error::GatewayError;
use crate::exchange::{Part, content_room};

/// Content of a response.
#[derive(Debug)]
pub(super) enum Content {
    /// No content, or all of it was sent.
    Nothing,
    /// Text that is in memory.
    Words(Buffer),
    /// Bytes of a file.
    File(FileContent),
}

/// A place in the queue for budget.
#[derive(Debug, Default)]
pub(super) struct BudgetWait {
    waiter: Waiter,
    pub(super) is_starved: bool,
}

/// Bytes of a file that are still to be sent.
#[derive(Debug)]
pub(super) struct FileContent {
    source: FileSource,
    /// The range being sent.
    range: Range<u64>,
    /// The parts of `multipart/byteranges` that follow.
    parts: Option<Box<Multipart>>,
}

#[derive(Debug)]
enum FileSource {
    /// The worker reads it.
    Open(File),
    /// A blocking thread reads it.
    Reading(Reading),
    /// A read failed.
    Failed,
}

impl Content {
    /// The next part. `waiting` tells whether it waits for budget.
    pub(super) fn poll_part(
        &mut self,
        cx: &mut Context<'_>,
        lease: &Lease,
        waiting: &mut BudgetWait,
    ) -> Poll<Result<Part, GatewayError>> {
        if let Self::File(file) = self {
            let chunk = ready!(file.poll_chunk(cx, lease, waiting))?;
            return Poll::Ready(Ok(
                chunk.map_or(Part::End(None), |chunk| Part::Chunk(chunk.into()))
            ));
        }
        let part = match std::mem::replace(self, Self::Nothing) {
            Self::Words(words) => Part::Chunk(words.into()),
            _ => Part::End(None),
        };
        Poll::Ready(Ok(part))
    }
}

impl FileContent {
    /// The content of `range` of `file`.
    pub(super) fn range(file: File, range: Range<u64>) -> Self {
        Self {
            source: FileSource::Open(file),
            range,
            parts: None,
        }
    }

    /// Several ranges of `file` as `multipart/byteranges`.
    pub(super) fn parts(file: File, parts: Multipart) -> Self {
        Self {
            parts: Some(Box::new(parts)),
            ..Self::range(file, 0..0)
        }
    }

    fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
        lease: &Lease,
        waiting: &mut BudgetWait,
    ) -> Poll<Result<Option<Buffer>, GatewayError>> {
        if self.range.is_empty() {
            let Some((text, range)) = self.parts.as_mut().and_then(|parts| parts.next()) else {
                return Poll::Ready(Ok(None));
            };
            self.range = range;
            let mut words = Buffer::take(lease, text.len())?;
            words.put(text.as_bytes()).expect("it was taken for it");
            return Poll::Ready(Ok(Some(words)));
        }
        let chunk = ready!(self.poll_read(cx, lease, waiting));
        let chunk = chunk.map_err(|error| GatewayError::file(&error))?;
        self.range.start += chunk.len() as u64;
        Poll::Ready(Ok(Some(chunk)))
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        lease: &Lease,
        waiting: &mut BudgetWait,
    ) -> Poll<io::Result<Buffer>> {
        if let FileSource::Open(file) = &mut self.source {
            let left = self.range.end - self.range.start;
            let bytes = content_room(lease).min(usize::try_from(left).unwrap_or(usize::MAX));
            let taken = Buffer::poll_take(cx, lease, bytes, &mut waiting.waiter);
            waiting.is_starved = taken.is_pending();
            let mut buffer = ready!(taken);
            match file.try_read(&mut buffer, bytes, self.range.start) {
                Ok(count) => return Poll::Ready(some(buffer, count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            let FileSource::Open(file) = std::mem::replace(&mut self.source, FileSource::Failed)
            else {
                unreachable!("it was read from above");
            };
            self.source = FileSource::Reading(file.read(buffer, bytes, self.range.start)?);
        }
        let FileSource::Reading(reading) = &mut self.source else {
            return Poll::Ready(Err(io::ErrorKind::Other.into()));
        };
        let (file, buffer, count) = ready!(reading.poll(cx))?;
        self.source = FileSource::Open(file);
        Poll::Ready(some(buffer, count?))
    }
}

/// An early end of file is an error.
fn some(buffer: Buffer, count: usize) -> io::Result<Buffer> {
    match count {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(buffer),
    }
}
