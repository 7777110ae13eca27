//! Content that is stored while it streams: one writes it, many read it, on any worker.
//!
//! Invariant: a chunk is a view that readers share. What is kept stays from the first byte on; what is not
//! kept is held only until its slowest reader has it, and no more than [`CACHE_WINDOW_BYTES`] of it: the
//! writer waits for room, and [leaves behind](Body::leave_behind) who holds everybody up.
//!
//! Cost: content that is whole is read without a lock.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use steppe_mem::Chunk;

use crate::field::FieldBlock;
use crate::limits::CACHE_WINDOW_BYTES;

/// The content of a response.
pub(crate) struct Body {
    whole: OnceLock<Whole>,
    live: Mutex<Live>,
}

#[derive(Debug)]
struct Whole {
    chunks: Box<[Chunk]>,
    bytes: u64,
}

/// Content whose end has not come, or that was not kept.
#[derive(Debug, Default)]
struct Live {
    chunks: VecDeque<Chunk>,
    /// Index of the first of them.
    first: usize,
    /// Bytes that came so far.
    bytes: u64,
    /// Memory that was let go of since it is not kept.
    passed_bytes: u64,
    /// Memory behind what is held.
    held_bytes: usize,
    is_kept: bool,
    end: Option<Ended>,
    trailers: Option<FieldBlock>,
    readers: Vec<Option<Place>>,
    /// Whoever writes waits for room, or for the last reader to leave.
    writer: Option<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Whole,
    Cut,
}

/// Where a reader is.
#[derive(Debug, Default)]
struct Place {
    next: usize,
    waker: Option<Waker>,
}

/// One who reads content from its first byte on.
pub(crate) struct BodyReader {
    body: Arc<Body>,
    /// Index of the next chunk.
    next: usize,
    /// Bytes to be left out first.
    skip: u64,
    /// Among the readers of what is live.
    place: Option<usize>,
}

/// The content ends before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut;

impl Body {
    /// One that is kept, without content so far.
    pub(crate) fn kept() -> Arc<Self> {
        let live = Live {
            is_kept: true,
            ..Live::default()
        };
        Self::of(live)
    }

    /// One that is not kept.
    pub(crate) fn passing() -> Arc<Self> {
        Self::of(Live::default())
    }

