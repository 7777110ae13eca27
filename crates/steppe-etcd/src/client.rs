//! Requests and answers, by HTTP/1.1.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, Response, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use steppe_net::tls::config::{MinVersion, ServerTrust};
use steppe_net::tls::{LoadError, ServerTls};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::endpoint::Endpoint;
use crate::limits::{ANSWER_BYTES_MAX, TEXT_BYTES_MAX, TIMEOUT};
use crate::lines::Lines;
use crate::message::Streamed;

/// A cluster of etcd, or one server. Clones share which of its members answered last.
#[derive(Clone)]
pub struct Etcd(Arc<Cluster>);

struct Cluster {
    endpoints: Vec<Endpoint>,
    /// The member that is asked next, counted without an end.
    next: AtomicUsize,
}

/// Why etcd did not answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody is named.
    #[error("no etcd endpoint is configured")]
    NoEndpoint,
    /// It can't be reached.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// It took longer than [`TIMEOUT`].
    #[error("no response in time")]
    Timeout,
    /// There are no authorities that can be trusted, or its name is none.
    #[error("TLS: {0}")]
    Tls(String),
    /// The exchange broke off.
    #[error("the connection broke during the exchange")]
    Http(#[from] hyper::Error),
    /// It said that it can't.
    #[error("{0}")]
    Refused(String),
    /// What it said is not what etcd says.
    #[error("not a response of etcd's v3 API")]
    Message(#[from] serde_json::Error),
    /// It said more than [`ANSWER_BYTES_MAX`].
    #[error("a response of more than {ANSWER_BYTES_MAX} bytes")]
    TooLarge,
    /// A stream of messages ended.
    #[error("the watch ended")]
    Ended,
}

/// The messages of an answer, as they come.
pub(crate) struct Messages {
    body: Incoming,
    lines: Lines,
    _connection: Connection,
}

/// The task of a connection, which ends with this.
struct Connection(AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Etcd {
    /// A cluster whose members are at `endpoints`: the next is asked where one does not answer.
    pub fn new(endpoints: impl IntoIterator<Item = Endpoint>) -> Self {
        Self(Arc::new(Cluster {
            endpoints: endpoints.into_iter().collect(),
            next: AtomicUsize::new(0),
        }))
    }

    /// Asks, and takes the answer whole.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        message: &impl Serialize,
    ) -> Result<T, Error> {
        let message = serde_json::to_vec(message)?;
        let asked = timeout(TIMEOUT, async {
            let (answer, connection) = self.post(path, message).await?;
            let body = whole(answer.into_body()).await;
            drop(connection);
            body
        });
        let body = asked.await.unwrap_or(Err(Error::Timeout));
        let body = body.inspect_err(|_| self.turn())?;
        Ok(serde_json::from_slice(&body)?)
    }

    /// Asks for messages that come one after the other.
    pub(crate) async fn stream(
        &self,
        path: &str,
        message: &impl Serialize,
    ) -> Result<Messages, Error> {
        let message = serde_json::to_vec(message)?;
        let asked = timeout(TIMEOUT, self.post(path, message)).await;
        let asked = asked.unwrap_or(Err(Error::Timeout));
        let (answer, connection) = asked.inspect_err(|_| self.turn())?;
        Ok(Messages {
            body: answer.into_body(),
            lines: Lines::default(),
            _connection: connection,
        })
    }

    /// Has another member be asked next.
    pub(crate) fn turn(&self) {
        self.0.next.fetch_add(1, Ordering::Relaxed);
    }

    async fn post(
        &self,
        path: &str,
        message: Vec<u8>,
    ) -> Result<(Response<Incoming>, Connection), Error> {
        let endpoints = &self.0.endpoints;
        let at = self.0.next.load(Ordering::Relaxed);
        let at = at.checked_rem(endpoints.len()).ok_or(Error::NoEndpoint)?;
        let endpoint = &endpoints[at];
        let socket = TcpStream::connect((endpoint.host(), endpoint.port()))
            .await
            .map_err(Error::Connect)?;
        if !endpoint.is_tls() {
            return post_on(socket, endpoint, path, message).await;
        }
        let tls = |problem: &dyn fmt::Display| Error::Tls(problem.to_string());
        let name = ServerName::try_from(endpoint.host().to_owned()).map_err(|error| tls(&error))?;
        // Read each time: authorities of the system change while the process runs.
        let config = spawn_blocking(by_authority).await;
        let config = config.map_err(|error| tls(&error))?;
        let config = config.map_err(|error| tls(&error))?.rustls_config();
        let session = TlsConnector::from(config).connect(name, socket).await;
        post_on(session.map_err(Error::Connect)?, endpoint, path, message).await
    }
}

fn by_authority() -> Result<ServerTls, LoadError> {
    ServerTls::load(&ServerTrust {
        ca: None,
        server_name: None,
        identity: None,
        verify: true,
        pins: Vec::new(),
        min_version: MinVersion::default(),
        alpn: vec![b"http/1.1".to_vec()],
    })
}

async fn post_on(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    endpoint: &Endpoint,
    path: &str,
    message: Vec<u8>,
) -> Result<(Response<Incoming>, Connection), Error> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let task = tokio::spawn(async move {
        // What goes wrong is told to the request.
        let _ = connection.await;
    });
    let connection = Connection(task.abort_handle());
    let request = Request::post(path)
        .header(header::HOST, endpoint.authority())
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(message)))
        .map_err(|error| Error::Refused(error.to_string()))?;
    let answer = sender.send_request(request).await?;
    if answer.status().is_success() {
        return Ok((answer, connection));
    }
    let status = answer.status();
    let body = whole(answer.into_body()).await?;
    let text = String::from_utf8_lossy(&body);
    let shown: String = text
        .chars()
        .filter(|char| !char.is_control())
        .take(TEXT_BYTES_MAX)
        .collect();
    Err(Error::Refused(format!("{status}: {shown}")))
}

async fn whole(body: Incoming) -> Result<Bytes, Error> {
    match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) => match error.downcast::<hyper::Error>() {
            Ok(error) => Err(Error::Http(*error)),
            Err(_) => Err(Error::TooLarge),
        },
    }
}

impl Messages {
    /// The next one. `None`: the stream ended.
    ///
    /// # Cancel safety
    /// Where it is dropped, nothing was lost.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Error> {
        loop {
            if let Some(line) = self.lines.next() {
                return match serde_json::from_slice(&line)? {
                    Streamed::Result(message) => Ok(Some(message)),
                    Streamed::Error(error) => Err(Error::Refused(error.message)),
                };
            }
            let Some(frame) = self.body.frame().await else {
                return Ok(None);
            };
            if let Ok(data) = frame?.into_data() {
                self.lines.add(data).map_err(|_| Error::TooLarge)?;
            }
        }
    }
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0.endpoints).finish()
    }
}
