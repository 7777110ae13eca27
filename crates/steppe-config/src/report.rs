//! The mistakes of a configuration, rendered for a terminal or a file.
//!
//! Invariant: a report shows its mistakes in the order of the files, and the same text for the same
//! file whatever the terminal, but for color. It quotes no more of the file than
//! [`limits`](crate::limits) allow, however long lines and values are.

use std::fmt::{self, Write as _};

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, Severity,
    SourceCode,
};

use crate::limits::{LINE_BYTES_SHOWN_MAX, LINES_SHOWN_MAX};
use crate::mistake::{Mistake, Span, blotted};
use crate::mistakes::{Count, Mistakes};
use crate::sources::{SourceFile, Sources, position};

/// The mistakes of a configuration: the first ones in the order of its files, and the number of all.
#[derive(Debug, Clone)]
pub struct Report {
    files: Vec<Quoted>,
    mistakes: Vec<Mistake>,
    count: Count,
}

/// A file that a report quotes.
#[derive(Debug, Clone)]
struct Quoted {
    source: NamedSource<String>,
    /// Offset of the file in spans.
    start: usize,
}

/// Style of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drawing {
    /// For a terminal.
    Color,
    /// For a file, a pipe, a test.
    Plain,
}

impl Report {
    /// Sorts the mistakes that were found in the file `name`.
    pub fn new(name: &str, text: &str, mistakes: Mistakes) -> Self {
        Self::of(&Sources::new(name, text), mistakes)
    }

    /// Sorts the mistakes that were found in these files. They show no value of a placeholder.
    pub fn of(files: &Sources<'_>, mistakes: Mistakes) -> Self {
        let (mut mistakes, count) = mistakes.finish();
        let redactor = files.placed.redactor();
        for mistake in &mut mistakes {
            if !files.placed.is_empty() {
                mistake
                    .texts()
                    .for_each(|text| *text = redactor.redacted(text));
            }
            mistake.blot();
        }
        let quoted = |file: &SourceFile<'_>| {
            let text = if mistakes.is_empty() {
                String::new()
            } else {
                blotted(&file.text)
            };
            Quoted {
                source: NamedSource::new(blotted(&file.name), text),
                start: file.start,
            }
        };
        Self {
            files: files.files().iter().map(quoted).collect(),
            mistakes,
            count,
        }
    }

    /// Errors and warnings in the order of the file, no more than a report shows.
    pub fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }

    /// Mistakes that make the file unusable.
    pub fn errors(&self) -> usize {
        self.count.errors
    }

    /// Mistakes with which the file can be used.
    pub fn warnings(&self) -> usize {
        self.count.warnings
    }

    /// Mistakes that are no reason to refuse the file.
    pub fn notes(&self) -> usize {
        self.count.notes
    }

    /// Renders the mistakes, the number of those not shown, and their counts on the last line. Empty if there is none.
    pub fn render(&self, drawing: Drawing) -> String {
        if self.mistakes.is_empty() {
            return String::new();
        }
        let theme = match drawing {
            Drawing::Color => GraphicalTheme::unicode(),
            Drawing::Plain => GraphicalTheme::unicode_nocolor(),
        };
        let handler = GraphicalReportHandler::new_themed(theme)
            .with_width(REPORT_COLUMNS)
            .with_links(false);
        let mut drawn = String::new();
        for mistake in &self.mistakes {
            self.draw(mistake, &handler, &mut drawn);
            drawn.push('\n');
        }
        let hidden = self.count.all() - self.mistakes.len();
        if hidden > 0 {
            _ = writeln!(drawn, "… and {hidden} more\n");
        }
        _ = writeln!(drawn, "{}: {}", self.name(), self.counts());
        drawn
    }

    /// The first errors by line, and the number of further ones, for a log.
    pub fn in_one_line(&self) -> String {
        let is_error = |mistake: &&Mistake| mistake.severity == Severity::Error;
        let errors = self.mistakes.iter().filter(is_error);
        let shown = errors.take(ERRORS_IN_LINE).map(|mistake| {
            let (file, span) = self.quoted(mistake.span);
            let (line, _) = position(file.source.inner(), span.start);
            let message = mistake.message.replace('\n', " ");
            match file.start {
                0 => format!("line {line}: {message}"),
                _ => format!("{} line {line}: {message}", file.source.name()),
            }
        });
        let mut shown: Vec<_> = shown.collect();
        let hidden = self.errors().saturating_sub(shown.len());
        if hidden > 0 {
            shown.push(format!("{hidden} more, see `steppe check`"));
        }
        format!("{}: {}", self.name(), shown.join("; "))
    }

    /// The name of the first file.
    fn name(&self) -> &str {
        self.files.first().map_or("", |file| file.source.name())
    }

    /// The file that has a span, and the span in that file alone.
    fn quoted(&self, span: Span) -> (&Quoted, Span) {
        let next = self.files.partition_point(|file| file.start <= span.start);
        let file = &self.files[next.saturating_sub(1)];
        let span = Span {
            start: span.start - file.start,
            end: span.end.saturating_sub(file.start),
        };
        (file, span)
    }

    fn draw(&self, mistake: &Mistake, handler: &GraphicalReportHandler, drawn: &mut String) {
        let (file, span) = self.quoted(mistake.span);
        let text = file.source.inner();
        let primary = first_lines(text, span);
        let (mut also, mut elsewhere) = (Vec::new(), Vec::new());
        for (span, label) in &mistake.also {
            let (other, span) = self.quoted(*span);
            // A report quotes one file.
            if other.start == file.start {
                also.push((span, label.as_str()));
            } else {
                let (line, _) = position(other.source.inner(), span.start);
                elsewhere.push(format!("{label}: {}:{line}", other.source.name()));
            }
        }
        let mut spans = std::iter::once(primary).chain(also.iter().map(|also| also.0));
        let is_quoted = spans.all(|span| are_lines_short(text, span));
        elsewhere.extend(mistake.help.clone());
        let shown = Shown {
            mistake,
            primary,
            also,
            help: (!elsewhere.is_empty()).then(|| elsewhere.join("\n")),
            source: is_quoted.then_some(&file.source),
            message: if is_quoted {
                mistake.message.clone()
            } else {
                let (line, column) = position(text, span.start);
                let name = file.source.name();
                format!("{name}:{line}:{column}: {}", mistake.message)
            },
        };
        handler
            .render_report(drawn, &shown)
            .expect("a String takes whatever is written");
    }

    fn counts(&self) -> String {
        let count = |number: usize, what: &str| match number {
            1 => format!("1 {what}"),
            _ => format!("{number} {what}s"),
        };
        let Count {
            errors,
            warnings,
            notes,
        } = self.count;
        let counts = [(errors, "error"), (warnings, "warning"), (notes, "note")];
        let counts = counts.into_iter().filter(|(number, _)| *number > 0);
        let counts: Vec<_> = counts.map(|(number, what)| count(number, what)).collect();
        counts.join(", ")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Drawing::Plain))
    }
}

