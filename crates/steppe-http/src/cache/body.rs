//! The content of a response while it streams and afterwards: one [`BodyWriter`], any number of [`BodyReader`]s, on
//! any worker.
//!
//! Invariant: a chunk is a view that readers share. Content that is stored stays from the first byte on. Content
//! that is not is a window: chunks stay until the slowest reader has them, [`CACHE_WINDOW_BYTES`] at most. The writer
//! waits for room, and [drops](BodyWriter::drop_laggards) readers that hold up the others. A writer that is dropped
//! before it [finished](BodyWriter::finish) cuts the content.
//!
//! Cost: content that is complete is read without a lock.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use steppe_mem::Chunk;

use crate::field::FieldBlock;
use crate::limits::CACHE_WINDOW_BYTES;

/// The content of a response, as its readers share it.
pub(crate) struct Body {
    whole: OnceLock<WholeBody>,
    live: Mutex<Live>,
}

/// The end of a body at which its content arrives.
#[derive(Debug)]
pub(crate) struct BodyWriter(Arc<Body>);

#[derive(Debug)]
struct WholeBody {
    chunks: Box<[Chunk]>,
    bytes: u64,
}

/// Content that is still arriving, or that is not stored.
#[derive(Debug, Default)]
struct Live {
    chunks: VecDeque<Chunk>,
    /// Index of the first of them.
    first: usize,
    /// Bytes that have arrived.
    bytes: u64,
    /// Memory of chunks that were released because all readers had them.
    passed_bytes: u64,
    /// Memory of the chunks that are held.
    held_bytes: usize,
    is_stored: bool,
    end: Option<BodyEnd>,
    trailers: Option<FieldBlock>,
    readers: Vec<Option<Position>>,
    /// The waker of the writer, which waits for room or for the last reader to leave.
    writer: Option<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyEnd {
    Whole,
    Cut,
}

/// The position of a reader.
#[derive(Debug, Default)]
struct Position {
    next: usize,
    waker: Option<Waker>,
}

/// A reader of content, from its first byte on.
pub(crate) struct BodyReader {
    body: Arc<Body>,
    /// Index of the next chunk.
    next: usize,
    /// Bytes to leave out first.
    skip: u64,
    /// Index among the readers of live content.
    slot: Option<usize>,
}

/// The content broke off, or the reader was dropped for being late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyCut;

impl Body {
    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the live content. Drops the chunks that this releases, and wakes the tasks that `change` returns,
    /// outside of the lock.
    fn change<W: IntoIterator<Item = Waker>>(&self, change: impl FnOnce(&mut Live) -> W) {
        let mut live = self.live();
        let wakers = change(&mut live);
        let released = live.release();
        drop(live);
        drop(released);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends the content, unless it has ended.
    fn end(&self, end: BodyEnd) {
        self.change(|live| {
            live.end.get_or_insert(end);
            live.wakers()
        });
    }

    /// Bytes of the content, once all of it has arrived.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.whole.get().map(|whole| whole.bytes)
    }

    /// A reader from the first byte on; `None` where that is not held any more, or the content broke off.
    pub(crate) fn reader(self: &Arc<Self>) -> Option<BodyReader> {
        let mut reader = BodyReader {
            body: Arc::clone(self),
            next: 0,
            skip: 0,
            slot: None,
        };
        if self.whole.get().is_some() {
            return Some(reader);
        }
        let mut live = self.live();
        if live.first > 0 || live.end == Some(BodyEnd::Cut) {
            return None;
        }
        let free = live.readers.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            live.readers.push(None);
            live.readers.len() - 1
        });
        live.readers[slot] = Some(Position::default());
        drop(live);
        reader.slot = Some(slot);
        Some(reader)
    }
}

impl BodyWriter {
    /// A writer of content that is stored.
    pub(crate) fn stored() -> Self {
        Self::of(Live {
            is_stored: true,
            ..Live::default()
        })
    }

    /// A writer of content that only passes.
    pub(crate) fn passing() -> Self {
        Self::of(Live::default())
    }

    fn of(live: Live) -> Self {
        Self(Arc::new(Body {
            whole: OnceLock::new(),
            live: Mutex::new(live),
        }))
    }

    /// The content that is written.
    pub(crate) fn body(&self) -> &Arc<Body> {
        &self.0
    }

    /// Adds a chunk, which is a view.
    pub(crate) fn push(&self, chunk: Chunk) {
        self.0.change(|live| {
            live.bytes += chunk.len() as u64;
            live.held_bytes += chunk.charged_bytes();
            live.chunks.push_back(chunk);
            live.wakers()
        });
    }

