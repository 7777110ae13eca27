//! An HTTP/2 server for tests.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use steppe_testkit::Issued;
use tokio::net::TcpStream;
use tokio::sync::{Barrier, oneshot};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A request as received.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub authority: String,
    pub path: String,
    pub content_type: String,
    pub content: Vec<u8>,
}

/// A response of the server.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub content_type: &'static str,
    pub content: Vec<u8>,
}

/// Behavior of the server beside its responses.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// Protocol that it selects by ALPN.
    pub alpn: &'static str,
    /// Number of requests that must arrive before any is answered.
    pub together: usize,
    /// Number of requests after which a connection is closed gracefully.
    pub per_connection: usize,
}

/// A server that runs until it is dropped.
pub struct HttpsServer {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    log: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    manner: Manner,
    barrier: Barrier,
    say: Box<dyn Fn(&Request) -> Reply + Send + Sync>,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            alpn: "h2",
            together: 1,
            per_connection: usize::MAX,
        }
    }
}

impl Reply {
    pub fn message(content: Vec<u8>) -> Self {
        Self {
            status: 200,
            content_type: "application/dns-message",
            content,
        }
    }
}

impl HttpsServer {
    pub fn start(
        issued: &Issued,
        manner: Manner,
        say: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback");
        listener.set_nonblocking(true).expect("is set");
        let address = listener.local_addr().expect("is bound");
        let shared = Arc::new(Shared {
            log: Mutex::default(),
            connections: AtomicUsize::new(0),
            manner,
            barrier: Barrier::new(manner.together),
            say: Box::new(say),
        });
        let tls = TlsAcceptor::from(Arc::new(tls(issued, manner.alpn)));
        let (stop, stopped) = oneshot::channel();
        let thread = {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || run(listener, stopped, &tls, &shared))
        };
        Self {
            address,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// All requests so far.
    pub fn asked(&self) -> Vec<Request> {
        let log = self.shared.log.lock();
        log.expect("no test failed there").clone()
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Acquire)
    }
}

impl Drop for HttpsServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub fn tls(issued: &Issued, alpn: &str) -> ServerConfig {
    let cert = CertificateDer::from_pem_slice(issued.cert.as_bytes()).expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).expect("PEM");
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has suites for them")
        .with_no_client_auth()
        .with_single_cert(vec![cert], key)
        .expect("the key belongs to the certificate");
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    config
}

fn run(
    listener: TcpListener,
    mut stopped: oneshot::Receiver<()>,
    tls: &TlsAcceptor,
    shared: &Arc<Shared>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a runtime");
        loop {
            tokio::select! {
                _ = &mut stopped => return,
                accepted = listener.accept() => {
                    let (stream, _) = accepted.expect("there are descriptors");
                    tokio::spawn(serve(stream, tls.clone(), Arc::clone(shared)));
                }
            }
        }
    });
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, shared: Arc<Shared>) {
    shared.connections.fetch_add(1, Ordering::AcqRel);
    let Ok(stream) = tls.accept(stream).await else {
        return;
    };
    let Ok(mut connection) = h2::server::handshake(stream).await else {
        return;
    };
    let mut count = 0;
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(answer(request, respond, Arc::clone(&shared)));
        count += 1;
        if count == shared.manner.per_connection {
            connection.graceful_shutdown();
        }
    }
}

async fn answer(
    request: http::Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    shared: Arc<Shared>,
) {
    let (head, mut content) = request.into_parts();
    let mut bytes = Vec::new();
    while let Some(Ok(part)) = content.data().await {
        bytes.extend_from_slice(&part);
        let _ = content.flow_control().release_capacity(part.len());
    }
    let field = head.headers.get("content-type");
    let asked = Request {
        method: head.method.to_string(),
        authority: head
            .uri
            .authority()
            .map(ToString::to_string)
            .unwrap_or_default(),
        path: head
            .uri
            .path_and_query()
            .map(ToString::to_string)
            .unwrap_or_default(),
        content_type: field
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned(),
        content: bytes,
    };
    let reply = (shared.say)(&asked);
    shared.log.lock().expect("no test failed there").push(asked);
    shared.barrier.wait().await;
    let response = http::Response::builder()
        .status(reply.status)
        .header("content-type", reply.content_type)
        .body(())
        .expect("a response");
    // A client that has disconnected gets no content.
    if let Ok(mut content) = respond.send_response(response, false) {
        let _ = content.send_data(reply.content.into(), true);
    }
}
