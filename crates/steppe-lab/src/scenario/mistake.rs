//! What is wrong with a scenario file, where, and what would be right.

use std::fmt::{self, Write as _};
use std::ops::Range;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource};

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mistake {
    pub(super) span: Range<usize>,
    pub(super) message: String,
    /// Under the span.
    pub(super) label: String,
    /// What would be right.
    pub(super) help: Option<String>,
}

impl Mistake {
    pub(super) fn new(
        span: Range<usize>,
        message: impl Into<String>,
        label: impl Into<String>,
    ) -> Self {
        Self {
            span,
            message: message.into(),
            label: label.into(),
            help: None,
        }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Everything that is wrong with one file, in its order.
#[derive(Debug)]
pub struct ScenarioError {
    source: NamedSource<String>,
    mistakes: Vec<Mistake>,
}

impl ScenarioError {
    pub(super) fn new(name: &str, text: &str, mut mistakes: Vec<Mistake>) -> Self {
        mistakes.sort_by_key(|mistake| mistake.span.start);
        Self {
            source: NamedSource::new(name, text.to_owned()),
            mistakes,
        }
    }

    /// How many mistakes there are.
    pub fn count(&self) -> usize {
        self.mistakes.len()
    }

    /// Draws every mistake with its place.
    pub fn render(&self, in_color: bool) -> String {
        let theme = if in_color {
            GraphicalTheme::unicode()
        } else {
            GraphicalTheme::unicode_nocolor()
        };
        let handler = GraphicalReportHandler::new_themed(theme)
            .with_links(false)
            .with_width(100);
        let mut drawn = String::new();
        for mistake in &self.mistakes {
            let shown = Shown {
                mistake,
                source: &self.source,
            };
            _ = handler.render_report(&mut drawn, &shown);
            drawn.push('\n');
        }
        let (count, name) = (self.mistakes.len(), self.source.name());
        let mistakes = if count == 1 { "mistake" } else { "mistakes" };
        _ = writeln!(drawn, "{name}: {count} {mistakes}");
        drawn
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for ScenarioError {}

#[derive(Debug)]
struct Shown<'a> {
    mistake: &'a Mistake,
    source: &'a NamedSource<String>,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.mistake.message)
    }
}

impl std::error::Error for Shown<'_> {}

impl Diagnostic for Shown<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let help = self.mistake.help.as_ref()?;
        Some(Box::new(help))
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        Some(self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label =
            LabeledSpan::new_with_span(Some(self.mistake.label.clone()), self.mistake.span.clone());
        Some(Box::new(std::iter::once(label)))
    }
}
