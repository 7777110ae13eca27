//! Sends batches of spans to a collector by OTLP over HTTP, in JSON.
//!
//! Invariant: the export runs on the thread of the tracer, with a runtime of its own; a collector has a bounded time,
//! and a bounded part of its answer is read. Spec: OTLP 1.x §OTLP/HTTP, by hyper. Left out: compression, and fields of
//! an account.

use std::time::Duration;

use anyhow::{Context, bail};
use axum::body::{Body, to_bytes};
use bytes::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, Response, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use steppe_telemetry::trace::{BatchRefused, Export, Taken};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::admin::trust;

/// Time for a collector to take a batch, as in OpenTelemetry's own exporters.
const TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read: the number of rejected spans, and a short message.
const ANSWER_BYTES_MAX: usize = 16 << 10;
/// The path of traces, OTLP/HTTP §Endpoint.
const PATH: &str = "/v1/traces";

/// The client of a collector.
pub struct Collector {
    url: Uri,
    path: String,
    /// There until it is dropped.
    runtime: Option<Runtime>,
}

impl Collector {
    /// The collector at `url`, to which the path of traces is added.
    ///
    /// # Errors
    /// There is no runtime.
    pub fn new(url: &str) -> anyhow::Result<Self> {
        let url: Uri = url.parse().context("not a URL")?;
        let path = format!("{}{PATH}", url.path().trim_end_matches('/'));
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(Self {
            url,
            path,
            runtime: Some(runtime?),
        })
    }

    async fn post(&self, batch: &[u8]) -> anyhow::Result<(StatusCode, Bytes)> {
        let host = self.url.host().context("the URL has no host")?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let is_tls = self.url.scheme_str() == Some("https");
        let port = self.url.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = TcpStream::connect((bare, port)).await?;
        let response = if is_tls {
            let name = trust::name(host).context("not a host name that TLS can verify")?;
            // Read each time: authorities of the system change while the node runs.
            let config = trust::by_authority(None)?;
            let session = TlsConnector::from(config).connect(name, stream).await;
            self.post_on(session.context("TLS")?, batch).await?
        } else {
            self.post_on(stream, batch).await?
        };
        let status = response.status();
        let answer = to_bytes(response.into_body(), ANSWER_BYTES_MAX).await?;
        Ok((status, answer))
    }

    async fn post_on(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        batch: &[u8],
    ) -> anyhow::Result<Response<Body>> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let authority = self.url.authority().context("the URL has no host")?;
        let request = Request::post(&self.path)
            .header(header::HOST, authority.as_str())
            .header(
                header::USER_AGENT,
                concat!("steppe/", env!("CARGO_PKG_VERSION")),
            )
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::CONNECTION, "close")
            .body(Body::from(batch.to_owned()))?;
        Ok(sender.send_request(request).await?.map(Body::new))
    }
}

impl Export for Collector {
    fn export(&mut self, batch: &[u8]) -> Result<Taken, BatchRefused> {
        let post = async {
            match timeout(TIME_MAX, self.post(batch)).await {
                Ok(posted) => posted,
                Err(_) => bail!("no response in time"),
            }
        };
        let runtime = self.runtime.as_ref().expect("it is not dropped");
        match runtime.block_on(post) {
            Ok((status, answer)) => taken(status, &answer),
            Err(error) => Err(BatchRefused {
                may_be_sent_again: true,
                why: format!("{error:#}"),
            }),
        }
    }
}

/// A tracer that is refused is dropped by a task of the node, where a runtime must not wait for its end.
impl Drop for Collector {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The meaning of an answer (OTLP/HTTP §OTLP/HTTP Response).
fn taken(status: StatusCode, answer: &[u8]) -> Result<Taken, BatchRefused> {
    if status.is_success() {
        let rejected = rejected(answer).unwrap_or(0);
        return Ok(Taken { rejected });
    }
    let may_be_sent_again = matches!(status.as_u16(), 429 | 502..=504);
    Err(BatchRefused {
        may_be_sent_again,
        why: status.to_string(),
    })
}

/// The rejected spans of an accepted batch. A 64-bit integer of JSON is a string, and some collectors write a number.
fn rejected(answer: &[u8]) -> Option<u64> {
    let answer: serde_json::Value = serde_json::from_slice(answer).ok()?;
    let rejected = &answer["partialSuccess"]["rejectedSpans"];
    let text = rejected.as_str().and_then(|text| text.parse().ok());
    text.or_else(|| rejected.as_u64())
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "collector at {}", self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As where a configuration is refused: in a task of the node.
    #[tokio::test]
    async fn a_collector_may_be_dropped_by_a_task() {
        drop(Collector::new("http://a.example").expect("a runtime"));
    }

    #[test]
    fn an_answer_says_what_was_taken() {
        let of = |status: u16, answer: &str| {
            let status = StatusCode::from_u16(status).expect("a status");
            taken(status, answer.as_bytes())
                .map(|taken| taken.rejected)
                .map_err(|refused| refused.may_be_sent_again)
        };
        assert_eq!(of(200, "{}"), Ok(0));
        assert_eq!(of(200, "not JSON"), Ok(0));
        let partial = |count: &str| format!(r#"{{"partialSuccess":{{"rejectedSpans":{count}}}}}"#);
        assert_eq!(of(200, &partial("\"7\"")), Ok(7));
        assert_eq!(of(202, &partial("7")), Ok(7));
        assert_eq!(of(400, "{}"), Err(false));
        assert_eq!(of(500, "{}"), Err(false));
        for again in [429, 502, 503, 504] {
            assert_eq!(of(again, ""), Err(true));
        }
    }

    #[test]
    fn traces_go_below_the_path_of_the_url() {
        let path = |url: &str| Collector::new(url).expect("a runtime").path.clone();
        assert_eq!(path("http://127.0.0.1:4318"), "/v1/traces");
        assert_eq!(path("http://127.0.0.1:4318/"), "/v1/traces");
        assert_eq!(path("https://otlp.example/a/"), "/a/v1/traces");
    }
}
