//! The certificates and parameters that a server sends in a handshake (RFC 8446, RFC 5246), trusted
//! or not.
//!
//! Invariant: the command ends at its deadline, whatever the server sends, and sends no request.
//! Left out: TLS before 1.2, which rustls does not support.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, InvalidMessage, SignatureScheme,
};

/// The default port: HTTPS.
const PORT: u16 = 443;

/// A server to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// A host name, or an IP address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

/// The result of a handshake.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) peer: SocketAddr,
    /// The chain, leaf first, as it was sent.
    pub(super) chain: Vec<CertificateDer<'static>>,
    /// Length of the stapled OCSP response.
    pub(super) staple_bytes: usize,
    /// The agreed parameters; `None`: the handshake failed before.
    pub(super) agreed: Option<Agreed>,
    /// The reason why the handshake failed after the certificates.
    pub(super) failure: Option<Error>,
}

/// The parameters agreed on in a handshake.
#[derive(Debug)]
pub(super) struct Agreed {
    pub(super) version: &'static str,
    pub(super) cipher_suite: String,
    pub(super) group: String,
    pub(super) alpn: Option<String>,
}

impl Target {
    /// Parses `host[:port]`, `ip[:port]` or `[ip]:port`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Some(Self::new(ip.to_string(), PORT));
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Some(Self::new(address.ip().to_string(), address.port()));
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()?),
            None => (text, PORT),
        };
        let is_name = matches!(ServerName::try_from(host), Ok(ServerName::DnsName(_)));
        is_name.then(|| Self::new(host.to_owned(), port))
    }

    fn new(host: String, port: u16) -> Self {
        Self { host, port }
    }
}

/// Connects to `target`, requests `name` by SNI and records the server's handshake.
#[expect(clippy::disallowed_methods, reason = "the command's timeout begins")]
pub(super) fn observe(
    target: &Target,
    name: ServerName<'static>,
    provider: &Arc<CryptoProvider>,
    timeout: Duration,
) -> Result<Shown, String> {
    let end = Instant::now() + timeout;
    let stream = connect(target, Deadline { end })?;
    let peer = stream.peer_addr().map_err(|error| error.to_string())?;
    let recorder = Arc::new(Recorder {
        provider: Arc::clone(provider),
        presented: Mutex::default(),
    });
    let mut connection = client(name, Arc::clone(&recorder)).map_err(|error| error.to_string())?;
    let mut stream = Bounded {
        stream,
        deadline: Deadline { end },
    };
    let mut outcome = Ok(());
    while outcome.is_ok() && connection.is_handshaking() {
        outcome = connection.complete_io(&mut stream).map(drop);
    }
    let presented = std::mem::take(&mut *recorder.lock());
    if presented.chain.is_empty() {
        let why = |error| explained(&error, timeout);
        return Err(outcome.map_or_else(why, |()| "the server showed no certificate".to_owned()));
    }
    let failure = outcome.err().map(into_tls);
    if failure.is_none() {
        connection.send_close_notify();
        // The server may be gone already: its certificates are here.
        _ = connection.complete_io(&mut stream);
    }
    Ok(Shown {
        peer,
        chain: presented.chain,
        staple_bytes: presented.staple_bytes,
        agreed: agreed(&connection),
        failure,
    })
}

fn client(name: ServerName<'static>, recorder: Arc<Recorder>) -> Result<ClientConnection, Error> {
    let provider = Arc::clone(&recorder.provider);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(recorder)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    ClientConnection::new(Arc::new(config), name)
}

fn agreed(connection: &ClientConnection) -> Option<Agreed> {
    let version = match connection.protocol_version()? {
        rustls::ProtocolVersion::TLSv1_2 => "TLS 1.2",
        rustls::ProtocolVersion::TLSv1_3 => "TLS 1.3",
        _ => return None,
    };
    Some(Agreed {
        version,
        cipher_suite: format!("{:?}", connection.negotiated_cipher_suite()?.suite()),
        group: format!("{:?}", connection.negotiated_key_exchange_group()?.name()),
        alpn: connection
            .alpn_protocol()
            .map(|name| name.escape_ascii().to_string()),
    })
}

