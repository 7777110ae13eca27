//! A stored response: its key and variant, its head, its content, and the terms of its reuse.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use steppe_mem::alloc::block_bytes;
use steppe_mem::{Buffer, Chunk, Lease, OverBudget, Reservation};

use super::body::Body;
use super::freshness::Terms;
use super::key::CacheKey;
use super::variant::Variant;
use crate::date;
use crate::error::GatewayError;
use crate::field::{Field, FieldBlock, FieldId, FieldList, Span};
use crate::head::{ContentLength, ResponseHead, Version};
use crate::limits::CACHE_ENTRY_BYTES;

/// A stored response, or one that a fetch shares with the requests that wait for it.
#[derive(Debug)]
pub(crate) struct StoredResponse {
    pub(crate) key: Arc<CacheKey>,
    pub(crate) variant: Variant,
    pub(crate) terms: Terms,
    pub(crate) head: StoredHead,
    pub(crate) body: Arc<Body>,
    /// Its state in the eviction queues.
    pub(super) mark: Mark,
    _charge: Reservation,
}

/// The state of a stored response in the eviction queues.
#[derive(Debug, Default)]
pub(super) struct Mark {
    /// Uses that buy a further round in the main queue, up to [`Mark::USES_MAX`].
    uses: AtomicU8,
    /// The number of its queue; 0 where it is in none.
    pub(super) queue: AtomicU8,
    /// Memory that its eviction frees.
    pub(super) bytes: AtomicUsize,
}

/// The head of a stored response, without fields of the connection and of framing.
#[derive(Debug, Clone)]
pub(crate) struct StoredHead {
    bytes: Box<[u8]>,
    fields: Box<[Field]>,
    pub(crate) status: u16,
    reason: Span,
    version: Version,
    length: ContentLength,
}

/// The parts of a [`StoredResponse`].
#[derive(Debug)]
pub(super) struct StoredParts {
    pub(super) key: Arc<CacheKey>,
    pub(super) variant: Variant,
    pub(super) terms: Terms,
    pub(super) head: StoredHead,
    pub(super) body: Arc<Body>,
}

impl StoredResponse {
    /// A response that is charged to `lease`, but for its content and its key, which have charges of their own.
    pub(super) fn new(parts: StoredParts, lease: &Lease) -> Result<Arc<Self>, OverBudget> {
        let bytes = CACHE_ENTRY_BYTES
            + block_bytes(parts.head.bytes.len())
            + block_bytes(size_of_val(&*parts.head.fields))
            + parts.variant.bytes();
        let mark = Mark {
            bytes: AtomicUsize::new(bytes),
            ..Mark::default()
        };
        Ok(Arc::new(Self {
            _charge: lease.try_reserve(bytes)?,
            key: parts.key,
            variant: parts.variant,
            terms: parts.terms,
            head: parts.head,
            body: parts.body,
            mark,
        }))
    }

    /// Adds memory of its content to what its eviction frees.
    pub(super) fn add_bytes(&self, bytes: usize) {
        self.mark.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes over the mark of `other`, which has the same content and which this response replaces.
    pub(super) fn take_mark_of(&self, other: &Self) {
        let bytes = other.mark.bytes.load(Ordering::Relaxed);
        self.mark.bytes.store(bytes, Ordering::Relaxed);
        let uses = other.mark.uses.load(Ordering::Relaxed).max(1);
        self.mark.uses.store(uses, Ordering::Relaxed);
    }

    /// Counts a use of it.
    pub(crate) fn use_once(&self) {
        self.mark.use_once();
    }

    /// The length of its content, where it is known.
    pub(crate) fn content_bytes(&self) -> Option<u64> {
        self.body.bytes().or(match self.head.length {
            ContentLength::Known(bytes) => Some(bytes),
            ContentLength::Empty => Some(0),
            ContentLength::Unknown => None,
        })
    }
}

impl Mark {
    const USES_MAX: u8 = 3;

