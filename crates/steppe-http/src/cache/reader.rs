//! Sends a stored response to a client: the whole of it, ranges, or 304. Spec: RFC 9111 §4, RFC 9110 §14, RFC 9211.

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_mem::{Buffer, Chunk, Lease, OverBudget};

use super::body::{BodyCut, BodyReader};
use super::stats::ServedFrom;
use super::stored::{StoredResponse, WithheldLine};
use super::validation::validators;
use crate::conditional::multipart::Multipart;
use crate::conditional::range::{RequestedRange, append_content_range, append_unsatisfied_range};
use crate::error::{GatewayError, Resend};
use crate::exchange::Part;
use crate::head::{ContentLength, RequestHead, ResponseHead};
use crate::local::Responder;
use crate::status;

/// The request that a stored response is sent to, and the facts that its fields depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CachedRequest<'a> {
    pub(crate) head: &'a RequestHead,
    pub(crate) lease: &'a Lease,
    pub(crate) from: ServedFrom,
    /// It was fetched for another request.
    pub(crate) is_collapsed: bool,
    /// It is stored, or was stored.
    pub(crate) is_stored: bool,
    /// The response has `Cache-Status`.
    pub(crate) has_cache_status: bool,
    pub(crate) now: Instant,
}

/// A response that is being sent.
#[derive(Debug)]
pub(crate) struct Reader {
    head: Option<ResponseHead>,
    content: ServedContent,
    lease: Lease,
}

#[derive(Debug)]
enum ServedContent {
    Nothing,
    /// The content of the response, or the bytes that are left of a range.
    One(BodyReader, Option<u64>),
    Several(Box<Parts>),
}

/// Several ranges of complete content.
#[derive(Debug)]
struct Parts {
    parts: Multipart,
    reader: BodyReader,
    left: u64,
}

impl Reader {
    /// A reader of `stored` for a request; `reserved` is its content where that was kept for the request.
    ///
    /// # Errors
    /// Where the budget has no room, or the start of the content was released.
    pub(crate) fn new(
        stored: &Arc<StoredResponse>,
        reserved: Option<BodyReader>,
        reading: &CachedRequest<'_>,
    ) -> Result<Self, GatewayError> {
        let asked = &reading.head.fields;
        let is_head = reading.head.method() == b"HEAD";
        let is_whole = stored.head.status == 200;
        let validators = validators(&stored.head);
        if is_whole && validators.are_known(asked) {
            return Self::not_modified(stored, reading);
        }
        let bytes = stored.content_bytes();
        if let Some(bytes) = bytes.filter(|_| is_whole && !is_head) {
            match validators.requested_range(asked, bytes) {
                RequestedRange::Single(range) => {
                    return Self::one(stored, reserved, reading, range);
                }
                RequestedRange::Multiple(ranges) if stored.body.bytes().is_some() => {
                    return Self::several(stored, reading, ranges);
                }
                RequestedRange::Unsatisfiable => return Self::unsatisfiable(stored, reading),
                RequestedRange::Whole | RequestedRange::Multiple(_) => {}
            }
        }
        let mut head = stored.head.to_head(reading.lease)?;
        reading.add_fields(stored, &mut head)?;
        if let Some(bytes) = bytes {
            head.length = match bytes {
                0 => ContentLength::Empty,
                bytes => ContentLength::Known(bytes),
            };
        }
        if is_head {
            if let Some(bytes) = bytes {
                (head.fields).append_formatted(b"content-length", format_args!("{bytes}"))?;
            }
            head.length = ContentLength::Empty;
            return Ok(Self::of(head, ServedContent::Nothing, reading));
        }
        let reader = reader(stored, reserved)?;
        Ok(Self::of(head, ServedContent::One(reader, None), reading))
    }

    /// Adds `lines` to the head, which are for this request alone.
    ///
    /// # Errors
    /// Where the budget has no room.
    pub(crate) fn with_lines(mut self, lines: &[WithheldLine]) -> Result<Self, GatewayError> {
        if let Some(head) = &mut self.head {
            for line in lines {
                match line.is_never_indexed {
                    true => head.fields.append_never_indexed(&line.name, &line.value)?,
                    false => head.fields.append(&line.name, &line.value)?,
                }
            }
        }
        Ok(self)
    }

