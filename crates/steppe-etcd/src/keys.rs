//! List and watch of the keys below a prefix.

use tokio::time::{error::Elapsed, timeout};

use crate::client::{Error, Etcd, Messages};
use crate::limits::WATCH_SILENCE;
use crate::message::{EventKind, ListRequest, Listed, Range, WatchCreate, WatchRequest, Watched};

/// A change of the keys below a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// All keys that exist: the first change, and the first one after an error.
    All(Vec<String>),
    /// A key was written.
    Put(String),
    /// A key was deleted.
    Deleted(String),
}

/// The keys below a prefix.
pub struct Keys {
    etcd: Etcd,
    range: Range,
    keys_max: usize,
    state: State,
    /// Changes of the last message that [`Keys::next`] has not returned yet.
    changes: std::vec::IntoIter<Change>,
}

enum State {
    Unknown,
    /// Changes up to this revision were received.
    Known(i64),
    Watched(i64, Messages),
}

impl Keys {
    /// Watches the keys that begin with `prefix`. A list has at most `keys_max` of them.
    #[must_use]
    pub fn new(etcd: &Etcd, prefix: &str, keys_max: usize) -> Self {
        Self {
            etcd: etcd.clone(),
            range: Range::prefixed(prefix),
            keys_max,
            state: State::Unknown,
            changes: Vec::new().into_iter(),
        }
    }

    /// Waits for the next change: all keys first, then each write and deletion.
    ///
    /// # Errors
    /// Returns the error of the list or of the watch. The next call lists the keys again; after a
    /// broken watch or a failed request it asks the next member of the cluster.
    ///
    /// # Cancel safety
    /// No change is lost if the future is dropped.
    pub async fn next(&mut self) -> Result<Change, Error> {
        loop {
            if let Some(change) = self.changes.next() {
                return Ok(change);
            }
            match self.step().await {
                Ok(Some(change)) => return Ok(change),
                Ok(None) => {}
                Err(error) => {
                    // A failed request has already moved on to the next member.
                    if let State::Watched(..) = std::mem::replace(&mut self.state, State::Unknown) {
                        self.etcd.turn();
                    }
                    return Err(error);
                }
            }
        }
    }

    async fn step(&mut self) -> Result<Option<Change>, Error> {
        match &mut self.state {
            State::Unknown => {
                let (revision, keys) = self.list().await?;
                self.state = State::Known(revision);
                Ok(Some(Change::All(keys)))
            }
            State::Known(revision) => {
                let revision = *revision;
                let messages = self.watch(revision).await?;
                self.state = State::Watched(revision, messages);
                Ok(None)
            }
            State::Watched(revision, messages) => {
                let watched: Result<_, Elapsed> = timeout(WATCH_SILENCE, messages.next()).await;
                let Ok(watched) = watched else {
                    self.state = State::Known(*revision);
                    return Ok(None);
                };
                let watched: Watched = watched?.ok_or(Error::Ended)?;
                if watched.canceled {
                    return Err(Error::Refused(watched.cancel_reason));
                }
                *revision = watched.header.revision.max(*revision);
                let events = watched.events.into_iter();
                let changes = events.map(|event| match event.kind {
                    EventKind::Put => Change::Put(event.kv.key),
                    EventKind::Delete => Change::Deleted(event.kv.key),
                });
                self.changes = changes.collect::<Vec<_>>().into_iter();
                Ok(None)
            }
        }
    }

    async fn list(&self) -> Result<(i64, Vec<String>), Error> {
        let request = ListRequest {
            range: &self.range,
            limit: self.keys_max.to_string(),
            keys_only: true,
        };
        let listed: Listed = self.etcd.ask("/v3/kv/range", &request).await?;
        let keys = listed.kvs.into_iter().take(self.keys_max);
        let keys = keys.map(|kv| kv.key).collect();
        Ok((listed.header.revision, keys))
    }

    async fn watch(&self, revision: i64) -> Result<Messages, Error> {
        let request = WatchRequest {
            create_request: WatchCreate {
                range: &self.range,
                start_revision: revision.saturating_add(1).to_string(),
            },
        };
        self.etcd.stream("/v3/watch", &request).await
    }
}
