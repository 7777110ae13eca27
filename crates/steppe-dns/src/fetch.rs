//! The interface of the list downloader, which the node implements.

use std::path::PathBuf;

use steppe_net::LocalFuture;

/// The downloader of lists.
pub trait Fetch: Send + Sync {
    /// Fetches the resource at a URL, unless it is unchanged. Must be called within the control thread's
    /// runtime. The error is a message for operators.
    ///
    /// # Cancel safety
    /// Safe: the file is complete only when the fetch is done.
    fn fetch(&self, request: Request) -> LocalFuture<Result<Fetched, String>>;
}

/// A fetch of a resource.
#[derive(Debug, Clone)]
pub struct Request {
    /// URL of the resource.
    pub url: String,
    /// Path to store it at; a file there is replaced.
    pub file: PathBuf,
    /// Validators from the last fetch.
    pub validators: Validators,
    /// Most bytes that the resource may have.
    pub bytes_max: u64,
}

/// The validators of a resource. RFC 9110 §8.8. Neither contains a line break.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Validators {
    /// `ETag`.
    pub etag: Option<String>,
    /// `Last-Modified`.
    pub last_modified: Option<String>,
}

/// The result of a fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// The resource has changed, and is in the file.
    New(Validators),
    /// The resource has not changed: RFC 9110 §15.4.5.
    Unchanged,
}
