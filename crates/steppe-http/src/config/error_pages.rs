//! Error pages: contents that replace those of error responses.

use std::path::PathBuf;

use super::Statuses;

/// Contents that stand in for those of errors (`kind = "error-pages"`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorPages {
    /// The errors that are replaced.
    pub of: ErrorsOf,
    /// Pages, of which the first that matches the status is sent.
    pub pages: Vec<ErrorPage>,
}

/// The origin of errors that get a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorsOf {
    /// Errors of the gateway, of filters and of folders.
    Gateway,
    /// Errors of servers and canned responses too.
    All,
}

/// The content of some errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorPage {
    /// The statuses that this page is for, all within 400 to 599.
    pub statuses: Statuses,
    /// The source of the page's content.
    pub content: ErrorContent,
    /// The page's `Content-Type`. `None`: by the file's name, or plain text.
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
