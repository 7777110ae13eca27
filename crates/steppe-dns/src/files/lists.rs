//! Lists of domains: their files, read into one index.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use steppe_mem::{Lease, OverBudget};
use steppe_net::Watch;

use super::charge::Charge;
use super::error::FilesError;
use super::lines::{for_each_line, open};
use crate::config::List;
use crate::limits::LIST_LINES_SHOWN_MAX;
use crate::rules::{BuildError, Builder, Index, Line, Reader};
use crate::siphash::SipKey;

/// Lists that were read.
#[derive(Debug)]
pub(crate) struct ListsInForce {
    pub(crate) index: Index,
    /// By list.
    pub(crate) facts: Vec<ListFacts>,
    /// Seconds since 1970 when they were read.
    pub(crate) read_at: u64,
    config: Vec<List>,
    watch: Watch,
    _charge: Charge,
}

/// What was found in a list's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ListFacts {
    pub(crate) rules: u64,
    /// Lines with rules of a kind that is not supported.
    pub(crate) unsupported: u64,
    /// Lines that no syntax knows.
    pub(crate) malformed: u64,
}

/// Rules between two looks at how much memory they take.
const RULES_PER_LOOK: usize = 4096;

impl ListsInForce {
    /// Reads the files of these lists, and makes one index of them. It reads from a disk, and takes a
    /// second for a million rules.
    ///
    /// # Errors
    /// [`FilesError`].
    pub(crate) fn load(config: &[List], key: SipKey, lease: &Lease) -> Result<Self, FilesError> {
        // As they are before they are read: what changes meanwhile is seen to have changed.
        let watch = Watch::new(config.iter().flat_map(files_of));
        let mut loading = Loading {
            builder: Builder::new(key),
            charge: Charge::new(lease),
        };
        let mut facts = Vec::with_capacity(config.len());
        for (number, list) in config.iter().enumerate() {
            let number = u8::try_from(number).unwrap_or(u8::MAX);
            let mut of_list = ListFacts::default();
            for file in &list.files {
                loading.file((number, list), file, &mut of_list)?;
            }
            for fetched in &list.fetched {
                let read = loading.file((number, list), &fetched.file, &mut of_list);
                match read {
                    Err(FilesError::Read { cause, .. }) if cause.kind() == ErrorKind::NotFound => {
                        let (list, url) = (&list.name, fetched.url.split('?').next());
                        tracing::warn!(list, url, "list not fetched yet");
                    }
                    read => read?,
                }
            }
            facts.push(of_list);
        }
        let Loading {
            builder,
            mut charge,
        } = loading;
        charge.cover(builder.bytes() + Index::bytes_max(builder.len()))?;
        let index = builder.finish().map_err(FilesError::Index)?;
        charge.cover(index.bytes())?;
        charge.shrink(index.bytes());
        Ok(Self {
            index,
            facts,
            read_at: unix_seconds(),
            config: config.to_vec(),
            watch,
            _charge: charge,
        })
    }

    /// Whether these are the lists, and their files are as they were.
    pub(crate) fn is_of(&self, config: &[List]) -> bool {
        self.config == config && self.watch.is_current()
    }

    /// Their lists.
    pub(crate) fn config(&self) -> &[List] {
        &self.config
    }

    /// What sees that a file is another one than was read.
    pub(crate) fn watch(&self) -> Watch {
        self.watch.clone()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "people are told the time of the wall's clock"
)]
fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn files_of(list: &List) -> Vec<PathBuf> {
    let fetched = list.fetched.iter().map(|fetched| fetched.file.clone());
    list.files.iter().cloned().chain(fetched).collect()
}

struct Loading {
    builder: Builder,
    charge: Charge,
}

/// Why a file was not read to its end.
enum Stopped {
    Read(io::Error),
    Rules(BuildError),
    Budget(OverBudget),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

impl Loading {
    fn file(
        &mut self,
        (number, list): (u8, &List),
        path: &Path,
        facts: &mut ListFacts,
    ) -> Result<(), FilesError> {
        let mut reader = Reader::new(list.plain);
        let malformed_before = facts.malformed;
        let mut line = |at: u32, line: &[u8]| {
            let mut stopped = None;
            let found = reader.line(line, |rule| {
                facts.rules += 1;
                if let Err(error) = self.builder.add(&rule, number) {
                    stopped.get_or_insert(Stopped::Rules(error));
                }
            });
            facts.unsupported += u64::from(found == Line::Unsupported);
            if found == Line::Malformed {
                facts.malformed += 1;
                if facts.malformed - malformed_before <= LIST_LINES_SHOWN_MAX {
                    let place = format!("{}:{at}", path.display());
                    tracing::warn!(list = list.name, place, "malformed list line ignored");
                }
            }
            if self.builder.len().is_multiple_of(RULES_PER_LOOK) {
                // A part grows by an eighth at a time.
                let bytes = self.builder.bytes();
                self.charge
                    .cover(bytes + bytes / 8)
                    .map_err(Stopped::Budget)?;
            }
            stopped.map_or(Ok(()), Err)
        };
        let read = open(path)
            .map_err(Stopped::Read)
            .and_then(|file| for_each_line(file, &mut line));
        let file = path.to_path_buf();
        read.map_err(|stopped| match stopped {
            Stopped::Read(cause) => FilesError::Read { file, cause },
            Stopped::Rules(cause) => FilesError::Rules { file, cause },
            Stopped::Budget(cause) => cause.into(),
        })?;
        let malformed = facts.malformed - malformed_before;
        if malformed > LIST_LINES_SHOWN_MAX {
            tracing::warn!(list = list.name, file = %path.display(), malformed, "malformed list lines ignored");
        }
        Ok(())
    }
}
