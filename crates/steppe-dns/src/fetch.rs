//! Lists by URL: what the forwarder asks of whoever can fetch them, which is the node.

use std::path::PathBuf;

use steppe_net::LocalFuture;

/// What fetches.
pub trait Fetch: Send + Sync {
    /// Fetches what is at a URL, unless it is what it was. Must be called within the control thread's
    /// runtime. The error is a text for people.
    ///
    /// # Cancel safety
    /// Safe: the file is complete when it is done, and of no use before.
    fn fetch(&self, request: Request) -> LocalFuture<Result<Fetched, String>>;
}

/// What is to be fetched.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where from.
    pub url: String,
    /// Where to; what is there is replaced.
    pub file: PathBuf,
    /// What was said of it the last time.
    pub validators: Validators,
    /// Bytes that it may have.
    pub bytes_max: u64,
}

/// What tells one state of a resource from another. RFC 9110 §8.8. Neither has a line's end in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Validators {
    /// `ETag`.
    pub etag: Option<String>,
    /// `Last-Modified`.
    pub last_modified: Option<String>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// It is another one, and is in the file.
    New(Validators),
    /// It is what it was: RFC 9110 §15.4.5.
    Unchanged,
}
