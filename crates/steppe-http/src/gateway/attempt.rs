//! The server's side of one attempt: a call to a server, or a response made here.

use crate::exchange::Upstream;
use crate::files::FileResponder;
use crate::filter::Author;
use crate::local::{Local, Responder};
use crate::respond::Responding;
use crate::upstream::{Answering, Call};

/// The server's side of an attempt.
pub(super) enum Attempt {
    Call(Call),
    Respond(Local<Responding>, Author),
    /// In a box: every exchange would have room for it, and most serve no files.
    Files(Box<Local<FileResponder>>),
    Guest(Box<dyn Upstream>),
    /// A filter's response.
    Served(Local<Box<dyn Responder>>),
}

impl Attempt {
    /// The author of the response.
    pub(super) fn author(&self) -> Author {
        match self {
            Self::Respond(_, author) => *author,
            Self::Files(_) => Author::Gateway,
            Self::Call(_) | Self::Guest(_) | Self::Served(_) => Author::Upstream,
        }
    }

    /// The server's side, and the server that answers there where it is one.
    pub(super) fn split(&mut self) -> (&mut dyn Upstream, Option<Answering<'_>>) {
        match self {
            Self::Call(call) => {
                let (stream, answering) = call.split();
                (stream, Some(answering))
            }
            Self::Respond(respond, _) => (respond, None),
            Self::Files(files) => (&mut **files, None),
            Self::Guest(visit) => (&mut **visit, None),
            Self::Served(served) => (served, None),
        }
    }
}
