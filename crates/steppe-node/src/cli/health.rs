//! `steppe health`: asks a running node whether it is ready, for containers and scripts.
//!
//! Invariant: the command ends within [`TIMEOUT`] and reads a bounded response, whatever the peer
//! sends. Non-goals: endpoints other than `/readyz`, which needs no token. Spec: RFC 9112.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use steppe_net::ListenAddress;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::code::Code;
use super::console::{complain, load, print, say};
use crate::admin::{State, trust};

/// Time for the whole exchange: less than the timeouts of container probes.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Bytes of an answer, at most: `/readyz` answers with a head of a few lines and a word.
const ANSWER_BYTES_MAX: u64 = 8 << 10;

#[derive(Debug, Args)]
pub(super) struct Health {
    /// Address of admin or of its probes: IP:PORT, unix:PATH, or https://HOST:PORT
    #[arg(long, value_name = "ADDRESS", value_parser = place, default_value = "127.0.0.1:9900")]
    admin: Place,
    /// File with CA certificates (PEM) for https, instead of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    ca: Option<PathBuf>,
    /// Configuration of the node, to take the address from
    #[arg(short, long = "config", value_name = "FILE", conflicts_with = "admin")]
    config: Option<PathBuf>,
}

/// An address in the syntax of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Plain(ListenAddress),
    /// `HOST:PORT`.
    Https(String),
}

/// The address to connect to, with TLS if needed.
#[derive(Debug)]
struct Probed {
    place: Place,
    address: ListenAddress,
    tls: Option<Tls>,
}

/// The configuration of TLS to admin.
#[derive(Debug)]
struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

pub(super) const HELP: &str = "\
Examples:
  steppe health
  steppe health --admin unix:/run/steppe/admin.sock
  steppe health --admin https://127.0.0.1:9900 --ca admin.crt
  steppe health -c /etc/steppe/steppe.toml

Exit codes: 0 if the node is ready; 1 if it starts, drains or does not respond.";

