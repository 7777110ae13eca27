//! Tasks of connections: each poll is in the scope of the connection's holder.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::holder::{Holder, HolderScope};

pin_project! {
    /// A future in the scope of a holder. Not an `async` block: that would keep the future twice, as its argument and
    /// as the variable that is polled.
    struct HolderTask<F> {
        #[pin]
        future: Option<F>,
        holder: Option<Arc<Holder>>,
        turns: TaskState,
    }
}

/// State of a task between its polls.
#[derive(Default)]
struct TaskState {
    /// The connection's own task, before its first poll.
    is_new: bool,
    /// The ticket in the queue of paused tasks.
    ticket: Option<u32>,
}

/// The next step of a task at a poll.
enum NextPoll {
    Go,
    /// Not polled: the budget is in debt.
    Wait,
    /// Ended: the connection was told to close.
    End,
}

impl TaskState {
    fn next(&mut self, holder: &Holder, cx: &Context<'_>) -> NextPoll {
        if std::mem::take(&mut self.is_new) {
            holder.set_task(cx.waker());
        }
        if holder.is_over() {
            NextPoll::End
        } else if holder.pauses(cx.waker(), &mut self.ticket) {
            NextPoll::Wait
        } else {
            NextPoll::Go
        }
    }
}

impl<F> HolderTask<F> {
    fn new(holder: Arc<Holder>, future: F, turns: TaskState) -> Self {
        Self {
            future: Some(future),
            holder: Some(holder),
            turns,
        }
    }
}

impl Holder {
    /// Runs the task of the connection in the scope of this holder; `None` if the connection was shed before it ended.
    /// A connection may have several, one after the other: the last one is woken when the connection is shed.
    ///
    /// # Cancel safety
    /// That of `future`.
    pub fn run<F: Future>(self: Arc<Self>, future: F) -> impl Future<Output = Option<F::Output>> {
        let turns = TaskState {
            is_new: true,
            ..TaskState::default()
        };
        HolderTask::new(self, future, turns)
    }

    /// The same for a further task beside the one of the connection, which ends it.
    ///
    /// # Cancel safety
    /// That of `future`.
    pub fn run_part<F: Future>(
        self: Arc<Self>,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> {
        HolderTask::new(self, future, TaskState::default())
    }
}

impl<F: Future> Future for HolderTask<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let turn = match this.holder {
            Some(holder) => this.turns.next(holder, cx),
            None => NextPoll::Go,
        };
        let scope = HolderScope::enter(this.holder);
        let polled = match (this.future.as_mut().as_pin_mut(), turn) {
            (Some(running), NextPoll::Go) => running.poll(cx).map(Some),
            (Some(_), NextPoll::Wait) => Poll::Pending,
            _ => Poll::Ready(None),
        };
        if polled.is_ready() {
            // Within the scope: the drop gives its memory back.
            this.future.set(None);
        }
        drop(scope);
        polled
    }
}
