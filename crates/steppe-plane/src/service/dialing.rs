//! Dialed workers, configured or discovered.

use std::sync::Arc;

use tokio::task::{AbortHandle, spawn_local};

use super::tls::InForce;
use crate::config::Workers;
use crate::dial::TargetTls;
use crate::discovery::Directory;
use crate::relay::Relay;

/// The source of dialed workers in the configuration in force.
#[derive(Debug, Default)]
pub(super) struct Dialing(Option<Following>);

/// A directory of workers, and the task that follows it.
#[derive(Debug)]
struct Following {
    directory: Directory,
    tls: Option<TargetTls>,
    task: AbortHandle,
}

impl Dialing {
    /// Changes the source. Workers of the previous one stay until the list of a new directory is read.
    pub(super) fn change_over(&mut self, relay: &Arc<Relay>, next: &InForce) {
        let tls = next.tls.to_workers.as_ref();
        match &next.config.workers {
            Workers::Static(workers) => {
                self.0 = None;
                relay.set_workers(workers, tls);
            }
            Workers::Found(directory) => {
                let same = |following: &Following| {
                    following.directory == *directory && following.tls.as_ref() == tls
                };
                if !self.0.as_ref().is_some_and(same) {
                    self.0 = Some(Following::new(relay, directory, tls));
                }
            }
        }
    }
}

impl Following {
    fn new(relay: &Arc<Relay>, directory: &Directory, tls: Option<&TargetTls>) -> Self {
        let dialed = tls.cloned();
        let (relay, source) = (Arc::clone(relay), directory.clone());
        let follow = async move {
            source
                .follow(|workers| relay.set_workers(workers, dialed.as_ref()))
                .await
        };
        Self {
            directory: directory.clone(),
            tls: tls.cloned(),
            task: spawn_local(follow).abort_handle(),
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}
