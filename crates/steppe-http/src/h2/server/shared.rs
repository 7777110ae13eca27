//! State that the task of a connection and those of its streams share.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use steppe_h2::{Connection, ErrorCode, StreamId};
use steppe_mem::{Buffer, Chunk, Reservation, Waiter};

use super::section::HeadSection;
use crate::error::GatewayError;
use crate::field::FieldBlock;
use crate::gateway::ClientContext;
use crate::h2::priority::Priority;
use crate::h2::turns::Turns;
use crate::h2::windows::{Window, Windows};
use crate::limits::H2_STREAM_BYTES;
use crate::metrics::{CountedStream, Traffic};

/// A connection of HTTP/2 with a client.
pub(super) type ClientConnection = Connection<HeadSection, Inbox>;

pub(super) struct Shared {
    pub(super) client: Rc<ClientContext>,
    pub(super) connection: RefCell<ClientConnection>,
    /// Streams whose exchange is not over.
    pub(super) open: Cell<usize>,
    /// The charge of as many places as there were streams at once.
    pub(super) places: RefCell<Option<Reservation>>,
    pub(super) windows: Windows,
    pub(super) turns: Turns,
    pub(super) traffic: Traffic,
    /// The connection's task.
    pub(super) task: RefCell<Option<Waker>>,
}

impl Shared {
    /// Wakes the connection's task: there is something to write, or a stream has ended.
    pub(super) fn wake(&self) {
        if let Some(task) = self.task.borrow().as_ref() {
            task.wake_by_ref();
        }
    }
}

impl Shared {
    /// Ready when the connection has memory for `bytes` of output, after it had none.
    pub(super) fn poll_room(
        &self,
        cx: &mut Context<'_>,
        bytes: usize,
        waiter: &mut Waiter,
    ) -> Poll<()> {
        let lease = self.windows.lease();
        let buffer = ready!(Buffer::poll_take(cx, &lease, bytes, waiter));
        self.connection.borrow_mut().give_room(buffer);
        Poll::Ready(())
    }
}

/// Received parts of a stream that its exchange has not taken.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// The stream's task.
    waker: Option<Waker>,
    pub(super) content: VecDeque<Chunk>,
    /// `None`: none came.
    pub(super) trailers: Option<Result<FieldBlock, GatewayError>>,
    pub(super) is_ended: bool,
    /// The stream was reset, or its connection is over.
    pub(super) reset: Option<ErrorCode>,
    /// Changed by the client since the response's was chosen.
    pub(super) priority: Option<Priority>,
    /// `None`: nothing more comes.
    pub(super) window: Option<Window>,
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

    /// The stream was reset.
    pub(super) fn cut(&mut self, code: ErrorCode) {
        self.reset.get_or_insert(code);
        self.window = None;
        self.wake();
    }

    /// Adds content behind what waits.
    pub(super) fn push(&mut self, mut chunk: Chunk) {
        chunk.bind();
        self.content.push_back(chunk);
        self.wake();
    }

    /// Copies content into memory that waits already, if that has room: small pieces take no buffer each.
    pub(super) fn append(&mut self, content: &[u8]) -> bool {
        let Some(last) = self.content.pop_back() else {
            return false;
        };
        let (last, is_appended) = match last.into_buffer() {
            Ok(mut buffer) => {
                let is_appended = buffer.put(content).is_ok();
                (buffer.into(), is_appended)
            }
            Err(view) => (view, false),
        };
        self.content.push_back(last);
        is_appended
    }

    /// Octets of content that wait.
    pub(super) fn bytes(&self) -> usize {
        self.content.iter().map(Chunk::len).sum()
    }
}

/// Counts a stream for as long as its exchange lasts.
pub(super) struct OpenStream {
    pub(super) shared: Rc<Shared>,
    pub(super) id: StreamId,
    _counted: CountedStream,
}

impl OpenStream {
    /// `place`: of [`H2_STREAM_BYTES`]. The connection keeps as many as the most streams that it had at once.
    pub(super) fn new(shared: &Rc<Shared>, id: StreamId, place: Reservation) -> Self {
        let open = shared.open.get() + 1;
        shared.open.set(open);
        let places = &mut *shared.places.borrow_mut();
        let charged_bytes = places.as_ref().map_or(0, Reservation::bytes);
        if open * H2_STREAM_BYTES > charged_bytes {
            place.join_into(places);
        }
        Self {
            shared: Rc::clone(shared),
            id,
            _counted: shared.traffic.stream(),
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let open = &self.shared.open;
        open.set(open.get() - 1);
        self.shared.wake();
    }
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

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
        assert_eq!((appended, inbox.content.len()), (4095, 1));
        assert_eq!(inbox.bytes(), 4096);
        assert_eq!(budget.root().reserved_bytes(), reserved);
    }
}
