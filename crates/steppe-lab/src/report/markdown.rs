//! `report.md`, the page without its charts, and `summary.md`, which fits a CI's summary.

use crate::record::LoadedRun;

use super::ReportError;
use super::template::{MARKDOWN, SUMMARY};
use super::view::View;

/// The whole report as GitHub-flavored Markdown.
///
/// # Errors
/// [`ReportError::Template`], a fault of this program.
pub fn markdown(run: &LoadedRun) -> Result<String, ReportError> {
    MARKDOWN.render(View::of(run))
}

/// The answer and its findings, for `$GITHUB_STEP_SUMMARY`.
///
/// # Errors
/// [`ReportError::Template`], a fault of this program.
pub fn summary(run: &LoadedRun) -> Result<String, ReportError> {
    SUMMARY.render(View::of(run))
}
