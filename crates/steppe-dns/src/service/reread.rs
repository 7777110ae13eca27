//! Tasks beside the workers: they reload changed files of lists, hosts and TLS, and put scheduled rules in force at
//! their times.

use std::fmt::Display;
use std::sync::Arc;

use steppe_net::tls::keep_current;
use steppe_net::{BoundSockets, Watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;

use super::DnsService;
use super::fetching::{self, Fetching, Stored};
use crate::config::Upstream;
use crate::files::{Draft, FilesError, HostsInForce, ListsInForce, Reading};
use crate::limits::{FILES_RETRY_EVERY, SCHEDULES_EVERY};
use crate::metrics::FetchOutcome;
use crate::snapshot::{Files, Snapshot};
use crate::tls::Sessions;

/// Watched files of one kind.
struct Kept {
    watch: Watch,
    /// True if the last reload failed.
    has_failed: bool,
}

impl DnsService {
    /// Starts the tasks that keep the files of the configuration in force current, until the next one. Must be
    /// called in a runtime that spawns local tasks, that of the control thread.
    pub(super) fn keep_files_current(&self) {
        let mut in_force = self.in_force();
        let Some(in_force) = in_force.as_mut() else {
            return;
        };
        let Files { lists, hosts } = in_force.snapshot.files();
        let mut rereads = JoinSet::new();
        if !lists.config().is_empty() {
            rereads.spawn_local(keep_lists(self.clone(), Kept::new(lists.watch())));
        }
        if !hosts.config().files.is_empty() {
            rereads.spawn_local(keep_hosts(self.clone(), Kept::new(hosts.watch())));
        }
        for list in lists.config() {
            for file in &list.fetched {
                let stored = match lists.left_out.iter().any(|left| left.file == file.file) {
                    true => Stored::Useless,
                    false => Stored::InForce,
                };
                let fetching = Fetching::new(list, file, stored);
                if let (Some(fetching), Some(fetch)) = (fetching, &self.fetch) {
                    let fetch = Arc::clone(fetch);
                    rereads.spawn_local(fetching.keep_current(fetch, self.clone()));
                }
            }
        }
        if in_force.snapshot.has_times() {
            rereads.spawn_local(keep_time(Arc::clone(&in_force.snapshot)));
        }
        for tls in in_force.snapshot.tls.iter().flatten() {
            rereads.spawn_local(keep_current(Arc::clone(tls)));
        }
        if !in_force.authorities.is_empty() {
            let kept = Kept::new(in_force.authorities.clone());
            rereads.spawn_local(keep_authorities(self.clone(), kept));
        }
        in_force.rereads = rereads;
    }

    /// The files in force.
    fn files_in_force(&self) -> Option<Files> {
        let in_force = self.in_force();
        Some(in_force.as_ref()?.snapshot.files().clone())
    }

    /// Reloads the lists in force, one reload at a time. A draft is moved to its place if the reload succeeds,
    /// and removed otherwise. `None` if the node is stopping.
    async fn read_lists(&self, draft: Option<Draft>) -> Option<Result<ListsInForce, FilesError>> {
        let turn = Arc::clone(&self.reading).lock_owned().await;
        let lists = self.files_in_force()?.lists;
        let (config, kept) = (lists.config().to_vec(), lists.kept());
        // Dropped, so that its memory can be freed while the next one is loaded.
        drop(lists);
        let (key, lease) = (self.shared.names_key(), self.lease.clone());
        let read = spawn_blocking(move || {
            let _turn = turn;
            let reading = Reading {
                key,
                lease: &lease,
                kept: &kept,
                draft: draft.as_ref(),
            };
            let lists = ListsInForce::load(&config, &reading);
            if let Some(Draft { file, place }) = draft {
                let placed = match &lists {
                    Ok(_) => std::fs::rename(&file, &place),
                    Err(_) => std::fs::remove_file(&file),
                };
                if let Err(cause) = placed {
                    return lists.and(Err(FilesError::Read { file: place, cause }));
                }
            }
            lists
        });
        read.await.ok()
    }

    /// Puts changed files in force; everything else stays.
    async fn replace_files(&self, change: impl FnOnce(&mut Files)) {
        let next = |snapshot: &Snapshot| {
            let mut files = snapshot.files().clone();
            change(&mut files);
            let places = self.metrics.lists.replace(&files.lists);
            snapshot.with_files(files, places)
        };
        self.replace_snapshot(next).await;
    }

    /// Puts the snapshot in force that `next` derives from the last one.
    async fn replace_snapshot(&self, next: impl FnOnce(&Snapshot) -> Snapshot) {
        let _turn = self.turn.lock().await;
        // Draining workers accept no further changes.
        if self.drain.get().is_some_and(steppe_net::Drain::is_draining) {
            return;
        }
        let Some(snapshot) = self.next_snapshot(next) else {
            return;
        };
        let sockets = (0..self.workers).map(|_| BoundSockets::default());
        self.changes.send(&snapshot, sockets.collect()).await;
    }

    fn next_snapshot(&self, next: impl FnOnce(&Snapshot) -> Snapshot) -> Option<Arc<Snapshot>> {
        let mut in_force = self.in_force();
        let in_force = in_force.as_mut()?;
        in_force.snapshot = Arc::new(next(&in_force.snapshot));
        Some(Arc::clone(&in_force.snapshot))
    }

    fn upstreams_in_force(&self) -> Option<Vec<Upstream>> {
        let in_force = self.in_force();
        Some(in_force.as_ref()?.snapshot.config.upstreams.clone())
    }
}

impl fetching::InForce for DnsService {
    async fn take_over(&self, draft: Draft) -> Result<(), String> {
        let read = self.read_lists(Some(draft)).await;
        let lists = read.ok_or("the node is stopping")?;
        let lists = Arc::new(lists.map_err(|error| error.to_string())?);
        self.metrics.lists.was_read();
        self.replace_files(|files| files.lists = lists).await;
        Ok(())
    }

    fn count(&self, place: (&str, &str), told: Result<FetchOutcome, (FetchOutcome, &str)>) {
        self.metrics.lists.fetched(place, told);
    }
}

impl Kept {
    fn new(watch: Watch) -> Self {
        Self {
            watch,
            has_failed: false,
        }
    }

    /// Waits until the files have changed, or until a failed reload is due again.
    async fn due(&mut self) {
        let retry = async {
            match self.has_failed {
                true => sleep(FILES_RETRY_EVERY).await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.watch.changed() => {}
            () = retry => {}
        }
    }

    /// Returns the loaded files. An error is logged once, until a reload succeeds.
    fn read<T>(&mut self, what: &str, read: Result<T, impl Display>) -> Option<T> {
        match read {
            Ok(read) => {
                self.has_failed = false;
                tracing::info!(what, "changed files reloaded");
                Some(read)
            }
            Err(error) => {
                if !self.has_failed {
                    tracing::error!(
                        what,
                        %error,
                        "cannot use the changed files: the previous contents stay in use"
                    );
                }
                self.has_failed = true;
                None
            }
        }
    }
}

/// Puts rules in force at their times. Later snapshots with other files share these rules.
async fn keep_time(snapshot: Arc<Snapshot>) {
    loop {
        sleep(SCHEDULES_EVERY).await;
        snapshot.look_at_the_clock();
    }
}

async fn keep_lists(service: DnsService, mut kept: Kept) {
    loop {
        kept.due().await;
        let Some(files) = service.files_in_force() else {
            return;
        };
        // A fetched list came into force together with its file.
        if !kept.has_failed && files.lists.is_of(files.lists.config()) {
            kept = Kept::new(files.lists.watch());
            continue;
        }
        drop(files);
        let Some(read) = service.read_lists(None).await else {
            return;
        };
        if let Err(error) = &read {
            service.metrics.lists.failed(error.to_string());
        }
        if let Some(lists) = kept.read("lists", read) {
            kept.watch = lists.watch();
            service.metrics.lists.was_read();
            let lists = Arc::new(lists);
            service.replace_files(|files| files.lists = lists).await;
        }
    }
}

async fn keep_hosts(service: DnsService, mut kept: Kept) {
    loop {
        kept.due().await;
        let Some(files) = service.files_in_force() else {
            return;
        };
        let (config, key) = (files.hosts.config().clone(), service.shared.names_key());
        drop(files);
        let lease = service.lease.clone();
        let read = spawn_blocking(move || HostsInForce::load(&config, key, &lease));
        let Ok(read) = read.await else { return };
        if let Some(hosts) = kept.read("hosts", read) {
            kept.watch = hosts.watch();
            let hosts = Arc::new(hosts);
            service.replace_files(|files| files.hosts = hosts).await;
        }
    }
}

/// Reloads changed certificate authorities for servers.
async fn keep_authorities(service: DnsService, mut kept: Kept) {
    loop {
        kept.due().await;
        let Some(upstreams) = service.upstreams_in_force() else {
            return;
        };
        let read = spawn_blocking(move || Sessions::load(&upstreams));
        let Ok(read) = read.await else { return };
        if let Some(sessions) = kept.read("certificate authorities of upstreams", read) {
            let next = |snapshot: &Snapshot| snapshot.with_sessions(sessions);
            service.replace_snapshot(next).await;
        }
    }
}
