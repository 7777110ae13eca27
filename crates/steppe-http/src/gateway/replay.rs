//! The copy of a request that is kept so that it can be sent again: its head, and the content that was read.
//!
//! Invariant: a request is sent again only while no byte of a response has reached
//! the client, and only where asking twice does what asking once does (RFC 9110
//! §9.2.2), or where its server says that it may. Its content is shared with what was sent and
//! charged once; but a little of a large buffer is copied, so that it does not keep the buffer.

use std::cell::RefCell;

use crate::exchange::{Part, fair_share};
use crate::field::FieldBlock;
use crate::head::{ContentLength, RequestHead};
use crate::limits::{IDLE_EXCHANGES_MAX, REPLAY_BYTES_MAX, REPLAY_CHUNKS_MAX};

use steppe_mem::{Buffer, Chunk, Lease, OverBudget};

/// A chunk is shared where at least one part in so many of its memory is content.
const SHARED_PART_MIN: usize = 2;

/// The events after which a request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Repeats {
    /// None.
    #[default]
    Never,
    /// A status of gRPC that the upstream's `retry` names, or the server's statement that it has not processed the
    /// request (REFUSED_STREAM, GOAWAY).
    OnServerStatement,
    /// Any failure.
    Always,
}

/// A request that may be sent again.
#[derive(Debug, Default)]
pub(super) struct Replay {
    /// The events for which everything that was read is still kept.
    kept_for: Repeats,
    /// The head, once an attempt was sent it.
    head: Option<RequestHead>,
    /// The request has no content.
    is_empty: bool,
    chunks: Vec<Chunk>,
    content_bytes: usize,
    /// Memory behind `chunks`.
    memory_bytes: usize,
    /// The content was read to its end, which had these trailers.
    end: Option<Option<FieldBlock>>,
    /// Parts that the present attempt was given again.
    replayed: usize,
}

impl Replay {
    /// Keeps all that is read of a request from now on, if it may be sent again: `otherwise` has the events for a
    /// request that is not idempotent.
    pub(super) fn begin(&mut self, head: &RequestHead, otherwise: Repeats) {
        self.forget();
        let may_be_kept = !head.asks_for_tunnel()
            // Else it names its first server as its host.
            && !head.authority().is_empty()
            && may_be_kept(head.length);
        self.kept_for = match head.is_idempotent() {
            _ if !may_be_kept => Repeats::Never,
            true => Repeats::Always,
            false => otherwise,
        };
        self.is_empty = head.length == ContentLength::Empty;
    }

    /// Keeps the head that was sent, or frees its memory for others.
    pub(super) fn keep_head(&mut self, head: RequestHead) {
        if self.is_kept() {
            self.head = Some(head);
        } else {
            self.head = None;
        }
    }

    /// The head, while the request can be sent again.
    pub(super) fn head(&self) -> Option<&RequestHead> {
        self.head.as_ref()
    }

    /// The head, for another attempt.
    pub(super) fn take_head(&mut self) -> Option<RequestHead> {
        self.head.take()
    }

    /// True when the request has no content that its client may be late with.
    pub(super) fn has_no_content(&self) -> bool {
        self.is_empty
    }

    /// True while the request can be sent again, after some event.
    pub(super) fn is_kept(&self) -> bool {
        self.kept_for != Repeats::Never
    }

    /// The events after which it can be sent again.
    pub(super) fn repeats(&self) -> Repeats {
        self.kept_for
    }

    /// Another attempt begins.
    pub(super) fn rewind(&mut self) {
        self.replayed = 0;
    }

    /// The present attempt was a hedge, which has sent so many parts.
    pub(super) fn seek(&mut self, replayed: usize) {
        self.replayed = replayed;
    }

    /// The next part that an earlier attempt had been given.
    pub(super) fn next(&mut self) -> Option<Result<Part, OverBudget>> {
        let part = self.part(self.replayed)?;
        self.replayed += 1;
        Some(part)
    }

    /// True when there is a part at `at`.
    pub(super) fn has_part(&self, at: usize) -> bool {
        at < self.chunks.len() + usize::from(self.end.is_some())
    }

