//! The keys below a prefix, as they are and as they change.

use tokio::time::{error::Elapsed, timeout};

use crate::client::{Error, Etcd, Messages};
use crate::limits::WATCH_SILENCE;
use crate::message::{EventKind, ListRequest, Listed, Range, WatchCreate, WatchRequest, Watched};

/// What is new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// These are all that there are: at first, and after what was missed.
    All(Vec<String>),
    /// This one was written.
    Put(String),
    /// This one is gone.
    Deleted(String),
}

/// The keys below a prefix.
pub struct Keys {
    etcd: Etcd,
    range: Range,
    keys_max: usize,
    state: State,
    /// Of a message that brought several.
    changes: std::vec::IntoIter<Change>,
}

enum State {
    Unknown,
    /// All up to this revision was told.
    Known(i64),
    Watched(i64, Messages),
}

impl Keys {
    /// Those that begin with `prefix`, of which a list names `keys_max` at most.
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

    /// What is new: all of them at first, and each change from then on. It waits for as long as there is none.
    ///
    /// # Errors
    /// Why they can't be known now. Asked again, it lists them anew, of the next member of the cluster.
    ///
    /// # Cancel safety
    /// Where it is dropped, nothing is lost.
    pub async fn next(&mut self) -> Result<Change, Error> {
        loop {
            if let Some(change) = self.changes.next() {
                return Ok(change);
            }
            match self.step().await {
                Ok(Some(change)) => return Ok(change),
                Ok(None) => {}
                Err(error) => {
                    // Where it did not answer at all, that was seen.
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
