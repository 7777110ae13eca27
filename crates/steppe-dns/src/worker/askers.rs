//! Queries from within the process that wait for a response.
//!
//! Invariant: each query has one place for its response, and the response is charged as long as it exists.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::task::Waker;

use steppe_mem::Reservation;

use crate::client::Client;

/// The queries that wait for a response, by number.
#[derive(Debug, Default)]
pub(super) struct Askers {
    waiting: HashMap<u64, Rc<Place>>,
    next: u64,
}

/// The place of a query's response.
#[derive(Debug)]
pub(super) struct Place {
    client: Client,
    response: RefCell<Response>,
    waker: RefCell<Option<Waker>>,
}

/// The state of a response.
#[derive(Debug, Default)]
pub(super) enum Response {
    #[default]
    Awaited,
    /// The bytes of the response, and their reservation.
    There(Vec<u8>, Reservation),
    /// No response comes, for this reason.
    Never(Unanswered),
}

/// The reason why a query from within the process gets no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The bytes are not a query that can be answered.
    #[error("not a DNS query")]
    NoQuery,
    /// The budget has no room, or the forwarder has ended.
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

    /// Removes a query whose response is no longer waited for.
    pub(super) fn remove(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// The place of the query of this number. `None`: its response is no longer waited for.
    pub(super) fn get(&self, number: u64) -> Option<&Rc<Place>> {
        self.waiting.get(&number)
    }
}

impl Place {
    /// The client of the query.
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

    /// Takes the response. If it has not come yet, `waker` is woken when it does.
    pub(super) fn take(&self, waker: &Waker) -> Response {
        let response = self.response.take();
        if matches!(response, Response::Awaited) {
            self.waker.replace(Some(waker.clone()));
        }
        response
    }
}

impl Drop for Askers {
    /// Ends all waits: the forwarder answers no more.
    fn drop(&mut self) {
        for place in self.waiting.values() {
            place.respond(Response::Never(Unanswered::Unavailable));
        }
    }
}
