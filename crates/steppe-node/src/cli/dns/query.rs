//! `steppe dns query`: one query to one server, over UDP, TCP, TLS or HTTPS.
//!
//! Invariant: the command ends within its timeout, and reads a message of 64 KiB at most. A message that does not
//! answer the query is not accepted. Left out: QUIC. Spec: RFC 1035, 7766, 7858, 8484.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use clap::Args;
use hickory_proto::op::{Edns, Message, MessageType, Query};
use hickory_proto::rr::{Name, RecordType};
use rustls::CertificateError;
use steppe_dns::https_client::Target;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::by_https;
use super::server::{By, Server};
use super::shown::shown;
use crate::admin::trust;
use crate::cli::cert::reason;
use crate::cli::code::Code;
use crate::cli::console::{print, say};

#[derive(Debug, Args)]
pub(super) struct Options {
    /// The query name
    name: steppe_dns::wire::Name,
    /// The query type, such as AAAA or TYPE65, and @SERVER: an address, or tcp://, tls:// or https:// before it
    #[arg(value_name = "[TYPE] @SERVER", num_args = 0..=2)]
    rest: Vec<String>,
    /// Requests DNSSEC records (DNSSEC OK)
    #[arg(long)]
    dnssec: bool,
    /// File with CA certificates (PEM) for the server, instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

pub(super) const HELP: &str = "\
Examples:
  steppe dns query example.org @127.0.0.1:5300
  steppe dns query example.org AAAA @tcp://9.9.9.9
  steppe dns query example.org MX @tls://dns.quad9.net --dnssec
  steppe dns query example.org HTTPS @https://dns.quad9.net/dns-query
  steppe dns query example.org @tls://resolver.example@127.0.0.1:8853 --ca ca.crt

Without @SERVER, 127.0.0.1 is queried. After a truncated response over UDP, the query is repeated
over TCP.
Exit codes: 0 if a server responded, with any response code; 5 if no server responded.";

/// Time for a server to answer, for each attempt.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Times that a datagram is sent.
const DATAGRAMS_MAX: u32 = 3;

/// Bytes of a message on a stream, at most. RFC 1035 §4.2.2.
const MESSAGE_BYTES_MAX: usize = 65_535;

/// The UDP payload size of EDNS: RFC 9715 §3.1.
const UDP_PAYLOAD: u16 = 1232;

pub(super) fn run(options: &Options) -> ExitCode {
    let (rtype, server) = match rest(&options.rest) {
        Ok(rest) => rest,
        Err(why) => {
            say(&format!("steppe: {why}\n"));
            return Code::Usage.into();
        }
    };
    match ask(options, rtype, &server) {
        Ok(text) => print(&text),
        Err(error) => {
            say(&format!("steppe: {server}: {error:#}\n"));
            Code::NoAnswer.into()
        }
    }
}

/// Parses type and server, in any order.
fn rest(rest: &[String]) -> Result<(RecordType, Server), String> {
    let (mut rtype, mut server) = (None, None);
    for word in rest {
        let is_first = match word.strip_prefix('@') {
            Some(text) => server.replace(text.parse()?).is_none(),
            None => rtype.replace(self::rtype(word)?).is_none(),
        };
        if !is_first {
            return Err(format!(
                "`{word}`: only one type and one server are allowed"
            ));
        }
    }
    let local = || "127.0.0.1".parse().expect("a server");
    Ok((rtype.unwrap_or(RecordType::A), server.unwrap_or_else(local)))
}

fn rtype(word: &str) -> Result<RecordType, String> {
    let upper = word.to_ascii_uppercase();
    let number = upper
        .strip_prefix("TYPE")
        .and_then(|it| it.parse::<u16>().ok());
    match number {
        Some(number) => Ok(number.into()),
        None => upper
            .parse()
            .map_err(|_| format!("`{word}` is neither a type nor @SERVER")),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "what people are told that a server took"
)]
fn ask(options: &Options, rtype: RecordType, server: &Server) -> anyhow::Result<String> {
    let name = Name::from_labels(options.name.labels()).context("invalid query name")?;
    let mut query = Message::query();
    query.metadata.recursion_desired = true;
    query.add_query(Query::query(name, rtype));
    let mut edns = Edns::new();
    edns.set_max_payload(UDP_PAYLOAD);
    edns.set_dnssec_ok(options.dnssec);
    query.set_edns(edns);
    let start = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (response, server) = runtime.block_on(exchange(options, &query, server))?;
    Ok(shown(&response, &server, start.elapsed()))
}

/// The response, and the server that it came from: after a truncated response, by TCP.
async fn exchange(
    options: &Options,
    query: &Message,
    server: &Server,
) -> anyhow::Result<(Message, Server)> {
    let addresses = tokio::net::lookup_host((server.host.as_str(), server.port)).await;
    let address = addresses
        .context("cannot resolve the server's name")?
        .next();
    let address = address.context("the server's name has no address")?;
    let response = match server.by {
        By::Udp => {
            let response = by_udp(address, query).await?;
            if response.metadata.truncation {
                let by_tcp = Server {
                    by: By::Tcp,
                    ..server.clone()
                };
                return Box::pin(exchange(options, query, &by_tcp)).await;
            }
            response
        }
        By::Tcp => {
            let stream = connect(address).await?;
            in_time(on_stream(stream, query)).await?
        }
        By::Tls => {
            let stream = tls(options, server, address, b"dot").await?;
            in_time(on_stream(stream, query)).await?
        }
        By::Https => {
            let stream = tls(options, server, address, b"h2").await?;
            in_time(by_https(stream, query, server)).await?
        }
    };
    Ok((response, server.clone()))
}

async fn in_time<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    timeout(TIMEOUT, work)
        .await
        .context("no response in time")?
}

