//! Sessions between our own two sides: what is agreed, moved, resumed and refused.

mod late;
mod sealed;

use std::fs;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use steppe_mem::{Budget, Buffer};
use tokio::net::UnixStream;

use super::config::{
    CertificateFiles, ClientAuth, ClientTrust, ListenerConfig, MinVersion, RevocationPolicy,
    ServerTrust,
};
use super::*;
use crate::deadline::Deadlines;
use crate::stream::Stream;
use crate::transport::Transport;

/// A folder that goes when the test ends.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("steppe-tls-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("writes");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An authority, and files that it signed.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    scratch: Scratch,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let scratch = Scratch::new();
        let name = scratch.0.display().to_string();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("random");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("valid");
        scratch.write("ca.crt", &issuer.pem());
        Self { issuer, scratch }
    }

    fn ca(&self) -> PathBuf {
        self.scratch.0.join("ca.crt")
    }

    /// A certificate in files `name.crt` and `name.key`.
    fn sign(&self, name: &str, names: &[&str]) -> CertificateFiles {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("valid names");
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().expect("random");
        let signed = params.signed_by(&key, &self.issuer).expect("valid");
        CertificateFiles {
            cert: self.scratch.write(&format!("{name}.crt"), &signed.pem()),
            key: self
                .scratch
                .write(&format!("{name}.key"), &key.serialize_pem()),
            ocsp: None,
        }
    }

    fn listener(&self, names: &[&str]) -> ListenerConfig {
        ListenerConfig {
            certificates: vec![self.sign("server", names)],
            min_version: MinVersion::Tls12,
            client: ClientAuth::None,
            ticket_keys: None,
            alpn: vec![b"http/1.1".to_vec()],
        }
    }

    fn trust(&self, name: &str) -> ServerTrust {
        ServerTrust {
            ca: Some(self.ca()),
            server_name: Some(name.to_owned()),
            identity: None,
            verify: true,
            pins: Vec::new(),
            min_version: MinVersion::Tls12,
            alpn: vec![b"http/1.1".to_vec()],
        }
    }

    fn client_trust(&self) -> ClientTrust {
        ClientTrust {
            ca: self.ca(),
            crls: Vec::new(),
            expired_crl: RevocationPolicy::Refuse,
            unknown_status: RevocationPolicy::Refuse,
        }
    }
}

fn load(config: &ListenerConfig) -> ListenerTls {
    ListenerTls::load(config, "127.0.0.1:8443", None, Instant::now()).expect("valid")
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("epoll");
    let local = tokio::task::LocalSet::new();
    let patient = async { tokio::time::timeout(Duration::from_secs(30), test).await };
    local.block_on(&runtime, patient).expect("it hangs")
}

const LIMITS: HandshakeLimits = HandshakeLimits {
    count_max: 10,
    age_max: Duration::MAX,
};

/// Runs a server's handshake on `near`.
async fn accept(
    near: UnixStream,
    tls: &ListenerTls,
    budget: &Budget,
) -> Result<(Transport, Agreed), HandshakeError> {
    let deadlines = Deadlines::default();
    let deadline = deadlines.add();
    let slot = Handshakes::new(Rc::default()).begin(LIMITS, Ipv4Addr::LOCALHOST.into());
    let accepting = Accepting {
        tls,
        slot: &slot,
        deadline: &deadline,
        timeout: Duration::from_secs(60),
        lease: &budget.root().lease(),
        to_plain_http: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    };
    accepting
        .accept(Transport::new(Stream::Unix(near)), None)
        .await
}

/// Both ends of a session, or why there is none.
type Agreement = (
    Result<(Transport, Agreed), HandshakeError>,
    Result<(Transport, Agreed), ConnectError>,
);

async fn agree(server: &ListenerTls, client: &ServerTls, budget: &Budget) -> Agreement {
    let (near, far) = UnixStream::pair().expect("descriptors");
    let lease = budget.root().lease();
    let far = Transport::new(Stream::Unix(far));
    let connect = async {
        let (mut transport, agreed) = client.connect(far, None, &lease).await?;
        // A refusal of a client's certificate comes after the client is done (RFC 8446 §4.4.2).
        write(&mut transport, b"hello").await;
        Ok((transport, agreed))
    };
    tokio::join!(accept(near, server, budget), connect)
}

