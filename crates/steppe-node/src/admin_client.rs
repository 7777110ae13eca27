//! A client of a node's admin server, for commands of the command line.
//!
//! Invariant: an answer is awaited for [`SILENCE`] at most. Spec: RFC 9112, by hyper.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use axum::body::Body;
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::admin::limits::TOKEN_BYTES_MAX;
use crate::admin::trust;

/// Time without a byte after which the node counts as gone.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);
/// Bytes of a refusal's answer that are read, at most.
const REFUSAL_BYTES_MAX: usize = 4 << 10;
/// Bytes of an answer that is read whole, at most.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The address of an admin server, and the credentials for it.
#[derive(Clone)]
pub(crate) struct Target {
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
    /// Reads an address of the command line, the CA certificates if it begins with https, and the
    /// token.
    pub(crate) fn new(
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

    /// The address in the form of the command line.
    pub(crate) fn shown(&self) -> String {
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
    let (host, _) = authority
        .rsplit_once(':')
        .context("the address has no port")?;
    let name =
        trust::name(host).with_context(|| format!("https://{authority}: not a valid host name"))?;
    let config = trust::by_authority(ca).with_context(|| format!("https://{authority}"))?;
    Ok((config.into(), name))
}

fn read_token(file: &Path) -> anyhow::Result<String> {
    let name = || format!("--token-file: {}", file.display());
    let bytes = std::fs::metadata(file).with_context(name)?.len();
    ensure!(
        bytes <= TOKEN_BYTES_MAX,
        "{}: {bytes} bytes, at most {TOKEN_BYTES_MAX} are allowed",
        name()
    );
    let text = std::fs::read_to_string(file).with_context(name)?;
    Ok(text.trim().to_owned())
}

/// An answer with status 200; its connection ends with it.
pub(crate) struct Answer {
    pub(crate) body: Body,
    /// The field `Content-Type`, empty if there is none.
    pub(crate) content_type: String,
    connection: JoinHandle<hyper::Result<()>>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Target {
    /// Sends a request for a path.
    ///
    /// # Errors
    /// The connection failed, or the answer has another status than 200.
    pub(crate) async fn ask(&self, method: Method, path: &str) -> anyhow::Result<Answer> {
        match &self.place {
            Place::Tcp(authority) => {
                let stream = timeout(SILENCE, TcpStream::connect(authority)).await;
                let stream = stream.context("connection timed out")??;
                let Some((connector, name)) = &self.tls else {
                    return self.ask_on(stream, authority, (method, path)).await;
                };
                let session = timeout(SILENCE, connector.connect(name.clone(), stream)).await;
                let session = session.context("TLS handshake timed out")?.context("TLS")?;
                self.ask_on(session, authority, (method, path)).await
            }
            Place::Unix(socket) => {
                let stream = UnixStream::connect(socket).await?;
                self.ask_on(stream, "localhost", (method, path)).await
            }
        }
    }

    async fn ask_on(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        host: &str,
        (method, path): (Method, &str),
    ) -> anyhow::Result<Answer> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path);
        request = request.header("host", host);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Body::empty()).context("the request")?;
        let response = timeout(SILENCE, sender.send_request(request)).await;
        let response = response.context("no response in time")??;
        let status = response.status();
        let content_type = response.headers().get("content-type");
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        let body = Body::new(response.into_body());
        let answer = Answer {
            body,
            content_type,
            connection,
        };
        match status {
            StatusCode::OK => Ok(answer),
            _ => Err(refused(status, answer).await),
        }
    }

    /// Sends a request for a path, and reads the answer whole.
    ///
    /// # Errors
    /// As [`Self::ask`], and an answer of more than 1 MiB.
    pub(crate) fn ask_for_text(&self, method: Method, path: &str) -> anyhow::Result<String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let bytes = runtime.block_on(async {
            let mut answer = self.ask(method, path).await?;
            let body = std::mem::take(&mut answer.body);
            let bytes = timeout(SILENCE, axum::body::to_bytes(body, ANSWER_BYTES_MAX)).await;
            anyhow::Ok(bytes.context("no response in time")??)
        });
        let bytes = bytes.with_context(|| format!("no response from {}", self.shown()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

async fn refused(status: StatusCode, mut answer: Answer) -> anyhow::Error {
    let body = std::mem::take(&mut answer.body);
    let body = axum::body::to_bytes(body, REFUSAL_BYTES_MAX).await;
    let why = body.map(|body| String::from_utf8_lossy(&body).trim().to_owned());
    let help = match status {
        StatusCode::UNAUTHORIZED => ": give it with --token-file",
        _ => "",
    };
    anyhow!("{status}: {}{help}", why.unwrap_or_default())
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
}