pub(super) fn run(options: Health) -> ExitCode {
    let probed = match options.config {
        Some(file) => configured(&file),
        None => given(options.admin, options.ca.as_deref()),
    };
    let probed = match probed {
        Ok(probed) => probed,
        Err(code) => return code.into(),
    };
    match ask(&probed) {
        Ok(answer) if answer.status == 200 && answer.word == State::Ready.as_str() => {
            print(&format!("{}\n", answer.word))
        }
        Ok(answer) if !answer.is_of_admin() => {
            say(&format!(
                "steppe: {probed}: not the admin server of a node: the response was {answer}\n  \
                 help: name the address of `admin.listen` or `admin.probes`\n"
            ));
            ExitCode::FAILURE
        }
        Ok(answer) => {
            say(&format!("steppe: {probed}: {answer}\n"));
            ExitCode::FAILURE
        }
        Err(error) => {
            say(&format!("steppe: {probed}: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

fn place(text: &str) -> Result<Place, String> {
    const FORMS: &str = "expected an IP address and a port, unix:PATH, or https://HOST:PORT";
    if let Some(authority) = text.strip_prefix("https://") {
        let authority = authority.trim_end_matches('/');
        let has_port = authority
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        let is_whole = has_port && !authority.contains('/');
        return match is_whole {
            true => Ok(Place::Https(authority.to_owned())),
            false => Err(FORMS.to_owned()),
        };
    }
    let text = match text.strip_prefix("http://") {
        Some(authority) => authority.trim_end_matches('/'),
        None => text,
    };
    let address = match text.strip_prefix("unix:") {
        Some(path) => ListenAddress::Unix(PathBuf::from(path)),
        None => ListenAddress::Tcp(text.parse().map_err(|_| FORMS.to_owned())?),
    };
    Ok(Place::Plain(address))
}

/// The address of the command line.
fn given(place: Place, ca: Option<&Path>) -> Result<Probed, Code> {
    let authority = match &place {
        Place::Https(authority) => authority.clone(),
        Place::Plain(address) => {
            let address = address.clone();
            return Ok(Probed {
                place,
                address,
                tls: None,
            });
        }
    };
    let failed = |why: String| {
        say(&format!("steppe: https://{authority}: {why}\n"));
        Code::Configuration
    };
    let addresses = authority.to_socket_addrs();
    let address = addresses.map_err(|error| failed(error.to_string()))?.next();
    let address = address.ok_or_else(|| failed("the host name has no address".to_owned()))?;
    let (host, _) = authority.rsplit_once(':').unwrap_or_default();
    let name =
        trust::name(host).ok_or_else(|| failed("not a name that TLS can verify".to_owned()))?;
    let config = trust::by_authority(ca).map_err(|error| failed(error.to_string()))?;
    Ok(Probed {
        place,
        address: ListenAddress::Tcp(address),
        tls: Some(Tls { config, name }),
    })
}

/// The address that a node with this configuration listens on. Probes with an address of their own
/// have no TLS.
fn configured(file: &Path) -> Result<Probed, Code> {
    let outcome = load(file)?;
    let Some(config) = outcome.config else {
        complain(&outcome.report);
        return Err(Code::Configuration);
    };
    let failed = |why: String| {
        say(&format!("steppe: {}: {why}\n", file.display()));
        Code::Configuration
    };
    let admin = config.admin;
    let admin = admin.ok_or_else(|| failed("the configuration has no [admin]".to_owned()))?;
    let is_apart = admin.probes.is_some();
    let address = reachable(admin.probes.unwrap_or(admin.listen));
    let tls = admin.tls.filter(|_| !is_apart).map(|files| {
        let config = trust::by_file(&files.cert).map_err(|error| failed(error.to_string()))?;
        // The key is verified, no name.
        let name = trust::name("localhost").expect("a valid name");
        Ok(Tls { config, name })
    });
    Ok(Probed {
        place: Place::Plain(address.clone()),
        address,
        tls: tls.transpose()?,
    })
}

/// A connectable address: the unspecified address that a node may listen on becomes loopback.
fn reachable(address: ListenAddress) -> ListenAddress {
    match address {
        ListenAddress::Tcp(tcp) if tcp.ip().is_unspecified() => {
            let loopback = match tcp.ip() {
                IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
                IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            };
            ListenAddress::Tcp(SocketAddr::new(loopback, tcp.port()))
        }
        other => other,
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    /// The first line of the content.
    word: String,
}

impl Answer {
    /// True if the word is one of the answers of `/readyz`.
    fn is_of_admin(&self) -> bool {
        let is_status = matches!(self.status, 200 | 503);
        is_status && State::ALL.iter().any(|state| state.as_str() == self.word)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.word)
    }
}

impl fmt::Display for Probed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Plain(address) => write!(f, "{address}"),
            Place::Https(authority) => write!(f, "https://{authority}"),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the command's timeout begins")]
fn ask(probed: &Probed) -> io::Result<Answer> {
    let end = Instant::now() + TIMEOUT;
    let host = match (&probed.place, &probed.address) {
        (Place::Https(authority), _) => authority.clone(),
        (_, ListenAddress::Tcp(tcp)) => tcp.to_string(),
        (_, ListenAddress::Unix(_)) => "localhost".to_owned(),
    };
    let tls = probed.tls.as_ref();
    let answer = match &probed.address {
        ListenAddress::Tcp(tcp) => {
            let stream = TcpStream::connect_timeout(tcp, TIMEOUT)?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            let wait = |limit| stream.set_read_timeout(Some(limit));
            exchange(tls, Timed::new(&stream, wait, end), &host)?
        }
        ListenAddress::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            let wait = |limit| stream.set_read_timeout(Some(limit));
            exchange(tls, Timed::new(&stream, wait, end), &host)?
        }
    };
    parse(&answer).ok_or_else(|| io::Error::other("not an HTTP/1.1 response"))
}

/// A socket whose reads end in time.
struct Timed<S, W> {
    socket: S,
    wait: W,
    end: Instant,
}

impl<S, W> Timed<S, W> {
    fn new(socket: S, wait: W, end: Instant) -> Self {
        Self { socket, wait, end }
    }
}

impl<S: Read, W: Fn(Duration) -> io::Result<()>> Read for Timed<S, W> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a blocking loop ends at the command's timeout"
    )]
    fn read(&mut self, part: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        (self.wait)(left)?;
        self.socket.read(part)
    }
}

impl<S: Write, W> Write for Timed<S, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

fn exchange(tls: Option<&Tls>, socket: impl Read + Write, host: &str) -> io::Result<Vec<u8>> {
    let Some(Tls { config, name }) = tls else {
        return exchange_on(socket, host);
    };
    let session = ClientConnection::new(Arc::clone(config), name.clone());
    let session = session.map_err(io::Error::other)?;
    exchange_on(StreamOwned::new(session, socket), host)
}

fn exchange_on(mut stream: impl Read + Write, host: &str) -> io::Result<Vec<u8>> {
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}

fn parse(answer: &[u8]) -> Option<Answer> {
    let answer = std::str::from_utf8(answer).ok()?;
    let (head, content) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let word = content.lines().next().unwrap_or_default();
    Some(Answer {
        status,
        word: word.escape_default().to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_as_in_a_configuration() {
        let tcp = ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 9900)));
        assert_eq!(place("127.0.0.1:9900"), Ok(Place::Plain(tcp)));
        let unix = ListenAddress::Unix(PathBuf::from("/run/a"));
        assert_eq!(place("unix:/run/a"), Ok(Place::Plain(unix)));
        for wrong in [
            "localhost",
            "https://localhost",
            "https://a:1/x",
            "https://:1",
        ] {
            place(wrong).expect_err(wrong);
        }
        let https = Ok(Place::Https("localhost:9900".to_owned()));
        assert_eq!(place("https://localhost:9900/"), https);
    }

    #[test]
    fn the_unspecified_address_is_asked_on_loopback() {
        for (listens, asked) in [
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:1", "[::1]:1"),
            ("10.1.2.3:1", "10.1.2.3:1"),
        ] {
            let address = reachable(ListenAddress::Tcp(listens.parse().expect("an address")));
            assert_eq!(address.to_string(), asked);
        }
    }

    #[test]
    fn status_and_word_are_read_and_garbage_is_not() {
        let answer = parse(b"HTTP/1.1 503 Service Unavailable\r\na: b\r\n\r\ndraining\n");
        assert_eq!(answer.expect("whole").to_string(), "503 draining");
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\n"), None);
        assert_eq!(parse(b"SSH-2.0\r\n\r\n"), None);
        assert_eq!(parse(&[0xff; 40]), None);
    }
}
