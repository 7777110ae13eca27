//! `report.html`: one file that works from a disk, without a network and without a script.
//!
//! Its Content Security Policy forbids everything but its own style, named by hash.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::record::LoadedRun;

use super::charts::{self, Charts};
use super::template::PAGE;
use super::view::View;
use super::{ReportError, Timelines};

const STYLE: &str = include_str!("templates/page.css");

#[derive(Debug, Serialize)]
struct Page {
    run: View,
    charts: Charts,
    style: &'static str,
    /// Hash of the style, as the policy names it.
    style_hash: String,
}

/// The page of a run.
///
/// # Errors
/// [`ReportError::Template`], a fault of this program.
pub fn html(run: &LoadedRun, timelines: &Timelines) -> Result<String, ReportError> {
    PAGE.render(Page {
        run: View::of(run),
        charts: charts::charts(run, timelines),
        style: STYLE,
        style_hash: STANDARD.encode(Sha256::digest(STYLE)),
    })
}
