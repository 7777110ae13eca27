//! The file that keeps the cache over a restart, and the thread that reads and writes it.
//!
//! The thread reads the file while workers already answer, writes it every [`SNAPSHOT_EVERY`], and a last time
//! when the node ends. It writes a new file beside the old one and renames it, so that a crash leaves a
//! complete file: the old one or the new one.
//!
//! Invariant: a worker never waits for the disk; it may wait for a shard that is copied to memory. A file
//! that can't be read, or is no snapshot, leads to a warning and nothing else.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use steppe_mem::Lease;

use crate::cache::snapshot::{self, Context};
use crate::limits::{SNAPSHOT_BUFFER_BYTES, SNAPSHOT_EVERY};
use crate::siphash::{SipHash24, SipKey};
use crate::snapshot::Snapshot;

/// The thread of the cache file; it is started with the first configuration that has a file.
#[derive(Debug)]
pub(crate) struct CacheFile {
    thread: Mutex<Option<Running>>,
    lease: Lease,
}

#[derive(Debug)]
struct Running {
    commands: SyncSender<Command>,
    ended: Receiver<()>,
}

#[derive(Debug)]
enum Command {
    /// Takes this configuration, which is in force now.
    Use(Arc<Snapshot>),
    /// Writes the file, if there is one, and ends the thread.
    End,
}

/// Commands in the queue at most: reloads are rare, and each waits for its workers before the next begins.
const COMMANDS_MAX: usize = 8;

/// Permissions of the file: only its owner may read which names clients have asked for.
const MODE: u32 = 0o600;

impl CacheFile {
    /// No thread yet. Memory that it takes is charged to `lease`.
    pub(crate) fn new(lease: Lease) -> Self {
        Self {
            thread: Mutex::default(),
            lease,
        }
    }

    /// Gives the thread a configuration that is in force, and starts the thread if it needs one.
    pub(crate) fn use_snapshot(&self, snapshot: &Arc<Snapshot>) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() && snapshot.config.cache.snapshot.is_some() {
            *thread = start(self.lease.account().lease())
                .inspect_err(|error| tracing::error!(%error, "cannot start the thread of the DNS cache file"))
                .ok();
        }
        if let Some(running) = &*thread
            && let Err(TrySendError::Full(_)) = running
                .commands
                .try_send(Command::Use(Arc::clone(snapshot)))
        {
            tracing::error!("writes to the DNS cache file hang");
        }
    }

    /// Writes the file a last time, and ends the thread. True if that took no longer than `timeout`.
    pub(crate) fn close(&self, timeout: Duration) -> bool {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = thread.take() else {
            return true;
        };
        let is_told = running.commands.try_send(Command::End).is_ok();
        is_told && running.ended.recv_timeout(timeout) != Err(RecvTimeoutError::Timeout)
    }
}

fn start(lease: Lease) -> io::Result<Running> {
    let (commands, receiver) = sync_channel(COMMANDS_MAX);
    let (end, ended) = sync_channel(1);
    std::thread::Builder::new()
        .name("dns-cache-file".to_owned())
        .spawn(move || {
            run(&receiver, &lease);
            // An error is fine: `close` may have given up.
            let _ = end.try_send(());
        })?;
    Ok(Running { commands, ended })
}

fn run(commands: &Receiver<Command>, lease: &Lease) {
    let mut in_use: Option<Arc<Snapshot>> = None;
    loop {
        match commands.recv_timeout(SNAPSHOT_EVERY) {
            Ok(Command::Use(next)) => {
                let is_new = in_use
                    .as_ref()
                    .is_none_or(|last| !Arc::ptr_eq(&last.cache, &next.cache));
                if is_new {
                    restore(&next);
                }
                in_use = Some(next);
            }
            Ok(Command::End) => {
                save(in_use.as_deref(), lease);
                return;
            }
            Err(RecvTimeoutError::Timeout) => save(in_use.as_deref(), lease),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn restore(snapshot: &Snapshot) {
    let Some(path) = &snapshot.config.cache.snapshot else {
        return;
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot read the DNS cache file");
            return;
        }
    };
    let views = snapshot.views();
    let mut input = BufReader::with_capacity(SNAPSHOT_BUFFER_BYTES, file);
    let cache = &snapshot.cache.cache;
    match snapshot::read(cache, &context(snapshot, &views), &mut input) {
        Ok(restored) => {
            let (entries, skipped) = (restored.entries, restored.skipped);
            if restored.is_whole {
                tracing::info!(entries, skipped, "DNS cache restored from its file");
            } else {
                tracing::warn!(path = %path.display(), entries, skipped, "the DNS cache file is truncated: the remaining responses are lost");
            }
        }
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the DNS cache file is ignored");
        }
    }
}

fn save(snapshot: Option<&Snapshot>, lease: &Lease) {
    let Some((snapshot, path)) =
        snapshot.and_then(|it| Some((it, it.config.cache.snapshot.as_ref()?)))
    else {
        return;
    };
    // A shard is copied to memory, and the fields that are written with an entry take no more than the entry.
    let cache = &snapshot.cache.cache;
    let bytes = SNAPSHOT_BUFFER_BYTES + 2 * cache.bytes() / cache.shards().max(1);
    let Ok(_charge) = lease.try_reserve(bytes) else {
        tracing::warn!(bytes, "no memory to write the DNS cache file");
        return;
    };
    match write(snapshot, path) {
        Ok(entries) => tracing::debug!(entries, "DNS cache file written"),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot write the DNS cache file");
        }
    }
}

/// Writes a new file, and renames it to `path` when it is on the disk.
fn write(snapshot: &Snapshot, path: &Path) -> io::Result<u64> {
    let draft = draft(path);
    let written = write_draft(snapshot, &draft).and_then(|entries| {
        std::fs::rename(&draft, path)?;
        if let Some(folder) = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            // The new name has to survive a crash too.
            File::open(folder)?.sync_all()?;
        }
        Ok(entries)
    });
    if written.is_err() {
        // There may be no draft.
        let _ = std::fs::remove_file(&draft);
    }
    written
}

fn write_draft(snapshot: &Snapshot, draft: &Path) -> io::Result<u64> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(MODE)
        .open(draft)?;
    let views = snapshot.views();
    let mut out = BufWriter::with_capacity(SNAPSHOT_BUFFER_BYTES, file);
    let cache = &snapshot.cache.cache;
    let entries = snapshot::write(cache, &context(snapshot, &views), &mut out)?;
    out.flush()?;
    out.get_ref().sync_all()?;
    Ok(entries)
}

/// The name of the new file while it is being written.
fn draft(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

#[expect(
    clippy::disallowed_methods,
    reason = "how old responses are when the file is written or read"
)]
fn context<'a>(snapshot: &Snapshot, views: &'a [snapshot::View]) -> Context<'a> {
    Context {
        now: Instant::now(),
        unix_seconds: unix_seconds(),
        tag: SipHash24::of(&SipKey([0, 0]), snapshot.origins().as_bytes()),
        views,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long the process was away is what no other clock knows"
)]
fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}
