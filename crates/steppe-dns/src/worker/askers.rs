//! Who asks from within the process, and waits.
//!
//! Invariant: who asks has one place for its response, which is charged until it is taken.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::task::Waker;

use steppe_mem::Reservation;

use crate::client::Client;

/// Those that wait for a response, by number.
#[derive(Debug, Default)]
pub(super) struct Askers {
    waiting: HashMap<u64, Rc<Place>>,
    next: u64,
}

/// Who waits, and what for.
#[derive(Debug)]
pub(super) struct Place {
    client: Client,
    response: RefCell<Response>,
    waker: RefCell<Option<Waker>>,
}

/// What became of a query.
#[derive(Debug, Default)]
pub(super) enum Response {
    #[default]
    Awaited,
    /// The bytes, and what they are charged to.
    There(Vec<u8>, Reservation),
    /// There will be none.
    Never(Unanswered),
}

/// Why there is no response to a query from within the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// It is none that anybody would answer.
    #[error("not a DNS query")]
    NoQuery,
    /// There is no memory, or the forwarder has ended.
    #[error("not available")]
    Unavailable,
}

impl Askers {
    pub(super) fn add(&mut self, client: Client) -> (u64, Rc<Place>) {
        let number = self.next;
        self.next += 1;
        let place = Rc::new(Place {
            client,
            response: RefCell::default(),
            waker: RefCell::default(),
        });
        self.waiting.insert(number, Rc::clone(&place));
        (number, place)
    }

    /// Nobody waits for it any more.
    pub(super) fn remove(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// Who waits by this number. `None`: nobody does any more.
    pub(super) fn get(&self, number: u64) -> Option<&Rc<Place>> {
        self.waiting.get(&number)
    }
}

impl Place {
    /// Whose query it is.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Ends the wait.
    pub(super) fn respond(&self, response: Response) {
        *self.response.borrow_mut() = response;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// What has come. Whoever waits on is woken by `waker`.
    pub(super) fn take(&self, waker: &Waker) -> Response {
        let response = self.response.take();
        if matches!(response, Response::Awaited) {
            self.waker.replace(Some(waker.clone()));
        }
        response
    }
}

impl Drop for Askers {
    /// Nobody answers any more.
    fn drop(&mut self) {
        for place in self.waiting.values() {
            place.respond(Response::Never(Unanswered::Unavailable));
        }
    }
}
