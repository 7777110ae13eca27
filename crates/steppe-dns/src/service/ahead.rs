//! Lists and hosts that were read for a configuration that is about to be prepared.
//!
//! Invariant: they count for the configuration that they were read for, and for no other one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use steppe_net::ReadAhead;

use crate::config::{Forwarder, Hosts, List};
use crate::files::{FilesError, HostsInForce, ListsInForce};

/// Files that a configuration names: `None` for those that are in force and stay.
#[derive(Debug, Default)]
pub(super) struct PreparedFiles {
    pub(super) lists: Option<ListsInForce>,
    pub(super) hosts: Option<HostsInForce>,
}

/// What was read, and for whom; gone when nobody prepares a configuration any more.
#[derive(Debug, Default)]
pub(super) struct Ahead(Mutex<Weak<Mutex<Option<FilesAhead>>>>);

/// Files that were read for a configuration, or why they can't be.
#[derive(Debug)]
pub(super) struct FilesAhead {
    pub(super) lists: Vec<List>,
    pub(super) hosts: Hosts,
    pub(super) read: Result<PreparedFiles, (&'static str, FilesError)>,
}

impl Ahead {
    /// Keeps files for as long as the result is there.
    pub(super) fn keep(&self, files: FilesAhead) -> ReadAhead {
        let files = Arc::new(Mutex::new(Some(files)));
        *lock(&self.0) = Arc::downgrade(&files);
        Box::new(files)
    }

    /// Those of this configuration, once.
    pub(super) fn take(&self, config: &Forwarder) -> Option<FilesAhead> {
        let files = lock(&self.0).upgrade()?;
        let files = lock(&files).take()?;
        (files.lists == config.lists && files.hosts == config.hosts).then_some(files)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
