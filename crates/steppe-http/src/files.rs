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

use answer::{Answer, Asked, Variant};
pub(crate) use coding::Accepted;
use content::{BudgetWait, Content};
use listing::Listing;
use lookup::{Found, Lookup, Names};

/// The folder that a route serves, on one worker.
#[derive(Debug)]
pub struct Served {
    folder: Folder,
    names: Names,
    precompressed: Vec<Coding>,
    /// Number of segments of the route's path before its `{rest*}`.
    skipped: usize,
}

/// The response to one request for a file.
#[derive(Debug)]
pub struct FileResponder {
    lease: Lease,
    state: State,
    content: Content,
    waiting: BudgetWait,
}

#[derive(Debug)]
enum State {
    /// A thread looks for the file.
    Looking(RequestHead, Variant, DiskTask<io::Result<Found>>),
    /// A thread lists the folder.
    Listing(Variant, Listing),
    /// This is the response.
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
            names: Names::of(files),
            precompressed: files.precompressed.clone(),
            skipped: path.segments().len() - 1,
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
        let variant = Variant {
            is_head: head.method() == b"HEAD",
            varies: !served.precompressed.is_empty(),
        };
        let asked = Asked { variant, lease };
        if !matches!(head.method(), b"GET" | b"HEAD") {
            let allowed = (&b"allow"[..], &b"GET, HEAD"[..]);
            return Ok(Self::answered(
                lease,
                answer::words(asked, 405, &[allowed])?,
            ));
        }
        let accepted = Accepted::of(&head.fields, &served.precompressed);
        let path = (head.path(), served.skipped);
        let lookup = Lookup::new(path, &served.names, accepted, lease)?;
        let Some(mut lookup) = lookup else {
            return Ok(Self::answered(lease, answer::words(asked, 404, &[])?));
        };
        let now = clock::now();
        match served.folder.try_find(now, |root| lookup.find(root)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            found => return Ok(Self::settled(asked, settle(asked, &head, found)?)),
        }
        let task = served.folder.find(now, move |root| lookup.find(root));
        let task = task.map_err(|error| GatewayError::file(&error))?;
        let state = State::Looking(head, variant, task);
        Ok(Self::at(lease, state, Content::Nothing))
    }

    fn settled(asked: Asked<'_>, settled: Settled) -> Self {
        match settled {
            Settled::Answered(answer) => Self::answered(asked.lease, answer),
            Settled::Listing(listing) => {
                let state = State::Listing(asked.variant, listing);
                Self::at(asked.lease, state, Content::Nothing)
            }
        }
    }

    fn answered(lease: &Lease, answer: Answer) -> Self {
        let Answer { head, content } = answer;
        Self::at(lease, State::Answered(head), content)
    }

    /// The head of an answer, whose content follows.
    fn send(&mut self, Answer { head, content }: Answer) -> ResponseHead {
        self.content = content;
        self.state = State::Sending;
        head
    }

    fn at(lease: &Lease, state: State, content: Content) -> Self {
        Self {
            lease: lease.clone(),
            state,
            content,
            waiting: BudgetWait::default(),
        }
    }
}

/// The outcome of a lookup.
enum Settled {
    Answered(Answer),
    Listing(Listing),
}

fn settle(
    asked: Asked<'_>,
    head: &RequestHead,
    found: io::Result<Found>,
) -> Result<Settled, GatewayError> {
    let answer = match found {
        Ok(Found::File(found)) => answer::file(asked, head, found),
        Ok(Found::Folder) => answer::redirect(asked, head),
        Ok(Found::Unindexed(folder)) => {
            return listing::start(folder, asked.lease).map(Settled::Listing);
        }
        Ok(Found::Nothing) => answer::words(asked, 404, &[]),
        Err(error) => match error.kind() {
            // The folder itself does not exist.
            io::ErrorKind::NotFound => answer::words(asked, 404, &[]),
            io::ErrorKind::PermissionDenied => answer::words(asked, 403, &[]),
            _ => return Err(GatewayError::file(&error)),
        },
    };
    Ok(Settled::Answered(answer?))
}

impl Responder for FileResponder {
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        if let State::Looking(head, variant, task) = &mut self.state {
            let found = ready!(task.poll(cx)).and_then(|found| found);
            let asked = Asked {
                variant: *variant,
                lease: &self.lease,
            };
            match settle(asked, head, found)? {
                Settled::Answered(answer) => return Poll::Ready(Ok(self.send(answer))),
                Settled::Listing(listing) => self.state = State::Listing(asked.variant, listing),
            }
        }
        if let State::Listing(variant, listing) = &mut self.state {
            let page = ready!(listing.poll(cx)).and_then(|page| page);
            let page = page.map_err(|error| GatewayError::file(&error))?;
            let asked = Asked {
                variant: *variant,
                lease: &self.lease,
            };
            let answer = answer::listing(asked, page)?;
            return Poll::Ready(Ok(self.send(answer)));
        }
        Poll::Ready(match std::mem::replace(&mut self.state, State::Sending) {
            State::Answered(head) => Ok(head),
            _ => Err(GatewayError::bad_response()),
        })
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        self.content.poll_part(cx, &self.lease, &mut self.waiting)
    }

    fn is_starved(&self) -> bool {
        self.waiting.is_starved
    }
}
