//! A piece of content, owned or shared.
//!
//! Invariant: the memory behind a chunk is charged once, however many views of it
//! there are, and given back with the last of them.
//!
//! Leaves out: changing content that is shared. Code that rewrites content takes the buffer out of an owned chunk, or
//! takes a new one.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::account::{Lease, Reservation};
use crate::buffer::Buffer;

/// A piece of content: a buffer of its own, or a view of memory that other chunks may share.
///
/// An owned chunk costs no more than its [`Buffer`]. To share it allocates a few words, once, and copies nothing.
pub struct Chunk(ChunkContent);

enum ChunkContent {
    Owned(Buffer),
    Shared(View),
}

/// Bytes `start..end` of `memory`.
#[derive(Clone)]
struct View {
    memory: Arc<Memory>,
    start: usize,
    end: usize,
}

enum Memory {
    Pooled(Buffer),
    /// Memory of a library, and its charge.
    Charged(Bytes, Reservation),
}

const _: () = assert!(size_of::<Chunk>() <= 24);

impl Chunk {
    /// Bytes in memory of a library, which `charge` accounts for until the last view goes.
    #[must_use]
    pub fn charged(bytes: Bytes, mut charge: Reservation) -> Self {
        charge.bind();
        Self(ChunkContent::Shared(View::of(Memory::Charged(
            bytes, charge,
        ))))
    }

    /// The filled bytes.
    #[must_use]
    pub fn filled(&self) -> &[u8] {
        match &self.0 {
            ChunkContent::Owned(buffer) => buffer.filled(),
            ChunkContent::Shared(view) => view.bytes(),
        }
    }

    /// The number of filled bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            ChunkContent::Owned(buffer) => buffer.len(),
            ChunkContent::Shared(view) => view.end - view.start,
        }
    }

    /// True if the chunk has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops the first `count` bytes.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn consume(&mut self, count: usize) {
        match &mut self.0 {
            ChunkContent::Owned(buffer) => buffer.consume(count),
            ChunkContent::Shared(view) => view.consume(count),
        }
    }

    /// Takes the first `count` bytes off as a chunk of their own; both are views then.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn split_to(&mut self, count: usize) -> Self {
        let view = self.view();
        let mut first = view.clone();
        view.consume(count);
        first.end = view.start;
        Self(ChunkContent::Shared(first))
    }

    /// A second view of the same bytes. An owned chunk becomes a view itself.
    #[must_use]
    pub fn share(&mut self) -> Self {
        Self(ChunkContent::Shared(self.view().clone()))
    }

    /// A second view of the same bytes, if the chunk [is a view](Chunk::share) already; `None` if it is owned.
    #[must_use]
    pub fn view_again(&self) -> Option<Self> {
        match &self.0 {
            ChunkContent::Owned(_) => None,
            ChunkContent::Shared(view) => Some(Self(ChunkContent::Shared(view.clone()))),
        }
    }

    /// Passes the chunk to another task: it counts for the client in whose scope this is called until it is freed
    /// there. Views and a library's memory do so from the beginning.
    pub fn bind(&mut self) {
        if let ChunkContent::Owned(buffer) = &mut self.0 {
            buffer.bind();
        }
    }

    /// The content as a library's `Bytes`, which keep memory and charge until the last clone is
    /// dropped.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self.0 {
            ChunkContent::Owned(mut buffer) => {
                buffer.bind();
                buffer.freeze()
            }
            ChunkContent::Shared(view) => Bytes::from_owner(view),
        }
    }

    /// The buffer of an owned chunk, or of the last view of one.
    ///
    /// # Errors
    /// The chunk itself, if other chunks view its memory or if that is a library's.
    pub fn into_buffer(self) -> Result<Buffer, Self> {
        match self.0 {
            ChunkContent::Owned(buffer) => Ok(buffer),
            ChunkContent::Shared(view) => view
                .into_buffer()
                .map_err(|view| Self(ChunkContent::Shared(view))),
        }
    }

    /// Bytes charged for the memory that the chunk is a part of.
    #[must_use]
    pub fn charged_bytes(&self) -> usize {
        match &self.0 {
            ChunkContent::Owned(buffer) => buffer.capacity(),
            ChunkContent::Shared(view) => view.memory.charged_bytes(),
        }
    }

    /// The lease that the chunk is charged to.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        match &self.0 {
            ChunkContent::Owned(buffer) => buffer.lease(),
            ChunkContent::Shared(view) => view.memory.lease(),
        }
    }

    /// Makes the chunk a view, unless it is one.
    fn view(&mut self) -> &mut View {
        if let ChunkContent::Owned(buffer) = &mut self.0 {
            let mut buffer = buffer.take_out();
            buffer.bind();
            let view = View::of(Memory::Pooled(buffer));
            self.0 = ChunkContent::Shared(view);
        }
        let ChunkContent::Shared(view) = &mut self.0 else {
            unreachable!("it was made a view");
        };
        view
    }
}

