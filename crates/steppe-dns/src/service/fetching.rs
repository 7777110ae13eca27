//! Keeps a list that is fetched as new as it is to be.
//!
//! Invariant: a file of a list is replaced whole, by one that has rules; whatever else comes, the last good
//! one stays. Beside `NAME.txt` stands `NAME.txt.fetched`: what its source said of it (two lines, `ETag` and
//! `Last-Modified`), whose time is when it was asked for last.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::config::{FetchedFile, List};
use crate::fetch::{Fetch, Fetched, Request, Validators};
use crate::files::{for_each_line, open};
use crate::limits::{FETCH_RETRY_MAX, FETCH_RETRY_MIN, FETCHED_BYTES_MAX};
use crate::metrics::{DnsMetrics, FetchOutcome};
use crate::rules::{PlainScope, Reader};

/// A list that is fetched.
#[derive(Debug)]
pub(super) struct Fetching {
    list: String,
    plain: PlainScope,
    source: FetchedFile,
    refresh: Duration,
}

impl Fetching {
    /// `None`: the file has no name.
    pub(super) fn new(list: &List, source: &FetchedFile) -> Option<Self> {
        source.file.file_name()?;
        Some(Self {
            list: list.name.clone(),
            plain: list.plain,
            source: source.clone(),
            refresh: list.refresh,
        })
    }

    /// Fetches it whenever it is too old, for ever.
    pub(super) async fn keep_current(self, fetch: Arc<dyn Fetch>, metrics: Arc<DnsMetrics>) {
        let mut failures = 0;
        loop {
            let due = match failures {
                0 => self.due(),
                _ => (FETCH_RETRY_MIN * 2_u32.saturating_pow(failures - 1)).min(FETCH_RETRY_MAX),
            };
            sleep(due).await;
            // What stands behind a question mark may be a secret.
            let (list, url) = (&*self.list, &*self.source.url);
            let url = url.split('?').next().unwrap_or_default();
            let fetched = self.fetch_once(&*fetch).await;
            metrics.lists.fetched((list, url), &fetched);
            match fetched {
                Ok(outcome) => {
                    tracing::info!(list, url, ?outcome, "list fetched");
                    failures = 0;
                }
                Err(error) => {
                    if failures == 0 {
                        tracing::error!(
                            list,
                            url,
                            error,
                            "cannot fetch a list: the last version stays in use"
                        );
                    }
                    failures += 1;
                }
            }
        }
    }

    /// How long what there is stays new enough.
    fn due(&self) -> Duration {
        let asked_at = match self.source.file.exists() {
            true => std::fs::metadata(self.beside(".fetched")).and_then(|known| known.modified()),
            false => return Duration::ZERO,
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "files have the time of the wall's clock"
        )]
        let age = asked_at.map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
        age.map_or(Duration::ZERO, |age| self.refresh.saturating_sub(age))
    }

    /// A file that stands beside it.
    fn beside(&self, end: &str) -> PathBuf {
        let mut name: OsString = self.source.file.clone().into_os_string();
        name.push(end);
        name.into()
    }

    async fn fetch_once(&self, fetch: &dyn Fetch) -> Result<FetchOutcome, String> {
        let (file, new, said) = (
            self.source.file.clone(),
            self.beside(".new"),
            self.beside(".fetched"),
        );
        let folder = file.parent().unwrap_or(Path::new(".")).to_path_buf();
        let text = |error: io::Error| format!("{}: {error}", folder.display());
        std::fs::create_dir_all(&folder).map_err(text)?;
        let request = Request {
            url: self.source.url.clone(),
            file: new.clone(),
            validators: match file.exists() {
                true => read_validators(&said),
                false => Validators::default(),
            },
            bytes_max: FETCHED_BYTES_MAX,
        };
        let validators = request.validators.clone();
        let fetched = fetch.fetch(request).await?;
        let plain = self.plain;
        let done = spawn_blocking(move || match fetched {
            Fetched::Unchanged => {
                write_validators(&said, &validators).map(|()| Ok(FetchOutcome::Unchanged))
            }
            Fetched::New(validators) => {
                if !has_rules(&new, plain)? {
                    std::fs::remove_file(&new)?;
                    return Ok(Err("no rule in the fetched list".to_owned()));
                }
                std::fs::rename(&new, &file)?;
                write_validators(&said, &validators).map(|()| Ok(FetchOutcome::New))
            }
        });
        match done.await {
            Ok(done) => done.map_err(text)?,
            Err(_) => Err("the node is stopping".to_owned()),
        }
    }
}

/// Whether a list has a rule: what says that a list is not there today has none.
fn has_rules(file: &Path, plain: PlainScope) -> io::Result<bool> {
    let (mut reader, mut has_rules) = (Reader::new(plain), false);
    for_each_line(open(file)?, |_, line| {
        reader.line(line, |_| has_rules = true);
        io::Result::Ok(())
    })?;
    Ok(has_rules)
}

/// What cannot be read was not said.
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
