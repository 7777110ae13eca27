//! Keeps a fetched list up to date.
//!
//! Invariant: a fetched file replaces the last good one only when it comes into force; after any failure the last good
//! one stays. The file `NAME.txt.fetched` beside `NAME.txt` has the validators of its response (two lines, `ETag` and
//! `Last-Modified`); its modification time is that of the last successful request.

mod contents;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::config::{FetchedFile, List};
use crate::fetch::{Fetch, Fetched, Request, Validators};
use crate::files::{Draft, FilesError};
use crate::limits::{FETCH_RETRY_MAX, FETCH_RETRY_MIN, FETCHED_BYTES_MAX};
use crate::metrics::FetchOutcome;
use crate::rules::PlainScope;

/// The service in which fetched files come into force.
pub(super) trait InForce {
    /// Puts a fetched file in force, and moves it to its place. The error is the reason why neither was done.
    async fn take_over(&self, draft: Draft) -> Result<(), String>;

    /// Counts a fetch, with its result.
    fn count(&self, place: (&str, &str), told: Result<FetchOutcome, (FetchOutcome, &str)>);
}

/// A list with one of its URLs.
#[derive(Debug)]
pub(super) struct Fetching {
    list: String,
    plain: PlainScope,
    source: FetchedFile,
    refresh: Duration,
    stored: Stored,
}

/// State of the stored file of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    /// The stored file is in force.
    InForce,
    /// No file is stored, or it can't be used.
    Useless,
}

/// The reason why a fetch had no effect.
#[derive(Debug)]
enum FetchError {
    /// The fetch failed.
    Failed(String),
    /// The file was fetched, but can't come into force.
    Refused(String),
}

/// Time of the next fetch.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// Once the stored file is too old.
    Due,
    /// After this number of failures in a row.
    Failures(u32),
    /// After a refused file.
    Refused,
}

impl Fetching {
    /// `None` if the path of the file has no file name.
    pub(super) fn new(list: &List, source: &FetchedFile, stored: Stored) -> Option<Self> {
        source.file.file_name()?;
        Some(Self {
            list: list.name.clone(),
            plain: list.plain,
            source: source.clone(),
            refresh: list.refresh,
            stored,
        })
    }

    /// Fetches the list whenever it is too old. Never completes.
    pub(super) async fn keep_current(mut self, fetch: Arc<dyn Fetch>, service: impl InForce) {
        let mut next = Next::Due;
        loop {
            sleep(self.pause(next)).await;
            let fetched = self.bring_into_force(&*fetch, &service).await;
            let (list, url) = (&*self.list, self.source.url_shown());
            let told = match &fetched {
                Ok(outcome) => Ok(*outcome),
                Err(FetchError::Failed(why)) => Err((FetchOutcome::Failed, &**why)),
                Err(FetchError::Refused(why)) => Err((FetchOutcome::Refused, &**why)),
            };
            service.count((list, url), told);
            next = match (&fetched, next) {
                (Ok(outcome), _) => {
                    tracing::info!(list, url, ?outcome, "list fetched");
                    Next::Due
                }
                (Err(FetchError::Refused(error)), _) => {
                    tracing::error!(
                        list,
                        url,
                        error,
                        "a fetched list is not in force: the last good version stays in use"
                    );
                    Next::Refused
                }
                (Err(FetchError::Failed(_)), Next::Failures(count)) => Next::Failures(count + 1),
                (Err(FetchError::Failed(error)), _) => {
                    tracing::error!(
                        list,
                        url,
                        error,
                        "cannot fetch a list: the last version stays in use"
                    );
                    Next::Failures(1)
                }
            };
        }
    }

