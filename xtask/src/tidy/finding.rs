//! The report of a rule on a line of a file, or on a file as a whole.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The name of its rule in the list of known violations; empty for a rule without a list.
    pub rule: &'static str,
    pub path: String,
    /// From 1; 0 for the file as a whole.
    pub line: usize,
    pub message: String,
    /// Its weight in the list.
    pub count: usize,
}

impl Finding {
    pub fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            rule: "",
            path: path.to_owned(),
            line,
            message: message.into(),
            count: 1,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "error: {}: {}", self.path, self.message),
            line => write!(f, "error: {}:{line}: {}", self.path, self.message),
        }
    }
}
