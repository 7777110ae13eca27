//! `/events`, read on a thread of its own.
//!
//! Invariant: an update waits in a queue of [`QUEUE`]; when the terminal hangs, reading stops.
//! Lost connections are made again, ever more slowly, until the command ends.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use axum::body::Body;
use futures_util::StreamExt;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::admin::limits::TOKEN_BYTES_MAX;
use crate::admin::trust;

/// Updates that wait to be shown.
const QUEUE: usize = 4;
/// Without an event for so long, the node counts as gone.
const SILENCE: Duration = Duration::from_secs(5);
const RETRY_MAX: Duration = Duration::from_secs(15);
/// An event beyond this is no node's.
const EVENT_BYTES_MAX: usize = 4 << 20;
/// Of an answer that is no stream of events.
const REFUSAL_BYTES_MAX: usize = 4 << 10;

/// What the feed tells.
#[derive(Debug)]
pub(super) enum Update {
    /// The past, sent once a connection.
    History(Value),
    /// The node now.
    Snapshot(Value),
    /// Nothing more comes until the connection is made again.
    Lost(String),
}

/// Where to read, and what to show there.
#[derive(Clone)]
pub(super) struct Target {
    place: Place,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    token: Option<String>,
}

#[derive(Debug, Clone)]
enum Place {
    /// `host:port`.
    Tcp(String),
    Unix(PathBuf),
}

impl Target {
    /// Reads an address as people write it, authorities where it begins with https, and the
    /// token.
    pub(super) fn new(
        admin: &str,
        ca: Option<&Path>,
        token_file: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let place = place(admin)?;
        let tls = match &place {
            Place::Tcp(authority) if admin.starts_with("https://") => Some(tls(authority, ca)?),
            _ => None,
        };
        ensure!(
            ca.is_none() || tls.is_some(),
            "{admin}: --ca needs an address that begins with https://"
        );
        Ok(Self {
            place,
            tls,
            token: token_file.map(read_token).transpose()?,
        })
    }

    fn shown(&self) -> String {
        match &self.place {
            Place::Tcp(authority) if self.tls.is_some() => format!("https://{authority}"),
            Place::Tcp(authority) => authority.clone(),
            Place::Unix(path) => format!("unix:{}", path.display()),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "admin at {}", self.shown())
    }
}

fn place(admin: &str) -> anyhow::Result<Place> {
    if let Some(path) = admin.strip_prefix("unix:") {
        return Ok(Place::Unix(path.into()));
    }
    let authority = admin
        .strip_prefix("https://")
        .or_else(|| admin.strip_prefix("http://"))
        .unwrap_or(admin);
    let authority = authority.trim_end_matches('/');
    let has_port = authority
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    ensure!(
        has_port && !authority.contains('/'),
        "{admin}: not an admin address: expected http://HOST:PORT, https://HOST:PORT or unix:PATH"
    );
    Ok(Place::Tcp(authority.to_owned()))
}

fn tls(authority: &str, ca: Option<&Path>) -> anyhow::Result<(TlsConnector, ServerName<'static>)> {
    let (host, _) = authority.rsplit_once(':').context("no port")?;
    let name = trust::name(host).with_context(|| format!("https://{authority}: no valid name"))?;
    let config = trust::by_authority(ca).with_context(|| format!("https://{authority}"))?;
    Ok((config.into(), name))
}

fn read_token(file: &Path) -> anyhow::Result<String> {
    let name = || format!("--token-file: {}", file.display());
    let bytes = std::fs::metadata(file).with_context(name)?.len();
    ensure!(
        bytes <= TOKEN_BYTES_MAX,
        "{}: {bytes} bytes are more than {TOKEN_BYTES_MAX}",
        name()
    );
    let text = std::fs::read_to_string(file).with_context(name)?;
    Ok(text.trim().to_owned())
}

/// A feed under way; its thread ends with the process, or once nobody takes updates.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) updates: Receiver<Update>,
    target: String,
}

impl Feed {
    pub(super) fn start(target: Target) -> Self {
        let (updates, taken) = sync_channel(QUEUE);
        let shown = target.shown();
        std::thread::spawn(move || read_for_ever(&target, &updates));
        Self {
            updates: taken,
            target: shown,
        }
    }

    /// History and snapshot of the first connection, as one update each.
    pub(super) fn first(&self) -> anyhow::Result<[Update; 2]> {
        let next = || {
            let update = self.updates.recv();
            match update.context("the thread that reads events ended")? {
                Update::Lost(why) => Err(anyhow!("no answer from {}: {why}", self.target)),
                update => Ok(update),
            }
        };
        Ok([next()?, next()?])
    }
}

