//! What is said in place of errors.

use std::path::PathBuf;

use super::Statuses;

/// Contents that stand in for those of errors (`kind = "error-pages"`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorPages {
    /// Whose errors.
    pub of: ErrorsOf,
    /// Of these, the first that is for a status.
    pub pages: Vec<ErrorPage>,
}

/// Whose errors are said in other words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorsOf {
    /// Those that the gateway finds, or that a filter or a folder answers with.
    Gateway,
    /// Those of servers and upstreams too.
    All,
}

/// The content of some errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorPage {
    /// Of which, all within 400 to 599.
    pub statuses: Statuses,
    /// Where it is from.
    pub content: ErrorContent,
    /// Its `Content-Type`. `None`: by the file's name, or plain text.
    pub content_type: Option<String>,
}

/// Where the content of an error is from. It is of 1 to `limits::ERROR_PAGE_BYTES_MAX` bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorContent {
    /// The configuration.
    Text(String),
    /// A file, read together with the configuration.
    File(PathBuf),
}