    /// Counts a use, up to the most: a write at every hit would have workers contend for a cache line.
    pub(super) fn use_once(&self) {
        let uses = self.uses.load(Ordering::Relaxed);
        if uses < Self::USES_MAX {
            self.uses.store(uses + 1, Ordering::Relaxed);
        }
    }

    /// Takes off one use; false where there was none.
    pub(super) fn spend(&self) -> bool {
        let uses = self.uses.load(Ordering::Relaxed);
        self.uses.store(uses.saturating_sub(1), Ordering::Relaxed);
        uses > 0
    }
}

/// Fields that no cache stores (RFC 9111 §3.1), and framing, which is written anew.
fn is_left_out(id: FieldId, name: &[u8]) -> bool {
    const LEFT_OUT: [&[u8]; 5] = [
        b"proxy-authenticate",
        b"proxy-authentication-info",
        b"proxy-authorization",
        // It becomes a part of the initial age.
        b"age",
        // Trailers are not stored.
        b"trailer",
    ];
    id == FieldId::ContentLength
        || id.is_hop_by_hop()
        || LEFT_OUT
            .iter()
            .any(|left_out| name.eq_ignore_ascii_case(left_out))
}

/// True if the response withholds the field from other requests, by `private` or `no-cache` with its name.
fn is_withheld(name: &[u8], withheld: &[Box<[u8]>]) -> bool {
    withheld
        .iter()
        .any(|field| name.eq_ignore_ascii_case(field))
}

/// A field line that a stored response lacks.
#[derive(Debug)]
pub(crate) struct WithheldLine {
    pub(crate) name: Box<[u8]>,
    pub(crate) value: Box<[u8]>,
    pub(crate) is_never_indexed: bool,
}

/// The lines of `fields` that [`StoredHead::of`] leaves out because they are `withheld` from others.
pub(super) fn withheld_lines(fields: &FieldBlock, withheld: &[Box<[u8]>]) -> Vec<WithheldLine> {
    let bytes = fields.bytes();
    let lines = fields.fields().iter().filter(|field| {
        let name = field.name(bytes);
        is_withheld(name, withheld) && !is_left_out(field.id, name)
    });
    let line = |field: &Field| WithheldLine {
        name: field.name(bytes).into(),
        value: field.value(bytes).into(),
        is_never_indexed: field.is_never_indexed(),
    };
    lines.map(line).collect()
}

impl StoredHead {
    /// The head to store of `head`: without the fields that are `withheld` from other requests.
    pub(super) fn of(head: &ResponseHead, withheld: &[Box<[u8]>]) -> Self {
        let mut bytes = head.reason().to_vec();
        let reason = Span::new(0, bytes.len());
        let mut fields = Vec::new();
        let mut put = |name: &[u8], value: &[u8], is_never_indexed: bool| {
            let start = bytes.len();
            for piece in [name, b": ", value, b"\r\n"] {
                bytes.extend_from_slice(piece);
            }
            let name = Span::new(start, start + name.len());
            let value = Span::new(name.end() + 2, bytes.len() - 2);
            let field = Field::new(&bytes, name, value);
            fields.push(match is_never_indexed {
                true => field.never_indexed(),
                false => field,
            });
        };
        for &field in head.fields.fields() {
            let bytes = head.fields.bytes();
            let (name, value) = (field.name(bytes), field.value(bytes));
            if !is_withheld(name, withheld) && !is_left_out(field.id, name) {
                put(name, value, field.is_never_indexed());
            }
        }
        if !head.fields.has(FieldId::Date) {
            // RFC 9110 §6.6.1: the time at which it was received.
            put(b"date", &date::now(), false);
        }
        Self {
            fields: fields.into(),
            bytes: bytes.into(),
            status: head.status,
            reason,
            version: head.version,
            length: head.length,
        }
    }

