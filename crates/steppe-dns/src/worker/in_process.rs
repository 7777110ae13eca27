//! Queries from within the process: those of the gateway, for requests of DNS over HTTPS.
//!
//! Invariant: these queries wait in the same table as those of all clients.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll};

use steppe_mem::Reservation;

use super::askers::{Place, Response, Unanswered};
use super::clients::Destination;
use super::decide::Answered;
use super::state::{Handle, WorkerState, turn};
use crate::client::Client;

/// A query that is being answered.
///
/// # Cancel safety
/// Dropping it gives the response up.
#[derive(Debug)]
pub struct Asking {
    state: Weak<RefCell<WorkerState>>,
    number: u64,
    place: Rc<Place>,
}

/// A response to a query from within the process.
#[derive(Debug)]
pub struct Asked {
    /// The message.
    pub message: Vec<u8>,
    _charge: Reservation,
}

thread_local! {
    /// The worker of each forwarder on this thread, by the address of the forwarder's shared state.
    static HERE: RefCell<Vec<(usize, Weak<RefCell<WorkerState>>)>> = const { RefCell::new(Vec::new()) };
}

/// Registers a forwarder's worker as this thread's, until the result is dropped.
pub(super) fn install(state: &Handle) -> Installed {
    let forwarder = Arc::as_ptr(&state.borrow().shared).addr();
    HERE.with_borrow_mut(|here| here.push((forwarder, Rc::downgrade(state))));
    Installed(forwarder)
}

/// The registration of a worker by [`install`]; the forwarder's address.
#[derive(Debug)]
pub(super) struct Installed(usize);

impl Drop for Installed {
    fn drop(&mut self) {
        HERE.with_borrow_mut(|here| here.retain(|(forwarder, _)| *forwarder != self.0));
    }
}

/// Sends a query to the forwarder's worker on this thread. `None`: there is none, or it has ended.
pub(crate) fn ask(forwarder: usize, query: &[u8], client: Client) -> Option<Asking> {
    let state = HERE.with_borrow(|here| {
        let found = here.iter().find(|(known, _)| *known == forwarder);
        found.and_then(|(_, state)| state.upgrade())
    })?;
    let (number, place) = state.borrow_mut().askers.add(client);
    let asking = Asking {
        state: Rc::downgrade(&state),
        number,
        place,
    };
    turn(&state, |state, now| {
        let destination = Destination::InProcess { asker: number };
        match state.query(query, destination, &client, now) {
            Answered::Now(len) => state.deliver(destination, len),
            Answered::Later => {}
            Answered::Never => asking.place.respond(Response::Never(Unanswered::NoQuery)),
        }
    });
    Some(asking)
}

impl Future for Asking {
    type Output = Result<Asked, Unanswered>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.place.take(cx.waker()) {
            Response::There(message, charge) => Poll::Ready(Ok(Asked {
                message,
                _charge: charge,
            })),
            Response::Never(why) => Poll::Ready(Err(why)),
            Response::Awaited => Poll::Pending,
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(state) = self.state.upgrade() {
            state.borrow_mut().askers.remove(self.number);
        }
    }
}
