//! Tasks of streams: one serves a stream, waits, and serves another one of the same connection.
//!
//! A stream allocates neither its task nor its deadline then. Invariant: tasks that wait are charged, since the
//! connection keeps the charge of as many streams as it had at once; they end with the connection, and a while after its
//! last stream.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use super::serving::{BegunStream, serve_stream};

/// Tasks of a connection that wait for another stream.
#[derive(Default)]
pub(super) struct StreamTasks {
    waiting: RefCell<Vec<Weak<TaskSlot>>>,
    is_over: Cell<bool>,
}

/// The place of a task's next stream.
#[derive(Default)]
struct TaskSlot {
    next: RefCell<Next>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Default)]
#[expect(
    clippy::large_enum_variant,
    reason = "a task has one, and allocates nothing for it"
)]
enum Next {
    #[default]
    Nothing,
    Stream(BegunStream),
    /// The task is to end.
    End,
}

impl StreamTasks {
    /// Serves a stream in a task that waits, or in a new one.
    pub(super) fn serve(tasks: &Rc<Self>, stream: BegunStream) {
        loop {
            let waiting = tasks.waiting.borrow_mut().pop();
            match waiting.map(|slot| slot.upgrade()) {
                Some(Some(slot)) => return slot.wake(Next::Stream(stream)),
                // Its task is gone.
                Some(None) => {}
                None => break,
            }
        }
        let client = Rc::clone(&stream.client);
        client.spawn_part(serve_streams(Rc::clone(tasks), stream));
    }

    /// True when no task waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    /// Ends the tasks that wait.
    pub(super) fn shrink(&self) {
        let waiting = self.waiting.take();
        let slots = waiting.iter().filter_map(Weak::upgrade);
        slots.for_each(|slot| slot.wake(Next::End));
    }

    /// The connection is over: tasks wait for no further stream.
    pub(super) fn end(&self) {
        self.is_over.set(true);
        self.shrink();
    }

    fn wait(&self, slot: &Rc<TaskSlot>) {
        match self.is_over.get() {
            true => slot.wake(Next::End),
            false => self.waiting.borrow_mut().push(Rc::downgrade(slot)),
        }
    }
}

impl TaskSlot {
    fn wake(&self, next: Next) {
        *self.next.borrow_mut() = next;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Ready when there is another stream, or the task is to end. A stream stays where it is: it is large.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        if matches!(*self.next.borrow(), Next::Nothing) {
            self.waker.replace(Some(cx.waker().clone()));
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

/// Serves a stream, and those that come after it.
async fn serve_streams(tasks: Rc<StreamTasks>, first: BegunStream) {
    let slot = Rc::<TaskSlot>::default();
    let deadline = first.client.add_deadline();
    slot.wake(Next::Stream(first));
    while let Next::Stream(stream) = slot.next.take() {
        serve_stream(stream, &deadline).await;
        deadline.clear();
        tasks.wait(&slot);
        poll_fn(|cx| slot.poll(cx)).await;
    }
}