    fn of(head: ResponseHead, content: ServedContent, reading: &CachedRequest<'_>) -> Self {
        Self {
            head: Some(head),
            content,
            lease: reading.lease.clone(),
        }
    }

    fn not_modified(
        stored: &StoredResponse,
        reading: &CachedRequest<'_>,
    ) -> Result<Self, GatewayError> {
        let mut head = with_status(stored, reading, 304)?;
        // RFC 9110 §15.4.5: no other metadata of the representation.
        for name in [
            &b"content-type"[..],
            b"content-encoding",
            b"content-language",
            b"content-range",
        ] {
            head.fields.remove(name);
        }
        reading.add_fields(stored, &mut head)?;
        head.length = ContentLength::Empty;
        Ok(Self::of(head, ServedContent::Nothing, reading))
    }

    fn unsatisfiable(
        stored: &StoredResponse,
        reading: &CachedRequest<'_>,
    ) -> Result<Self, GatewayError> {
        let bytes = stored.content_bytes().unwrap_or_default();
        let mut head = ResponseHead::new(416, ContentLength::Empty, reading.lease)?;
        append_unsatisfied_range(&mut head.fields, bytes)?;
        reading.add_fields(stored, &mut head)?;
        Ok(Self::of(head, ServedContent::Nothing, reading))
    }

    fn one(
        stored: &Arc<StoredResponse>,
        reserved: Option<BodyReader>,
        reading: &CachedRequest<'_>,
        range: Range<u64>,
    ) -> Result<Self, GatewayError> {
        let bytes = stored.content_bytes().unwrap_or_default();
        let mut head = partial_head(stored, reading)?;
        reading.add_fields(stored, &mut head)?;
        append_content_range(&mut head.fields, &range, bytes)?;
        let length = range.end - range.start;
        head.length = ContentLength::Known(length);
        let mut reader = reader(stored, reserved)?;
        reader.seek(range.start);
        Ok(Self::of(
            head,
            ServedContent::One(reader, Some(length)),
            reading,
        ))
    }

    fn several(
        stored: &Arc<StoredResponse>,
        reading: &CachedRequest<'_>,
        ranges: Vec<Range<u64>>,
    ) -> Result<Self, GatewayError> {
        let bytes = stored.content_bytes().unwrap_or_default();
        let media_type = stored.head.values(b"content-type").next();
        let media_type = media_type.unwrap_or(b"application/octet-stream");
        let media_type = String::from_utf8_lossy(media_type).into_owned();
        let parts = Multipart::new(ranges, bytes, media_type);
        let mut head = partial_head(stored, reading)?;
        let media_type = parts.content_type();
        head.fields.set(b"content-type", media_type.as_bytes())?;
        reading.add_fields(stored, &mut head)?;
        head.length = ContentLength::Known(parts.content_length());
        let parts = Parts {
            parts,
            reader: reader(stored, None)?,
            left: 0,
        };
        Ok(Self::of(
            head,
            ServedContent::Several(Box::new(parts)),
            reading,
        ))
    }
}

fn reader(
    stored: &Arc<StoredResponse>,
    reserved: Option<BodyReader>,
) -> Result<BodyReader, GatewayError> {
    let reader = reserved.or_else(|| stored.body.reader());
    reader.ok_or_else(|| GatewayError::cut(Resend::No))
}

fn with_status(
    stored: &StoredResponse,
    reading: &CachedRequest<'_>,
    status: u16,
) -> Result<ResponseHead, GatewayError> {
    let mut head = stored.head.to_head(reading.lease)?;
    head.status = status;
    head.reason = head.fields.put(status::reason(status).as_bytes())?;
    Ok(head)
}

