//! Connections that complete a handshake and are closed: as fast as they go, on one thread.
//!
//! Invariant: a handshake counts only when it was of the expected kind and group, and only once the server
//! has closed the connection: by then all of its work on it is done.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustls::{HandshakeKind, NamedGroup};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};

use super::client::{self, Decoder, exchange};
use super::stream::{Endpoint, Protocol};
use super::tls::{Agreed, Client, Tickets};
use crate::peer::origin;

/// The outcome of a run of handshakes.
#[derive(Debug, Clone, Default)]
pub struct Handshakes {
    /// Handshakes of the expected kind.
    pub count: u64,
    pub errors: u64,
    pub first_error: Option<String>,
    /// The agreement of the last handshake.
    pub agreed: Option<Agreed>,
}

/// The kind and group that each handshake of a run has to have.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    pub kind: HandshakeKind,
    pub group: NamedGroup,
}

/// The end of a run: after a time, or after a number of handshakes.
#[derive(Debug, Clone, Copy)]
pub enum Extent {
    For(Duration),
    Times(u64),
}

/// Handshakes of one kind, `CONNECTIONS` at a time.
pub async fn run(
    address: SocketAddr,
    client: &Client,
    expected: Expected,
    extent: Extent,
) -> Handshakes {
    let left = Rc::new(Left::new(extent));
    let mut sum = Handshakes::default();
    let mut tasks = JoinSet::new();
    LocalSet::new()
        .run_until(async {
            for _ in 0..CONNECTIONS {
                let (left, client) = (Rc::clone(&left), client.clone());
                tasks.spawn_local(async move {
                    let mut share = Handshakes::default();
                    while left.take() {
                        share.note(once(address, &client).await, expected);
                    }
                    share
                });
            }
            while let Some(finished) = tasks.join_next().await {
                sum.add(finished.unwrap_or_else(|panic| Handshakes::failed(&panic.into())));
            }
        })
        .await;
    sum
}

/// Collects at least `count` tickets by full handshakes with a request each, since some servers
/// send tickets with their first response only.
///
/// # Errors
/// When a connection fails, or the server gives none.
pub async fn collect_tickets(
    address: SocketAddr,
    client: &Client,
    count: usize,
) -> Result<Arc<Tickets>> {
    let tickets = Arc::new(Tickets::default());
    let endpoint = Endpoint {
        address,
        tls: Some(client.collecting(&tickets)),
        protocol: Protocol::Http1,
    };
    let request = client::get(endpoint.host(), origin::SMALL_PATH);
    let mut buffer = vec![0; 16 * 1024];
    while tickets.count() < count {
        let before = tickets.count();
        let mut stream = endpoint.connect().await?;
        exchange(&mut stream, &request, &mut Decoder::default(), &mut buffer).await?;
        ensure!(tickets.count() > before, "a connection without a ticket");
    }
    Ok(tickets)
}

/// Makes a handshake, and waits until both sides have closed the connection.
pub async fn once(address: SocketAddr, client: &Client) -> Result<Agreed> {
    let socket = TcpStream::connect(address).await?;
    let mut stream = client.handshake(socket).await?;
    let agreed = Agreed::of(stream.get_ref().1)?;
    stream.shutdown().await?;
    // The rest of the server's data (tickets, close_notify) is discarded, however the server
    // closes. An unread byte in the socket would reset the connection instead of closing it.
    let mut socket = stream.into_inner().0;
    let mut rest = [0; 4096];
    let closed = async { while socket.read(&mut rest).await.is_ok_and(|count| count > 0) {} };
    tokio::time::timeout(CLOSE_TIMEOUT, closed)
        .await
        .context("the server kept a connection that was closed")?;
    Ok(agreed)
}

/// Connections that keep the server busy while a client computes: both are on one machine.
const CONNECTIONS: usize = 16;
/// A server has no reason to keep a connection that its client has shut down.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The remainder of an [`Extent`].
struct Left {
    until: Option<Instant>,
    times: Cell<u64>,
}

impl Left {
    fn new(extent: Extent) -> Self {
        match extent {
            Extent::For(duration) => Self {
                until: Some(Instant::now() + duration),
                times: Cell::new(u64::MAX),
            },
            Extent::Times(times) => Self {
                until: None,
                times: Cell::new(times),
            },
        }
    }

    fn take(&self) -> bool {
        let in_time = self.until.is_none_or(|until| Instant::now() < until);
        let left = self.times.get();
        self.times.set(left.saturating_sub(1));
        in_time && left > 0
    }
}

impl Handshakes {
    fn failed(error: &anyhow::Error) -> Self {
        Self {
            errors: 1,
            first_error: Some(format!("{error:#}")),
            ..Self::default()
        }
    }