async fn by_udp(server: SocketAddr, query: &Message) -> anyhow::Result<Message> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => ([0; 4], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    let bytes = query.to_vec()?;
    let mut room = vec![0; MESSAGE_BYTES_MAX];
    for _ in 0..DATAGRAMS_MAX {
        socket.send(&bytes).await?;
        let response = async {
            loop {
                let len = socket.recv(&mut room).await?;
                // A message that does not answer the query may be forged: RFC 5452 §9.1.
                if let Ok(response) = accepted(&room[..len], query) {
                    return io::Result::Ok(response);
                }
            }
        };
        if let Ok(response) = timeout(TIMEOUT / DATAGRAMS_MAX, response).await {
            return Ok(response?);
        }
    }
    bail!("no response in time")
}

async fn connect(server: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream = timeout(TIMEOUT, TcpStream::connect(server)).await;
    let stream = stream.context("connection timed out")??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn tls(
    options: &Options,
    server: &Server,
    address: SocketAddr,
    protocol: &[u8],
) -> anyhow::Result<TlsStream<TcpStream>> {
    let name = trust::name(&server.name);
    let name = name.with_context(|| format!("{}: not a name that TLS can verify", server.name))?;
    let mut config = (*trust::by_authority(options.ca.as_deref())?).clone();
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = connect(address).await?;
    let connector = TlsConnector::from(Arc::new(config));
    let session = timeout(TIMEOUT, connector.connect(name, stream)).await;
    let session = session.context("TLS handshake timed out")?;
    session.map_err(|error| no_session(error, server))
}

/// The reason why the TLS handshake failed; for a certificate, with a way to trust it.
fn no_session(error: io::Error, server: &Server) -> anyhow::Error {
    let refused = (error.get_ref()).and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let why = match refused {
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "unknown issuer; trust its CA with --ca FILE".to_owned()
        }
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => format!(
            "it is not for {}; set the expected name with NAME@ADDRESS",
            server.name
        ),
        Some(refused @ rustls::Error::InvalidCertificate(_)) => reason(refused),
        _ => return anyhow::Error::new(error).context("TLS"),
    };
    anyhow!("the server's certificate is refused: {why}")
}

/// Exchanges a message on a stream, with its length before it. RFC 7766 §8.
async fn on_stream(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    query: &Message,
) -> anyhow::Result<Message> {
    let bytes = query.to_vec()?;
    let len = u16::try_from(bytes.len()).context("the query")?;
    stream
        .write_all(&[&len.to_be_bytes()[..], &bytes].concat())
        .await?;
    stream.flush().await?;
    let len = stream.read_u16().await.context("no response")?;
    let mut bytes = vec![0; len.into()];
    stream
        .read_exact(&mut bytes)
        .await
        .context("incomplete response")?;
    accepted(&bytes, query)
}

/// Exchanges a message by a POST over HTTP/2. RFC 8484 §4.1.
async fn by_https(
    stream: TlsStream<TcpStream>,
    query: &Message,
    server: &Server,
) -> anyhow::Result<Message> {
    let authority = match server.name == server.host {
        true => server.authority(),
        false => format!("{}:{}", server.name, server.port),
    };
    let target = Target::new(authority, server.path.clone()).context("the request")?;
    let bytes = by_https::exchange(stream, target, &query.to_vec()?).await?;
    accepted(&bytes, query)
}

/// Parses a message that must be a response to this query.
fn accepted(bytes: &[u8], query: &Message) -> anyhow::Result<Message> {
    let response = Message::from_vec(bytes).context("not a DNS message")?;
    let is_response = response.metadata.message_type == MessageType::Response
        && response.metadata.id == query.metadata.id
        // A server that could not read the question need not repeat it.
        && (response.queries == query.queries || response.queries.is_empty());
    ensure!(is_response, "response to another question");
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_and_server_come_in_any_order() {
        let words =
            |words: &[&str]| rest(&words.iter().map(|&it| it.to_owned()).collect::<Vec<_>>());
        for (given, rtype, server) in [
            (&["AAAA", "@::1"][..], RecordType::AAAA, "udp://[::1]:53"),
            (
                &["@tcp://1.1.1.1", "type65"],
                RecordType::HTTPS,
                "tcp://1.1.1.1:53",
            ),
            (&["mx"], RecordType::MX, "udp://127.0.0.1:53"),
            (&[], RecordType::A, "udp://127.0.0.1:53"),
        ] {
            let (found, asked) = words(given).expect("valid");
            assert_eq!((found, asked.to_string().as_str()), (rtype, server));
        }
        for wrong in [
            &["B"][..],
            &["A", "AAAA"],
            &["@1.1.1.1", "@::1"],
            &["@quic://a"],
        ] {
            words(wrong).expect_err("one of each");
        }
    }
}
