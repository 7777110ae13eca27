//! Reports of a run for people and CI: a page, Markdown, JUnit, text on a terminal.
//!
//! All of it is made from the files of a run's folder, so a report can be made again at any time,
//! of a run that was killed too. Text of scenarios and targets is escaped everywhere: it never
//! becomes markup. The page is one file that asks the network for nothing and runs no script.
//!
//! Leaves out judging: words, intervals and limits are the verdict's.

mod charts;
pub(crate) mod escape;
mod explain;
mod figure;
mod junit;
mod markdown;
mod metric;
mod page;
mod plot;
mod scale;
mod template;
mod terminal;
mod text_plot;
mod thin;
mod tracks;
mod unjudged;
mod view;

use std::path::{Path, PathBuf};

use crate::record::{Folder, FolderError, LoadedRun, write_text};

pub use explain::{ExplainError, explain};
pub use junit::junit;
pub use markdown::{markdown, summary};
pub use page::html;
pub use terminal::{Colors, terminal};
pub use tracks::Timelines;

/// Paths of the reports of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The page, `report.html`.
    pub html: PathBuf,
    /// The same in Markdown, `report.md`.
    pub markdown: PathBuf,
    /// The summary for `$GITHUB_STEP_SUMMARY`, `summary.md`.
    pub summary: PathBuf,
    /// `junit.xml`.
    pub junit: PathBuf,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The folder can't be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A fault of this program.
    #[error("can't fill the template {name}")]
    Template {
        /// Name of the template.
        name: &'static str,
        /// The error of the template engine.
        #[source]
        source: minijinja::Error,
    },
}

/// Reads the folder of a run and writes all its reports.
///
/// # Errors
/// Where there is no run, or the folder can't be read or written.
pub fn write_all(path: &Path) -> Result<Written, ReportError> {
    let run = Folder::load(path)?;
    let timelines = read_timelines(path, &run)?;
    let written = Written {
        html: path.join("report.html"),
        markdown: path.join("report.md"),
        summary: path.join("summary.md"),
        junit: path.join("junit.xml"),
    };
    write_text(&written.html, &html(&run, &timelines)?)?;
    write_text(&written.markdown, &markdown(&run)?)?;
    write_text(&written.summary, &summary(&run)?)?;
    write_text(&written.junit, &junit(&run)?)?;
    Ok(written)
}

/// Reads the samples; of a run that was killed, those before a row that can't be read.
fn read_timelines(path: &Path, run: &LoadedRun) -> Result<Timelines, FolderError> {
    let samples = Folder::samples(path)?;
    let whole = samples.take_while(|sample| run.verdict.is_some() || sample.is_ok());
    Timelines::collect(whole)
}