    /// Bytes that have arrived.
    pub(crate) fn bytes_so_far(&self) -> u64 {
        self.0.live().bytes
    }

    /// True if there is room for more.
    pub(crate) fn has_room(&self) -> bool {
        self.0.live().has_room()
    }

    /// Ready when there is room for more.
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut live = self.0.live();
        if live.has_room() {
            return Poll::Ready(());
        }
        live.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Ready while the content has no reader.
    pub(crate) fn poll_unread(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut live = self.0.live();
        if live.readers.iter().all(Option::is_none) {
            return Poll::Ready(());
        }
        live.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Memory of chunks that were released because all readers had them.
    pub(crate) fn passed_bytes(&self) -> u64 {
        self.0.live().passed_bytes
    }

    /// True if the slowest reader lacks at most half a window.
    pub(crate) fn is_nearly_read(&self) -> bool {
        self.0.live().held_bytes <= CACHE_WINDOW_BYTES / 2
    }

    /// True if a reader has all that has arrived, while slower ones leave no room for more.
    pub(crate) fn is_held_up(&self) -> bool {
        let live = self.0.live();
        let end = live.end_index();
        let mut positions = live.readers.iter().flatten();
        !live.has_room() && positions.any(|position| position.next == end)
    }

    /// Drops the readers that lack half a window or more, for the others' sake.
    pub(crate) fn drop_laggards(&self) {
        self.0.change(|live| {
            let (mut next, mut bytes) = (live.end_index(), 0);
            for chunk in live.chunks.iter().rev() {
                bytes += chunk.charged_bytes();
                if bytes > CACHE_WINDOW_BYTES / 2 {
                    break;
                }
                next -= 1;
            }
            let mut wakers = Vec::new();
            for position in &mut live.readers {
                let late = position.take_if(|position| position.next < next);
                wakers.extend(late.and_then(|position| position.waker));
            }
            wakers
        });
    }

    /// Has the content only pass from now on.
    pub(crate) fn stop_storing(&self) {
        self.0.change(|live| {
            live.is_stored = false;
            None
        });
    }

    /// Ends the content, all of which has arrived.
    pub(crate) fn finish(self, trailers: Option<FieldBlock>) {
        let mut live = self.0.live();
        if live.is_stored {
            // Stored content takes no room for chunks to come.
            let chunks = std::mem::take(&mut live.chunks);
            let whole = WholeBody {
                chunks: Vec::from(chunks).into(),
                bytes: live.bytes,
            };
            self.0.whole.set(whole).expect("a body has one writer");
        } else {
            live.trailers = trailers;
        }
        drop(live);
        self.0.end(BodyEnd::Whole);
    }
}

impl Drop for BodyWriter {
    fn drop(&mut self) {
        self.0.end(BodyEnd::Cut);
    }
}

impl Live {
    /// Index of the chunk that comes next.
    fn end_index(&self) -> usize {
        self.first + self.chunks.len()
    }

    fn has_room(&self) -> bool {
        self.is_stored || self.held_bytes < CACHE_WINDOW_BYTES
    }

    fn wakers(&mut self) -> Vec<Waker> {
        let positions = self.readers.iter_mut().flatten();
        positions
            .filter_map(|position| position.waker.take())
            .collect()
    }

    /// Takes out the chunks that every reader has, unless the content is stored.
    fn release(&mut self) -> Vec<Chunk> {
        if self.is_stored {
            return Vec::new();
        }
        let positions = self.readers.iter().flatten();
        let slowest = positions.map(|position| position.next).min();
        let slowest = slowest.unwrap_or(self.end_index());
        let count = slowest.saturating_sub(self.first);
        let released: Vec<_> = self.chunks.drain(..count).collect();
        let bytes: usize = released.iter().map(Chunk::charged_bytes).sum();
        self.held_bytes -= bytes;
        self.passed_bytes += bytes as u64;
        self.first += count;
        released
    }
}

impl BodyReader {
    /// Reads on from byte `offset`: a later one, or any where the content is complete.
    pub(crate) fn seek(&mut self, offset: u64) {
        self.skip = offset;
        if self.body.whole.get().is_some() {
            self.next = 0;
        }
    }

