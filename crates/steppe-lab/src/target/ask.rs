//! Small requests over HTTP: for readiness, live bytes and metrics.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::header::{CONNECTION, HOST};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use super::Exposition;
use crate::limits::ANSWER_BYTES_MAX;
use crate::scenario::LiveBytes;

/// Sends requests over HTTP/1.1, each on its own connection; they don't count as operations of the
/// load.
pub struct MetricClient {
    runtime: Runtime,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The URL has no host.
    #[error("{0} is not a URL of a server")]
    Url(String),
    /// No answer within the time given.
    #[error("no response from {url} within {patience:?}")]
    Late {
        /// The requested URL.
        url: String,
        /// Time given.
        patience: Duration,
    },
    /// No connection, or one that did not last.
    #[error("{url}: {reason}")]
    Failed {
        /// The requested URL.
        url: String,
        /// Description of the failure.
        reason: String,
    },
    /// The answer has no number at the JSON pointer.
    #[error("{url} has no number of bytes at {pointer}")]
    NoNumber {
        /// The requested URL.
        url: String,
        /// The pointer that was looked up.
        pointer: String,
    },
}

impl MetricClient {
    /// Makes a client; starts no thread.
    ///
    /// # Errors
    /// Where the system has no more descriptors for it.
    pub fn new() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Self { runtime })
    }

    /// Sends a GET, and returns the status and the content.
    ///
    /// # Errors
    /// Where there is no whole answer in time, or one that is too long.
    pub fn get(&self, url: &str, patience: Duration) -> Result<(u16, Bytes), AskError> {
        self.get_up_to(url, patience, ANSWER_BYTES_MAX)
    }

    /// Like [`MetricClient::get`], with another limit on the bytes of the content.
    ///
    /// # Errors
    /// Where there is no whole answer in time, or one that is too long.
    pub fn get_up_to(
        &self,
        url: &str,
        patience: Duration,
        bytes_max: usize,
    ) -> Result<(u16, Bytes), AskError> {
        let late = |_| AskError::Late {
            url: url.to_owned(),
            patience,
        };
        self.runtime.block_on(async {
            tokio::time::timeout(patience, get(url, bytes_max))
                .await
                .map_err(late)?
        })
    }

    /// Asks the target for its metrics; at most `series_max` series of them.
    ///
    /// # Errors
    /// Where there is no answer with 2xx, or no series in it.
    pub fn metrics(
        &self,
        url: &str,
        series_max: usize,
        patience: Duration,
    ) -> Result<Exposition, AskError> {
        let failed = |reason: String| AskError::Failed {
            url: url.to_owned(),
            reason,
        };
        let (status, content) = self.get(url, patience)?;
        if !(200..300).contains(&status) {
            return Err(failed(format!("status {status}")));
        }
        let found = Exposition::parse(&content, series_max);
        if found.readings.is_empty() {
            return Err(failed(
                "no gauge and no counter in Prometheus's text format".to_owned(),
            ));
        }
        Ok(found)
    }

    /// Requests the number of bytes that are allocated and not freed.
    ///
    /// # Errors
    /// Where there is no answer, or no number in it.
    pub fn live_bytes(&self, live: &LiveBytes, patience: Duration) -> Result<u64, AskError> {
        let (status, content) = self.get(&live.url, patience)?;
        if !(200..300).contains(&status) {
            let reason = format!("status {status}");
            return Err(AskError::Failed {
                url: live.url.clone(),
                reason,
            });
        }
        let document = serde_json::from_slice::<serde_json::Value>(&content).ok();
        let number = document.and_then(|document| whole(document.pointer(&live.pointer)?));
        number.ok_or_else(|| AskError::NoNumber {
            url: live.url.clone(),
            pointer: live.pointer.clone(),
        })
    }
}

/// A whole number of bytes; some targets write `1234567.0`.
fn whole(number: &serde_json::Value) -> Option<u64> {
    let float = || {
        number
            .as_f64()
            .filter(|number| (0.0..=2f64.powi(53)).contains(number))
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to 2^53"
    )]
    number
        .as_u64()
        .or_else(|| float().map(|number| number as u64))
}

async fn get(url: &str, bytes_max: usize) -> Result<(u16, Bytes), AskError> {
    let failed = |reason: &dyn std::fmt::Display| AskError::Failed {
        url: url.to_owned(),
        reason: reason.to_string(),
    };
    let no_url = || AskError::Url(url.to_owned());
    let uri: Uri = url.parse().map_err(|_| no_url())?;
    let authority = uri.authority().ok_or_else(no_url)?;
    let host = authority.host().trim_matches(['[', ']']);
    let address = (host, authority.port_u16().unwrap_or(80));
    let stream = TcpStream::connect(address)
        .await
        .map_err(|error| failed(&error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| failed(&error))?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(HOST, authority.as_str())
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| failed(&error))?;
    let answer = async {
        let response = sender
            .send_request(request)
            .await
            .map_err(|error| failed(&error))?;
        let status = response.status().as_u16();
        let content = Limited::new(response.into_body(), bytes_max)
            .collect()
            .await;
        let content = content.map_err(|error| failed(&error))?;
        Ok((status, content.to_bytes()))
    };
    let serve = async {
        _ = connection.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        answer = answer => answer,
        () = serve => Err(failed(&"the connection ended")),
    }
}