    /// Values of the lines named `name`.
    pub(crate) fn values<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let named = move |field: &&Field| field.name(&self.bytes).eq_ignore_ascii_case(name);
        let fields = self.fields.iter().filter(named);
        fields.map(|field| field.value(&self.bytes))
    }

    /// A copy to be sent, in memory of `lease`.
    pub(crate) fn to_head(&self, lease: &Lease) -> Result<ResponseHead, GatewayError> {
        /// For fields that are added before it is sent.
        const ROOM: usize = 512;
        let mut bytes = Buffer::take(lease, self.bytes.len() + ROOM)?;
        bytes.put(&self.bytes).expect("it was taken for them");
        let mut fields = FieldList::take();
        for &field in &self.fields {
            fields.try_push(field, lease)?;
        }
        Ok(ResponseHead {
            fields: FieldBlock::new(bytes, fields),
            version: self.version,
            status: self.status,
            length: self.length,
            reason: self.reason,
            upgrade: None,
            is_connected: false,
        })
    }
}

/// `chunk` charged to `lease`, as a view that readers share; `chunk` itself as the error where there is no room.
///
/// A buffer that is mostly full is taken over; content that would keep much more memory than its bytes is copied, once.
pub(super) fn take_over(chunk: Chunk, lease: &Lease) -> Result<Chunk, Chunk> {
    let bytes = chunk.len();
    let chunk = if chunk.charged_bytes() <= bytes + bytes / 8 {
        match chunk.into_buffer() {
            Ok(mut buffer) => {
                let is_charged = buffer.charge_to(lease).is_ok();
                let mut chunk = Chunk::from(buffer);
                let _ = chunk.share();
                return if is_charged { Ok(chunk) } else { Err(chunk) };
            }
            Err(chunk) => chunk,
        }
    } else {
        chunk
    };
    match lease.try_reserve(bytes + CHUNK_OVERHEAD_BYTES) {
        Ok(charge) => {
            let copy = bytes::Bytes::copy_from_slice(chunk.filled());
            let mut chunk = Chunk::charged(copy, charge);
            let _ = chunk.share();
            Ok(chunk)
        }
        Err(_) => Err(chunk),
    }
}

/// Memory of the allocator and of the handles of a copied chunk.
const CHUNK_OVERHEAD_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;
    use crate::cache::validation::freshened;

    /// RFC 7541 §6.2.3.
    #[test]
    fn a_line_that_came_never_indexed_is_stored_so() {
        let budget = Budget::new(1 << 20);
        let lease = budget.root().lease();
        let mut bytes = Buffer::take(&lease, 1024).expect("room");
        bytes.put(b"x: 1\r\ny: 2\r\n").expect("room");
        let mut fields = FieldList::take();
        let x = Field::new(bytes.filled(), Span::new(0, 1), Span::new(3, 4));
        let y = Field::new(bytes.filled(), Span::new(6, 7), Span::new(9, 10));
        for field in [x.never_indexed(), y] {
            fields.try_push(field, &lease).expect("room");
        }
        let head = ResponseHead {
            fields: FieldBlock::new(bytes, fields),
            version: Version::Http2,
            status: 200,
            length: ContentLength::Empty,
            reason: Span::default(),
            upgrade: None,
            is_connected: false,
        };
        let stored = StoredHead::of(&head, &[]);
        // The last one is `date`, which is added.
        let expected = [true, false, false];
        let sent = stored.to_head(&lease).expect("room");
        // A 304 has the fields anew.
        let renewed = freshened(&stored, &head, &lease).expect("room");
        for head in [sent, renewed] {
            let lines = head.fields.fields().iter();
            let are_never_indexed: Vec<_> = lines.map(|field| field.is_never_indexed()).collect();
            assert_eq!(are_never_indexed, expected);
        }
        let withheld = withheld_lines(&head.fields, &[b"x"[..].into(), b"y"[..].into()]);
        let withheld: Vec<_> = withheld.iter().map(|line| line.is_never_indexed).collect();
        assert_eq!(withheld, [true, false]);
    }
}
