//! The text that a run prints at its end: the word, the headline, the findings, and what to do.
//!
//! Foreign text is shown, never obeyed: control characters are spelled out.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};

use crate::limits;
use crate::record::{Manifest, VariantVerdict, Verdict};

use super::escape;
use super::figure::Unit;
use super::view::{self, FindingView, GrowingView};

/// The use of colors on the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colors {
    /// No colors.
    Plain,
    /// Escape sequences of ANSI.
    Ansi,
}

/// The verdict for a terminal with this many columns.
#[must_use]
pub fn terminal(verdict: &Verdict, manifest: &Manifest, columns: u16, colors: Colors) -> String {
    let answer = view::Answer::of(verdict.outcome);
    let word = paint(
        &format!("{} {}", answer.sign, answer.word),
        answer.tone,
        colors,
    );
    let labels = view::labels(manifest, Some(verdict));
    let labels: Vec<String> = labels
        .iter()
        .map(|label| format!(" ({})", label.text))
        .collect();
    let name = escape::terminal(&manifest.scenario_name);
    let mut text = format!("{word}  {name}{}\n", labels.concat());
    text.push_str(&escape::terminal(&verdict.headline));
    text.push('\n');
    push_findings(&mut text, verdict, columns);
    push_growing(&mut text, verdict);
    push_leaks(&mut text, verdict);
    for problem in view::problems(&verdict.problems) {
        let kind = paint(problem.kind, problem.tone, colors);
        text.push_str(&format!("\n{kind}: {}\n", escape::terminal(&problem.text)));
        if !problem.help.is_empty() {
            text.push_str(&format!("  help: {}\n", escape::terminal(&problem.help)));
        }
    }
    text.push_str(&format!("\nexit code {}\n", verdict.exit_code));
    text
}

/// Columns of the table of findings.
const SUBJECT: usize = 0;
const METRIC: usize = 1;
const VERDICT: usize = 5;

fn push_findings(text: &mut String, verdict: &Verdict, columns: u16) {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(columns.max(limits::REPORT_COLUMNS_MIN))
        .set_header(["", "metric", "value", "interval", "limit", "verdict"]);
    let comparisons = view::findings(&verdict.comparisons);
    for row in comparisons.iter() {
        table.add_row(cells("comparison", row));
    }
    let is_about_one = comparisons.is_empty() && verdict.variants.len() == 1;
    for variant in &verdict.variants {
        let is_expected = variant.is_as_expected();
        let mark = if is_expected { " (as expected)" } else { "" };
        let name = format!("{}{mark}", variant.name);
        let loud = variant.findings.iter().filter(|it| !it.is_unremarkable());
        for finding in loud {
            table.add_row(cells(&name, &FindingView::of(finding)));
        }
    }
    if table.is_empty() {
        return;
    }
    // Words broken in two can't be searched for; figures break at their spaces.
    for whole in [METRIC, VERDICT] {
        if let Some(column) = table.column_mut(whole) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    if is_about_one && let Some(subject) = table.column_mut(SUBJECT) {
        subject.set_constraint(ColumnConstraint::Hidden);
    }
    text.push('\n');
    text.push_str(&table.trim_fmt());
    text.push('\n');
    for variant in &verdict.variants {
        push_unremarkable(text, variant);
        push_detectable(text, variant);
        for look in &variant.looks {
            let line = format!("{}: {look}", variant.name);
            text.push_str(&format!("{}\n", escape::terminal(&line)));
        }
    }
    let of_variants = verdict.variants.iter().flat_map(|variant| {
        let findings = variant.findings.iter();
        findings.map(|finding| (variant.name.as_str(), finding))
    });
    let comparisons = verdict
        .comparisons
        .iter()
        .map(|finding| ("comparison", finding));
    for (name, finding) in comparisons.chain(of_variants) {
        for note in &finding.notes {
            let line = format!("- {name}, {}: {note}", finding.metric);
            text.push_str(&format!("{}\n", escape::terminal(&line)));
        }
    }
}

/// Adds the least growth that the run could have detected.
fn push_detectable(text: &mut String, variant: &VariantVerdict) {
    let mut findings = variant.findings.iter();
    let Some(finding) = findings.find(|finding| finding.metric == "rss_growth") else {
        return;
    };
    let Some(least) = finding.detectable.filter(|least| least.is_finite()) else {
        return;
    };
    let least = Unit::of(&finding.unit, std::iter::once(least)).show(least);
    let line = format!(
        "{}: the smallest growth that this run could detect is {least}",
        variant.name
    );
    text.push_str(&format!("{}\n", escape::terminal(&line)));
}

/// Adds the series that stay within their budget, in one line.
fn push_unremarkable(text: &mut String, variant: &VariantVerdict) {
    let quiet = variant.findings.iter().filter(|it| it.is_unremarkable());
    let names: Vec<&str> = quiet.map(|finding| finding.metric.as_str()).collect();
    if names.is_empty() {
        return;
    }
    let line = format!("{}: STABLE as well: {}", variant.name, names.join(", "));
    text.push_str(&format!("{}\n", escape::terminal(&line)));
}

fn cells(name: &str, row: &FindingView) -> [String; 6] {
    let cells = [
        name,
        &row.metric,
        &row.value,
        row.range.as_deref().unwrap_or_default(),
        row.limit.as_deref().unwrap_or("none set"),
        &row.answer.word,
    ];
    cells.map(escape::terminal)
}

/// Adds the sites that grew, most first.
fn push_growing(text: &mut String, verdict: &Verdict) {
    let grown = verdict.variants.iter().filter(|it| !it.growing.is_empty());
    for variant in grown {
        let name = escape::terminal(&variant.name);
        text.push_str(&format!("\n{name}: {}\n", view::GROWING));
        for growing in &variant.growing {
            let view = GrowingView::of(growing);
            let site = escape::terminal(&view.site);
            text.push_str(&format!("  {:>28}  {site}\n", view.figures()));
        }
    }
}

fn push_leaks(text: &mut String, verdict: &Verdict) {
    for leak in verdict
        .variants
        .iter()
        .flat_map(|variant| &variant.leaks)
        .take(5)
    {
        let kind = escape::terminal(&leak.kind);
        text.push_str(&format!(
            "\n{} bytes in {} blocks, {kind}\n",
            leak.bytes, leak.blocks
        ));
        for frame in leak.stack.iter().take(6) {
            text.push_str(&format!("  at {}\n", escape::terminal(frame)));
        }
    }
}

fn paint(text: &str, tone: &str, colors: Colors) -> String {
    let code = match (colors, tone) {
        (Colors::Plain, _) | (_, "quiet") => return text.to_owned(),
        (Colors::Ansi, "good") => 32,
        (Colors::Ansi, "warn") => 33,
        (Colors::Ansi, _) => 31,
    };
    format!("\u{1b}[1;{code}m{text}\u{1b}[0m")
}
