//! What is wrong with a scenario file, where, and what would be right.

use std::fmt::{self, Write as _};
use std::ops::Range;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource};

use crate::report::escape;

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
        for mistake in &mut mistakes {
            mistake.message = escape::terminal(&mistake.message);
            mistake.label = escape::terminal(&mistake.label);
            mistake.help = mistake.help.as_deref().map(escape::terminal);
        }
        Self {
            source: NamedSource::new(escape::terminal(name), harmless(text)),
            mistakes,
        }
    }

    /// How many mistakes there are.
    pub fn count(&self) -> usize {
        self.mistakes.len()
    }

    /// Draws every mistake with its place.
    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
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

/// Without what a terminal obeys, and as long in bytes: spans stay where they are.
fn harmless(text: &str) -> String {
    let replaced = |c: char| match c {
        '\n' | '\t' => c,
        '\r' => ' ',
        c if !escape::is_forbidden(c) => c,
        c => match c.len_utf8() {
            1 => '?',
            2 => '\u{b7}',
            _ => '\u{fffd}',
        },
    };
    text.chars().map(replaced).collect()
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::scenario::Scenario;

    #[test]
    fn nothing_of_a_file_is_a_command_of_a_terminal() {
        let text = "# \u{9b}2J \u{202e}\n[target]\npid = 1\n\"\\u001b[2J\" = 1\nx\u{1b}[31m = 2\n";
        let file = Path::new("a\u{1b}[2J.toml");
        let drawn = Scenario::parse(file, text).unwrap_err().render(false);
        let is_obeyed = |c: &char| (c.is_control() && *c != '\n') || *c == '\u{202e}';
        assert_eq!(drawn.chars().find(is_obeyed), None, "{drawn:?}");
        assert!(drawn.contains("a\\u{1b}[2J.toml"), "{drawn}");
        let text = text.replace("x\u{1b}[31m = 2\n", "");
        let drawn = Scenario::parse(file, &text).unwrap_err().render(false);
        assert_eq!(drawn.chars().find(is_obeyed), None, "{drawn:?}");
    }
}