/// The head of a response with a part of the content, which digests of the whole do not fit (RFC 9530 §2).
fn partial_head(
    stored: &StoredResponse,
    reading: &CachedRequest<'_>,
) -> Result<ResponseHead, GatewayError> {
    let mut head = with_status(stored, reading, 206)?;
    for name in [&b"content-digest"[..], b"content-md5"] {
        head.fields.remove(name);
    }
    Ok(head)
}

impl CachedRequest<'_> {
    fn add_fields(
        &self,
        stored: &StoredResponse,
        head: &mut ResponseHead,
    ) -> Result<(), OverBudget> {
        let terms = &stored.terms;
        let age = terms.age(self.now);
        // RFC 9111 §5.1: a response that was just fetched has an age where another cache had it.
        if self.from != ServedFrom::Miss || self.is_collapsed || terms.initial_age > 0 {
            (head.fields).append_formatted(b"age", format_args!("{age}"))?;
        }
        if !self.has_cache_status {
            return Ok(());
        }
        let ttl = i128::from(terms.lifetime) - i128::from(age);
        let collapsed = if self.is_collapsed { "; collapsed" } else { "" };
        let is_stored = if self.is_stored { "; stored" } else { "" };
        let value = match self.from {
            ServedFrom::Hit | ServedFrom::Stale => format_args!("steppe; hit; ttl={ttl}"),
            ServedFrom::Revalidated => {
                format_args!("steppe; fwd=stale; fwd-status=304; ttl={ttl}{collapsed}")
            }
            ServedFrom::Miss => format_args!("steppe; fwd=miss{is_stored}{collapsed}"),
        };
        head.fields.append_formatted(b"cache-status", value)
    }
}

impl Responder for Reader {
    fn poll_head(&mut self, _: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        Poll::Ready(self.head.take().ok_or_else(GatewayError::bad_response))
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        match &mut self.content {
            ServedContent::Nothing => Poll::Ready(Ok(Part::End(None))),
            ServedContent::One(reader, left) => {
                let Some(chunk) = ready!(poll_some(cx, reader, left.as_mut()))? else {
                    return Poll::Ready(Ok(Part::End(reader.trailers())));
                };
                Poll::Ready(Ok(Part::Chunk(chunk)))
            }
            ServedContent::Several(parts) => parts.poll_part(cx, &self.lease),
        }
    }

    fn is_starved(&self) -> bool {
        false
    }
}

/// The next chunk, of `left` bytes at most.
fn poll_some(
    cx: &mut Context<'_>,
    reader: &mut BodyReader,
    left: Option<&mut u64>,
) -> Poll<Result<Option<Chunk>, GatewayError>> {
    if left.as_ref().is_some_and(|left| **left == 0) {
        return Poll::Ready(Ok(None));
    }
    let chunk = ready!(reader.poll_chunk(cx)).map_err(|BodyCut| GatewayError::cut(Resend::No))?;
    let (mut chunk, left) = match (chunk, left) {
        (Some(chunk), Some(left)) => (chunk, left),
        (chunk, _) => return Poll::Ready(Ok(chunk)),
    };
    if chunk.len() as u64 > *left {
        let most = usize::try_from(*left).expect("it is less than the chunk has");
        chunk = chunk.split_to(most);
    }
    *left -= chunk.len() as u64;
    Poll::Ready(Ok(Some(chunk)))
}

impl Parts {
    fn poll_part(
        &mut self,
        cx: &mut Context<'_>,
        lease: &Lease,
    ) -> Poll<Result<Part, GatewayError>> {
        if self.left > 0 {
            let chunk = ready!(poll_some(cx, &mut self.reader, Some(&mut self.left)))?;
            let chunk = chunk.ok_or_else(|| GatewayError::cut(Resend::No))?;
            return Poll::Ready(Ok(Part::Chunk(chunk)));
        }
        let Some((text, range)) = self.parts.next() else {
            return Poll::Ready(Ok(Part::End(None)));
        };
        self.left = range.end - range.start;
        self.reader.seek(range.start);
        let mut words = Buffer::take(lease, text.len())?;
        words.put(text.as_bytes()).expect("it was taken for it");
        Poll::Ready(Ok(Part::Chunk(words.into())))
    }
}
