//! Loads lists and hosts of a configuration ahead of its preparation, on a thread of its own: a million names take a
//! second, which must not block the control thread.
//!
//! Invariant: files that were loaded ahead are used only if they have not changed meanwhile; otherwise they are loaded
//! again, so that no change is lost.

use steppe_net::ReadAhead;
use tokio::task::spawn_blocking;

use super::DnsService;
use super::ahead::{FilesAhead, PreparedFiles};
use super::fetching::{Fetching, Stored};
use crate::config::{Forwarder, Hosts, List};
use crate::files::{FilesError, HostsInForce, ListsInForce, Reading};

impl DnsService {
    /// Fetches missing required lists, and loads the files of a configuration outside of the control thread;
    /// [`Self::files`] uses them until the result is dropped. At the start of the node nothing is loaded ahead:
    /// caches and tables reserve their memory first, and no client waits yet.
    pub(super) async fn read_files_ahead(self, lists: Vec<List>, hosts: Hosts) -> ReadAhead {
        if let Err(error) = self.fetch_missing(&lists).await {
            let read = Err(("dns.list", error));
            return self.ahead.keep(FilesAhead { lists, hosts, read });
        }
        if self.in_force().is_none() {
            return Box::new(());
        }
        let service = self.clone();
        let read = spawn_blocking(move || {
            let nothing = PreparedFiles::default();
            let read = service.read_files(nothing, (&lists, &hosts));
            FilesAhead { lists, hosts, read }
        });
        match read.await {
            Ok(files) => self.ahead.keep(files),
            // The runtime is shutting down.
            Err(_) => Box::new(()),
        }
    }

    async fn fetch_missing(&self, lists: &[List]) -> Result<(), FilesError> {
        let Some(fetch) = &self.fetch else {
            return Ok(());
        };
        for list in lists.iter().filter(|list| list.required) {
            for source in list.fetched.iter().filter(|it| !it.file.exists()) {
                if let Some(fetching) = Fetching::new(list, source, Stored::Useless) {
                    fetching.fetch_missing(&**fetch).await?;
                }
            }
        }
        Ok(())
    }

    /// The files of a configuration that differ from those in force.
    pub(super) fn files(
        &self,
        config: &Forwarder,
    ) -> Result<PreparedFiles, (&'static str, FilesError)> {
        let ahead = self.ahead.take(config).map(|ahead| ahead.read);
        let mut known = ahead.transpose()?.unwrap_or_default();
        known.lists = known.lists.filter(|lists| lists.is_of(&config.lists));
        known.hosts = known.hosts.filter(|hosts| hosts.is_of(&config.hosts));
        self.read_files(known, (&config.lists, &config.hosts))
    }

    /// Loads the files that are neither in force nor in `known`.
    fn read_files(
        &self,
        known: PreparedFiles,
        (lists, hosts): (&[List], &Hosts),
    ) -> Result<PreparedFiles, (&'static str, FilesError)> {
        let key = self.shared.names_key();
        // Unlocked while files are loaded, since reports need the lock.
        let (has_lists, has_hosts, kept) = match self.in_force().as_ref() {
            Some(in_force) => {
                let files = in_force.snapshot.files();
                let has_lists = files.lists.is_of(lists);
                (has_lists, files.hosts.is_of(hosts), files.lists.kept())
            }
            None => (false, false, Vec::new()),
        };
        // Hosts first: fetched lists get the memory that is left.
        let hosts = match known.hosts {
            _ if has_hosts => None,
            Some(known) => Some(known),
            None => {
                let read = HostsInForce::load(hosts, key, &self.lease);
                Some(read.map_err(|error| ("dns.hosts", error))?)
            }
        };
        let lists = match known.lists {
            _ if has_lists => None,
            Some(known) => Some(known),
            None => {
                let reading = Reading {
                    key,
                    lease: &self.lease,
                    kept: &kept,
                    draft: None,
                };
                let read = ListsInForce::load(lists, &reading);
                let read = read.and_then(ListsInForce::with_required);
                Some(read.map_err(|error| ("dns.list", error))?)
            }
        };
        Ok(PreparedFiles { lists, hosts })
    }
}
