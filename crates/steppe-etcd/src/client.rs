//! HTTP/1.1 client of etcd's JSON gateway: requests and responses.

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

/// A cluster of etcd, or one server. Clones share the member that requests go to.
#[derive(Clone)]
pub struct Etcd(Arc<Cluster>);

struct Cluster {
    endpoints: Vec<Endpoint>,
    /// Requests go to the member at this index, modulo the number of endpoints.
    next: AtomicUsize,
}

/// The reason why a request to etcd failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No endpoint is configured.
    #[error("no etcd endpoint is configured")]
    NoEndpoint,
    /// The connection or the TLS handshake failed.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// The exchange took longer than [`TIMEOUT`].
    #[error("no response in time")]
    Timeout,
    /// The system's root certificates can't be loaded, or the host is no valid server name.
    #[error("TLS: {0}")]
    Tls(String),
    /// The connection broke during the exchange.
    #[error("the connection broke during the exchange")]
    Http(#[from] hyper::Error),
    /// Etcd answered with an error status or message; the text has it.
    #[error("{0}")]
    Refused(String),
    /// The response is not JSON of etcd's v3 API.
    #[error("not a response of etcd's v3 API")]
    Message(#[from] serde_json::Error),
    /// The response exceeds [`ANSWER_BYTES_MAX`].
    #[error("a response of more than {ANSWER_BYTES_MAX} bytes")]
    TooLarge,
    /// A watch or another stream of messages ended.
    #[error("the watch ended")]
    Ended,
}

/// The messages of a streamed response, in order of arrival.
pub(crate) struct Messages {
    body: Incoming,
    lines: Lines,
    _connection: Connection,
}

/// Guard of the task that drives an HTTP connection: aborts it on drop.
struct Connection(AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Etcd {
    /// Creates a client of the members at `endpoints`. A failed request moves on to the next member.
    pub fn new(endpoints: impl IntoIterator<Item = Endpoint>) -> Self {
        Self(Arc::new(Cluster {
            endpoints: endpoints.into_iter().collect(),
            next: AtomicUsize::new(0),
        }))
    }

    /// Sends a request and receives the whole response, within [`TIMEOUT`].
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

    /// Sends a request whose response is a stream of messages.
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

    /// Directs further requests to the next member.
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
        // Loaded for each connection: the system's root certificates change while the process runs.
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
        // The request reports errors of the connection.
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
    /// The next message; `None` when the stream has ended.
    ///
    /// # Cancel safety
    /// No message is lost if the future is dropped.
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