/// Runs a server's handshake with a client that leaves as soon as it is done: one that is refused is
/// waited for, so that it hears why.
async fn accept_one_that_leaves(
    server: &ListenerTls,
    client: &ServerTls,
    budget: &Budget,
) -> Result<(Transport, Agreed), HandshakeError> {
    let (near, far) = UnixStream::pair().expect("descriptors");
    let lease = budget.root().lease();
    let far = Transport::new(Stream::Unix(far));
    let visit = async { client.connect(far, None, &lease).await.map(drop) };
    let (accepted, _) = tokio::join!(accept(near, server, budget), visit);
    accepted
}

async fn write(transport: &mut Transport, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let written = poll_fn(|cx| transport.poll_write(cx, &[IoSlice::new(bytes)])).await;
        let Ok(written) = written else { return };
        bytes = &bytes[written..];
    }
    let _ = poll_fn(|cx| transport.poll_flush(cx)).await;
}

async fn read(transport: &mut Transport, budget: &Budget) -> io::Result<Buffer> {
    let lease = budget.root().lease();
    poll_fn(|cx| transport.poll_read(cx, &lease, 4096)).await
}

fn client(trust: &ServerTrust) -> ServerTls {
    ServerTls::load(trust).expect("valid")
}

#[test]
fn both_sides_agree_and_bytes_move_both_ways() {
    run(async {
        let authority = Authority::new();
        let server = load(&authority.listener(&["a.example"]));
        let client = client(&authority.trust("a.example"));
        let budget = Budget::new(16 << 20);
        let (near, far) = agree(&server, &client, &budget).await;
        let ((mut near, agreed), (mut far, theirs)) = (near.expect("agrees"), far.expect("agrees"));
        assert_eq!(agreed.version(), "TLSv1.3");
        assert_eq!(agreed.group(), "X25519MLKEM768");
        assert_eq!(agreed.server_name.as_deref(), Some("a.example"));
        assert_eq!(agreed.alpn.as_deref(), Some(&b"http/1.1"[..]));
        assert_eq!(
            (agreed.suite(), theirs.suite()),
            (theirs.suite(), "TLS_AES_256_GCM_SHA384")
        );
        assert_eq!(
            read(&mut near, &budget).await.expect("open").filled(),
            b"hello"
        );
        let large: Vec<u8> = (0..1_000_000u32).map(|at| at.to_le_bytes()[1]).collect();
        let (mut got, lease) = (Vec::<u8>::new(), budget.root().lease());
        let receive = async {
            while got.len() < large.len() {
                let buffer = poll_fn(|cx| far.poll_read(cx, &lease, 20_000)).await;
                got.extend(buffer.expect("open").filled());
            }
        };
        tokio::join!(write(&mut near, &large), receive);
        assert!(got == large, "{} bytes", got.len());
        write(&mut far, b"bye").await;
        assert_eq!(
            read(&mut near, &budget).await.expect("open").filled(),
            b"bye"
        );
    });
}

/// Plaintext that is not read at once goes back to where its record lay, and nothing is lost by it.
#[test]
fn a_record_is_read_in_pieces_while_its_peer_is_watched() {
    run(async {
        let authority = Authority::new();
        let server = load(&authority.listener(&["a.example"]));
        let client = client(&authority.trust("a.example"));
        let budget = Budget::new(16 << 20);
        let (near, far) = agree(&server, &client, &budget).await;
        let ((mut near, _), (mut far, _)) = (near.expect("agrees"), far.expect("agrees"));
        let large: Vec<u8> = (0..100_000u32).map(|at| at.to_le_bytes()[1]).collect();
        assert_eq!(
            read(&mut near, &budget).await.expect("open").filled(),
            b"hello"
        );
        let (mut got, mut room) = (Vec::new(), [0; 3000]);
        let receive = async {
            while got.len() < large.len() {
                let read = poll_fn(|cx| near.poll_read_into(cx, &mut room)).await;
                got.extend_from_slice(&room[..read.expect("open")]);
                let is_closed = poll_fn(|cx| Poll::Ready(near.poll_closed(cx).is_ready()));
                assert!(!is_closed.await);
            }
        };
        tokio::join!(write(&mut far, &large), receive);
        assert!(got == large, "{} bytes", got.len());
    });
}

