//! Lists and hosts that were loaded ahead, for a configuration that is about to be prepared.
//!
//! Invariant: they are used only for the configuration for which they were loaded.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use steppe_net::ReadAhead;

use crate::config::{Forwarder, Hosts, List};
use crate::files::{FilesError, HostsInForce, ListsInForce};

/// Files of a configuration: `None` for those that are in force and stay.
#[derive(Debug, Default)]
pub(super) struct PreparedFiles {
    pub(super) lists: Option<ListsInForce>,
    pub(super) hosts: Option<HostsInForce>,
}

/// Files that were loaded ahead, and their configuration; dropped with the result of [`Ahead::keep`].
#[derive(Debug, Default)]
pub(super) struct Ahead(Mutex<Weak<Mutex<Option<FilesAhead>>>>);

/// Files that were loaded for a configuration, or the error.
#[derive(Debug)]
pub(super) struct FilesAhead {
    pub(super) lists: Vec<List>,
    pub(super) hosts: Hosts,
    pub(super) read: Result<PreparedFiles, (&'static str, FilesError)>,
}

impl Ahead {
    /// Keeps files until the result is dropped.
    pub(super) fn keep(&self, files: FilesAhead) -> ReadAhead {
        let files = Arc::new(Mutex::new(Some(files)));
        *lock(&self.0) = Arc::downgrade(&files);
        Box::new(files)
    }

    /// Takes the files, if they are those of this configuration.
    pub(super) fn take(&self, config: &Forwarder) -> Option<FilesAhead> {
        let files = lock(&self.0).upgrade()?;
        let files = lock(&files).take()?;
        (files.lists == config.lists && files.hosts == config.hosts).then_some(files)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