fn read_for_ever(target: &Target, updates: &SyncSender<Update>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            // Whoever waits learns it; whoever left does not care.
            _ = updates.send(Update::Lost(error.to_string()));
            return;
        }
    };
    let mut wait = Duration::from_millis(500);
    loop {
        let outcome = runtime.block_on(read(target, updates));
        wait = match outcome {
            // Streams end by themselves after a while.
            Ok(()) => Duration::from_millis(200),
            Err(error) => {
                if updates.send(Update::Lost(format!("{error:#}"))).is_err() {
                    return;
                }
                (wait * 2).min(RETRY_MAX)
            }
        };
        std::thread::sleep(wait);
    }
}

/// One connection, until its stream ends.
async fn read(target: &Target, updates: &SyncSender<Update>) -> anyhow::Result<()> {
    match &target.place {
        Place::Tcp(authority) => {
            let stream = timeout(SILENCE, TcpStream::connect(authority)).await;
            let stream = stream.context("no connection in time")??;
            let Some((connector, name)) = &target.tls else {
                return read_from(stream, authority, target, updates).await;
            };
            let session = timeout(SILENCE, connector.connect(name.clone(), stream)).await;
            let session = session.context("no TLS in time")?.context("TLS")?;
            read_from(session, authority, target, updates).await
        }
        Place::Unix(path) => {
            let stream = UnixStream::connect(path).await?;
            read_from(stream, "localhost", target, updates).await
        }
    }
}

async fn read_from(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    host: &str,
    target: &Target,
    updates: &SyncSender<Update>,
) -> anyhow::Result<()> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let mut request = Request::get("/events").header("host", host);
    if let Some(token) = &target.token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Body::empty()).context("the request")?;
    let response = timeout(SILENCE, sender.send_request(request)).await;
    let response = response.context("no answer in time")??;
    let status = response.status();
    let body = Body::new(response.into_body());
    let outcome = match status {
        StatusCode::OK => read_events(body, updates).await,
        _ => Err(refused(status, body).await),
    };
    connection.abort();
    outcome
}

async fn refused(status: StatusCode, body: Body) -> anyhow::Error {
    let body = axum::body::to_bytes(body, REFUSAL_BYTES_MAX).await;
    let why = body.map(|body| String::from_utf8_lossy(&body).trim().to_owned());
    let help = match status {
        StatusCode::UNAUTHORIZED => ": give it with --token-file",
        _ => "",
    };
    anyhow!("{status}: {}{help}", why.unwrap_or_default())
}

async fn read_events(body: Body, updates: &SyncSender<Update>) -> anyhow::Result<()> {
    let mut parts = body.into_data_stream();
    let mut waiting = Vec::new();
    while let Some(part) = timeout(SILENCE, parts.next())
        .await
        .context("the node fell silent")?
    {
        waiting.extend_from_slice(&part?);
        ensure!(waiting.len() <= EVENT_BYTES_MAX, "an event without an end");
        while let Some(end) = waiting.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = waiting.drain(..end + 2).collect();
            let update = parse_event(&event)?;
            if updates.send(update).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn parse_event(event: &[u8]) -> anyhow::Result<Update> {
    let text = std::str::from_utf8(event).context("an event")?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let data = field("data: ").context("an event without data")?;
    let data = serde_json::from_str(data).context("an event")?;
    match field("event: ") {
        Some("history") => Ok(Update::History(data)),
        Some("snapshot") => Ok(Update::Snapshot(data)),
        other => bail!("an event of the unknown kind {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (given, want) in [
            ("http://127.0.0.1:9900", "127.0.0.1:9900"),
            ("http://[::1]:9900/", "[::1]:9900"),
            ("localhost:9900", "localhost:9900"),
            ("unix:/run/steppe.sock", "unix:/run/steppe.sock"),
        ] {
            let target = Target::new(given, None, None).expect(given);
            assert_eq!(target.shown(), want);
        }
        for wrong in [
            "https://a",
            "9900",
            "http://a",
            "http://a:1/memory",
            ":9900",
        ] {
            let refused = Target::new(wrong, None, None).expect_err(wrong);
            assert!(refused.to_string().starts_with(wrong), "{refused}");
        }
    }

    #[test]
    fn events_are_told_apart() {
        let snapshot = parse_event(b"event: snapshot\ndata: {\"a\":1}\n\n");
        assert!(matches!(snapshot, Ok(Update::Snapshot(data)) if data["a"] == 1));
        let history = parse_event(b"event: history\ndata: []\n\n");
        assert!(matches!(history, Ok(Update::History(_))));
        assert!(parse_event(b"event: other\ndata: 1\n\n").is_err());
        assert!(parse_event(b"event: snapshot\n\n").is_err());
    }
}