#[test]
fn an_end_and_a_cut_are_two_things() {
    run(async {
        let authority = Authority::new();
        let server = load(&authority.listener(&["a.example"]));
        let client = client(&authority.trust("a.example"));
        let budget = Budget::new(16 << 20);
        for is_told in [true, false] {
            let (near, far) = agree(&server, &client, &budget).await;
            let ((mut near, _), (mut far, _)) = (near.expect("agrees"), far.expect("agrees"));
            assert_eq!(
                read(&mut near, &budget).await.expect("open").filled(),
                b"hello"
            );
            if is_told {
                poll_fn(|cx| far.poll_shutdown(cx)).await.expect("open");
            }
            drop(far);
            let end = read(&mut near, &budget).await;
            match end {
                Ok(buffer) => assert!(is_told && buffer.is_empty()),
                // Tickets that it did not read make the kernel say so.
                Err(error) => assert!(
                    !is_told
                        && matches!(
                            error.kind(),
                            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
                        ),
                    "{is_told} {error}"
                ),
            }
        }
    });
}

#[test]
fn a_session_that_waits_holds_no_record() {
    run(async {
        let authority = Authority::new();
        let server = load(&authority.listener(&["a.example"]));
        let client = client(&authority.trust("a.example"));
        let budget = Budget::new(16 << 20);
        let (near, far) = agree(&server, &client, &budget).await;
        let ((mut near, _), (mut far, _)) = (near.expect("agrees"), far.expect("agrees"));
        let large = vec![7; 100_000];
        let mut got = 0;
        let receive = async {
            while got < large.len() + 5 {
                got += read(&mut near, &budget).await.expect("open").len();
            }
            // Until the session knows that nothing more is there.
            poll_fn(|cx| Poll::Ready(near.is_quiet(cx))).await;
        };
        tokio::join!(write(&mut far, &large), receive);
        let sessions = 2 * crate::limits::TLS_SESSION_BYTES as u64;
        let held = budget.root().reserved_bytes();
        assert!(
            held <= sessions + (8 << 10),
            "{held} bytes for two sessions"
        );
        drop((near, far));
    });
}

/// Runs a second handshake with the same client, and says whether it resumed the first.
async fn is_resumed(first: &ListenerTls, second: &ListenerTls, trust: &ServerTrust) -> bool {
    let (client, budget) = (client(trust), Budget::new(16 << 20));
    let (near, far) = agree(first, &client, &budget).await;
    let ((mut near, agreed), (mut far, _)) = (near.expect("agrees"), far.expect("agrees"));
    assert!(!agreed.is_resumed);
    // So that the client reads its tickets.
    write(&mut near, b"x").await;
    read(&mut far, &budget).await.expect("open");
    let (near, far) = agree(second, &client, &budget).await;
    match (near, far) {
        (Ok((_, agreed)), _) => agreed.is_resumed,
        (Err(_), _) => false,
    }
}

#[test]
fn a_session_is_resumed_where_it_was_made_under_the_same_policy() {
    run(async {
        let authority = Authority::new();
        let config = authority.listener(&["a.example"]);
        let (now, trust) = (Instant::now(), authority.trust("a.example"));
        let server = load(&config);
        assert!(is_resumed(&server, &server, &trust).await);
        // A reload keeps tickets.
        let reloaded = ListenerTls::load(&config, "127.0.0.1:8443", Some(&server), now);
        assert!(is_resumed(&server, &reloaded.expect("valid"), &trust).await);
        // Another listener that shares the secrets does not take them.
        let other = ListenerTls::load(&config, "127.0.0.1:9443", Some(&server), now);
        assert!(!is_resumed(&server, &other.expect("valid"), &trust).await);
        // Nor does the same one once it asks for certificates.
        let mut strict = config.clone();
        strict.client = ClientAuth::Optional(authority.client_trust());
        let strict = ListenerTls::load(&strict, "127.0.0.1:8443", Some(&server), now);
        assert!(!is_resumed(&server, &strict.expect("valid"), &trust).await);
    });
}