impl std::error::Error for Report {}

/// A mistake with the file that it quotes.
#[derive(Debug)]
struct Shown<'a> {
    mistake: &'a Mistake,
    /// The span of the mistake, as far as it is quoted.
    primary: Span,
    /// Other places in its file.
    also: Vec<(Span, &'a str)>,
    help: Option<String>,
    source: Option<&'a NamedSource<String>>,
    message: String,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Shown<'_> {}

impl Diagnostic for Shown<'_> {
    fn severity(&self) -> Option<Severity> {
        Some(self.mistake.severity)
    }

    fn help(&self) -> Option<Box<dyn fmt::Display + '_>> {
        Some(Box::new(self.help.as_ref()?))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.map(|source| source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.source?;
        let mistake = self.mistake;
        let primary = LabeledSpan::new_primary_with_span(
            Some(mistake.label.clone()).filter(|label| !label.is_empty()),
            range(self.primary),
        );
        let others = self.also.iter().map(|(span, label)| {
            LabeledSpan::new_with_span(Some((*label).to_owned()), range(*span))
        });
        Some(Box::new(std::iter::once(primary).chain(others)))
    }
}

fn range(span: Span) -> (usize, usize) {
    (span.start, span.end.saturating_sub(span.start))
}

/// The quoted part of a span: a value of many lines would be quoted whole.
fn first_lines(text: &str, span: Span) -> Span {
    let value = text.as_bytes().get(span.start..span.end);
    let mut bytes = value.unwrap_or_default().iter().enumerate();
    let newline = bytes
        .by_ref()
        .filter(|(_, byte)| **byte == b'\n')
        .nth(LINES_SHOWN_MAX - 1);
    Span {
        start: span.start,
        end: newline.map_or(span.end, |(newline, _)| span.start + newline),
    }
}

/// True if the lines of `span` and their neighbors, which are quoted too, are short.
fn are_lines_short(text: &str, span: Span) -> bool {
    let is_newline = |byte: &u8| *byte == b'\n';
    let (before, rest) = text.as_bytes().split_at(span.start.min(text.len()));
    let inside = span.end.saturating_sub(span.start).min(rest.len());
    let lines = rest[..inside]
        .iter()
        .filter(|byte| is_newline(byte))
        .count();
    let last = before.rsplit(is_newline).take(2).map(<[u8]>::len);
    let first = rest.split(is_newline).take(lines + 2).map(<[u8]>::len);
    last.chain(first).max().unwrap_or(0) <= LINE_BYTES_SHOWN_MAX / 2
}

/// Fixed, so that a report is the same text everywhere.
const REPORT_COLUMNS: usize = 100;

/// Errors that a line of the log has.
const ERRORS_IN_LINE: usize = 3;