    /// The next chunk, or the rest of one after [`BodyReader::seek`]; `None` at the end.
    ///
    /// # Errors
    /// Where the content broke off.
    pub(crate) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Chunk>, BodyCut>> {
        loop {
            let next = match self.body.whole.get() {
                Some(whole) => whole.chunks.get(self.next).map(view),
                None => match self.poll_live(cx) {
                    Poll::Ready(Ok(next)) => next,
                    Poll::Ready(Err(cut)) => return Poll::Ready(Err(cut)),
                    Poll::Pending => return Poll::Pending,
                },
            };
            let Some(mut chunk) = next else {
                return Poll::Ready(Ok(None));
            };
            self.next += 1;
            let bytes = chunk.len() as u64;
            if self.skip >= bytes {
                self.skip -= bytes;
                continue;
            }
            let skip = usize::try_from(std::mem::take(&mut self.skip));
            chunk.consume(skip.expect("it is less than the chunk has"));
            return Poll::Ready(Ok(Some(chunk)));
        }
    }

    fn poll_live(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Chunk>, BodyCut>> {
        let slot = self.slot.expect("it was live when reading began");
        let mut live = self.body.live();
        // It may have been completed since.
        if let Some(whole) = self.body.whole.get() {
            return Poll::Ready(Ok(whole.chunks.get(self.next).map(view)));
        }
        // The reader may have been dropped as late.
        if live.readers.get(slot).is_none_or(Option::is_none) {
            return Poll::Ready(Err(BodyCut));
        }
        if let Some(chunk) = live.chunks.get(self.next - live.first) {
            let chunk = view(chunk);
            let here = live.readers[slot].as_mut().expect("it is its own");
            here.next = self.next + 1;
            let released = live.release();
            // The writer of stored content never waits for room.
            let writer = match live.is_stored {
                true => None,
                false => live.writer.take(),
            };
            drop(live);
            drop(released);
            writer.into_iter().for_each(Waker::wake);
            return Poll::Ready(Ok(Some(chunk)));
        }
        match live.end {
            Some(BodyEnd::Whole) => Poll::Ready(Ok(None)),
            Some(BodyEnd::Cut) => Poll::Ready(Err(BodyCut)),
            None => {
                let here = live.readers[slot].as_mut().expect("it is its own");
                here.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Trailers of content that was not stored.
    pub(crate) fn trailers(&mut self) -> Option<FieldBlock> {
        self.body.live().trailers.take()
    }
}

fn view(chunk: &Chunk) -> Chunk {
    chunk.view_again().expect("pushed chunks are views")
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        let Some(slot) = self.slot else {
            return;
        };
        self.body.change(|live| {
            if let Some(here) = live.readers.get_mut(slot) {
                *here = None;
            }
            if live.end.is_some() && live.readers.iter().all(Option::is_none) {
                // Stored content keeps no list of those that read it as it arrived.
                live.readers = Vec::new();
            }
            live.writer.take()
        });
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for BodyReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyReader")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use steppe_mem::{Budget, Buffer};

    use super::*;

    fn chunk(budget: &Budget, content: &[u8]) -> Chunk {
        let mut buffer = Buffer::take(&budget.root().lease(), content.len()).expect("room");
        buffer.put(content).expect("room");
        let mut chunk = Chunk::from(buffer);
        let _ = chunk.share();
        chunk
    }

    /// The content that can be read now, and whether it is the end.
    fn read(reader: &mut BodyReader) -> Result<(Vec<u8>, bool), BodyCut> {
        let mut cx = Context::from_waker(Waker::noop());
        let mut content = Vec::new();
        loop {
            match reader.poll_chunk(&mut cx) {
                Poll::Pending => return Ok((content, false)),
                Poll::Ready(Ok(None)) => return Ok((content, true)),
                Poll::Ready(Ok(Some(chunk))) => content.extend(chunk.filled()),
                Poll::Ready(Err(cut)) => return Err(cut),
            }
        }
    }

    #[test]
    fn readers_have_what_came_and_then_the_rest() {
        let budget = Budget::new(16 << 20);
        let writer = BodyWriter::stored();
        let body = Arc::clone(writer.body());
        let mut early = body.reader().expect("it is at its start");
        writer.push(chunk(&budget, b"one"));
        assert_eq!(read(&mut early), Ok((b"one".to_vec(), false)));
        let mut late = body.reader().expect("it is stored");
        writer.push(chunk(&budget, b"two"));
        assert_eq!(body.bytes(), None);
        writer.finish(None);
        assert_eq!(body.bytes(), Some(6));
        assert_eq!(read(&mut early), Ok((b"two".to_vec(), true)));
        assert_eq!(read(&mut late), Ok((b"onetwo".to_vec(), true)));
        let mut last = body.reader().expect("it is whole");
        last.seek(2);
        assert_eq!(read(&mut last), Ok((b"etwo".to_vec(), true)));
        last.seek(3);
        assert_eq!(read(&mut last), Ok((b"two".to_vec(), true)));
    }

    #[test]
    fn readers_share_memory() {
        let budget = Budget::new(16 << 20);
        let writer = BodyWriter::stored();
        let body = Arc::clone(writer.body());
        writer.push(chunk(&budget, &[1; 4096]));
        writer.finish(None);
        let held = budget.root().reserved_bytes();
        let mut cx = Context::from_waker(Waker::noop());
        let mut readers: Vec<_> = (0..10).filter_map(|_| body.reader()).collect();
        let read = |reader: &mut BodyReader| match reader.poll_chunk(&mut cx) {
            Poll::Ready(Ok(Some(chunk))) => chunk,
            other => panic!("{other:?}"),
        };
        let chunks: Vec<_> = readers.iter_mut().map(read).collect();
        assert_eq!(chunks.len(), 10);
        let first = chunks[0].filled().as_ptr();
        assert!(chunks.iter().all(|chunk| chunk.filled().as_ptr() == first));
        assert_eq!(budget.root().reserved_bytes(), held);
    }

    #[test]
    fn passing_content_waits_for_its_slowest_reader() {
        let budget = Budget::new(16 << 20);
        let writer = BodyWriter::stored();
        let body = Arc::clone(writer.body());
        let (mut slow, mut fast) = (body.reader(), body.reader());
        let (slow, fast) = (slow.as_mut().expect("start"), fast.as_mut().expect("start"));
        writer.push(chunk(&budget, b"one"));
        writer.stop_storing();
        let filler = vec![0; CACHE_WINDOW_BYTES];
        writer.push(chunk(&budget, &filler));
        assert!(!writer.has_room());
        assert_eq!(
            read(fast).map(|(content, _)| content.len()),
            Ok(3 + filler.len())
        );
        assert!(!writer.has_room(), "the slow one has not read");
        assert_eq!(
            read(slow).map(|(content, _)| content.len()),
            Ok(3 + filler.len())
        );
        assert!(writer.has_room());
        assert!(body.reader().is_none(), "its start is gone");
        assert_eq!(budget.root().reserved_bytes(), 0);
    }

    #[test]
    fn passing_content_that_is_not_read_is_released() {
        let budget = Budget::new(16 << 20);
        let mut cx = Context::from_waker(Waker::noop());
        let writer = BodyWriter::passing();
        let body = Arc::clone(writer.body());
        let reader = body.reader();
        assert!(writer.poll_unread(&mut cx).is_pending());
        drop(reader);
        assert!(writer.poll_unread(&mut cx).is_ready());
        writer.push(chunk(&budget, b"one"));
        assert_eq!(budget.root().reserved_bytes(), 0);
    }

    #[test]
    fn a_reader_that_holds_up_the_others_is_dropped() {
        const PIECE: usize = CACHE_WINDOW_BYTES / 8;
        let budget = Budget::new(16 << 20);
        let writer = BodyWriter::stored();
        let body = Arc::clone(writer.body());
        let mut readers: Vec<_> = (0..3).filter_map(|_| body.reader()).collect();
        writer.stop_storing();
        let piece = vec![0; PIECE];
        let mut cx = Context::from_waker(Waker::noop());
        // The second one is a piece behind, the last one has nothing.
        while writer.has_room() {
            assert!(!writer.is_held_up());
            writer.push(chunk(&budget, &piece));
        }
        assert!(!writer.is_held_up(), "nobody has all of it");
        assert!(read(&mut readers[0]).is_ok());
        for _ in 1..8 {
            assert!(readers[1].poll_chunk(&mut cx).is_ready());
        }
        assert!(writer.is_held_up());
        assert_eq!(writer.passed_bytes(), 0);
        writer.drop_laggards();
        assert!(writer.has_room() && !writer.is_held_up());
        assert!(writer.passed_bytes() > 0);
        assert_eq!(read(&mut readers[2]), Err(BodyCut));
        writer.push(chunk(&budget, b"more"));
        writer.finish(None);
        assert_eq!(read(&mut readers[0]), Ok((b"more".to_vec(), true)));
        let rest = [&piece[..], b"more"].concat();
        assert_eq!(read(&mut readers[1]), Ok((rest, true)));
        drop(readers);
        assert_eq!(budget.root().reserved_bytes(), 0);
    }

    #[test]
    fn a_writer_that_is_dropped_cuts_after_what_arrived() {
        let budget = Budget::new(16 << 20);
        let writer = BodyWriter::stored();
        let body = Arc::clone(writer.body());
        let mut reader = body.reader().expect("start");
        writer.push(chunk(&budget, b"one"));
        drop(writer);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(
            reader.poll_chunk(&mut cx),
            Poll::Ready(Ok(Some(_)))
        ));
        assert_eq!(read(&mut reader), Err(BodyCut));
    }
}
