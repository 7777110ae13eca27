//! HTTP/2: several requests at a time on a connection (RFC 9113).
//!
//! The workers of a connection share it, and the first that finds it gone opens the next one. Where
//! the target allows fewer streams than the load has, requests wait for one, and that is part of
//! their time. A request that the target has not processed because of its GOAWAY is sent once more on a
//! new connection, as every client does; an operation that runs into its timeout resets its stream and
//! leaves the connection open.

use std::cell::RefCell;
use std::error::Error;
use std::rc::Rc;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::rt::{Executor, Read, Write};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::sync::Mutex;
use tokio::task::spawn_local;

use super::client::Client;
use super::http1::AbortOnDrop;
use super::request::{HttpPlan, Repeated, Wire, http_failure};
use super::tally::Failure;

/// A client with one stream at a time, on a connection that several workers share.
pub(super) struct Http2Client(Rc<Shared>);

/// The present connection of several workers; a lost one is replaced.
pub(super) struct Shared {
    plan: Arc<HttpPlan>,
    /// Connection for new requests. Operations hold a reference to theirs, so a retired connection is closed when the
    /// last of them is over.
    current: RefCell<Option<Rc<Connection>>>,
    connecting: Mutex<()>,
}

struct Connection {
    sender: SendRequest<Repeated>,
    _task: AbortOnDrop,
}

/// Executor for the tasks of a connection, on the thread of the connection.
#[derive(Clone)]
struct Here;

impl Shared {
    pub(super) fn new(plan: Arc<HttpPlan>) -> Rc<Self> {
        Rc::new(Self {
            plan,
            current: RefCell::new(None),
            connecting: Mutex::new(()),
        })
    }

    fn open(&self) -> Option<Rc<Connection>> {
        let current = self.current.borrow();
        let connection = current.as_ref().filter(|it| !it.sender.is_closed());
        connection.cloned()
    }

    async fn connection(&self) -> Result<Rc<Connection>, Failure> {
        if let Some(connection) = self.open() {
            return Ok(connection);
        }
        let _turn = self.connecting.lock().await;
        // Another worker may have opened it meanwhile.
        if let Some(connection) = self.open() {
            return Ok(connection);
        }
        let connection = match self.plan.connect().await? {
            Wire::Plain(stream) => establish(TokioIo::new(stream)).await,
            Wire::Tls(stream) => establish(TokioIo::new(stream)).await,
        };
        let connection = Rc::new(connection?);
        *self.current.borrow_mut() = Some(Rc::clone(&connection));
        Ok(connection)
    }

    /// Sends no new request on this connection.
    fn retire(&self, connection: &Rc<Connection>) {
        let mut current = self.current.borrow_mut();
        if current
            .as_ref()
            .is_some_and(|it| Rc::ptr_eq(it, connection))
        {
            *current = None;
        }
    }
}

async fn establish<T>(io: T) -> Result<Connection, Failure>
where
    T: Read + Write + Unpin + 'static,
{
    let handshake = http2::handshake(Here, io).await;
    let (sender, connection) = handshake.map_err(|e| http_failure(&e))?;
    Ok(Connection {
        sender,
        _task: AbortOnDrop::new(&spawn_local(connection)),
    })
}

impl Http2Client {
    pub(super) fn new(shared: Rc<Shared>) -> Self {
        Self(shared)
    }

    async fn send(&self) -> Result<(Rc<Connection>, Response<Incoming>), Failure> {
        let connection = self.0.connection().await?;
        let failed = match connection.send(self.0.plan.request()).await {
            Ok(response) => return Ok((connection, response)),
            Err(failed) => failed,
        };
        if !was_left_alone(&failed) {
            return Err(of(&connection, http_failure(failed.error())));
        }
        self.0.retire(&connection);
        let next = self.0.connection().await?;
        match next.send(self.0.plan.request()).await {
            Ok(response) => Ok((next, response)),
            Err(failed) => Err(of(&next, http_failure(failed.error()))),
        }
    }
}

impl Connection {
    async fn send(&self, request: Request<Repeated>) -> Result<Response<Incoming>, Unsent> {
        self.sender.clone().try_send_request(request).await
    }
}

type Unsent = TrySendError<Request<Repeated>>;

/// True if the target has not processed a request: it was never sent, or its stream is above the last one
/// that a GOAWAY without an error names (RFC 9113 §6.8). For the latter, the library has only this text.
fn was_left_alone(failed: &Unsent) -> bool {
    const GOODBYE: &str = "connection error received: not a result of an error";
    let cause = failed.error().source().map(ToString::to_string);
    failed.message().is_some() || cause.is_some_and(|text| text.starts_with(GOODBYE))
}

impl Client for Http2Client {
    async fn operate(&mut self) -> Result<(), Failure> {
        let (connection, response) = self.send().await?;
        let outcome = self.0.plan.judge(response).await;
        outcome.map_err(|failure| of(&connection, failure))
    }
}

/// The failure of an operation on a connection: a stream may fail, and its connection stay open.
fn of(connection: &Connection, failure: Failure) -> Failure {
    Failure {
        disconnected: failure.disconnected && connection.sender.is_closed(),
        ..failure
    }
}

impl<F> Executor<F> for Here
where
    F: Future + 'static,
{
    fn execute(&self, future: F) {
        spawn_local(async move {
            future.await;
        });
    }
}
