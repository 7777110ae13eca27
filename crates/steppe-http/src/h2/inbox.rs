//! Received parts of a stream, on their way from the connection's task to the stream's exchange.

use std::collections::VecDeque;
use std::task::Waker;

use steppe_h2::message::SectionKind;
use steppe_h2::{ErrorCode, ResetBy, Truncation};
use steppe_mem::Chunk;

use super::priority::Priority;
use super::section::HeadSection;
use super::windows::Window;

/// Received parts of a stream that its exchange has not taken.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// The task of the exchange.
    waker: Option<Waker>,
    content: InlineQueue<Chunk>,
    sections: InlineQueue<ReceivedSection>,
    /// The peer sends nothing more.
    pub(super) is_ended: bool,
    /// The stream is closed before its end.
    pub(super) cut: Option<StreamCut>,
    /// A response's head, its window or its trailers have found no memory.
    pub(super) is_over_budget: bool,
    /// Its request is HEAD: no content follows the response's head.
    pub(super) is_to_head: bool,
    /// Changed by the client since the response's was chosen.
    pub(super) priority: Option<Priority>,
    /// `None`: no content comes, or none yet.
    pub(super) window: Option<Window>,
}

/// A section that was received, all of it or in part.
#[derive(Debug)]
pub(super) struct ReceivedSection {
    pub(super) kind: SectionKind,
    pub(super) section: HeadSection,
    pub(super) truncation: Option<Truncation>,
    /// Nothing follows it on its stream.
    pub(super) is_last: bool,
}

/// Why a stream is closed before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamCut {
    /// It was reset with this code.
    Reset(ErrorCode, ResetBy),
    /// The peer broke the protocol on another stream, or as a whole.
    Failed,
    /// The connection has ended.
    Gone,
}

impl Inbox {
    /// Wakes the stream's task at the next change.
    pub(super) fn register(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(known) => known.clone_from(waker),
            None => self.waker = Some(waker.clone()),
        }
    }

    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// The peer sends nothing more.
    pub(super) fn end(&mut self) {
        self.is_ended = true;
        self.window = None;
        self.wake();
    }

    /// The stream is closed before its end.
    pub(super) fn cut(&mut self, cut: StreamCut) {
        self.cut.get_or_insert(cut);
        self.window = None;
        self.wake();
    }

    /// Adds a section behind what waits.
    pub(super) fn push_section(&mut self, section: ReceivedSection) {
        self.sections.push(section);
        self.wake();
    }

    /// The next section of this kind.
    pub(super) fn take_section(&mut self, kind: SectionKind) -> Option<ReceivedSection> {
        let is_of_kind = (self.sections.first()).is_some_and(|section| section.kind == kind);
        is_of_kind.then(|| self.sections.pop()).flatten()
    }

    /// Adds content behind what waits.
    pub(super) fn push(&mut self, mut chunk: Chunk) {
        chunk.bind();
        self.content.push(chunk);
        self.wake();
    }

    /// The next content.
    pub(super) fn take_content(&mut self) -> Option<Chunk> {
        self.content.pop()
    }

    /// Copies content into memory that waits already, if that has room: small pieces take no buffer each.
    pub(super) fn append(&mut self, content: &[u8]) -> bool {
        self.content.change_last(|last| match last.into_buffer() {
            Ok(mut buffer) => {
                let is_appended = buffer.put(content).is_ok();
                (buffer.into(), is_appended)
            }
            Err(view) => (view, false),
        })
    }

    /// Octets of content that wait.
    pub(super) fn bytes(&self) -> usize {
        self.content.iter().map(Chunk::len).sum()
    }
}

/// A queue whose first item allocates nothing.
#[derive(Debug)]
struct InlineQueue<T> {
    /// `None`: it is empty.
    first: Option<T>,
    rest: VecDeque<T>,
}

impl<T> Default for InlineQueue<T> {
    fn default() -> Self {
        Self {
            first: None,
            rest: VecDeque::new(),
        }
    }
}

impl<T> InlineQueue<T> {
    fn push(&mut self, item: T) {
        match self.first {
            None => self.first = Some(item),
            Some(_) => self.rest.push_back(item),
        }
    }

    fn pop(&mut self) -> Option<T> {
        std::mem::replace(&mut self.first, self.rest.pop_front())
    }

    fn first(&self) -> Option<&T> {
        self.first.as_ref()
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.rest)
    }

    /// Replaces the last item, and returns what `change` says of it; false where there is none.
    fn change_last(&mut self, change: impl FnOnce(T) -> (T, bool)) -> bool {
        let last = match self.rest.pop_back() {
            Some(last) => last,
            None => match self.first.take() {
                Some(first) => {
                    let (first, is_changed) = change(first);
                    self.first = Some(first);
                    return is_changed;
                }
                None => return false,
            },
        };
        let (last, is_changed) = change(last);
        self.rest.push_back(last);
        is_changed
    }
}

#[cfg(test)]
mod tests {
    use steppe_mem::{Budget, Buffer};

    use super::*;

    #[test]
    fn small_pieces_of_content_share_memory() {
        let budget = Budget::new(1 << 20);
        let lease = budget.root().lease();
        let mut inbox = Inbox::default();
        assert!(
            !inbox.append(b"x"),
            "there is no memory that it could share"
        );
        let mut first = Buffer::take(&lease, 1).expect("room");
        first.put(b"x").expect("room");
        inbox.push(first.into());
        let reserved = budget.root().reserved_bytes();
        let appended = std::iter::from_fn(|| inbox.append(b"x").then_some(())).count();
        assert_eq!((appended, inbox.content.iter().count()), (1023, 1));
        assert_eq!(inbox.bytes(), 1024);
        assert_eq!(budget.root().reserved_bytes(), reserved);
    }

    #[test]
    fn content_is_taken_in_its_order() {
        let budget = Budget::new(1 << 20);
        let lease = budget.root().lease();
        let mut inbox = Inbox::default();
        for round in 0..3_u8 {
            for octet in [b'a', b'b', b'c'] {
                let mut piece = Buffer::take(&lease, 1).expect("room");
                piece.put(&[octet + round]).expect("room");
                inbox.push(piece.into());
            }
            let mut taken = std::iter::from_fn(|| inbox.take_content());
            let taken: Vec<u8> = taken.by_ref().map(|chunk| chunk.filled()[0]).collect();
            assert_eq!(taken, [b'a' + round, b'b' + round, b'c' + round]);
        }
    }
}
