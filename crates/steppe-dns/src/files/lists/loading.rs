//! Files of lists on their way into an index.

use std::io::{self, ErrorKind};
use std::path::Path;

use steppe_mem::OverBudget;

use super::reading::{LeftOut, ListFacts, Reading, WhyLeftOut};
use crate::config::{FetchedFile, List};
use crate::files::charge::Charge;
use crate::files::error::FilesError;
use crate::files::lines::{for_each_line, open};
use crate::limits::LIST_LINES_SHOWN_MAX;
use crate::rules::{BuildError, Builder, Index, Line, Reader};

/// Rules between two looks at how much memory they take.
const RULES_PER_LOOK: usize = 4096;

/// The treatment of fetched files that need not be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Optional {
    Read,
    LeftOut,
}

/// Files that were read, apart from their rules.
pub(super) struct Loading {
    pub(super) charge: Charge,
    /// Counts by list.
    pub(super) facts: Vec<ListFacts>,
    pub(super) left_out: Vec<LeftOut>,
}

/// A list, by its number.
type Numbered<'a> = (usize, &'a List);

/// The reason why a file was not read to its end.
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

/// Reads all files, and makes the index.
///
/// # Errors
/// [`FilesError`], of files that have to be there.
pub(super) fn load(
    config: &[List],
    reading: &Reading<'_>,
    optional: Optional,
) -> Result<(Index, Loading), FilesError> {
    let mut builder = Builder::new(reading.key);
    let mut loading = Loading {
        charge: Charge::new(reading.lease),
        facts: vec![ListFacts::default(); config.len()],
        left_out: Vec::new(),
    };
    // Files that have to fit come first.
    for (number, list) in config.iter().enumerate() {
        for file in &list.files {
            loading.file(&mut builder, (number, list), file)?;
        }
        for fetched in list
            .fetched
            .iter()
            .filter(|it| reading.needs(list, &it.file))
        {
            let at = reading.at(&fetched.file);
            loading.fetched(&mut builder, (number, list), &at)?;
        }
    }
    for (number, list) in config.iter().enumerate() {
        for fetched in list
            .fetched
            .iter()
            .filter(|it| !reading.needs(list, &it.file))
        {
            let of_list = (number, list);
            match optional {
                Optional::Read => loading.optional(&mut builder, of_list, fetched),
                Optional::LeftOut => {
                    let (list, url, error) =
                        (&list.name, fetched.url_shown(), BuildError::Combinations);
                    tracing::warn!(list, url, %error, "list not in force");
                    loading.leave_out(of_list, fetched, WhyLeftOut::Unusable);
                }
            }
        }
    }
    let index = builder.finish().map_err(FilesError::Index)?;
    Ok((index, loading))
}

impl Loading {
    /// Reads a fetched file that may be missing or unusable: its rules are removed then.
    fn optional(&mut self, builder: &mut Builder, of: Numbered<'_>, fetched: &FetchedFile) {
        let (before, facts) = (builder.mark(), self.facts[of.0]);
        let Err(error) = self.fetched(builder, of, &fetched.file) else {
            return;
        };
        builder.return_to(&before);
        self.facts[of.0] = facts;
        self.charge.shrink(needed(builder));
        let (list, url) = (&of.1.name, fetched.url_shown());
        tracing::warn!(list, url, %error, "list not in force");
        self.leave_out(of, fetched, WhyLeftOut::of(&error));
    }

    fn leave_out(&mut self, (number, _): Numbered<'_>, fetched: &FetchedFile, why: WhyLeftOut) {
        self.left_out.push(LeftOut {
            list: number,
            file: fetched.file.clone(),
            why,
        });
    }

    /// Reads a fetched file, which has rules if it is a list at all.
    fn fetched(
        &mut self,
        builder: &mut Builder,
        of: Numbered<'_>,
        file: &Path,
    ) -> Result<(), FilesError> {
        let before = self.facts[of.0].rules;
        self.file(builder, of, file)?;
        match self.facts[of.0].rules > before {
            true => Ok(()),
            false => Err(FilesError::NoRules {
                file: file.to_path_buf(),
            }),
        }
    }

    fn file(
        &mut self,
        builder: &mut Builder,
        (number, list): Numbered<'_>,
        path: &Path,
    ) -> Result<(), FilesError> {
        let mut reader = Reader::new(list.plain);
        let (facts, charge) = (&mut self.facts[number], &mut self.charge);
        let (malformed_before, mut refused) = (facts.malformed, 0);
        let number = u8::try_from(number).unwrap_or(u8::MAX);
        let mut line = |at: u32, line: &[u8]| {
            let mut stopped = None;
            let found = reader.line(line, |rule| {
                facts.rules += 1;
                if let Err(error) = builder.add(&rule, number) {
                    stopped.get_or_insert(Stopped::Rules(error));
                }
            });
            count(facts, found);
            let place = || format!("{}:{at}", path.display());
            match found {
                Line::Malformed if facts.malformed - malformed_before <= LIST_LINES_SHOWN_MAX => {
                    let place = place();
                    tracing::warn!(list = list.name, place, "malformed list line ignored");
                }
                Line::Refused(what) if refused < LIST_LINES_SHOWN_MAX => {
                    refused += 1;
                    let place = place();
                    tracing::warn!(list = list.name, place, what, "list line not supported");
                }
                _ => {}
            }
            if builder.len().is_multiple_of(RULES_PER_LOOK) {
                // A part grows by an eighth at a time.
                let grown = builder.bytes() / 8;
                let covered = charge.cover(needed(builder) + grown);
                covered.map_err(Stopped::Budget)?;
            }
            stopped.map_or(Ok(()), Err)
        };
        let read = open(path)
            .map_err(Stopped::Read)
            .and_then(|file| for_each_line(file, &mut line))
            // Charged after each file, so that the error is that of the file that exceeds the budget.
            .and_then(|()| charge.cover(needed(builder)).map_err(Stopped::Budget));
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

fn count(facts: &mut ListFacts, line: Line) {
    match line {
        Line::Nothing | Line::Rules => {}
        Line::Unsupported | Line::Refused(_) => facts.unsupported += 1,
        Line::Malformed => facts.malformed += 1,
    }
}

/// Bytes that rules take while the index is made of them.
fn needed(builder: &Builder) -> usize {
    builder.bytes() + Index::bytes_max(builder.len())
}

impl WhyLeftOut {
    fn of(error: &FilesError) -> Self {
        match error {
            FilesError::Read { cause, .. } if cause.kind() == ErrorKind::NotFound => {
                Self::NotFetched
            }
            FilesError::Budget(_) => Self::NoMemory,
            _ => Self::Unusable,
        }
    }
}
