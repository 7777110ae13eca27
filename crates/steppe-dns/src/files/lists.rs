//! Lists of domains: their files, read into one index.
//!
//! Invariant: a fetched file that can't be used, and is not in force already, is left out and reported. Nothing
//! else fails by it, unless its list is required.

mod loading;
mod reading;

use std::path::PathBuf;
use std::time::SystemTime;

use steppe_net::Watch;

use super::charge::Charge;
use super::error::FilesError;
use crate::config::List;
use crate::rules::Index;
use loading::Optional;
use reading::{LeftOut, ListFacts};

pub use reading::WhyLeftOut;
pub(crate) use reading::{Draft, Reading};

/// Lists that were read.
#[derive(Debug)]
pub(crate) struct ListsInForce {
    pub(crate) index: Index,
    /// Counts by list.
    pub(crate) facts: Vec<ListFacts>,
    /// Fetched files that are not in force.
    pub(crate) left_out: Vec<LeftOut>,
    /// Seconds since 1970 when they were read.
    pub(crate) read_at: u64,
    config: Vec<List>,
    watch: Watch,
    charge: Charge,
}

impl ListsInForce {
    /// Reads the files of these lists, and makes one index of them. Files of the configuration and fetched
    /// files that are needed come first; any other fetched file that can't be used is left out. Blocks on
    /// reads from the disk; a million rules take a second.
    ///
    /// # Errors
    /// [`FilesError`].
    pub(crate) fn load(config: &[List], reading: &Reading<'_>) -> Result<Self, FilesError> {
        // The watch starts before files are read, so that it notices changes meanwhile.
        let watch = Watch::new(
            config
                .iter()
                .flat_map(files_of)
                .map(|file| reading.at(&file)),
        );
        let (index, mut loading) = match loading::load(config, reading, Optional::Read) {
            // Too many combinations of lists, which no single file is at fault for.
            Err(FilesError::Index(_)) => loading::load(config, reading, Optional::LeftOut)?,
            loaded => loaded?,
        };
        loading.charge.cover(index.bytes())?;
        loading.charge.shrink(index.bytes());
        Ok(Self {
            index,
            facts: loading.facts,
            left_out: loading.left_out,
            read_at: unix_seconds(),
            config: config.to_vec(),
            watch: match reading.draft {
                Some(draft) => watch.with_renamed(&draft.file, &draft.place),
                None => watch,
            },
            charge: loading.charge,
        })
    }

    /// Returns the lists, unless a file of a required one is left out.
    ///
    /// # Errors
    /// [`FilesError::NeverFetched`].
    pub(crate) fn with_required(self) -> Result<Self, FilesError> {
        let mut lists = self.left_out.iter().map(|left| &self.config[left.list]);
        match lists.find(|list| list.required) {
            None => Ok(self),
            Some(list) => Err(FilesError::NeverFetched {
                list: list.name.clone(),
                source_url: "one of its URLs".to_owned(),
                why: "no file is stored".to_owned(),
            }),
        }
    }

    /// The most bytes that were charged while the files were read.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.charge.peak() as u64
    }

    /// Fetched files that are in force.
    pub(crate) fn kept(&self) -> Vec<PathBuf> {
        let fetched = self.config.iter().flat_map(|list| &list.fetched);
        let is_kept = |file: &&PathBuf| self.left_out.iter().all(|left| left.file != **file);
        fetched
            .map(|fetched| &fetched.file)
            .filter(is_kept)
            .cloned()
            .collect()
    }

    /// True if the index was made of these lists, and their files have not changed since.
    pub(crate) fn is_of(&self, config: &[List]) -> bool {
        self.config == config && self.watch.is_current()
    }

    /// The configuration of the lists.
    pub(crate) fn config(&self) -> &[List] {
        &self.config
    }

    /// The watch that notices changes of the files since they were read.
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
