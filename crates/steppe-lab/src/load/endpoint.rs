//! Endpoint of an HTTP load: host, port, addresses, and the server name for TLS.
//!
//! Names are resolved once, before the load starts: the latency of a resolver is not the target's.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::Uri;
use hyper::http::uri::Scheme;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;

use super::tally::Failure;

/// The host and port of a URL.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    pub(super) host: String,
    port: u16,
    /// `None`: no TLS.
    pub(super) tls_name: Option<ServerName<'static>>,
}

/// The addresses of an endpoint.
#[derive(Debug)]
pub(super) struct Addresses {
    all: Vec<SocketAddr>,
    /// Index of the address that accepted the last connection.
    current: AtomicUsize,
}

impl Endpoint {
    /// # Errors
    /// With the reason, when the URL is invalid.
    pub(super) fn parse(uri: &Uri) -> Result<Self, String> {
        let is_https = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err("it begins with neither http:// nor https://".to_owned()),
        };
        let authority = uri.authority().ok_or("it has no host")?;
        if authority.as_str().contains('@') {
            return Err("user names in URLs are not supported".to_owned());
        }
        if authority.host().is_empty() {
            return Err("it has no host".to_owned());
        }
        let has_port = authority.as_str().len() > authority.host().len();
        if has_port && authority.port_u16().is_none() {
            return Err("its port is not a number up to 65535".to_owned());
        }
        let host = authority.host().trim_matches(['[', ']']);
        let name = is_https.then(|| ServerName::try_from(host.to_owned()));
        let no_name = |_| "its host is not a valid TLS server name".to_owned();
        Ok(Self {
            host: host.to_owned(),
            port: authority
                .port_u16()
                .unwrap_or(if is_https { 443 } else { 80 }),
            tls_name: name.transpose().map_err(no_name)?,
        })
    }

    /// # Errors
    /// When the name has no address.
    pub(super) fn resolve(&self) -> io::Result<Addresses> {
        let all: Vec<_> = (self.host.as_str(), self.port).to_socket_addrs()?.collect();
        if all.is_empty() {
            return Err(io::Error::other("the name has no address"));
        }
        Ok(Addresses {
            all,
            current: AtomicUsize::new(0),
        })
    }
}

impl Addresses {
    /// Opens a connection to the address that accepted the last one, else to the others in turn.
    pub(super) async fn connect(&self) -> Result<TcpStream, Failure> {
        let first = self.current.load(Ordering::Relaxed);
        let mut refused = None;
        for step in 0..self.all.len() {
            let index = (first + step) % self.all.len();
            match TcpStream::connect(self.all[index]).await {
                Ok(stream) => {
                    self.current.store(index, Ordering::Relaxed);
                    // A request is one write, which must not wait for the acknowledgment of the last one.
                    stream.set_nodelay(true).map_err(|e| io_failure(&e))?;
                    return Ok(stream);
                }
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        let error = refused.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into());
        Err(io_failure(&error))
    }
}

/// Kinds of errors that the generator causes itself, with their remedies.
pub(super) const OWN_FAULTS: [(&str, &str); 2] = [
    (
        NO_PORT,
        "no local port is left: keep connections alive, lower the rate, or use more addresses",
    ),
    (
        NO_FILE,
        "the lab may not open more files: raise `ulimit -n`, or use fewer connections",
    ),
];
const NO_PORT: &str = "no local port";
const NO_FILE: &str = "no file descriptor";

/// The failure of an operation by a socket error, with its kind.
pub(super) fn io_failure(error: &io::Error) -> Failure {
    const EMFILE: i32 = rustix::io::Errno::MFILE.raw_os_error();
    const ENFILE: i32 = rustix::io::Errno::NFILE.raw_os_error();
    if matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) {
        return Failure::lost(NO_FILE);
    }
    Failure::lost(match error.kind() {
        io::ErrorKind::ConnectionRefused => "refused",
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe => "reset",
        io::ErrorKind::UnexpectedEof => "closed",
        io::ErrorKind::TimedOut => "timeout",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "unreachable",
        io::ErrorKind::AddrNotAvailable => NO_PORT,
        _ => "socket",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_ports_or_files_is_told_from_a_target_that_refuses() {
        use rustix::io::Errno;
        let kind = |errno: Errno| io_failure(&errno.into()).kind.label();
        let kinds = [
            Errno::MFILE,
            Errno::NFILE,
            Errno::ADDRNOTAVAIL,
            Errno::CONNREFUSED,
            Errno::CONNRESET,
            Errno::NETUNREACH,
            Errno::NOBUFS,
        ];
        assert_eq!(
            kinds.map(kind),
            [
                NO_FILE,
                NO_FILE,
                NO_PORT,
                "refused",
                "reset",
                "unreachable",
                "socket"
            ]
        );
    }
}