#[test]
fn clients_are_let_in_by_policy() {
    run(async {
        let authority = Authority::new();
        let stranger = Authority::new();
        let mut config = authority.listener(&["a.example"]);
        let without = authority.trust("a.example");
        let mut with = without.clone();
        with.identity = Some(authority.sign("client", &["client.example"]));
        let mut invalid = without.clone();
        invalid.identity = Some(stranger.sign("client", &["client.example"]));
        let trust = authority.client_trust();
        let policies = [
            (ClientAuth::Optional(trust.clone()), [true, true, false]),
            (ClientAuth::Required(trust), [false, true, false]),
        ];
        for (policy, expected) in policies {
            config.client = policy;
            let server = load(&config);
            let clients = [&without, &with, &invalid];
            for (trust, is_let_in) in clients.into_iter().zip(expected) {
                let budget = Budget::new(16 << 20);
                let client = client(trust);
                let near = if is_let_in {
                    agree(&server, &client, &budget).await.0
                } else {
                    accept_one_that_leaves(&server, &client, &budget).await
                };
                assert_eq!(near.is_ok(), is_let_in, "{:?} {near:?}", config.client);
                if let Err(error) = &near {
                    assert_eq!(error.reason(), "client_certificate", "{error}");
                }
                if let Ok((_, agreed)) = near {
                    let names = agreed.client.map(|client| client.summary.names);
                    let expected = trust
                        .identity
                        .is_some()
                        .then(|| vec!["client.example".into()]);
                    assert_eq!(names, expected);
                }
            }
        }
    });
}

#[test]
fn a_server_is_trusted_by_authority_name_and_pin() {
    run(async {
        let authority = Authority::new();
        let server = load(&authority.listener(&["a.example", "*.wild.example"]));
        let pin = server.certificates()[0].1.spki_fingerprint;
        let base = authority.trust("a.example");
        let mut other_name = authority.trust("b.example");
        let wild = authority.trust("x.wild.example");
        let stranger = Authority::new();
        let unknown = ServerTrust {
            ca: Some(stranger.ca()),
            ..base.clone()
        };
        let pinned = |pin| ServerTrust {
            pins: vec![pin],
            ..base.clone()
        };
        let cases = [
            (base.clone(), None),
            (wild, None),
            (other_name.clone(), Some("not valid for name")),
            (unknown, Some("UnknownIssuer")),
            (pinned(pin), None),
            (pinned([0; 32]), Some("pins")),
        ];
        for (trust, reason) in cases {
            let budget = Budget::new(16 << 20);
            let (_near, far) = agree(&server, &client(&trust), &budget).await;
            let failed = far.err().map(|error| error.to_string());
            match (reason, failed) {
                (None, None) => {}
                (Some(reason), Some(error)) if error.contains(reason) || error.contains("name") => {
                }
                other => panic!("{other:?}"),
            }
        }
        other_name.verify = false;
        let budget = Budget::new(16 << 20);
        agree(&server, &client(&other_name), &budget)
            .await
            .1
            .expect("nothing is verified");
    });
}

#[test]
fn certificates_are_chosen_by_name() {
    let authority = Authority::new();
    let mut config = authority.listener(&["a.example", "*.a.example"]);
    config
        .certificates
        .push(authority.sign("other", &["b.example", "x.a.example"]));
    let server = load(&config);
    let shown = |name: &str| server.in_force().identities.named(name)[0];
    assert_eq!(shown("a.example"), 0);
    assert_eq!(shown("y.a.example"), 0);
    assert_eq!(shown("x.a.example"), 1);
    assert_eq!(shown("b.example"), 1);
    assert_eq!(shown("unknown.example"), 0);
    assert_eq!(shown("z.y.a.example"), 0);
    assert_eq!(shown("B.Example."), 1);
    assert_eq!(shown("X.a.example."), 1);
    assert_eq!(shown("y.a.example."), 0);
    for (host, is_misdirected) in [
        ("a.example", false),
        ("a.example.", false),
        ("Y.a.example.", false),
        ("B.example", true),
        ("b.example.", true),
        ("x.a.example.", true),
        ("else", false),
        ("else.", false),
    ] {
        assert_eq!(
            server.is_misdirected(0, host.as_bytes()),
            is_misdirected,
            "{host}"
        );
    }
}