/// Connects to the first address of the target that answers.
fn connect(target: &Target, deadline: Deadline) -> Result<TcpStream, String> {
    let addresses = addresses(target, deadline)?;
    let mut last = "the host name has no address".to_owned();
    for address in addresses {
        let left = deadline.left().map_err(|_| last.clone())?;
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

/// The addresses of the target. The system's lookup has no timeout: it runs on a thread that is
/// left behind.
fn addresses(target: &Target, deadline: Deadline) -> Result<Vec<SocketAddr>, String> {
    let left = deadline.left().map_err(|error| error.to_string())?;
    let (sender, receiver) = mpsc::sync_channel(1);
    let Target { host, port } = target.clone();
    std::thread::spawn(move || {
        let found = (host.as_str(), port).to_socket_addrs();
        // The receiver is gone after the deadline.
        _ = sender.send(found.map(Vec::from_iter));
    });
    match receiver.recv_timeout(left) {
        Ok(found) => {
            found.map_err(|error| format!("neither a file nor a host that resolves: {error}"))
        }
        Err(_) => Err("the lookup of the host name timed out".to_owned()),
    }
}

fn explained(error: &io::Error, timeout: Duration) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
    match (tls, error.kind()) {
        (Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)), _) => {
            "the server does not speak TLS".to_owned()
        }
        (Some(error), _) => format!("the TLS handshake failed: {error}"),
        (None, io::ErrorKind::TimedOut) => format!("no TLS handshake within {timeout:?}"),
        (None, io::ErrorKind::UnexpectedEof) => {
            "the server closed the connection during the handshake".to_owned()
        }
        (None, _) => error.to_string(),
    }
}

fn into_tls(error: io::Error) -> Error {
    let text = error.to_string();
    let inner = error.into_inner().and_then(|inner| inner.downcast().ok());
    inner.map_or(Error::General(text), |error| *error)
}

/// The end of the whole command.
#[derive(Debug, Clone, Copy)]
struct Deadline {
    end: Instant,
}

impl Deadline {
    #[expect(
        clippy::disallowed_methods,
        reason = "each blocking call ends at the command's timeout"
    )]
    fn left(self) -> io::Result<Duration> {
        let left = self.end.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(left),
        }
    }
}

/// A stream whose reads and writes end at the deadline.
#[derive(Debug)]
struct Bounded {
    stream: TcpStream,
    deadline: Deadline,
}

impl Read for Bounded {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.deadline.left()?))?;
        self.stream.read(buf).map_err(timed_out)
    }
}

impl Write for Bounded {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.deadline.left()?))?;
        self.stream.write(buf).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Converts the error of an expired socket timeout, which is `WouldBlock`.
fn timed_out(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

/// Accepts every chain and keeps it; signatures of handshakes are verified as usual.
#[derive(Debug)]
struct Recorder {
    provider: Arc<CryptoProvider>,
    presented: Mutex<Presented>,
}

#[derive(Debug, Default)]
struct Presented {
    chain: Vec<CertificateDer<'static>>,
    staple_bytes: usize,
}

impl Recorder {
    fn lock(&self) -> std::sync::MutexGuard<'_, Presented> {
        self.presented
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerCertVerifier for Recorder {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let sent = std::iter::once(end_entity).chain(intermediates);
        *self.lock() = Presented {
            chain: sent.map(|each| each.clone().into_owned()).collect(),
            staple_bytes: ocsp_response.len(),
        };
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_a_host_and_a_port() {
        for (text, host, port) in [
            ("example.com", "example.com", 443),
            ("example.com:8443", "example.com", 8443),
            ("192.0.2.1", "192.0.2.1", 443),
            ("192.0.2.1:1", "192.0.2.1", 1),
            ("2001:db8::1", "2001:db8::1", 443),
            ("[2001:db8::1]:8443", "2001:db8::1", 8443),
            ("localhost:1", "localhost", 1),
        ] {
            let expected = Target::new(host.to_owned(), port);
            assert_eq!(Target::parse(text), Some(expected), "{text}");
        }
        for text in ["", ":443", "a b", "https://a", "a:", "a:65536", "a:b:1"] {
            assert_eq!(Target::parse(text), None, "{text}");
        }
    }
}
