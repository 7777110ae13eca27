//! Static files: serves the files of a folder as an origin server.
//!
//! Invariant: a worker never blocks on a disk: what is not in the page cache is looked up and
//! read on a blocking thread. Each chunk of content is charged before it is read.
//!
//! Non-goals: methods other than GET and HEAD. `lookup` decides which
//! paths are served; `steppe-net` guarantees that no file outside of the folder is opened.
//! Spec: RFC 9110 §8, §13, §14.

mod answer;
mod coding;
mod content;
mod listing;
mod lookup;
pub(crate) mod media_type;
mod validators;

use std::io;
use std::task::{Context, Poll, ready};

use steppe_mem::Lease;
use steppe_net::{DiskTask, Folder, clock};

use crate::config::{Coding, Files};
use crate::error::GatewayError;
use crate::exchange::Part;
use crate::head::{RequestHead, ResponseHead};
use crate::local::Responder;
use crate::path::PathPattern;
pub use coding::weight;

use answer::{FileRequest, FileResponse, ResponseForm};
pub(crate) use coding::AcceptedCodings;
use content::{BudgetWait, Content};
use listing::Listing;
use lookup::{FileLookup, FolderRules, FoundFile};

/// The folder that a route serves, on one worker.
#[derive(Debug)]
pub struct Served {
    folder: Folder,
    names: FolderRules,
    precompressed: Vec<Coding>,
}

/// The response to one request for a file.
#[derive(Debug)]
pub struct FileResponder {
    lease: Lease,
    state: ResponderState,
    content: Content,
    waiting: BudgetWait,
}

#[derive(Debug)]
enum ResponderState {
    /// A thread looks for the file.
    Looking(RequestHead, ResponseForm, DiskTask<io::Result<FoundFile>>),
    /// A thread lists the folder.
    Listing(ResponseForm, Listing),
    /// The response is there.
    Answered(FileResponse),
    /// The head was taken; content follows.
    Sending,
}

impl Served {
    /// Serves `files` for a route with `path`.
    #[must_use]
    pub fn new(files: &Files, path: &PathPattern) -> Self {
        Self {
            folder: Folder::new(&files.root),
            names: FolderRules::of(files, path.segments().len() - 1),
            precompressed: files.precompressed.clone(),
        }
    }
}

impl FileResponder {
    /// The response to `head`, charged to `lease`.
    ///
    /// # Errors
    /// Where the budget has no room, or the file can't be opened.
    #[expect(
        clippy::disallowed_methods,
        reason = "how fresh a cached lookup is; once a request for a file"
    )]
    pub fn new(head: RequestHead, served: &Served, lease: &Lease) -> Result<Self, GatewayError> {
        let variant = ResponseForm {
            is_head: head.method() == b"HEAD",
            varies: !served.precompressed.is_empty(),
        };
        let asked = FileRequest { variant, lease };
        if !matches!(head.method(), b"GET" | b"HEAD") {
            let allowed = (&b"allow"[..], &b"GET, HEAD"[..]);
            let answer = answer::words(asked, 405, &[allowed])?;
            return Ok(Self::at(lease, ResponderState::Answered(answer)));
        }
        let accepted = AcceptedCodings::of(&head.fields, &served.precompressed);
        let lookup = FileLookup::new(head.path(), &served.names, accepted, lease)?;
        let Some(mut lookup) = lookup else {
            let answer = answer::words(asked, 404, &[])?;
            return Ok(Self::at(lease, ResponderState::Answered(answer)));
        };
        let now = clock::now();
        match served.folder.try_find(now, |root| lookup.find(root)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            found => return Ok(Self::at(lease, settle(asked, &head, found)?)),
        }
        let task = served.folder.find(now, move |root| lookup.find(root));
        let task = task.map_err(|error| GatewayError::file(&error))?;
        let state = ResponderState::Looking(head, variant, task);
        Ok(Self::at(lease, state))
    }

    fn at(lease: &Lease, state: ResponderState) -> Self {
        Self {
            lease: lease.clone(),
            state,
            content: Content::Nothing,
            waiting: BudgetWait::default(),
        }
    }
}

/// The state after a lookup.
fn settle(
    asked: FileRequest<'_>,
    head: &RequestHead,
    found: io::Result<FoundFile>,
) -> Result<ResponderState, GatewayError> {
    let answer = match found {
        Ok(FoundFile::File(found)) => answer::file(asked, head, found),
        Ok(FoundFile::Folder) => answer::redirect(asked, head),
        Ok(FoundFile::Unindexed(folder)) => {
            let listing = listing::start(folder, asked.lease)?;
            return Ok(ResponderState::Listing(asked.variant, listing));
        }
        Ok(FoundFile::Nothing) => answer::words(asked, 404, &[]),
        Err(error) => match error.kind() {
            // The folder itself does not exist.
            io::ErrorKind::NotFound => answer::words(asked, 404, &[]),
            io::ErrorKind::PermissionDenied => answer::words(asked, 403, &[]),
            _ => return Err(GatewayError::file(&error)),
        },
    };
    Ok(ResponderState::Answered(answer?))
}

impl Responder for FileResponder {
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        loop {
            let asked = |variant: &ResponseForm| FileRequest {
                variant: *variant,
                lease: &self.lease,
            };
            self.state = match &mut self.state {
                ResponderState::Looking(head, variant, task) => {
                    let found = ready!(task.poll(cx)).and_then(|found| found);
                    settle(asked(variant), head, found)?
                }
                ResponderState::Listing(variant, listing) => {
                    let page = ready!(listing.poll(cx)).and_then(|page| page);
                    let page = page.map_err(|error| GatewayError::file(&error))?;
                    ResponderState::Answered(answer::listing(asked(variant), page)?)
                }
                ResponderState::Answered(_) | ResponderState::Sending => break,
            };
        }
        Poll::Ready(
            match std::mem::replace(&mut self.state, ResponderState::Sending) {
                ResponderState::Answered(answer) => {
                    self.content = answer.content;
                    Ok(answer.head)
                }
                _ => Err(GatewayError::bad_response()),
            },
        )
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        self.content.poll_part(cx, &self.lease, &mut self.waiting)
    }

    fn is_starved(&self) -> bool {
        self.waiting.is_starved
    }
}