    fn note(&mut self, outcome: Result<Agreed>, expected: Expected) {
        let outcome = outcome.and_then(|agreed| {
            let Expected { kind, group } = expected;
            ensure!(
                (agreed.kind, agreed.group) == (kind, group),
                "a handshake was {:?} by {:?} instead of {kind:?} by {group:?}",
                agreed.kind,
                agreed.group
            );
            Ok(agreed)
        });
        self.add(match outcome {
            Ok(agreed) => Self {
                count: 1,
                agreed: Some(agreed),
                ..Self::default()
            },
            Err(error) => Self::failed(&error),
        });
    }

    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.agreed = other.agreed.or(self.agreed);
    }
}

#[cfg(test)]
pub mod tests {
    use std::path::PathBuf;

    use rustls::ServerConfig;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::load::tls::Groups;
    use crate::peer::credentials::{Certificate, Credentials};

    const FULL: Expected = Expected {
        kind: HandshakeKind::Full,
        group: NamedGroup::X25519,
    };
    const RESUMED: Expected = Expected {
        kind: HandshakeKind::Resumed,
        ..FULL
    };
    const TIMES: u64 = 40;

    /// A folder that is removed at the end of the test.
    pub struct Folder(PathBuf);

    impl Folder {
        pub fn new(test: &str) -> Self {
            let name = format!("steppe-bench-{test}-{}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        pub fn credentials(&self) -> Credentials {
            Credentials::create(&self.0).expect("the folder can be written")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Handshakes, answers requests, and closes when the client does.
    pub async fn server(own: &Certificate) -> SocketAddr {
        let chain = vec![CertificateDer::from_pem_file(&own.cert).expect("PEM")];
        let key = PrivateKeyDer::from_pem_file(&own.key).expect("PEM");
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let config = ServerConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .expect("the provider has both")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("they belong together");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut stream = acceptor.accept(socket).await?;
                    while stream.read(&mut [0; 1024]).await? > 0 {
                        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                        stream.write_all(response).await?;
                    }
                    stream.shutdown().await
                });
            }
        });
        address
    }

    async fn times(address: SocketAddr, client: &Client, expected: Expected) -> Handshakes {
        run(address, client, expected, Extent::Times(TIMES)).await
    }

    #[tokio::test]
    async fn full_handshakes_are_made_with_either_certificate() {
        let folder = Folder::new("full");
        let credentials = folder.credentials();
        for own in [&credentials.p256, &credentials.rsa] {
            let address = server(own).await;
            let client = Client::new(&credentials, own, Groups::X25519).expect("readable");
            let full = times(address, &client, FULL).await;
            assert_eq!((full.count, full.errors), (TIMES, 0), "{full:?}");
            let resumed = times(address, &client, RESUMED).await;
            assert_eq!((resumed.count, resumed.errors), (0, TIMES));
            let error = resumed.first_error.expect("there is one");
            assert!(
                error.contains("Full by X25519 instead of Resumed"),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn a_ticket_resumes_once() {
        let folder = Folder::new("resumed");
        let credentials = folder.credentials();
        let address = server(&credentials.p256).await;
        let client = Client::new(&credentials, &credentials.p256, Groups::X25519).expect("PEM");
        let count = usize::try_from(TIMES).expect("few");
        let tickets = collect_tickets(address, &client, count)
            .await
            .expect("the server gives tickets");
        let had = u64::try_from(tickets.count()).expect("few");
        assert!(had >= TIMES);
        let client = client.resuming(&tickets);
        let resumed = times(address, &client, RESUMED).await;
        assert_eq!((resumed.count, resumed.errors), (TIMES, 0), "{resumed:?}");
        let rest = times(address, &client, RESUMED).await;
        assert_eq!((rest.count, tickets.count()), (had - TIMES, 0));
    }

    #[tokio::test]
    async fn the_post_quantum_group_is_agreed_where_the_server_has_it() {
        let folder = Folder::new("group");
        let credentials = folder.credentials();
        let address = server(&credentials.p256).await;
        let client = Client::new(&credentials, &credentials.p256, Groups::PostQuantum);
        let agreed = once(address, &client.expect("PEM")).await.expect("it runs");
        assert_eq!(agreed.group, NamedGroup::X25519MLKEM768);
        assert_eq!(
            agreed.to_string(),
            "TLSv1_3 TLS13_AES_128_GCM_SHA256 X25519MLKEM768"
        );
    }

    #[tokio::test]
    async fn a_certificate_of_nobody_that_is_trusted_fails() {
        let (folder, other) = (Folder::new("trust"), Folder::new("other"));
        let credentials = folder.credentials();
        let address = server(&other.credentials().p256).await;
        let client = Client::new(&credentials, &credentials.p256, Groups::X25519).expect("PEM");
        let run = times(address, &client, FULL).await;
        assert_eq!((run.count, run.errors), (0, TIMES));
    }

    #[tokio::test]
    async fn a_run_ends_when_its_time_is_up() {
        let folder = Folder::new("time");
        let credentials = folder.credentials();
        let address = server(&credentials.p256).await;
        let client = Client::new(&credentials, &credentials.p256, Groups::X25519).expect("PEM");
        let extent = Extent::For(Duration::from_millis(100));
        let full = run(address, &client, FULL, extent).await;
        assert!(full.count > 0 && full.errors == 0, "{full:?}");
    }
}
