//! The record of a run: the types of the files in its folder.
//!
//! `run` writes them ([`Folder`]), `report` reads them, and neither knows the other. A value that
//! could not be seen is `None` (an empty cell, a missing key), never zero.

#![expect(
    missing_docs,
    reason = "a field is named after the column or the key that it holds"
)]

mod epoch;
mod folder;
mod manifest;
mod metrics;
mod verdict;

pub(crate) use epoch::total;
pub use epoch::{Epoch, Sample};
pub use folder::{Folder, FolderError, LoadedRun, file_name, write_text};
pub use manifest::{Capability, Machine, Manifest, RunEntry, VariantEntry};
pub use metrics::{MetricKind, MetricRow, MetricTable, Reading, SeriesColumn};
pub use verdict::{
    Finding, GrowingSite, Interval, LeakSite, LookOutcome, Method, Outcome, Problem, ProblemKind,
    RunKind, VariantVerdict, Verdict,
};
