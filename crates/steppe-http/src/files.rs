//! Static files: serves the files of a folder as an origin server.
//!
//! Invariant: a worker never blocks on a disk: what is not in the page cache is looked up and
//! read on a blocking thread. Each chunk of content is charged before it is read.
//!
//! Non-goals: directory listings, and methods other than GET and HEAD. `lookup` decides which
//! paths are served; `steppe-net` guarantees that no file outside of the folder is opened.
//! Spec: RFC 9110 §8, §13, §14.

mod answer;
mod coding;
mod condition;
mod content;
mod lookup;
mod media_type;
mod multipart;
pub mod range;
mod validators;

use std::io;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_mem::Lease;
use steppe_net::{DiskTask, Folder};

use crate::config::{Coding, Files};
use crate::error::GatewayError;
use crate::exchange::Part;
use crate::head::{RequestHead, ResponseHead};
use crate::made::Make;
use crate::path::PathPattern;
pub use coding::weight;
pub use condition::any_tag;

use answer::{Answer, Asked};
use coding::Accepted;
use content::Content;
use lookup::{Found, Lookup};

/// The folder that a route serves, on one worker.
#[derive(Debug)]
pub struct Served {
    folder: Folder,
    index: String,
    precompressed: Vec<Coding>,
    /// Number of segments of the route's path before its `{rest*}`.
    skipped: usize,
}

/// The response to one request for a file.
#[derive(Debug)]
pub struct FileResponder<'a> {
    lease: &'a Lease,
    state: State<'a>,
    content: Content,
    is_starved: bool,
}

#[derive(Debug)]
enum State<'a> {
    /// A blocking thread looks up the file.
    LookingUp(RequestHead, Asked<'a>, DiskTask<io::Result<Found>>),
    /// The head is ready.
    Answered(ResponseHead),
    /// The head was taken; content follows.
    Sending,
}

impl Served {
    /// Serves `files` for a route with `path`.
    #[must_use]
    pub fn new(files: &Files, path: &PathPattern) -> Self {
        Self {
            folder: Folder::new(&files.root),
            index: files.index.clone(),
            precompressed: files.precompressed.clone(),
            skipped: path.segments().len() - 1,
        }
    }
}

impl<'a> FileResponder<'a> {
    /// The response to `head`, charged to `lease`.
    ///
    /// # Errors
    /// When the budget refuses memory, or the file can't be opened.
    pub fn new(head: RequestHead, served: &Served, lease: &'a Lease) -> Result<Self, GatewayError> {
        let asked = Asked {
            is_head: head.method() == b"HEAD",
            varies: !served.precompressed.is_empty(),
            lease,
        };
        if !matches!(head.method(), b"GET" | b"HEAD") {
            let allowed = (&b"allow"[..], &b"GET, HEAD"[..]);
            return Ok(Self::answered(
                lease,
                answer::words(asked, 405, &[allowed])?,
            ));
        }
        let accepted = Accepted::of(&head.fields, &served.precompressed);
        let path = (head.path(), served.skipped);
        let lookup = Lookup::new(path, &served.index, accepted, lease)?;
        let Some(mut lookup) = lookup else {
            return Ok(Self::answered(lease, answer::words(asked, 404, &[])?));
        };
        let now = Instant::now();
        match served.folder.try_find(now, |root| lookup.find(root)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            found => return Ok(Self::answered(lease, answer(asked, &head, found)?)),
        }
        let task = served.folder.find(now, move |root| lookup.find(root));
        let task = task.map_err(|error| GatewayError::file(&error))?;
        Ok(Self::at(
            lease,
            State::LookingUp(head, asked, task),
            Content::Nothing,
        ))
    }

    fn answered(lease: &'a Lease, answer: Answer) -> Self {
        let Answer { head, content } = answer;
        Self::at(lease, State::Answered(head), content)
    }

    fn at(lease: &'a Lease, state: State<'a>, content: Content) -> Self {
        Self {
            lease,
            state,
            content,
            is_starved: false,
        }
    }
}

fn answer(
    asked: Asked<'_>,
    head: &RequestHead,
    found: io::Result<Found>,
) -> Result<Answer, GatewayError> {
    let answer = match found {
        Ok(Found::File(found)) => answer::file(asked, head, found),
        Ok(Found::Folder) => answer::redirect(asked, head),
        Ok(Found::Nothing) => answer::words(asked, 404, &[]),
        Err(error) => match error.kind() {
            // The folder itself does not exist.
            io::ErrorKind::NotFound => answer::words(asked, 404, &[]),
            io::ErrorKind::PermissionDenied => answer::words(asked, 403, &[]),
            _ => return Err(GatewayError::file(&error)),
        },
    };
    Ok(answer?)
}

impl Make for FileResponder<'_> {
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        if let State::LookingUp(head, asked, task) = &mut self.state {
            let found = ready!(task.poll(cx)).and_then(|found| found);
            let Answer { head, content } = answer(*asked, head, found)?;
            self.content = content;
            self.state = State::Sending;
            return Poll::Ready(Ok(head));
        }
        Poll::Ready(match std::mem::replace(&mut self.state, State::Sending) {
            State::Answered(head) => Ok(head),
            _ => Err(GatewayError::bad_response()),
        })
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        self.content.poll_part(cx, self.lease, &mut self.is_starved)
    }

    fn is_starved(&self) -> bool {
        self.is_starved
    }
}