    /// The part at `at`, of those that were read.
    pub(super) fn part(&mut self, at: usize) -> Option<Result<Part, OverBudget>> {
        if let Some(chunk) = self.chunks.get_mut(at) {
            return Some(Ok(Part::Chunk(chunk.share())));
        }
        let end = self.end.as_ref().filter(|_| at == self.chunks.len())?;
        let trailers = end.as_ref().map(FieldBlock::try_clone);
        Some(trailers.transpose().map(Part::End))
    }

    /// Keeps a part that came from the client, as long as there is memory for it.
    pub(super) fn record(&mut self, part: &mut Part, lease: &Lease) {
        if !self.is_kept() {
            return;
        }
        let is_kept = match part {
            Part::Chunk(chunk) => self.keep(chunk, lease),
            Part::End(None) => {
                self.end = Some(None);
                true
            }
            Part::End(Some(trailers)) => match trailers.try_clone() {
                Ok(copy) => {
                    self.end = Some(Some(copy));
                    true
                }
                Err(_) => false,
            },
        };
        if is_kept {
            // The present attempt has it.
            self.replayed = self.chunks.len() + usize::from(self.end.is_some());
        } else {
            self.forget();
        }
    }

    /// Keeps content; says whether there was room for it.
    fn keep(&mut self, chunk: &mut Chunk, lease: &Lease) -> bool {
        self.content_bytes += chunk.len();
        if self.content_bytes > REPLAY_BYTES_MAX {
            return false;
        }
        let is_mostly_content = chunk.len() >= chunk.charged_bytes() / SHARED_PART_MIN;
        let kept = if is_mostly_content {
            chunk.share()
        } else if self.append(chunk) {
            return true;
        } else {
            let Ok(mut copy) = Buffer::take(lease, chunk.len()) else {
                return false;
            };
            copy.put(chunk.filled()).expect("it was taken for it");
            copy.into()
        };
        self.memory_bytes += kept.charged_bytes();
        if self.memory_bytes > fair_share(lease) || self.chunks.len() >= REPLAY_CHUNKS_MAX {
            return false;
        }
        if self.chunks.capacity() == 0 {
            self.chunks = take_list();
        }
        self.chunks.push(kept);
        true
    }

    /// Copies content behind what was copied last, if there is room; says whether.
    fn append(&mut self, chunk: &Chunk) -> bool {
        let Some(last) = self.chunks.pop() else {
            return false;
        };
        let (last, has_room) = match last.into_buffer() {
            Ok(mut copy) => {
                let has_room = copy.put(chunk.filled()).is_ok();
                (copy.into(), has_room)
            }
            Err(shared) => (shared, false),
        };
        self.chunks.push(last);
        has_room
    }

    /// Frees all that was kept: the request is not sent again.
    pub(super) fn forget(&mut self) {
        self.kept_for = Repeats::Never;
        self.head = None;
        put_list_back(std::mem::take(&mut self.chunks));
        (self.content_bytes, self.memory_bytes) = (0, 0);
        self.end = None;
        self.replayed = 0;
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        put_list_back(std::mem::take(&mut self.chunks));
    }
}

/// The longest list that is kept for another request: few have more chunks.
const IDLE_LIST_CHUNKS: usize = 4;

thread_local! {
    // Most requests with content have a chunk or two: a list for them is not allocated anew.
    static IDLE_LISTS: RefCell<Vec<Vec<Chunk>>> = const { RefCell::new(Vec::new()) };
}

fn take_list() -> Vec<Chunk> {
    let idle = IDLE_LISTS.with_borrow_mut(Vec::pop);
    idle.unwrap_or_else(|| Vec::with_capacity(IDLE_LIST_CHUNKS))
}

fn put_list_back(mut list: Vec<Chunk>) {
    if list.capacity() == 0 {
        return;
    }
    list.clear();
    // The thread may be ending: then the list goes with it.
    let _ = IDLE_LISTS.try_with(|idle| {
        let mut idle = idle.borrow_mut();
        if list.capacity() == IDLE_LIST_CHUNKS && idle.len() < IDLE_EXCHANGES_MAX {
            idle.push(list);
        }
    });
}

/// True when a request's content is worth being kept. Of an unknown length it may be short.
fn may_be_kept(length: ContentLength) -> bool {
    match length {
        ContentLength::Known(bytes) => bytes <= REPLAY_BYTES_MAX as u64,
        ContentLength::Empty | ContentLength::Unknown => true,
    }
}
