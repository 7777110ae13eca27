//! Fetches the key sets that tokens are verified with, by http and https.
//!
//! Invariant: a response is bounded in bytes and time whatever the server sends, and comes from the host that the
//! configuration names: an attacker that could redirect the node elsewhere would choose the trusted keys.

use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use futures_util::StreamExt;
use hyper::header;
use hyper::{StatusCode, Uri};
use steppe_http::config::JwksUrl;
use steppe_http::filter::FetchKeys;
use steppe_net::LocalFuture;
use tokio::time::timeout;

use crate::web_client::{Asks, ask, ensure_plain, host, is_redirection, redirected};

/// Fetches sets of keys.
#[derive(Debug, Default)]
pub struct KeyClient;

/// Time for a fetch: requests wait for it, no longer than they would for a server.
const TIME_MAX: Duration = Duration::from_secs(10);
/// Redirects to follow: issuers move a set within their host, if ever.
const REDIRECTIONS_MAX: usize = 3;

impl FetchKeys for KeyClient {
    fn fetch(&self, source: &JwksUrl, bytes_max: usize) -> LocalFuture<Result<Vec<u8>, String>> {
        let source = source.clone();
        Box::pin(async move {
            let fetched = timeout(TIME_MAX, fetch(&source, bytes_max)).await;
            let fetched = fetched.unwrap_or_else(|_| Err(anyhow!("download timed out")));
            fetched.map_err(|error| format!("{error:#}"))
        })
    }
}

async fn fetch(source: &JwksUrl, bytes_max: usize) -> anyhow::Result<Vec<u8>> {
    let mut url: Uri = source.url.parse()?;
    let asks = Asks {
        fields: &[(header::ACCEPT, "application/jwk-set+json, application/json")],
        ca: source.ca.as_deref(),
    };
    for _ in 0..=REDIRECTIONS_MAX {
        let response = ask(&url, &asks).await;
        let response = response.with_context(|| host(&url).to_owned())?;
        match response.status() {
            StatusCode::OK => {
                ensure_plain(&response)?;
                return read(response.into_body(), bytes_max).await;
            }
            status if is_redirection(status) => {
                let target = redirected(&url, &response)?;
                let is_same = target.authority() == url.authority();
                ensure!(
                    is_same && target.scheme() == url.scheme(),
                    "redirect from {} to another server, {}",
                    host(&url),
                    host(&target)
                );
                url = target;
            }
            status => bail!("{}: {status}", host(&url)),
        }
    }
    bail!("more than {REDIRECTIONS_MAX} redirects")
}

async fn read(content: axum::body::Body, bytes_max: usize) -> anyhow::Result<Vec<u8>> {
    let mut pieces = content.into_data_stream();
    let mut text = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.context("the connection ended before the content")?;
        ensure!(
            text.len() + piece.len() <= bytes_max,
            "more than {bytes_max} bytes"
        );
        text.extend_from_slice(&piece);
    }
    Ok(text)
}
