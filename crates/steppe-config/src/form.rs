//! Forms: the meaning of a string: parsing, display and description of its text.
//!
//! Invariant: a text is parsed once. The reader keeps the value that the form made of it, and code that builds from the
//! configuration takes that. Non-goals: rules between several values.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::limits::NAME_BYTES_MAX;

/// A value, or the refusal of its text.
pub type Read<T> = Result<T, Refusal>;

/// The reason why a string is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The problem.
    pub message: String,
    /// A way to correct it.
    pub help: Option<String>,
    /// The bytes of the string that are wrong; `None`: the whole of it.
    pub range: Option<Range<usize>>,
}

impl Refusal {
    /// A refusal of the whole text, without help.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: None,
            range: None,
        }
    }

    /// Adds a way to correct it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The refusal in one line, for a command line.
    #[must_use]
    pub fn told(self) -> String {
        match self.help {
            Some(help) => format!("{}: {help}", self.message),
            None => self.message,
        }
    }
}

/// The meaning of a string: how its text is parsed, shown and described.
pub struct Form<T: 'static> {
    expects: &'static str,
    pattern: Option<&'static str>,
    parse: fn(&str, &Path) -> Read<T>,
    show: Show<T>,
    mask: fn(&str) -> String,
}

/// The text to display for a value.
enum Show<T> {
    /// The text that was read.
    AsWritten,
    By(fn(&T) -> String),
}

/// The replacement of a value that must not be shown.
pub const MASK: &str = "***";

impl<T> Form<T> {
    /// A form that is described by `expects`, with an article (`a size`), and is shown as it was written.
    /// `parse` gets the text and the folder that relative paths count from.
    pub const fn new(expects: &'static str, parse: fn(&str, &Path) -> Read<T>) -> Self {
        Self {
            expects,
            pattern: None,
            parse,
            show: Show::AsWritten,
            mask: |_| String::from(MASK),
        }
    }

    /// Adds a regular expression (ECMA-262) for the schema; it accepts every text that `parse` accepts.
    #[must_use]
    pub const fn pattern(mut self, pattern: &'static str) -> Self {
        self.pattern = Some(pattern);
        self
    }

    /// Shows values by `show` instead of as they were written.
    #[must_use]
    pub const fn shown_by(mut self, show: fn(&T) -> String) -> Self {
        self.show = Show::By(show);
        self
    }

    /// Masks a secret by `mask`, which gets its text, instead of by [`MASK`].
    #[must_use]
    pub const fn masked_by(mut self, mask: fn(&str) -> String) -> Self {
        self.mask = mask;
        self
    }
}

impl<T: Any + Send + Sync> Form<T> {
    /// A value as if it had been read; a form that shows values as they were written shows nothing for it.
    pub fn value(&'static self, value: T) -> FromText {
        self.keep(value, None)
    }

    fn keep(&'static self, value: T, written: Option<Box<str>>) -> FromText {
        let mut value = Some(value);
        // Strings and paths are most of a file: they need no allocation beside their own.
        let any: &mut dyn Any = &mut value;
        if let Some(text) = any.downcast_mut::<Option<String>>().and_then(Option::take) {
            return FromText::Text(text);
        }
        if let Some(path) = any.downcast_mut::<Option<PathBuf>>().and_then(Option::take) {
            return FromText::File(path);
        }
        FromText::Parsed(Parsed {
            value: Arc::new(value.expect("it is neither a string nor a path")),
            written,
            form: self,
        })
    }
}

impl<T> fmt::Debug for Form<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Form").field(&self.expects).finish()
    }
}

/// A string that a form has read.
#[derive(Debug, Clone)]
pub enum FromText {
    /// A string.
    Text(String),
    /// A path.
    File(PathBuf),
    /// Any other type.
    Parsed(Parsed),
}

/// A form of any type.
pub trait AnyForm: fmt::Debug + Send + Sync {
    /// The form's description, with an article.
    fn expects(&self) -> &'static str;
    /// A regular expression (ECMA-262) for the schema.
    fn pattern(&self) -> Option<&'static str>;
    /// Parses a text; relative paths count from `base`.
    ///
    /// # Errors
    /// If the text is not of this form.
    fn read(&'static self, text: &str, base: &Path) -> Read<FromText>;
    /// The text to display for a value that this form parsed.
    fn show(&self, value: &dyn Any) -> String;
    /// The text to display for a secret.
    fn mask(&self, text: &str) -> String;
}

impl<T: Any + Send + Sync> AnyForm for Form<T> {
    fn expects(&self) -> &'static str {
        self.expects
    }

    fn pattern(&self) -> Option<&'static str> {
        self.pattern
    }

    fn read(&'static self, text: &str, base: &Path) -> Read<FromText> {
        let value = (self.parse)(text, base)?;
        let written = match self.show {
            Show::AsWritten => Some(text.into()),
            Show::By(_) => None,
        };
        Ok(self.keep(value, written))
    }

    fn show(&self, value: &dyn Any) -> String {
        match (&self.show, value.downcast_ref()) {
            (Show::By(show), Some(value)) => show(value),
            _ => String::new(),
        }
    }

    fn mask(&self, text: &str) -> String {
        (self.mask)(text)
    }
}

/// A value that a form parsed.
#[derive(Clone)]
pub struct Parsed {
    /// The value, of the form's type.
    value: Arc<dyn Any + Send + Sync>,
    /// The text, if the form shows it as it was written.
    written: Option<Box<str>>,
    form: &'static dyn AnyForm,
}

impl Parsed {
    /// The value; `None`: it is of another type.
    #[must_use]
    pub fn value<T: 'static>(&self) -> Option<&T> {
        self.value.downcast_ref()
    }

    /// The text to display for the value.
    #[must_use]
    pub fn shown(&self) -> String {
        match &self.written {
            Some(text) => text.to_string(),
            None => self.form.show(&*self.value),
        }
    }
}

impl fmt::Debug for Parsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Parsed").field(&self.shown()).finish()
    }
}

/// Any string.
pub static ANY: Form<String> = Form::new("a string", |text, _| Ok(text.to_owned()));

/// A path in the file system; a relative one counts from the folder of the configuration.
pub static FILE: Form<PathBuf> = Form::new("the path of a file", path).pattern("^.+$");

/// The path of a folder, as [`FILE`].
pub static FOLDER: Form<PathBuf> = Form::new("the path of a folder", path).pattern("^.+$");

/// A name that the file gives to one of its parts, such as an upstream.
pub static NAME: Form<String> = Form::new("a name", name).pattern("^.+$");

fn name(text: &str, _: &Path) -> Read<String> {
    if text.is_empty() {
        return Err(Refusal::new("a name can't be empty"));
    }
    if text.chars().any(char::is_control) {
        return Err(Refusal::new("a name can't contain control characters"));
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(Refusal::new(format!(
            "a name of {} bytes is too long: at most {NAME_BYTES_MAX}",
            text.len()
        )));
    }
    Ok(text.to_owned())
}

/// A path; a relative one counts from `base`.
///
/// # Errors
/// If it is empty or contains NUL.
pub fn path(text: &str, base: &Path) -> Read<PathBuf> {
    if text.is_empty() {
        return Err(Refusal::new("a path can't be empty"));
    }
    if text.contains('\0') {
        return Err(Refusal::new("a path can't contain NUL"));
    }
    Ok(base.join(text))
}
