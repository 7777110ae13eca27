//! Templates of the reports, with each value escaped for where it goes.
//!
//! A value that is not marked as safe is escaped: as markup in `.html` and `.xml`, as Markdown in
//! `.md`. An undefined name in a template is an error, never an empty place.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior};
use serde::Serialize;

use super::ReportError;
use super::escape;

/// A template of this program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Template {
    name: &'static str,
    text: &'static str,
}

pub(super) const PAGE: Template = Template {
    name: "report.html",
    text: include_str!("templates/report.html"),
};
pub(super) const MARKDOWN: Template = Template {
    name: "report.md",
    text: include_str!("templates/report.md"),
};
pub(super) const SUMMARY: Template = Template {
    name: "summary.md",
    text: include_str!("templates/summary.md"),
};
pub(super) const JUNIT: Template = Template {
    name: "junit.xml",
    text: include_str!("templates/junit.xml"),
};

impl Template {
    pub(super) fn render<T: Serialize>(self, context: T) -> Result<String, ReportError> {
        let rendered = || {
            let mut environment = Environment::new();
            let mut syntax = SyntaxConfig::builder();
            syntax
                .trim_blocks(true)
                .lstrip_blocks(true)
                .keep_trailing_newline(true);
            environment.set_syntax(syntax.build()?);
            environment.set_undefined_behavior(UndefinedBehavior::Strict);
            environment.set_auto_escape_callback(escaping);
            environment.set_formatter(write_escaped);
            environment.add_filter("fenced", |text: &str| {
                Value::from_safe_string(escape::fenced(text))
            });
            environment.add_template(self.name, self.text)?;
            environment.get_template(self.name)?.render(Serde(context))
        };
        rendered().map_err(|source: Error| ReportError::Template {
            name: self.name,
            source,
        })
    }
}

const AS_MARKDOWN: &str = "markdown";

fn escaping(name: &str) -> AutoEscape {
    if name.ends_with(".md") {
        AutoEscape::Custom(AS_MARKDOWN.into())
    } else {
        AutoEscape::Html
    }
}

fn write_escaped(
    out: &mut Output<'_>,
    state: &mut State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    let text = value.to_string();
    let safe = match state.auto_escape() {
        _ if value.is_safe() => text,
        AutoEscape::Custom(_) => escape::markdown(&text),
        _ => escape::markup(&text),
    };
    out.write_str(&safe).map_err(Error::from)
}
