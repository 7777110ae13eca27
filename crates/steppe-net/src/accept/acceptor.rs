//! One listener of one worker: from its first connection to the last in its queue.
//!
//! Invariant: a listener that is retired accepts what is queued first, since
//! closing its socket would reset that; but no crowd, and no want of
//! descriptors, keeps it open.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, ready};

use tokio::task::{spawn_local, yield_now};

use super::introduction::Introduction;
use super::service::{Accepted, ConnectionService};
use crate::address::ListenAddress;
use crate::drain::Phase;
use crate::limits::{ACCEPT_BATCH, ACCEPT_PAUSE, BACKLOG};
use crate::listener::BoundListener;
use crate::stream::PeerAddress;
use crate::transport::Transport;
use crate::worker::Worker;

/// Accepts connections for a service.
pub(super) struct Acceptor<S> {
    pub(super) worker: Rc<Worker>,
    /// As a configuration names it.
    pub(super) address: ListenAddress,
    pub(super) service: Rc<S>,
}

impl<S: ConnectionService> Acceptor<S> {
    /// Accepts until the listener drains and its queue is empty.
    pub(super) async fn run(self, bound: BoundListener) {
        let address = &self.address;
        let socket = match self.worker.io.listen(bound) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::error!(%address, %error, "cannot listen");
                return;
            }
        };
        let admission = self.service.admission();
        let draining = async {
            admission.drain().reached(Phase::Draining).await;
            // The runtime learns of a connection in the queue when it polls next.
            yield_now().await;
        };
        tokio::pin!(draining);
        let mut queued_max = BACKLOG;
        while queued_max > 0 {
            let accepted = tokio::select! {
                biased;
                accepted = poll_fn(|cx| {
                    ready!(admission.handshakes().poll_room(cx));
                    socket.poll_accept(cx)
                }) => accepted,
                () = &mut draining => return,
            };
            let is_draining = admission.drain().is_draining();
            match accepted {
                Ok((transport, peer)) => {
                    self.accept(transport, peer);
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
            yield_after_batch(admission.open().count()).await;
        }
    }

    /// Has a connection served, or refuses it.
    fn accept(&self, mut transport: Transport, peer: PeerAddress) {
        let mut session = match self.service.admit(peer, &transport) {
            Ok(session) => session,
            Err(reason) => {
                self.service.refused(&reason);
                let no_room = self.service.no_room();
                return no_room
                    .into_iter()
                    .for_each(|bytes| transport.end_now(bytes));
            }
        };
        let preamble = self.service.preamble(&session);
        let holder = Arc::clone(session.as_mut().holder());
        let deadline = self.worker.deadlines.add();
        let connection = Accepted::new(transport, peer, deadline, session);
        let Some(preamble) = preamble else {
            return self.service.serve(connection);
        };
        let introduction = Introduction {
            service: Rc::clone(&self.service),
            preamble,
            connection,
        };
        spawn_local(holder.run(introduction.run()));
    }
}

/// Lets other tasks run after each batch: a crowd of new connections must not keep those that are open waiting.
async fn yield_after_batch(open: usize) {
    if !open.is_multiple_of(ACCEPT_BATCH) {
        return;
    }
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
