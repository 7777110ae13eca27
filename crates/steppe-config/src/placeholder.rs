//! Placeholders for values of the environment or of a file: `${env:NAME}`, `${env:NAME:-default}` and `${file:PATH}`.
//!
//! Invariant: the value of a placeholder is read as part of a string, and shown nowhere: reports, and the settings in
//! force, show the placeholder. No other text that begins with `$` changes its meaning; `$${env:` and `$${file:` stand
//! for themselves without the first `$`. Keys have no placeholders.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use crate::limits::{
    PLACED_BYTES_MAX, PLACED_FILE_BYTES_MAX, PLACED_MAX, REDACTED_BYTES_MIN,
    REDACTED_VARIABLE_BYTES_MIN,
};
use crate::mistake::{Mistake, shown};
use crate::mistakes::Mistakes;
use crate::outside::Outside;
use crate::tree::{Placeholder, Value, ValueKind};

/// The values that were filled in for placeholders.
#[derive(Debug, Clone, Default)]
pub struct Placed {
    values: Vec<PlacedValue>,
    bytes: usize,
}

#[derive(Debug, Clone)]
struct PlacedValue {
    value: String,
    /// The placeholder that it stands for.
    placeholder: String,
}

/// A part of a string.
#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    Text(&'a str),
    Variable {
        name: &'a str,
        default: Option<&'a str>,
    },
    File(&'a str),
}

/// A problem of a placeholder, and a way to correct it.
struct Problem {
    message: String,
    label: &'static str,
    help: Option<String>,
}

const VARIABLE: &str = "${env:";
const FILE: &str = "${file:";

/// Fills in the values of placeholders.
pub(crate) struct Placing<'a> {
    /// The folder that relative paths count from.
    pub(crate) folder: &'a Path,
    pub(crate) outside: &'a mut dyn Outside,
    pub(crate) placed: &'a mut Placed,
    pub(crate) mistakes: &'a mut Mistakes,
}

impl Placing<'_> {
    /// Fills in the values of all placeholders of a tree.
    pub(crate) fn place(&mut self, tree: &mut Value) {
        match &mut tree.kind {
            ValueKind::Text(text) if has_placeholder(text) => {
                match self.placed.fill(text, (self.folder, &mut *self.outside)) {
                    Ok((filled, is_escaped)) => {
                        let written = std::mem::replace(text, filled).into();
                        tree.placeholder = Some(Box::new(Placeholder {
                            written,
                            is_escaped,
                        }));
                    }
                    Err(Problem {
                        message,
                        label,
                        help,
                    }) => {
                        let mistake = Mistake::new(tree.span, message).label(label);
                        self.mistakes.push(Mistake { help, ..mistake });
                        tree.kind = ValueKind::Refused;
                    }
                }
            }
            ValueKind::List(items) => items.iter_mut().for_each(|item| self.place(item)),
            ValueKind::Table(entries) => {
                let values = entries.iter_mut().map(|entry| &mut entry.value);
                values.for_each(|value| self.place(value));
            }
            _ => {}
        }
    }
}

fn has_placeholder(text: &str) -> bool {
    text.contains(VARIABLE) || text.contains(FILE)
}

impl Placed {
    /// The string with its placeholders filled in, and true if it has none, only escapes.
    fn fill(
        &mut self,
        text: &str,
        (folder, outside): (&Path, &mut dyn Outside),
    ) -> Result<(String, bool), Problem> {
        let parts = parts(text)?;
        let is_escaped = parts.iter().all(|part| matches!(part, Part::Text(_)));
        let mut filled = String::new();
        for part in parts {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Variable { name, default } => {
                    let placeholder = match default {
                        Some(default) => format!("{VARIABLE}{name}:-{default}}}"),
                        None => format!("{VARIABLE}{name}}}"),
                    };
                    match variable(outside, name, default)? {
                        Some(value) => filled.push_str(self.keep(value, placeholder)?),
                        // The default is in the placeholder itself: no secret.
                        None => filled.push_str(default.unwrap_or_default()),
                    }
                }
                Part::File(path) => {
                    let value = file(outside, &folder.join(path))?;
                    filled.push_str(self.keep(value, format!("{FILE}{path}}}"))?);
                }
            }
        }
        Ok((filled, is_escaped))
    }

    fn keep(&mut self, value: String, placeholder: String) -> Result<&str, Problem> {
        self.bytes += value.len();
        let message = if self.bytes > PLACED_BYTES_MAX {
            Some(format!(
                "placeholders stand for more than {PLACED_BYTES_MAX} bytes"
            ))
        } else if self.values.len() >= PLACED_MAX {
            Some(format!("there are more than {PLACED_MAX} placeholders"))
        } else {
            None
        };
        if let Some(message) = message {
            return Err(Problem {
                message,
                label: "this one is too many",
                help: None,
            });
        }
        self.values.push(PlacedValue { value, placeholder });
        Ok(&self.values.last().expect("it was pushed").value)
    }

    /// True if no value was filled in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Replaces the values in texts by their placeholders.
    #[must_use]
    pub fn redactor(&self) -> Redactor<'_> {
        Redactor::of(self.values.iter())
    }

    /// The same for values of files alone: these are secrets, while values of the environment may be requested output.
    #[must_use]
    pub fn redactor_of_files(&self) -> Redactor<'_> {
        Redactor::of(self.values.iter().filter(|value| value.is_of_file()))
    }
}

