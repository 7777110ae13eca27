//! Tasks of connections: each poll is in the scope of the connection's holder.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::holder::{Holder, Scope};

pin_project! {
    /// A future in the scope of a holder. It is no `async` block: that would keep the future twice, as its argument and
    /// as the variable that is polled.
    struct Task<F> {
        #[pin]
        future: Option<F>,
        holder: Option<Arc<Holder>>,
        turns: Turns,
    }
}

/// State of a task between its polls.
#[derive(Default)]
struct Turns {
    /// The connection's own task, before its first poll.
    is_new: bool,
    /// The ticket in the queue of paused tasks.
    ticket: Option<u32>,
}

/// The way on of a task whose turn begins.
enum Turn {
    Go,
    /// The budget is in debt.
    Wait,
    /// The connection was told to close.
    End,
}

impl Turns {
    fn next(&mut self, holder: &Holder, cx: &Context<'_>) -> Turn {
        if std::mem::take(&mut self.is_new) {
            holder.set_task(cx.waker());
        }
        if holder.is_over() {
            Turn::End
        } else if holder.pauses(cx.waker(), &mut self.ticket) {
            Turn::Wait
        } else {
            Turn::Go
        }
    }
}

impl<F> Task<F> {
    fn new(holder: Arc<Holder>, future: F, turns: Turns) -> Self {
        Self {
            future: Some(future),
            holder: Some(holder),
            turns,
        }
    }
}

impl Holder {
    /// Runs the task of the connection in the scope of this holder; `None` where the connection was shed before it ended.
    /// A connection may have several, one after the other: the last is woken when it is shed.
    ///
    /// # Cancel safety
    /// That of `future`.
    pub fn run<F: Future>(self: Arc<Self>, future: F) -> impl Future<Output = Option<F::Output>> {
        let turns = Turns {
            is_new: true,
            ..Turns::default()
        };
        Task::new(self, future, turns)
    }

    /// The same for a further task, beside that of the connection, which ends it.
    ///
    /// # Cancel safety
    /// That of `future`.
    pub fn run_part<F: Future>(
        self: Arc<Self>,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> {
        Task::new(self, future, Turns::default())
    }
}

impl<F: Future> Future for Task<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let turn = match this.holder {
            Some(holder) => this.turns.next(holder, cx),
            None => Turn::Go,
        };
        let scope = Scope::enter(this.holder);
        let polled = match (this.future.as_mut().as_pin_mut(), turn) {
            (Some(running), Turn::Go) => running.poll(cx).map(Some),
            (Some(_), Turn::Wait) => Poll::Pending,
            _ => Poll::Ready(None),
        };
        if polled.is_ready() {
            // Within the scope: it gives back what it holds.
            this.future.set(None);
        }
        drop(scope);
        polled
    }
}