impl View {
    fn of(memory: Memory) -> Self {
        Self {
            start: 0,
            end: memory.bytes().len(),
            memory: Arc::new(memory),
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory.bytes()[self.start..self.end]
    }

    fn consume(&mut self, count: usize) {
        let len = self.end - self.start;
        assert!(count <= len, "{count} bytes out of {len}");
        self.start += count;
    }

    fn into_buffer(self) -> Result<Buffer, Self> {
        let Self { memory, start, end } = self;
        if matches!(*memory, Memory::Charged(..)) {
            return Err(Self { memory, start, end });
        }
        match Arc::try_unwrap(memory) {
            Ok(Memory::Pooled(mut buffer)) => {
                buffer.truncate(end);
                buffer.consume(start);
                Ok(buffer)
            }
            Ok(Memory::Charged(..)) => unreachable!("it was looked at above"),
            Err(memory) => Err(Self { memory, start, end }),
        }
    }
}

impl Memory {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Pooled(buffer) => buffer.filled(),
            Self::Charged(bytes, _) => bytes,
        }
    }

    fn charged_bytes(&self) -> usize {
        match self {
            Self::Pooled(buffer) => buffer.capacity(),
            Self::Charged(_, charge) => charge.bytes(),
        }
    }

    fn lease(&self) -> &Lease {
        match self {
            Self::Pooled(buffer) => buffer.lease(),
            Self::Charged(_, charge) => charge.lease(),
        }
    }
}

impl From<Buffer> for Chunk {
    fn from(buffer: Buffer) -> Self {
        Self(ChunkContent::Owned(buffer))
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        self.filled()
    }
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the content: it may be secret.
        let kind = match &self.0 {
            ChunkContent::Owned(_) => "owned",
            ChunkContent::Shared(_) => "shared",
        };
        write!(f, "Chunk({} bytes, {kind})", self.len())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use crate::{Budget, Buffer, Chunk};

    type Make = fn(&Budget, &'static [u8]) -> Chunk;

    fn chunk(budget: &Budget, content: &'static [u8]) -> Chunk {
        let mut buffer = Buffer::take(&budget.root().lease(), content.len()).expect("room");
        buffer.put(content).expect("room");
        Chunk::from(buffer)
    }

    /// Bytes of a library's memory, charged with twice as many.
    fn charged(budget: &Budget, content: &'static [u8]) -> Chunk {
        let charge = budget.root().lease().try_reserve(2 * content.len());
        Chunk::charged(Bytes::from_static(content), charge.expect("room"))
    }

    #[test]
    fn views_are_charged_once_until_the_last_goes() {
        let budget = Budget::new(1 << 20);
        let reserved = || budget.root().reserved_bytes();
        let makes: [(Make, u64); 2] = [(chunk, 1024), (charged, 22)];
        for (make, bytes) in makes {
            let mut first = make(&budget, b"hello world");
            let mut second = first.share();
            let third = second.split_to(5);
            let fourth = second.share().into_bytes();
            assert_eq!(reserved(), bytes);
            assert_eq!(first.charged_bytes() as u64, bytes);
            assert_eq!(third.charged_bytes() as u64, bytes);
            drop((first, second));
            assert_eq!(
                (third.as_ref(), &fourth[..]),
                (&b"hello"[..], &b" world"[..])
            );
            drop(third);
            assert_eq!(reserved(), bytes, "a library holds it still");
            drop(fourth);
            assert_eq!(reserved(), 0);
        }
    }

    #[test]
    fn nothing_is_copied() {
        let budget = Budget::new(1 << 20);
        for mut chunk in [
            chunk(&budget, b"hello world"),
            charged(&budget, b"hello world"),
        ] {
            let address = chunk.filled().as_ptr();
            chunk.consume(1);
            let first = chunk.split_to(5);
            assert_eq!(first.filled().as_ptr(), address.wrapping_add(1));
            assert_eq!(chunk.filled().as_ptr(), address.wrapping_add(6));
            assert_eq!((first.filled(), chunk.len()), (&b"ello "[..], 5));
            assert_eq!(chunk.share().filled().as_ptr(), chunk.filled().as_ptr());
            assert_eq!(chunk.into_bytes().as_ptr(), address.wrapping_add(6));
        }
        let owned = self::chunk(&budget, b"hello");
        let address = owned.filled().as_ptr();
        assert_eq!(owned.into_bytes().as_ptr(), address);
    }

    #[test]
    fn a_buffer_comes_out_where_nobody_else_sees_it() {
        let budget = Budget::new(1 << 20);
        let mut chunk = chunk(&budget, b"hello world");
        let first = chunk.split_to(5);
        let chunk = chunk.into_buffer().expect_err("the first part is seen");
        assert_eq!(chunk.filled(), b" world");
        drop(chunk);
        let buffer = first.into_buffer().expect("nobody else sees it");
        assert_eq!((buffer.filled(), buffer.spare()), (&b"hello"[..], 1019));
        let buffer = Chunk::from(buffer).into_buffer().expect("owned");
        drop(buffer);
        let chunk = charged(&budget, b"hello").into_buffer();
        assert_eq!(chunk.expect_err("no buffer").filled(), b"hello");
        assert_eq!(budget.root().reserved_bytes(), 0);
    }

    #[test]
    fn debug_shows_no_content() {
        let budget = Budget::new(1 << 20);
        let mut chunk = chunk(&budget, b"secret");
        assert_eq!(format!("{chunk:?}"), "Chunk(6 bytes, owned)");
        let shared = chunk.share();
        assert_eq!(format!("{shared:?}"), "Chunk(6 bytes, shared)");
    }
}
