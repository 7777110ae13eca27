//! `steppe-bench floor-h2-proxy`: a minimal proxy from HTTP/2 to HTTP/1.1 on the crates `h2` and
//! rustls.
//!
//! The floor has the cost of these two on one thread of tokio: a task and a buffer a request, kept-alive
//! connections to the origin. An idle connection has the memory that they need for it.
//!
//! Non-goals: those of the floor of HTTP/1.1, whose `Message` reads the origin's responses.

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use clap::Args;
use h2::server::{self, SendResponse};
use h2::{RecvStream, SendStream};
use http::{Request, Response, StatusCode, request};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::{BUFFER_BYTES, Message, connect};

/// Options of `steppe-bench floor-h2-proxy`: its addresses and its certificate.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Address to listen on without TLS
    #[arg(long)]
    pub(super) listen: SocketAddr,
    /// Address to listen on with TLS
    #[arg(long)]
    pub(super) listen_tls: SocketAddr,
    /// Certificate, PEM
    #[arg(long)]
    cert: PathBuf,
    /// Key of the certificate, PEM
    #[arg(long)]
    key: PathBuf,
    /// Address to forward to
    #[arg(long)]
    pub(super) upstream: SocketAddr,
}

/// Idle connections to the origin: as many as the other proxies keep with HTTP/2.
const IDLE_MAX: usize = 4_096;
/// Flow-control window of a stream and of a connection.
const WINDOW_BYTES: u32 = 1 << 20;
/// Requests at once on one connection.
const STREAMS_MAX: u32 = 128;

thread_local! {
    static IDLE: RefCell<Vec<TcpStream>> = const { RefCell::new(Vec::new()) };
}

/// Forwards until the process is stopped.
///
/// # Errors
/// When an address can't be listened on, or the certificate can't be used.
pub async fn run(options: &Options) -> Result<bool> {
    let upstream = options.upstream;
    let acceptor = acceptor(options)?;
    let clear = listen(options.listen).await?;
    let with_tls = listen(options.listen_tls).await?;
    loop {
        // A peer that leaves, or sends what this proxy does not know, ends its connection.
        tokio::select! {
            accepted = clear.accept() => {
                let (client, address) = accepted.context("cannot accept")?;
                client.set_nodelay(true)?;
                tokio::spawn(async move { serve(client, address.ip(), upstream).await });
            }
            accepted = with_tls.accept() => {
                let (client, address) = accepted.context("cannot accept")?;
                client.set_nodelay(true)?;
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    serve(acceptor.accept(client).await?, address.ip(), upstream).await
                });
            }
        }
    }
}

pub(super) async fn listen(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("cannot listen on {address}"))
}

pub(super) fn acceptor(options: &Options) -> Result<TlsAcceptor> {
    let chain = vec![CertificateDer::from_pem_file(&options.cert)?];
    let key = PrivateKeyDer::from_pem_file(&options.key)?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let mut config = ServerConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves the requests of a connection, each in a task of its own.
async fn serve<T>(client: T, address: IpAddr, upstream: SocketAddr) -> Result<()>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut connection = server::Builder::new()
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_MAX)
        .handshake(client)
        .await?;
    while let Some(request) = connection.accept().await {
        let (request, respond) = request?;
        tokio::spawn(exchange(request, respond, address, upstream));
    }
    Ok(())
}

async fn exchange(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    client: IpAddr,
    address: SocketAddr,
) -> Result<()> {
    let (head, mut content) = request.into_parts();
    let mut upstream = match IDLE.with_borrow_mut(Vec::pop) {
        Some(idle) => idle,
        None => connect(address).await?,
    };
    upstream.write_all(&encoded(&head, client)).await?;
    while let Some(part) = content.data().await {
        let part = part?;
        upstream.write_all(&part).await?;
        content.flow_control().release_capacity(part.len())?;
    }
    let mut buffer = vec![0; BUFFER_BYTES];
    let message = Message::read(&mut upstream, &mut buffer).await?;
    let message = message.context("the origin left")?;
    let response = decoded(&buffer[..message.head_bytes])?;
    let mut stream = respond.send_response(response, false)?;
    let mut remaining = message.remaining;
    buffer.truncate(message.filled_bytes);
    let came = Bytes::from(buffer).slice(message.head_bytes..);
    send(&mut stream, came, remaining == 0).await?;
    while remaining > 0 {
        let mut buffer = vec![0; BUFFER_BYTES.min(remaining)];
        let count = upstream.read(&mut buffer).await?;
        anyhow::ensure!(count > 0, "the origin left");
        buffer.truncate(count);
        remaining -= count;
        send(&mut stream, buffer.into(), remaining == 0).await?;
    }
    IDLE.with_borrow_mut(|idle| {
        if idle.len() < IDLE_MAX {
            idle.push(upstream);
        }
    });
    Ok(())
}

