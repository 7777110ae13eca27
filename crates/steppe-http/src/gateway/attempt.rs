//! One attempt of an exchange: at a server, or a response made here.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use steppe_mem::Lease;
use steppe_net::proxy_protocol::Ends;

use crate::error::GatewayError;
use crate::exchange::Upstream;
use crate::files::{FileResponder, Served};
use crate::filter::Author;
use crate::head::RequestHead;
use crate::local::{Local, Responder};
use crate::respond::Responding;
use crate::upstream::{Pool, PooledStream, Selection, TargetState};

/// The server's side of an attempt.
pub(super) enum Attempt {
    Stream(PooledStream),
    Respond(Local<Responding>, Author),
    /// In a box: every exchange would have room for it, and most serve no files.
    Files(Box<Local<FileResponder>>),
    Guest(Box<dyn Upstream>),
    /// A filter's.
    Served(Local<Box<dyn Responder>>),
}

/// A connection that is being established, in a box: most requests find one that is there.
pub(super) type Connecting = Pin<Box<dyn Future<Output = Connected>>>;

/// What came of it.
pub(super) struct Connected {
    pub(super) selection: Selection,
    pub(super) stream: Result<PooledStream, GatewayError>,
}

impl Attempt {
    /// A response out of a folder.
    pub(super) fn files(
        head: RequestHead,
        served: &Served,
        lease: &Lease,
    ) -> Result<Self, GatewayError> {
        let responder = FileResponder::new(head, served, lease)?;
        Ok(Self::Files(Box::new(Local(responder))))
    }

    /// A new connection to a server of `pool`.
    pub(super) fn connect(
        pool: Rc<Pool>,
        mut selection: Selection,
        ends: Option<Ends>,
    ) -> Connecting {
        Box::pin(async move {
            let stream = pool.connect_any(&mut selection, ends).await;
            Connected { selection, stream }
        })
    }

    /// A new connection to the server of one that had closed while idle.
    pub(super) fn reconnect(
        pool: Rc<Pool>,
        target: (Arc<TargetState>, usize),
        mut selection: Selection,
        ends: Option<Ends>,
    ) -> Connecting {
        Box::pin(async move {
            let stream = pool.reconnect(target, &mut selection, ends).await;
            Connected { selection, stream }
        })
    }

    /// Whose the response is.
    pub(super) fn author(&self) -> Author {
        match self {
            Self::Respond(_, author) => *author,
            Self::Files(_) => Author::Gateway,
            Self::Stream(_) | Self::Guest(_) | Self::Served(_) => Author::Upstream,
        }
    }

    /// The server's side, and its server where it has one.
    pub(super) fn split(&mut self) -> (&mut dyn Upstream, Option<&Arc<TargetState>>) {
        match self {
            Self::Stream(stream) => {
                let (stream, state) = stream.split();
                (stream, Some(state))
            }
            Self::Respond(respond, _) => (respond, None),
            Self::Files(files) => (&mut **files, None),
            Self::Guest(visit) => (&mut **visit, None),
            Self::Served(served) => (served, None),
        }
    }
}