    /// Fetches a required list that is not stored yet, into its place. Returns the reason if that fails.
    pub(super) async fn fetch_missing(&self, fetch: &dyn Fetch) -> Result<(), FilesError> {
        let draft = self.draft();
        let fetched = match self.fetch_draft(fetch).await {
            Ok(Fetched::New(validators)) => {
                let (plain, said) = (self.plain, self.beside(".fetched"));
                let placed = spawn_blocking(move || {
                    if let Some(refusal) = contents::refusal(&draft.file, None, plain)? {
                        return Ok(Err(refusal));
                    }
                    std::fs::rename(&draft.file, &draft.place)?;
                    write_validators(&said, &validators).map(Ok)
                });
                let placed = placed
                    .await
                    .unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()));
                placed.unwrap_or_else(|error| Err(error.to_string()))
            }
            Ok(Fetched::Unchanged) => {
                Err("the server has nothing new, and nothing is stored".into())
            }
            Err(why) => Err(why),
        };
        fetched.map_err(|why| FilesError::NeverFetched {
            list: self.list.clone(),
            source_url: self.source.url_shown().to_owned(),
            why,
        })
    }

    /// The time until the next fetch.
    fn pause(&self, next: Next) -> Duration {
        match next {
            Next::Due => self.due(),
            Next::Failures(count) => {
                (FETCH_RETRY_MIN * 2_u32.saturating_pow(count - 1)).min(FETCH_RETRY_MAX)
            }
            Next::Refused => self.refresh.min(FETCH_RETRY_MAX),
        }
    }

    /// The time until the stored file is too old.
    fn due(&self) -> Duration {
        let asked_at = match self.stored() {
            Stored::InForce => {
                std::fs::metadata(self.beside(".fetched")).and_then(|known| known.modified())
            }
            Stored::Useless => return Duration::ZERO,
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "files have the time of the wall's clock"
        )]
        let age = asked_at.map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
        age.map_or(Duration::ZERO, |age| self.refresh.saturating_sub(age))
    }

    /// State of the stored file now.
    fn stored(&self) -> Stored {
        match self.source.file.exists() {
            true => self.stored,
            false => Stored::Useless,
        }
    }

    /// A path with `end` appended to that of the stored file.
    fn beside(&self, end: &str) -> PathBuf {
        let mut name: OsString = self.source.file.clone().into_os_string();
        name.push(end);
        name.into()
    }

    fn draft(&self) -> Draft {
        Draft {
            file: self.beside(".new"),
            place: self.source.file.clone(),
        }
    }

    /// Compares the fetched file with the one in force.
    async fn check(&self) -> Result<(), FetchError> {
        let (draft, plain) = (self.draft(), self.plain);
        let last = (self.stored() == Stored::InForce).then_some(draft.place);
        let refusal =
            spawn_blocking(move || contents::refusal(&draft.file, last.as_deref(), plain));
        match refusal.await {
            Ok(Ok(Some(refusal))) => Err(FetchError::Refused(refusal)),
            Ok(Err(error)) => Err(FetchError::Failed(error.to_string())),
            // The runtime is shutting down.
            Ok(Ok(None)) | Err(_) => Ok(()),
        }
    }

    async fn fetch_draft(&self, fetch: &dyn Fetch) -> Result<Fetched, String> {
        let folder = self.source.file.parent().unwrap_or(Path::new("."));
        let made = std::fs::create_dir_all(folder);
        made.map_err(|error| format!("{}: {error}", folder.display()))?;
        let request = Request {
            url: self.source.url.clone(),
            file: self.beside(".new"),
            // A stored file that can't be used must not be revalidated as unchanged.
            validators: match self.stored() {
                Stored::InForce => read_validators(&self.beside(".fetched")),
                Stored::Useless => Validators::default(),
            },
            bytes_max: FETCHED_BYTES_MAX,
        };
        fetch.fetch(request).await
    }

    /// Fetches the list, and puts it in force if possible.
    async fn bring_into_force(
        &mut self,
        fetch: &dyn Fetch,
        service: &impl InForce,
    ) -> Result<FetchOutcome, FetchError> {
        let said = self.beside(".fetched");
        let fetched = self.fetch_draft(fetch).await.map_err(FetchError::Failed)?;
        let (outcome, validators) = match fetched {
            Fetched::Unchanged => (FetchOutcome::Unchanged, read_validators(&said)),
            Fetched::New(validators) => {
                self.check().await?;
                let taken = service.take_over(self.draft()).await;
                taken.map_err(FetchError::Refused)?;
                self.stored = Stored::InForce;
                (FetchOutcome::New, validators)
            }
        };
        let written = spawn_blocking(move || write_validators(&said, &validators));
        match written.await {
            Ok(Err(error)) => Err(FetchError::Failed(error.to_string())),
            // The runtime is shutting down.
            Ok(Ok(())) | Err(_) => Ok(outcome),
        }
    }
}

/// Reads stored validators; those of a missing or unreadable file are empty.
fn read_validators(file: &Path) -> Validators {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut lines = text
        .lines()
        .map(|line| (!line.is_empty()).then(|| line.to_owned()));
    Validators {
        etag: lines.next().flatten(),
        last_modified: lines.next().flatten(),
    }
}

fn write_validators(file: &Path, validators: &Validators) -> io::Result<()> {
    let line = |text: &Option<String>| text.clone().unwrap_or_default();
    let lines = [line(&validators.etag), line(&validators.last_modified)];
    std::fs::write(file, lines.join("\n") + "\n")
}