/// Encodes a request head in HTTP/1.1 for the origin.
fn encoded(head: &request::Parts, client: IpAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(512);
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let host = head.uri.authority().map_or("", |host| host.as_str());
    for text in [head.method.as_str(), " ", path, " HTTP/1.1\r\nhost: ", host] {
        bytes.extend_from_slice(text.as_bytes());
    }
    for (name, value) in &head.headers {
        let line: [&[u8]; 4] = [b"\r\n", name.as_ref(), b": ", value.as_bytes()];
        line.into_iter()
            .for_each(|part| bytes.extend_from_slice(part));
    }
    bytes.extend_from_slice(format!("\r\nx-forwarded-for: {client}\r\n\r\n").as_bytes());
    bytes
}

/// Parses the origin's response head, without its `Connection` field.
fn decoded(head: &[u8]) -> Result<Response<()>> {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut parsed = httparse::Response::new(&mut fields);
    parsed.parse(head)?;
    let status = parsed.code.context("a response without a status")?;
    let mut response = Response::builder().status(StatusCode::from_u16(status)?);
    for field in parsed.headers.iter() {
        if !field.name.eq_ignore_ascii_case("connection") {
            response = response.header(field.name, field.value);
        }
    }
    Ok(response.body(())?)
}

/// Sends `content` in parts that the client's flow-control windows allow.
#[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
pub(super) async fn send(
    stream: &mut SendStream<Bytes>,
    mut content: Bytes,
    is_last: bool,
) -> Result<()> {
    loop {
        stream.reserve_capacity(content.len());
        if stream.capacity() == 0 && !content.is_empty() {
            let granted = poll_fn(|context| stream.poll_capacity(context)).await;
            granted.ok_or_else(|| anyhow!("the client has left"))??;
        }
        let part = content.split_to(stream.capacity().min(content.len()));
        stream.send_data(part, is_last && content.is_empty())?;
        if content.is_empty() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::h2::{Decoder, exchange as ask, get};

    const LENGTH: usize = 100_000;

    /// Answers every request with so many bytes.
    async fn origin() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("is free");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut buffer = vec![0; BUFFER_BYTES];
                    while let Some(message) = Message::read(&mut stream, &mut buffer).await? {
                        let head = String::from_utf8_lossy(&buffer[..message.head_bytes]);
                        assert!(head.starts_with("GET /x HTTP/1.1\r\nhost: a\r\n"), "{head}");
                        assert!(
                            head.ends_with("x-forwarded-for: 127.0.0.1\r\n\r\n"),
                            "{head}"
                        );
                        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LENGTH}\r\n\r\n");
                        stream.write_all(head.as_bytes()).await?;
                        stream.write_all(&vec![b'.'; LENGTH]).await?;
                    }
                    std::io::Result::Ok(())
                });
            }
        });
        address
    }

    #[tokio::test]
    async fn a_request_of_http2_is_answered_by_an_origin_of_http1() {
        let upstream = origin().await;
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).await;
        let listener = listener.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(async move {
            let (client, peer) = listener.accept().await.expect("somebody comes");
            serve(client, peer.ip(), upstream).await
        });
        let mut client = TcpStream::connect(address).await.expect("it listens");
        let request = get("http", "a", "/x");
        let mut decoder = Decoder::default();
        let received = ask(&mut client, &request, &mut decoder).await;
        assert_eq!(received.expect("it is answered"), LENGTH);
    }
}
