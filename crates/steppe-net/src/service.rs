//! Services of the node: the HTTP gateway, DNS and the request plane, all started, changed and drained in the
//! same way.
//!
//! Invariant: everything that can fail does so in [`Service::prepare`], before the
//! first worker starts or is told of a change. So a node that serves is whole, and
//! a configuration is swapped whole or refused whole, by all services together.
//!
//! Non-goals: what a service does with a connection ([`accept`](crate::accept) brings it there), and how a
//! configuration is written down.

mod changes;
mod set;

use std::any::Any;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::listener::BindError;
use crate::sockets::{BoundSockets, SocketBinder};
use crate::worker::Worker;

pub use changes::Changes;
pub use set::{PreparedServices, ServiceSet, WorkerServices};

/// A future of the thread that it was made on.
pub type LocalFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// A guard of files that a service has read ahead: it keeps them until this is dropped.
pub type ReadAhead = Box<dyn Any>;

/// A protocol that the node serves; `C` is the node's configuration.
///
/// A service is made once, with no configuration and nothing running. Then:
///
/// 1. [`prepare`](Self::prepare) is called first, on the control thread, with the
///    configuration that the node starts with; and again with each one that
///    follows, until the drain begins. What an earlier call returned has been
///    dropped, or has changed the service, by then.
/// 2. [`serve`](Self::serve) is called once for each worker, on its thread, when
///    every service has prepared the first configuration. It serves nothing yet.
/// 3. [`Prepared::change`] is called on the control thread when every service has
///    prepared the configuration, or never, where one of them refused it. It brings
///    the sockets, by worker, that its `prepare` bound, and ends when every worker
///    serves the new configuration and sockets without a listener are closed. The
///    start of a node is its first change.
/// 4. The drain has no call: each `serve` watches for it ([`Worker::drain`])
///    and ends when nothing is open any more, or when the drain has timed out. No
///    `prepare` and no `change` follows.
/// 5. The service is dropped when every `serve` has ended.
pub trait Service<C>: Send + Sync {
    /// Reads the files of a configuration that [`prepare`](Self::prepare) is given next, on threads
    /// of its own, while the control thread goes on. The result is dropped when `prepare` has returned,
    /// which does without it as well, and reports errors.
    ///
    /// Must be called and polled within the control thread's runtime.
    fn read_ahead(self: Arc<Self>, _config: &C) -> LocalFuture<ReadAhead> {
        Box::pin(async { Box::new(()) as ReadAhead })
    }

    /// Does all that can fail of a configuration for want of a port, a file or memory, and starts
    /// nothing.
    ///
    /// The result makes the change; dropped, it has changed nothing.
    ///
    /// # Errors
    /// The reason why the configuration can't be served.
    fn prepare(
        self: Arc<Self>,
        config: &C,
        sockets: &mut SocketBinder<'_>,
    ) -> Result<Box<dyn Prepared>, PrepareError>;

    /// Serves on one worker until the node has drained. Returns what became of the sessions that
    /// were open then.
    fn serve(self: Arc<Self>, worker: Rc<Worker>) -> LocalFuture<Drained>;
}

/// A configuration that a service has prepared and does not serve yet.
pub trait Prepared {
    /// Serves it from now on, whole; `sockets` are those that are new, by worker.
    ///
    /// Must be called and polled within the control thread's runtime, where it may
    /// start local tasks.
    ///
    /// # Cancel safety
    /// Not safe: the workers may have changed already.
    fn change(self: Box<Self>, sockets: Vec<BoundSockets>) -> LocalFuture<()>;
}

/// A reason why a service can't serve a configuration, with the key at fault.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// A socket can't be bound.
    #[error("{key}: {cause}")]
    Bind {
        /// The key of the configuration.
        key: &'static str,
        /// Why.
        cause: BindError,
    },
    /// Anything else: a file, or memory.
    #[error("{key}: {cause}")]
    Other {
        /// The key of the configuration.
        key: &'static str,
        /// Why.
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Sessions that were open when the node drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drained {
    /// Open when the drain began.
    pub open: usize,
    /// Still open when it had to end: dropped.
    pub dropped: usize,
}

/// The next snapshot of a service for one worker.
#[derive(Debug)]
pub struct Change<S> {
    /// The snapshot to serve from now on.
    pub next: Arc<S>,
    /// Sockets that are new.
    pub sockets: BoundSockets,
    /// Sent when new exchanges follow the snapshot, and sockets that it has no
    /// listener for are closed.
    pub done: oneshot::Sender<()>,
}

impl std::ops::Add for Drained {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            open: self.open + other.open,
            dropped: self.dropped + other.dropped,
        }
    }
}

impl std::iter::Sum for Drained {
    fn sum<I: Iterator<Item = Self>>(each: I) -> Self {
        each.fold(Self::default(), std::ops::Add::add)
    }
}