impl PlacedValue {
    fn is_of_file(&self) -> bool {
        self.placeholder.starts_with(FILE)
    }
}

/// Values of placeholders by their first bytes.
#[derive(Debug)]
pub struct Redactor<'a>(HashMap<[u8; REDACTED_BYTES_MIN], Vec<(Cow<'a, str>, &'a str)>>);

impl<'a> Redactor<'a> {
    fn of(values: impl Iterator<Item = &'a PlacedValue>) -> Self {
        let mut by_start: HashMap<_, Vec<_>> = HashMap::new();
        for value in values {
            let least = match value.is_of_file() {
                true => REDACTED_BYTES_MIN,
                false => REDACTED_VARIABLE_BYTES_MIN,
            };
            let mut texts = vec![Cow::Borrowed(value.value.as_str())];
            let escaped = shown(&value.value);
            let escaped = escaped.trim_end_matches('…');
            if !value.value.starts_with(escaped) {
                texts.push(Cow::Owned(escaped.to_owned()));
            }
            let texts = texts.into_iter().filter(|text| text.len() >= least);
            for text in texts {
                if let Some(start) = text.as_bytes().first_chunk() {
                    let known = by_start.entry(*start).or_default();
                    known.push((text, value.placeholder.as_str()));
                }
            }
        }
        Self(by_start)
    }

    /// The text with each placeholder's value, whole or cut by a message, replaced by the placeholder.
    #[must_use]
    pub fn redacted(&self, text: &str) -> String {
        let mut redacted = String::new();
        let mut rest = text;
        while let Some(char) = rest.chars().next() {
            match self.longest(rest) {
                Some((bytes, placeholder)) => {
                    redacted.push_str(placeholder);
                    rest = &rest[bytes..];
                }
                None => {
                    redacted.push(char);
                    rest = &rest[char.len_utf8()..];
                }
            }
        }
        redacted
    }

    /// The longest value that a text begins with, or the cut start of one, and its placeholder.
    fn longest(&self, text: &str) -> Option<(usize, &'a str)> {
        let start = text.as_bytes().first_chunk()?;
        let known = self.0.get(start)?.iter();
        let found = known.filter_map(|(value, placeholder)| {
            let same = text.bytes().zip(value.bytes());
            let same = same.take_while(|(one, other)| one == other).count();
            // Another character may begin with the same bytes.
            let after = text.get(same..)?;
            let is_found = same == value.len() || after.starts_with('…');
            is_found.then_some((same, *placeholder))
        });
        found.max_by_key(|(bytes, _)| *bytes)
    }
}

/// The string with relative paths of its placeholders below a folder.
#[must_use]
pub fn rebased(written: &str, folder: &Path) -> String {
    let mut rebased = String::new();
    let mut rest = written;
    while let Some(at) = rest.find(FILE) {
        let (before, path) = rest.split_at(at + FILE.len());
        rebased.push_str(before);
        let is_escaped = before.ends_with(&format!("${FILE}"));
        if !is_escaped && !path.starts_with('/') {
            rebased.push_str(&folder.to_string_lossy());
            rebased.push('/');
        }
        rest = path;
    }
    rebased + rest
}

fn parts(text: &str) -> Result<Vec<Part<'_>>, Problem> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = next(rest) {
        let (before, from) = rest.split_at(at);
        let opening = if from.starts_with(FILE) {
            FILE
        } else {
            VARIABLE
        };
        if let Some(before) = before.strip_suffix('$') {
            parts.extend([Part::Text(before), Part::Text(opening)]);
            rest = &from[opening.len()..];
            continue;
        }
        parts.push(Part::Text(before));
        let Some((inner, after)) = from[opening.len()..].split_once('}') else {
            return Err(Problem {
                message: format!("`{opening}` has no `}}`"),
                label: "a placeholder without an end",
                help: Some(format!("write \"{opening}…}}\"; for the text itself, `$$`")),
            });
        };
        parts.push(part(opening, inner)?);
        rest = after;
    }
    parts.push(Part::Text(rest));
    Ok(parts)
}

/// The first byte of the first placeholder.
fn next(text: &str) -> Option<usize> {
    let found = [VARIABLE, FILE].map(|opening| text.find(opening));
    found.into_iter().flatten().min()
}

