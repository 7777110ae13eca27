//! All services of a node, changed together.

use std::rc::Rc;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::{Drained, PrepareError, Prepared, Service};
use crate::activation::Inherited;
use crate::sockets::{BoundSockets, SocketBinder, SocketOwners};
use crate::worker::Worker;

/// The services of a node; `C` is its configuration.
///
/// Calls their methods in the order that [`Service`] asks for.
pub struct ServiceSet<C> {
    services: WorkerServices<C>,
    inherited: Inherited,
    workers: usize,
    /// Sockets of the configuration in force.
    owners: SocketOwners,
}

/// A configuration that every service has prepared; dropped, it has changed nothing.
pub struct PreparedServices {
    services: Vec<(Box<dyn Prepared>, Vec<BoundSockets>)>,
    owners: SocketOwners,
}

/// The services of a node as a worker runs them. Clones share them.
pub struct WorkerServices<C>(Arc<[Arc<dyn Service<C>>]>);

impl<C: 'static> ServiceSet<C> {
    /// A set that serves nothing yet, on as many workers.
    pub fn new(
        services: impl IntoIterator<Item = Arc<dyn Service<C>>>,
        inherited: Inherited,
        workers: usize,
    ) -> Self {
        Self {
            services: WorkerServices(services.into_iter().collect()),
            inherited,
            workers,
            owners: SocketOwners::new(),
        }
    }

    /// Has every service prepare `config`.
    ///
    /// # Errors
    /// Why the first of them that refuses it does so; nothing has changed then.
    pub fn prepare(&self, config: &C) -> Result<PreparedServices, PrepareError> {
        let mut sockets = SocketBinder::new(&self.inherited, self.workers, &self.owners);
        let mut services = Vec::with_capacity(self.services.0.len());
        for (index, service) in self.services.0.iter().enumerate() {
            sockets.begin(index);
            let prepared = Arc::clone(service).prepare(config, &mut sockets)?;
            services.push((prepared, sockets.take_bound()));
        }
        let owners = sockets.into_owners();
        Ok(PreparedServices { services, owners })
    }

    /// Has every service read ahead and prepare `config`, within the control thread's runtime: other tasks go on
    /// while services read what takes long.
    ///
    /// # Errors
    /// Errors of [`Self::prepare`].
    ///
    /// # Cancel safety
    /// Safe: nothing has changed.
    pub async fn prepare_beside(&self, config: &C) -> Result<PreparedServices, PrepareError> {
        let mut read = Vec::with_capacity(self.services.0.len());
        for service in self.services.0.iter() {
            read.push(Arc::clone(service).read_ahead(config).await);
        }
        let prepared = self.prepare(config);
        drop(read);
        prepared
    }

    /// Has every service serve the prepared configuration; ends when all workers do.
    pub async fn change(&mut self, next: PreparedServices) {
        for (prepared, sockets) in next.services {
            prepared.change(sockets).await;
        }
        self.owners = next.owners;
    }

    /// The services, for a worker to run.
    #[must_use]
    pub fn on_worker(&self) -> WorkerServices<C> {
        self.services.clone()
    }

    /// Inherited sockets that no service has asked for: name and address of each.
    #[must_use]
    pub fn unwanted_sockets(&self) -> Vec<String> {
        self.inherited.unwanted()
    }
}

impl<C: 'static> WorkerServices<C> {
    /// Runs every service on this worker, each in a task of its own, until all
    /// have drained.
    ///
    /// # Panics
    /// If one of them does.
    pub async fn serve(self, worker: Rc<Worker>) -> Drained {
        let mut serving = JoinSet::new();
        for service in &*self.0 {
            serving.spawn_local(Arc::clone(service).serve(Rc::clone(&worker)));
        }
        let mut drained = Drained::default();
        while let Some(joined) = serving.join_next().await {
            // They are not cancelled, so a task without a result has panicked.
            let ended =
                joined.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
            drained = drained + ended;
        }
        drained
    }
}

impl<C> Clone for WorkerServices<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