    fn of(live: Live) -> Arc<Self> {
        Arc::new(Self {
            whole: OnceLock::new(),
            live: Mutex::new(live),
        })
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds content that is a view.
    pub(crate) fn push(&self, chunk: Chunk) {
        let mut live = self.live();
        live.bytes += chunk.len() as u64;
        live.held_bytes += chunk.charged_bytes();
        live.chunks.push_back(chunk);
        // Nobody may be there to read what is not kept.
        let dropped = live.let_go();
        let wakers = live.wakers();
        drop(live);
        drop(dropped);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Whether there is room for more.
    pub(crate) fn has_room(&self) -> bool {
        self.live().has_room()
    }

    /// Ready when there is room for more.
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut live = self.live();
        if live.has_room() {
            return Poll::Ready(());
        }
        live.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Ready while nobody reads it.
    pub(crate) fn poll_unread(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut live = self.live();
        if live.readers.iter().all(Option::is_none) {
            return Poll::Ready(());
        }
        live.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Memory that readers let go of since it is not kept.
    pub(crate) fn passed_bytes(&self) -> u64 {
        self.live().passed_bytes
    }

    /// Whether no reader is behind by more than half of what may be held for it.
    pub(crate) fn is_nearly_read(&self) -> bool {
        self.live().held_bytes <= CACHE_WINDOW_BYTES / 2
    }

    /// Whether somebody has all that came, while there is no room for more.
    pub(crate) fn is_held_up(&self) -> bool {
        let live = self.live();
        let end = live.end_index();
        let mut places = live.readers.iter().flatten();
        !live.has_room() && places.any(|place| place.next == end)
    }

    /// Cuts off the readers that are behind by half a window or more: others wait for them.
    pub(crate) fn leave_behind(&self) {
        let mut live = self.live();
        let (mut next, mut bytes) = (live.end_index(), 0);
        for chunk in live.chunks.iter().rev() {
            bytes += chunk.charged_bytes();
            if bytes > CACHE_WINDOW_BYTES / 2 {
                break;
            }
            next -= 1;
        }
        let mut wakers = Vec::new();
        for place in &mut live.readers {
            let late = place.take_if(|place| place.next < next);
            wakers.extend(late.and_then(|place| place.waker));
        }
        let dropped = live.let_go();
        drop(live);
        drop(dropped);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// It is not kept from now on.
    pub(crate) fn stop_keeping(&self) {
        let mut live = self.live();
        live.is_kept = false;
        let dropped = live.let_go();
        drop(live);
        drop(dropped);
    }

    /// All of it has come.
    pub(crate) fn finish(&self, trailers: Option<FieldBlock>) {
        let mut live = self.live();
        live.end = Some(Ended::Whole);
        if live.is_kept {
            // What is stored takes no room for what would come.
            let chunks = std::mem::take(&mut live.chunks);
            let bytes = live.bytes;
            // It ends once.
            let _ = self.whole.set(Whole {
                chunks: Vec::from(chunks).into(),
                bytes,
            });
        } else {
            live.trailers = trailers;
        }
        let wakers = live.wakers();
        drop(live);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The rest of it does not come.
    pub(crate) fn cut(&self) {
        let mut live = self.live();
        live.end.get_or_insert(Ended::Cut);
        let wakers = live.wakers();
        drop(live);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Bytes of all of it, once they are known.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.whole.get().map(|whole| whole.bytes)
    }

    /// Bytes that came so far.
    pub(crate) fn bytes_so_far(&self) -> u64 {
        self.live().bytes
    }

    /// One who reads it from its first byte on; `None` where that is not held any more, or the rest does not come.
    pub(crate) fn reader(self: &Arc<Self>) -> Option<BodyReader> {
        let mut reader = BodyReader {
            body: Arc::clone(self),
            next: 0,
            skip: 0,
            place: None,
        };
        if self.whole.get().is_some() {
            return Some(reader);
        }
        let mut live = self.live();
        if live.first > 0 || live.end == Some(Ended::Cut) {
            return None;
        }
        let free = live.readers.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            live.readers.push(None);
            live.readers.len() - 1
        });
        live.readers[place] = Some(Place::default());
        drop(live);
        reader.place = Some(place);
        Some(reader)
    }
}

impl Live {
    /// Index of the chunk that comes next.
    fn end_index(&self) -> usize {
        self.first + self.chunks.len()
    }

    fn has_room(&self) -> bool {
        self.is_kept || self.held_bytes < CACHE_WINDOW_BYTES
    }

    fn wakers(&mut self) -> Vec<Waker> {
        let places = self.readers.iter_mut().flatten();
        places.filter_map(|place| place.waker.take()).collect()
    }

    /// Lets go of what every reader has, where it is not kept.
    fn let_go(&mut self) -> Vec<Chunk> {
        if self.is_kept {
            return Vec::new();
        }
        let places = self.readers.iter().flatten();
        let slowest = places.map(|place| place.next).min();
        let slowest = slowest.unwrap_or(self.end_index());
        let count = slowest.saturating_sub(self.first);
        let dropped: Vec<_> = self.chunks.drain(..count).collect();
        let bytes: usize = dropped.iter().map(Chunk::charged_bytes).sum();
        self.held_bytes -= bytes;
        self.passed_bytes += bytes as u64;
        self.first += count;
        dropped
    }
}

impl BodyReader {
    /// Reads on from byte `offset`: a later one, or any of what is whole.
    pub(crate) fn seek(&mut self, offset: u64) {
        self.skip = offset;
        if self.body.whole.get().is_some() {
            self.next = 0;
        }
    }

    /// The next piece of it, of `most` bytes at most; `None` at the end.
    ///
    /// # Errors
    /// Where the rest does not come.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Chunk>, Cut>> {
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

    fn poll_live(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Chunk>, Cut>> {
        let place = self.place.expect("it was live when reading began");
        let mut live = self.body.live();
        // It may have become whole since.
        if let Some(whole) = self.body.whole.get() {
            return Poll::Ready(Ok(whole.chunks.get(self.next).map(view)));
        }
        // It may have been left behind.
        if live.readers.get(place).is_none_or(Option::is_none) {
            return Poll::Ready(Err(Cut));
        }
        if let Some(chunk) = live.chunks.get(self.next - live.first) {
            let chunk = view(chunk);
            let here = live.readers[place].as_mut().expect("it is its own");
            here.next = self.next + 1;
            let dropped = live.let_go();
            // Of what is kept, there is room for more in any case.
            let writer = match live.is_kept {
                true => None,
                false => live.writer.take(),
            };
            drop(live);
            drop(dropped);
            writer.into_iter().for_each(Waker::wake);
            return Poll::Ready(Ok(Some(chunk)));
        }
        match live.end {
            Some(Ended::Whole) => Poll::Ready(Ok(None)),
            Some(Ended::Cut) => Poll::Ready(Err(Cut)),
            None => {
                let here = live.readers[place].as_mut().expect("it is its own");
                here.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Trailers of what was not kept.
    pub(crate) fn trailers(&mut self) -> Option<FieldBlock> {
        self.body.live().trailers.take()
    }
}

fn view(chunk: &Chunk) -> Chunk {
    chunk.view_again().expect("pushed chunks are views")
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        let Some(place) = self.place else {
            return;
        };
        let mut live = self.body.live();
        if let Some(here) = live.readers.get_mut(place) {
            *here = None;
        }
        if live.end.is_some() && live.readers.iter().all(Option::is_none) {
            // What is stored keeps no list of those who read it as it came.
            live.readers = Vec::new();
        }
        let dropped = live.let_go();
        let writer = live.writer.take();
        drop(live);
        drop(dropped);
        writer.into_iter().for_each(Waker::wake);
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

    /// What is there to be read.
    fn read(reader: &mut BodyReader) -> Result<(Vec<u8>, bool), Cut> {
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
        let body = Body::kept();
        let mut early = body.reader().expect("it is at its start");
        body.push(chunk(&budget, b"one"));
        assert_eq!(read(&mut early), Ok((b"one".to_vec(), false)));
        let mut late = body.reader().expect("it is kept");
        body.push(chunk(&budget, b"two"));
        assert_eq!(body.bytes(), None);
        body.finish(None);
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
        let body = Body::kept();
        body.push(chunk(&budget, &[1; 4096]));
        body.finish(None);
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
    fn what_is_not_kept_waits_for_its_slowest_reader() {
        let budget = Budget::new(16 << 20);
        let body = Body::kept();
        let (mut slow, mut fast) = (body.reader(), body.reader());
        let (slow, fast) = (slow.as_mut().expect("start"), fast.as_mut().expect("start"));
        body.push(chunk(&budget, b"one"));
        body.stop_keeping();
        let filler = vec![0; CACHE_WINDOW_BYTES];
        body.push(chunk(&budget, &filler));
        assert!(!body.has_room());
        assert_eq!(
            read(fast).map(|(content, _)| content.len()),
            Ok(3 + filler.len())
        );
        assert!(!body.has_room(), "the slow one has not read");
        assert_eq!(
            read(slow).map(|(content, _)| content.len()),
            Ok(3 + filler.len())
        );
        assert!(body.has_room());
        assert!(body.reader().is_none(), "its start is gone");
        assert_eq!(budget.root().reserved_bytes(), 0);
    }

    #[test]
    fn what_nobody_reads_and_nobody_keeps_is_abandoned() {
        let budget = Budget::new(16 << 20);
        let mut cx = Context::from_waker(Waker::noop());
        let body = Body::passing();
        let reader = body.reader();
        assert!(body.poll_unread(&mut cx).is_pending());
        drop(reader);
        assert!(body.poll_unread(&mut cx).is_ready());
        body.push(chunk(&budget, b"one"));
        assert_eq!(budget.root().reserved_bytes(), 0);
    }

    #[test]
    fn who_holds_everybody_up_is_left_behind() {
        const PIECE: usize = CACHE_WINDOW_BYTES / 8;
        let budget = Budget::new(16 << 20);
        let body = Body::kept();
        let mut readers: Vec<_> = (0..3).filter_map(|_| body.reader()).collect();
        body.stop_keeping();
        let piece = vec![0; PIECE];
        let mut cx = Context::from_waker(Waker::noop());
        // The second one is a piece behind, the last one has nothing.
        while body.has_room() {
            assert!(!body.is_held_up());
            body.push(chunk(&budget, &piece));
        }
        assert!(!body.is_held_up(), "nobody has all of it");
        assert!(read(&mut readers[0]).is_ok());
        for _ in 1..8 {
            assert!(readers[1].poll_chunk(&mut cx).is_ready());
        }
        assert!(body.is_held_up());
        assert_eq!(body.passed_bytes(), 0);
        body.leave_behind();
        assert!(body.has_room() && !body.is_held_up());
        assert!(body.passed_bytes() > 0);
        assert_eq!(read(&mut readers[2]), Err(Cut));
        body.push(chunk(&budget, b"more"));
        body.finish(None);
        assert_eq!(read(&mut readers[0]), Ok((b"more".to_vec(), true)));
        let rest = [&piece[..], b"more"].concat();
        assert_eq!(read(&mut readers[1]), Ok((rest, true)));
        drop(readers);
        assert_eq!(budget.root().reserved_bytes(), 0);
    }

    #[test]
    fn a_cut_is_told_after_what_came() {
        let budget = Budget::new(16 << 20);
        let body = Body::kept();
        let mut reader = body.reader().expect("start");
        body.push(chunk(&budget, b"one"));
        body.cut();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(
            reader.poll_chunk(&mut cx),
            Poll::Ready(Ok(Some(_)))
        ));
        assert_eq!(read(&mut reader), Err(Cut));
    }
}
