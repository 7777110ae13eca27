//! Fetches lists of domains by http and https.
//!
//! Invariant: what comes is bounded in bytes and time whatever the server sends, and goes to a disk a piece
//! at a time. Specs: RFC 9110 §13 (conditions), §15.4 (redirections), by hyper. Left out: content codings,
//! proxies and authentication.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use axum::body::Body;
use futures_util::StreamExt;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderName};
use hyper::{Request as HttpRequest, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use steppe_dns::fetch::{Fetch, Fetched, Request, Validators};
use steppe_net::LocalFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::admin::trust;

/// Fetches lists.
#[derive(Debug, Default)]
pub struct ListClient;

/// A list of tens of MiB over a slow line; a server that sends a byte a second is given up.
const TIME_MAX: Duration = Duration::from_secs(300);
/// Between two pieces, and for a connection, a session and a head.
const SILENCE: Duration = Duration::from_secs(30);
/// Lists are moved once or twice.
const REDIRECTIONS_MAX: usize = 5;
/// Written to the disk at once.
const PIECE_BYTES: usize = 256 << 10;
/// Of a validator: they come back to the server, and are kept in a file.
const VALIDATOR_BYTES_MAX: usize = 256;

impl Fetch for ListClient {
    fn fetch(&self, request: Request) -> LocalFuture<Result<Fetched, String>> {
        Box::pin(async move {
            let fetched = timeout(TIME_MAX, fetch(&request)).await;
            let fetched = fetched.unwrap_or_else(|_| Err(anyhow!("not all of it came in time")));
            fetched.map_err(|error| format!("{error:#}"))
        })
    }
}

async fn fetch(request: &Request) -> anyhow::Result<Fetched> {
    let mut url: Uri = request.url.parse()?;
    for _ in 0..=REDIRECTIONS_MAX {
        let response = ask(&url, &request.validators).await;
        let response = response.with_context(|| host(&url).to_owned())?;
        match response.status() {
            StatusCode::OK => {
                let validators = validators(&response);
                save(response, request).await?;
                return Ok(Fetched::New(validators));
            }
            StatusCode::NOT_MODIFIED => return Ok(Fetched::Unchanged),
            StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT => url = redirected(&url, &response)?,
            status => bail!("{}: {status}", host(&url)),
        }
    }
    bail!("more than {REDIRECTIONS_MAX} redirections")
}

/// Who a URL leads to, for people; what else stands in it may be a secret.
fn host(url: &Uri) -> &str {
    url.host().unwrap_or("nobody")
}

/// Where a redirection leads to: elsewhere, or to another path of the same server.
fn redirected(from: &Uri, response: &Response<Body>) -> anyhow::Result<Uri> {
    let location = text(response, header::LOCATION).context("a redirection to nowhere")?;
    let target = match location.starts_with('/') && !location.starts_with("//") {
        true => {
            let authority = from.authority().context("no host")?;
            format!(
                "{}://{authority}{location}",
                from.scheme_str().unwrap_or("https")
            )
        }
        false => location,
    };
    let target: Uri = target.parse().context("a redirection to what is no URL")?;
    let is_downgrade = from.scheme_str() == Some("https") && target.scheme_str() != Some("https");
    ensure!(
        !is_downgrade,
        "a redirection from https to {}",
        host(&target)
    );
    Ok(target)
}

async fn ask(url: &Uri, validators: &Validators) -> anyhow::Result<Response<Body>> {
    let host = url.host().context("no host")?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_tls = match url.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => bail!("neither http nor https"),
    };
    let port = url.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let stream = timeout(SILENCE, TcpStream::connect((bare, port))).await;
    let stream = stream.context("no connection in time")??;
    if !is_tls {
        return ask_on(stream, url, validators).await;
    }
    let name = trust::name(host).context("not a name that a certificate has")?;
    // Read each time: authorities of the system change while the node runs.
    let config = spawn_blocking(|| trust::by_authority(None)).await??;
    let session = TlsConnector::from(config).connect(name, stream);
    let session = timeout(SILENCE, session).await.context("no TLS in time")?;
    ask_on(session.context("TLS")?, url, validators).await
}

async fn ask_on(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    url: &Uri,
    validators: &Validators,
) -> anyhow::Result<Response<Body>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the response that comes on it.
    tokio::spawn(connection);
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let mut request = HttpRequest::builder()
        .uri(path)
        .header(header::HOST, url.authority().context("no host")?.as_str())
        .header(
            header::USER_AGENT,
            concat!("steppe/", env!("CARGO_PKG_VERSION")),
        )
        .header(header::ACCEPT_ENCODING, "identity")
        .header(header::CONNECTION, "close");
    if let Some(etag) = &validators.etag {
        request = request.header(header::IF_NONE_MATCH, etag);
    }
    if let Some(time) = &validators.last_modified {
        request = request.header(header::IF_MODIFIED_SINCE, time);
    }
    let request = request.body(Body::empty())?;
    let response = timeout(SILENCE, sender.send_request(request)).await;
    Ok(response.context("no answer in time")??.map(Body::new))
}

fn text(response: &Response<Body>, name: HeaderName) -> Option<String> {
    let value = response.headers().get(name)?.to_str().ok()?;
    Some(value.to_owned())
}

/// A value of a field has no line's end.
fn validators(response: &Response<Body>) -> Validators {
    let short = |name| text(response, name).filter(|value| value.len() <= VALIDATOR_BYTES_MAX);
    Validators {
        etag: short(header::ETAG),
        last_modified: short(header::LAST_MODIFIED),
    }
}

/// Writes what comes into the file.
async fn save(response: Response<Body>, request: &Request) -> anyhow::Result<()> {
    let coding = text(&response, header::CONTENT_ENCODING);
    let is_plain = coding
        .as_deref()
        .is_none_or(|coding| coding.eq_ignore_ascii_case("identity"));
    ensure!(is_plain, "a content coding that was not asked for");
    let mut pieces = response.into_body().into_data_stream();
    let mut file = create(request.file.clone()).await?;
    let (mut piece, mut written) = (Vec::with_capacity(PIECE_BYTES), 0);
    loop {
        let next = timeout(SILENCE, pieces.next()).await;
        let Some(bytes) = next.context("nothing came for too long")? else {
            break;
        };
        piece.extend_from_slice(&bytes.context("it was cut off")?);
        if piece.len() >= PIECE_BYTES {
            written += piece.len() as u64;
            ensure!(
                written <= request.bytes_max,
                "more than {} bytes",
                request.bytes_max
            );
            (file, piece) = write(file, piece).await?;
        }
    }
    written += piece.len() as u64;
    ensure!(
        written <= request.bytes_max,
        "more than {} bytes",
        request.bytes_max
    );
    let (file, _) = write(file, piece).await?;
    spawn_blocking(move || file.sync_all()).await??;
    Ok(())
}

async fn create(path: PathBuf) -> anyhow::Result<File> {
    let created =
        spawn_blocking(move || File::create(&path).with_context(|| path.display().to_string()));
    created.await?
}

/// Writes a piece, and gives its memory back.
async fn write(mut file: File, mut piece: Vec<u8>) -> anyhow::Result<(File, Vec<u8>)> {
    let written = spawn_blocking(move || {
        file.write_all(&piece)?;
        piece.clear();
        std::io::Result::Ok((file, piece))
    });
    Ok(written.await??)
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