#[test]
fn files_that_change_are_read_again_and_broken_ones_change_nothing() {
    let authority = Authority::new();
    let config = authority.listener(&["a.example"]);
    let (server, now) = (load(&config), Instant::now());
    assert!(matches!(server.reread(now), Reread::Unchanged));
    let first = server.certificates()[0].1.fingerprint;
    let files = &config.certificates[0];
    // The file system may round times so that what is written at once looks the same.
    let date = |seconds: u64| {
        for path in [&files.cert, &files.key] {
            let file = fs::File::options().append(true).open(path);
            let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            file.and_then(|file| file.set_modified(at))
                .expect("it is ours");
        }
    };
    authority.sign("server", &["a.example"]);
    date(1);
    let reread = server.reread(now);
    let Reread::Changed(changed) = reread else {
        panic!("{reread:?}");
    };
    assert_eq!(changed, [files.cert.clone(), files.key.clone()]);
    let second = server.certificates()[0].1.fingerprint;
    assert_ne!(first, second);
    // A certificate whose key is still on its way.
    let other = authority.sign("other", &["a.example"]);
    fs::copy(&other.cert, &config.certificates[0].cert).expect("copies");
    date(2);
    let reread = server.reread(now);
    let Reread::Failed(error) = reread else {
        panic!("{reread:?}");
    };
    assert!(
        error.to_string().contains("the private key does not match"),
        "{error}"
    );
    assert_eq!(server.certificates()[0].1.fingerprint, second);
    fs::copy(&other.key, &config.certificates[0].key).expect("copies");
    date(3);
    assert!(matches!(server.reread(now), Reread::Changed(_)));
    assert_eq!(server.certificates()[0].1.names, ["a.example"]);
    let counts = RereadCounts {
        changed: 2,
        failed: 1,
    };
    assert_eq!(server.rereads(), counts);
    let next = ListenerTls::load(&config, "a", Some(&server), now).expect("valid");
    assert_eq!(next.rereads(), counts);
}

#[test]
fn files_that_are_no_certificates_are_named() {
    let authority = Authority::new();
    let mut config = authority.listener(&["a.example"]);
    let failed = |config: &ListenerConfig| {
        let loaded = ListenerTls::load(config, "a", None, Instant::now());
        loaded.expect_err("invalid").to_string()
    };
    let good = config.certificates[0].clone();
    config.certificates[0].cert = Path::new("/nowhere.crt").to_owned();
    assert!(failed(&config).starts_with("/nowhere.crt: "));
    config.certificates[0].cert = good.key.clone();
    assert!(failed(&config).contains("no PEM certificate in the file"));
    config.certificates[0] = CertificateFiles {
        key: good.cert.clone(),
        ..good
    };
    assert!(failed(&config).contains("no unencrypted PEM private key in the file"));
}

#[test]
fn what_does_not_speak_tls_is_told() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    run(async {
        let authority = Authority::new();
        let server = load(&authority.listener(&["a.example"]));
        let budget = Budget::new(16 << 20);
        let cases: [(&[u8], &str, &[u8]); 3] = [
            (b"GET / HTTP/1.1\r\n\r\n", "plain_http", b"HTTP/1.1 400 "),
            (b"\x05\x01\x00", "not_tls", &[21, 3, 3, 0, 2, 2, 10]),
            (
                b"\x16\x03\x01\x00\x04\x01\xff\xff\xff",
                "hello_too_large",
                &[21, 3, 3, 0, 2, 2, 50],
            ),
        ];
        for (bytes, reason, expected) in cases {
            let (near, mut far) = UnixStream::pair().expect("descriptors");
            let talk = async {
                far.write_all(bytes).await.expect("open");
                let mut got = Vec::new();
                let _ = far.read_to_end(&mut got).await;
                got
            };
            let (accepted, got) = tokio::join!(accept(near, &server, &budget), talk);
            assert_eq!(accepted.expect_err("refused").reason(), reason);
            assert!(got.starts_with(expected), "{got:?}");
        }
        assert_eq!(budget.root().reserved_bytes(), 0);
    });
}
