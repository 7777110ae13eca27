//! Fetches lists of domains by http and https.
//!
//! Invariant: a response is bounded in bytes and time whatever the server sends, and is written to disk a piece at a
//! time. Specs: RFC 9110 §13 (conditions), §15.4 (redirections), by hyper. Left out: content codings, proxies and
//! authentication.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use axum::body::Body;
use futures_util::StreamExt;
use hyper::header;
use hyper::{Response, StatusCode, Uri};
use steppe_dns::fetch::{Fetch, Fetched, Request, Validators};
use steppe_net::LocalFuture;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::web_client::{Asks, SILENCE, ask, ensure_plain, host, is_redirection, redirected, text};

/// Fetches lists.
#[derive(Debug, Default)]
pub struct ListClient;

/// Time for a download: enough for tens of MiB over a slow line, and an end to a server that sends a byte a second.
const TIME_MAX: Duration = Duration::from_secs(300);
/// Redirects to follow: lists are moved once or twice.
const REDIRECTIONS_MAX: usize = 5;
/// Bytes that are written to the disk at once.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes of a validator: validators are sent back to the server, and kept in a file.
const VALIDATOR_BYTES_MAX: usize = 256;

impl Fetch for ListClient {
    fn fetch(&self, request: Request) -> LocalFuture<Result<Fetched, String>> {
        Box::pin(async move {
            let fetched = timeout(TIME_MAX, fetch(&request)).await;
            let fetched = fetched.unwrap_or_else(|_| Err(anyhow!("download timed out")));
            fetched.map_err(|error| format!("{error:#}"))
        })
    }
}

async fn fetch(request: &Request) -> anyhow::Result<Fetched> {
    let mut url: Uri = request.url.parse()?;
    for _ in 0..=REDIRECTIONS_MAX {
        let Validators {
            etag,
            last_modified,
        } = &request.validators;
        let conditions = [
            (header::IF_NONE_MATCH, etag),
            (header::IF_MODIFIED_SINCE, last_modified),
        ];
        let conditions = conditions.into_iter();
        let fields = conditions.filter_map(|(name, value)| Some((name, value.as_deref()?)));
        let asks = Asks {
            fields: &fields.collect::<Vec<_>>(),
            ca: None,
        };
        let response = ask(&url, &asks).await;
        let response = response.with_context(|| host(&url).to_owned())?;
        match response.status() {
            StatusCode::OK => {
                let validators = validators(&response);
                save(response, request).await?;
                return Ok(Fetched::New(validators));
            }
            StatusCode::NOT_MODIFIED => return Ok(Fetched::Unchanged),
            status if is_redirection(status) => url = redirected(&url, &response)?,
            status => bail!("{}: {status}", host(&url)),
        }
    }
    bail!("more than {REDIRECTIONS_MAX} redirects")
}

/// The validators of a response. Values of fields have no line breaks.
fn validators(response: &Response<Body>) -> Validators {
    let short = |name| text(response, name).filter(|value| value.len() <= VALIDATOR_BYTES_MAX);
    Validators {
        etag: short(header::ETAG),
        last_modified: short(header::LAST_MODIFIED),
    }
}

/// Writes the content of a response to the file.
async fn save(response: Response<Body>, request: &Request) -> anyhow::Result<()> {
    ensure_plain(&response)?;
    let mut pieces = response.into_body().into_data_stream();
    let mut file = create(request.file.clone()).await?;
    let (mut piece, mut written) = (Vec::with_capacity(PIECE_BYTES), 0);
    loop {
        let next = timeout(SILENCE, pieces.next()).await;
        let Some(bytes) = next.context("no content received for too long")? else {
            break;
        };
        piece.extend_from_slice(&bytes.context("the connection ended before the content")?);
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

/// Writes a piece, and returns its memory.
async fn write(mut file: File, mut piece: Vec<u8>) -> anyhow::Result<(File, Vec<u8>)> {
    let written = spawn_blocking(move || {
        file.write_all(&piece)?;
        piece.clear();
        std::io::Result::Ok((file, piece))
    });
    Ok(written.await??)
}
