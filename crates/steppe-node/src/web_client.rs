//! A client for GET requests over http and https: for lists of domains, and key sets.
//!
//! Specs: RFC 9110 §15.4 (redirections), by hyper. Left out: content codings, proxies and authentication.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use axum::body::Body;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderName};
use hyper::{Request as HttpRequest, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::admin::trust;

/// Time between two pieces, and for a connection, a TLS handshake and a head.
pub(crate) const SILENCE: Duration = Duration::from_secs(30);

/// The settings of a request.
#[derive(Debug, Default)]
pub(crate) struct Asks<'a> {
    /// Further fields of the request.
    pub(crate) fields: &'a [(HeaderName, &'a str)],
    /// CA certificates for the server, PEM. `None`: those of the system.
    pub(crate) ca: Option<&'a Path>,
}

/// The host of a URL, for messages; its other parts may be secret.
pub(crate) fn host(url: &Uri) -> &str {
    url.host().unwrap_or("(no host)")
}

/// The target of a redirection: another URL, or another path of the same server.
pub(crate) fn redirected(from: &Uri, response: &Response<Body>) -> anyhow::Result<Uri> {
    let location =
        text(response, header::LOCATION).context("redirect without a `location` field")?;
    let target = match location.starts_with('/') && !location.starts_with("//") {
        true => {
            let authority = from.authority().context("the URL has no host")?;
            format!(
                "{}://{authority}{location}",
                from.scheme_str().unwrap_or("https")
            )
        }
        false => location,
    };
    let target: Uri = target.parse().context("redirect to an invalid URL")?;
    let is_downgrade = from.scheme_str() == Some("https") && target.scheme_str() != Some("https");
    ensure!(
        !is_downgrade,
        "redirect from https to another scheme on {}",
        host(&target)
    );
    Ok(target)
}

/// Sends a request, and returns the head of its answer, whose content follows.
pub(crate) async fn ask(url: &Uri, asks: &Asks<'_>) -> anyhow::Result<Response<Body>> {
    let host = url.host().context("the URL has no host")?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_tls = match url.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => bail!("the URL scheme is neither http nor https"),
    };
    let port = url.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let stream = timeout(SILENCE, TcpStream::connect((bare, port))).await;
    let stream = stream.context("connection timed out")??;
    if !is_tls {
        return ask_on(stream, url, asks).await;
    }
    let name = trust::name(host).context("not a host name that TLS can verify")?;
    // Read each time: authorities of the system change while the node runs.
    let ca = asks.ca.map(Path::to_owned);
    let config = spawn_blocking(move || trust::by_authority(ca.as_deref())).await??;
    let session = TlsConnector::from(config).connect(name, stream);
    let session = timeout(SILENCE, session)
        .await
        .context("TLS handshake timed out")?;
    ask_on(session.context("TLS")?, url, asks).await
}

async fn ask_on(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    url: &Uri,
    asks: &Asks<'_>,
) -> anyhow::Result<Response<Body>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The connection ends after its one response.
    tokio::spawn(connection);
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let mut request = HttpRequest::builder()
        .uri(path)
        .header(
            header::HOST,
            url.authority().context("the URL has no host")?.as_str(),
        )
        .header(
            header::USER_AGENT,
            concat!("steppe/", env!("CARGO_PKG_VERSION")),
        )
        .header(header::ACCEPT_ENCODING, "identity")
        .header(header::CONNECTION, "close");
    for (name, value) in asks.fields {
        request = request.header(name, *value);
    }
    let request = request.body(Body::empty())?;
    let response = timeout(SILENCE, sender.send_request(request)).await;
    Ok(response.context("no response in time")??.map(Body::new))
}

/// A field's value, if it is text.
pub(crate) fn text(response: &Response<Body>, name: HeaderName) -> Option<String> {
    let value = response.headers().get(name)?.to_str().ok()?;
    Some(value.to_owned())
}

/// Refuses content with a content coding.
pub(crate) fn ensure_plain(response: &Response<Body>) -> anyhow::Result<()> {
    let coding = text(response, header::CONTENT_ENCODING);
    let is_plain = coding
        .as_deref()
        .is_none_or(|coding| coding.eq_ignore_ascii_case("identity"));
    ensure!(is_plain, "unexpected content coding");
    Ok(())
}

/// True for a status of redirection.
pub(crate) fn is_redirection(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirection_leads_elsewhere_and_never_away_from_https() {
        let lead = |from: &str, location: &str| {
            let response = Response::builder().header(header::LOCATION, location);
            let response = response.body(Body::empty()).expect("a response");
            redirected(&from.parse().expect("a URL"), &response).map(|uri| uri.to_string())
        };
        let from = "https://lists.example:8443/a/ads.txt";
        assert_eq!(
            lead(from, "/b.txt?x").expect("a path"),
            "https://lists.example:8443/b.txt?x"
        );
        assert_eq!(
            lead(from, "https://b.example/c").expect("a URL"),
            "https://b.example/c"
        );
        assert_eq!(
            lead("http://a.example/", "https://b.example/").expect("a URL"),
            "https://b.example/"
        );
        for wrong in [
            "http://lists.example/ads.txt",
            "ftp://b.example/",
            "ads.txt",
            "",
        ] {
            assert!(lead(from, wrong).is_err(), "{wrong}");
        }
    }
}
