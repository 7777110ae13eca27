//! HTTP/1.1: one request at a time on a connection that is kept alive.
//!
//! The operation that finds no connection opens one, and that is part of its time: a target that
//! closes connections is slower for its clients, too. A request that was never sent because the
//! target had closed the idle connection meanwhile is sent once more on a new one (RFC 9112 §9.3.1);
//! a request that was lost under way is an error.

use std::sync::Arc;

use hyper::client::conn::http1::{self, SendRequest};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use tokio::task::{AbortHandle, JoinHandle, spawn_local};

use super::client::Client;
use super::request::{HttpPlan, Repeated, Wire, http_failure};
use super::tally::Failure;

/// A client with one connection.
pub(super) struct Http1Client {
    plan: Arc<HttpPlan>,
    /// `None` during an operation: one that is dropped takes its connection along.
    connection: Option<Connection>,
}

struct Connection {
    sender: SendRequest<Repeated>,
    _task: AbortOnDrop,
}

/// Aborts the task of a connection when dropped.
pub(super) struct AbortOnDrop(AbortHandle);

impl Http1Client {
    pub(super) fn new(plan: Arc<HttpPlan>) -> Self {
        Self {
            plan,
            connection: None,
        }
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        match self.plan.connect().await? {
            Wire::Plain(stream) => establish(TokioIo::new(stream)).await,
            Wire::Tls(stream) => establish(TokioIo::new(stream)).await,
        }
    }

    /// A connection that can take a request: the last one if it is still open, else a new one.
    async fn ready(&mut self) -> Result<(Connection, Age), Failure> {
        if let Some(mut connection) = self.connection.take()
            && connection.sender.ready().await.is_ok()
        {
            return Ok((connection, Age::Kept));
        }
        Ok((self.connect().await?, Age::New))
    }
}

async fn establish<T>(io: T) -> Result<Connection, Failure>
where
    T: Read + Write + Unpin + 'static,
{
    let handshake = http1::handshake(io).await;
    let (sender, connection) = handshake.map_err(|e| http_failure(&e))?;
    Ok(Connection {
        sender,
        _task: AbortOnDrop::new(&spawn_local(connection)),
    })
}

#[derive(PartialEq)]
enum Age {
    Kept,
    New,
}

impl Client for Http1Client {
    async fn operate(&mut self) -> Result<(), Failure> {
        let (mut connection, age) = self.ready().await?;
        let mut sent = connection
            .sender
            .try_send_request(self.plan.request())
            .await;
        if let Err(error) = &mut sent
            && let Some(unsent) = error.take_message()
            && age == Age::Kept
        {
            connection = self.connect().await?;
            sent = connection.sender.try_send_request(unsent).await;
        }
        let response = sent.map_err(|e| http_failure(e.error()))?;
        let outcome = self.plan.judge(response).await;
        let is_lost = outcome.as_ref().is_err_and(|e| e.disconnected);
        if !is_lost {
            self.connection = Some(connection);
        }
        outcome
    }
}

impl AbortOnDrop {
    pub(super) fn new<T>(task: &JoinHandle<T>) -> Self {
        Self(task.abort_handle())
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
