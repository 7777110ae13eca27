//! One listener of one worker: from its first connection to the last in its queue.
//!
//! Invariant: a listener that goes away accepts what is queued first, since
//! closing its socket would reset that; but no crowd, and no want of
//! descriptors, keeps it at the door.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use steppe_net::limits::{ACCEPT_BATCH, ACCEPT_PAUSE, BACKLOG};
use steppe_net::{BoundListener, Drain, ListenAddress, Listener, PeerAddress, Phase, Stream};
use tokio::task::{JoinHandle, spawn_local};

use super::worker::{self, WorkerState};
use crate::h1::ServerSettings;

/// A listener as its connections see it.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) address: ListenAddress,
    /// Closed before the node is, where a new configuration has no such listener.
    pub(super) drain: Drain,
    settings: RefCell<Rc<ServerSettings>>,
}

/// A door, and the task that stands at it.
pub(super) struct Doorkeeper {
    pub(super) door: Rc<Door>,
    accepting: JoinHandle<()>,
}

impl Door {
    /// What its listener asks of connections now.
    pub(super) fn settings(&self) -> Rc<ServerSettings> {
        Rc::clone(&self.settings.borrow())
    }

    /// Takes over what a new configuration asks.
    pub(super) fn set_settings(&self, settings: ServerSettings) {
        *self.settings.borrow_mut() = Rc::new(settings);
    }
}

impl Doorkeeper {
    /// Accepts from `bound`; `settings` are made with the door's own drain.
    pub(super) fn open(
        state: &Rc<WorkerState>,
        address: ListenAddress,
        bound: BoundListener,
        settings: impl FnOnce(Drain) -> ServerSettings,
    ) -> Self {
        let drain = Drain::default();
        let door = Rc::new(Door {
            address,
            settings: RefCell::new(Rc::new(settings(drain.clone()))),
            drain,
        });
        let accepting = spawn_local(accept(Rc::clone(state), Rc::clone(&door), bound));
        Self { door, accepting }
    }

    /// Lets nobody in any more; connections end after the response that is under way.
    pub(super) fn close(&self) {
        self.door.drain.enter(Phase::Draining);
    }

    /// Waits until the socket is closed.
    pub(super) async fn closed(self) {
        // A listener that failed has said so.
        let _ = self.accepting.await;
    }
}

async fn accept(state: Rc<WorkerState>, door: Rc<Door>, bound: BoundListener) {
    let address = &door.address;
    let listener = match bound.into_listener() {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%address, %error, "cannot listen");
            return;
        }
    };
    let draining = door.drain.reached(Phase::Draining);
    tokio::pin!(draining);
    let mut queued_max = BACKLOG;
    while queued_max > 0 {
        let accepted = tokio::select! {
            biased;
            accepted = accept_one(&listener) => accepted,
            () = &mut draining => return,
        };
        let is_draining = door.drain.is_draining();
        match accepted {
            Ok((stream, peer)) => {
                worker::open(&state, &door, stream, peer);
                queued_max -= i32::from(is_draining);
            }
            Err(error) => {
                tracing::warn!(%address, %error, "cannot accept");
                // Descriptors come free when connections end, which the drain is to see to.
                if is_draining {
                    return;
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        yield_after_batch(state.open()).await;
    }
}

async fn accept_one(listener: &Listener) -> std::io::Result<(Stream, PeerAddress)> {
    poll_fn(|cx| listener.poll_accept(cx)).await
}

/// A crowd at the door must not keep those inside waiting.
async fn yield_after_batch(open: usize) {
    if open.is_multiple_of(ACCEPT_BATCH) {
        let mut has_yielded = false;
        poll_fn(|cx| {
            if has_yielded {
                return Poll::Ready(());
            }
            has_yielded = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}
