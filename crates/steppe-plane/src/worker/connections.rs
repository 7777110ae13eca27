//! The connections of a worker.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Instant;

use tokio::task::JoinSet;
use tokio::time::{timeout, timeout_at};

use super::Worker;
use crate::connection::Side;
use crate::io::{Link, Memory, Transport};
use crate::limits::FAREWELL;

/// The connections of a worker. Dropping this cuts them.
pub(super) struct Connections {
    worker: Worker,
    links: Vec<Weak<Link>>,
    drivers: JoinSet<()>,
}

/// A drain of several connections, in progress.
pub(super) struct Draining(JoinSet<bool>);

impl Connections {
    pub(super) fn new(worker: Worker) -> Self {
        Self {
            worker,
            links: Vec::new(),
            drivers: JoinSet::new(),
        }
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.worker.memory
    }

    /// Serves on a new connection, which registers the services at its peer.
    pub(super) fn serve(
        &mut self,
        transport: impl Into<Transport>,
        side: Side,
    ) -> io::Result<Arc<Link>> {
        while self.drivers.try_join_next().is_some() {}
        self.links.retain(|link| link.strong_count() > 0);
        let (link, driver) = self.worker.driver(transport.into(), side)?;
        self.drivers.spawn(async move {
            driver.await;
        });
        self.links.push(Arc::downgrade(&link));
        Ok(link)
    }

    /// Accepts no further calls, finishes the open ones until `deadline`, and resets the rest.
    pub(super) fn drain(&self, deadline: Instant) -> Draining {
        let links = self.links.iter().filter_map(Weak::upgrade);
        Draining(links.map(|link| finish(link, deadline)).collect())
    }

    /// Closes each connection once it is idle.
    pub(super) fn close(&self) {
        for link in self.links.iter().filter_map(Weak::upgrade) {
            link.close_when_idle();
        }
    }
}

impl Draining {
    /// Waits for the end of the drain. True if all calls were finished.
    ///
    /// # Cancel safety
    /// The future may be dropped, and the function called again.
    pub(super) async fn ends(&mut self) -> bool {
        let mut is_whole = true;
        while let Some(finished) = self.0.join_next().await {
            is_whole &= finished.unwrap_or(false);
        }
        is_whole
    }

    /// Lets the drain continue in the background.
    pub(super) fn detach(mut self) {
        self.0.detach_all();
    }
}

/// Finishes the open calls of a connection until `deadline`, and resets the rest. True if none was reset.
async fn finish(link: Arc<Link>, deadline: Instant) -> bool {
    link.drain();
    if timeout_at(deadline.into(), link.drained()).await.is_ok() {
        return true;
    }
    link.cut();
    // Peers that still read get the RESETs.
    let _ = timeout(FAREWELL, link.drained()).await;
    false
}