fn part<'a>(opening: &str, inner: &'a str) -> Result<Part<'a>, Problem> {
    if opening == FILE {
        return match inner {
            "" => Err(Problem {
                message: "`${file:}` has no path".to_owned(),
                label: "no file",
                help: Some("write \"${file:PATH}\"".to_owned()),
            }),
            path => Ok(Part::File(path)),
        };
    }
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let begins = name
        .bytes()
        .next()
        .is_some_and(|byte| !byte.is_ascii_digit());
    if !begins || !name.bytes().all(is_name) {
        return Err(Problem {
            message: format!("`{}` is no name of an environment variable", shown(name)),
            label: "in this placeholder",
            help: Some("write \"${env:NAME}\" or \"${env:NAME:-default}\"".to_owned()),
        });
    }
    Ok(Part::Variable { name, default })
}

/// The value of a variable; `None`: the default holds, since it is not set, or empty, as in a shell.
fn variable(
    outside: &mut dyn Outside,
    name: &str,
    default: Option<&str>,
) -> Result<Option<String>, Problem> {
    let value = outside.variable(name);
    if default.is_some() && value.as_ref().is_none_or(|value| value.is_empty()) {
        return Ok(None);
    }
    let Some(value) = value else {
        return Err(Problem {
            message: format!("the environment variable `{name}` is not set"),
            label: "not set",
            help: Some(format!(
                "set it, or write a default: \"${{env:{name}:-default}}\""
            )),
        });
    };
    let value = value.into_string().map_err(|_| Problem {
        message: format!("the environment variable `{name}` is not UTF-8"),
        label: "this one",
        help: None,
    });
    value.map(Some)
}

/// The text of a file without one newline at its end.
fn file(outside: &mut dyn Outside, path: &Path) -> Result<String, Problem> {
    let name = shown(&path.to_string_lossy());
    let problem = |message| Problem {
        message,
        label: "named here",
        help: None,
    };
    let bytes = outside.read(path, PLACED_FILE_BYTES_MAX);
    let bytes = bytes.map_err(|error| problem(format!("can't read `{name}`: {error}")))?;
    if bytes.len() > PLACED_FILE_BYTES_MAX {
        let message = format!("`{name}` is longer than {PLACED_FILE_BYTES_MAX} bytes");
        return Err(problem(message));
    }
    let not_text = |_| problem(format!("`{name}` is not UTF-8"));
    let mut text = String::from_utf8(bytes).map_err(not_text)?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(values: &[(&str, &str)]) -> Placed {
        let values = values.iter().map(|(value, placeholder)| PlacedValue {
            value: (*value).to_owned(),
            placeholder: (*placeholder).to_owned(),
        });
        Placed {
            values: values.collect(),
            bytes: 0,
        }
    }

    #[test]
    fn strings_are_split_at_placeholders_alone() {
        let parts = |text| parts(text).unwrap_or_else(|problem| panic!("{}", problem.message));
        assert_eq!(parts("${id} $x {y}"), [Part::Text("${id} $x {y}")]);
        assert_eq!(
            parts("a${env:B:-c:-d}e"),
            [
                Part::Text("a"),
                Part::Variable {
                    name: "B",
                    default: Some("c:-d")
                },
                Part::Text("e")
            ]
        );
        assert_eq!(
            parts("$${env:A}${file:/b c}"),
            [
                Part::Text(""),
                Part::Text("${env:"),
                Part::Text("A}"),
                Part::File("/b c"),
                Part::Text("")
            ]
        );
    }

    #[test]
    fn paths_of_placeholders_move_with_their_file() {
        let folder = Path::new("/etc/sites");
        assert_eq!(
            rebased("a${file:k}$${file:k}${env:X}${file:/k}", folder),
            "a${file:/etc/sites/k}$${file:k}${env:X}${file:/k}"
        );
    }

    #[test]
    fn a_message_shows_the_placeholder_of_a_value_whole_or_cut() {
        let long = "s3cret".repeat(20);
        let placed = placed(&[("hunter22", "${file:a}"), (&long, "${env:B}")]);
        let redactor = placed.redactor();
        let redacted = |text: &str| redactor.redacted(text);
        assert_eq!(redacted("`hunter22` is hunter2"), "`${file:a}` is hunter2");
        let cut = shown(&long);
        assert_eq!(redacted(&format!("\"{cut}\"")), "\"${env:B}…\"");
        let cut = shown(&format!("https://a/?{long}"));
        assert_eq!(redacted(&cut), "https://a/?${env:B}…");
        // Neither replacement is scanned again, nor is a placeholder that contains its own value.
        let placed = self::placed(&[("-env:-env:", "${env:A:-env:-env:}")]);
        let twice = placed.redactor().redacted("-env:-env:-env:-env:");
        assert_eq!(twice, "${env:A:-env:-env:}".repeat(2));
        // The start of a value that no message has cut is another word.
        assert_eq!(redacted("s3cr s3cre hunt"), "s3cr s3cre hunt");
    }
}
