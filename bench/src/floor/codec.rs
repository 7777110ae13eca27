//! `steppe-bench floor-h2-codec`: the minimal proxy from HTTP/2 to HTTP/1.1 or HTTP/2 on steppe-h2, the codec of Steppe, and
//! rustls.
//!
//! Its cost is that of codec, TLS and kernel on one thread of tokio: one task for each connection, on either side, and none
//! for a request. A server of HTTP/2 gets one connection; a server of HTTP/1.1 gets one for each concurrent request, and
//! idle ones are reused. The cost of Steppe above it is the gateway's own.
//!
//! Non-goals: those of the floor of HTTP/1.1 (routes, checks, limits, timeouts, chunked content), and with a server of
//! HTTP/1.1 also HEAD, interim responses and trailers.

mod h1;
mod link;
mod section;

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use steppe_h2::Role;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use super::h2::{Options as Proxy, acceptor, listen};
use link::{Link, Transport, Worker};

/// Addresses, certificate, and the server's protocol.
#[derive(Args, Debug, Clone)]
#[group(skip)]
pub struct Options {
    #[command(flatten)]
    proxy: Proxy,
    /// Protocol of the server that it forwards to
    #[arg(long, value_enum, default_value_t)]
    protocol: Protocol,
}

/// The protocol of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Protocol {
    /// HTTP/1.1
    #[default]
    H1,
    /// HTTP/2 without TLS
    H2c,
}

impl Protocol {
    fn worker(self, upstream: SocketAddr) -> Rc<Worker> {
        Worker::new(upstream, (self == Self::H1).then_some(h1::open))
    }
}

/// Forwards until the process is stopped, on a thread of its own: the runtime of tasks that share `Rc`s is another one.
///
/// # Errors
/// When an address can't be listened on, or the certificate can't be used.
pub async fn run(options: &Options) -> Result<bool> {
    let (done, outcome) = oneshot::channel();
    let options = options.clone();
    std::thread::spawn(move || {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default());
        let outcome = match runtime {
            Ok(runtime) => runtime.block_on(accept(&options)),
            Err(error) => Err(error.into()),
        };
        // The receiver is gone only when the process ends.
        let _ = done.send(outcome);
    });
    outcome.await.context("the proxy's thread has ended")?
}

async fn accept(options: &Options) -> Result<bool> {
    let acceptor = acceptor(&options.proxy)?;
    let clear = listen(options.proxy.listen).await?;
    let with_tls = listen(options.proxy.listen_tls).await?;
    let worker = options.protocol.worker(options.proxy.upstream);
    let next = async |listener: &TcpListener| {
        let (client, address) = listener.accept().await.context("cannot accept")?;
        client.set_nodelay(true)?;
        Ok::<_, anyhow::Error>((client, address.ip()))
    };
    loop {
        // Errors of a connection end that connection only.
        tokio::select! {
            accepted = next(&clear) => {
                let (client, address) = accepted?;
                spawn_local(serve(Rc::clone(&worker), Box::new(client), address));
            }
            accepted = next(&with_tls) => {
                let (client, address) = accepted?;
                let (acceptor, worker) = (acceptor.clone(), Rc::clone(&worker));
                spawn_local(async move {
                    let client = acceptor.accept(client).await?;
                    serve(worker, Box::new(client), address).await
                });
            }
        }
    }
}

async fn serve(worker: Rc<Worker>, client: Box<dyn Transport>, address: IpAddr) -> Result<()> {
    Link::new(worker, Role::Server, address.to_string())
        .run(client)
        .await
}

#[cfg(test)]
mod tests {
    use h2::RecvStream;
    use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::super::h2::send;
    use super::super::{BUFFER_BYTES, Message};
    use super::*;

    /// Bytes of content, more than the initial windows of HTTP/2.
    const LENGTH: usize = 200_000;

    async fn bound() -> (TcpListener, SocketAddr) {
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).await;
        let listener = listener.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        (listener, address)
    }

    /// Reads content to its end. Returns its length and the trailers.
    async fn receive(mut content: RecvStream) -> (usize, Option<HeaderMap>) {
        let mut length = 0;
        while let Some(part) = content.data().await {
            let part = part.expect("it comes whole");
            length += part.len();
            let window = content.flow_control();
            window.release_capacity(part.len()).expect("it came");
        }
        (length, content.trailers().await.expect("the end comes"))
    }

    fn trailers() -> HeaderMap {
        HeaderMap::from_iter([(
            HeaderName::from_static("grpc-status"),
            HeaderValue::from_static("0"),
        )])
    }

    /// Serves HTTP/1.1, and echoes content.
    async fn serve_h1(mut stream: TcpStream) -> std::io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        while let Some(message) = Message::read(&mut stream, &mut buffer).await? {
            let head = String::from_utf8_lossy(&buffer[..message.head_bytes]);
            assert!(
                head.starts_with("POST /x?y HTTP/1.1\r\nhost: a\r\n"),
                "{head}"
            );
            assert!(
                head.ends_with("\r\nx-forwarded-for: 127.0.0.1\r\n\r\n"),
                "{head}"
            );
            let came = message.filled_bytes - message.head_bytes;
            let mut content = vec![0; came + message.remaining];
            stream.read_exact(&mut content[came..]).await?;
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
                content.len()
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&content).await?;
        }
        Ok(())
    }

    /// Serves HTTP/2, and echoes content, with trailers.
    async fn serve_h2(stream: TcpStream) {
        let mut connection = h2::server::handshake(stream).await.expect("a handshake");
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            assert_eq!(request.headers()["x-forwarded-for"], "127.0.0.1");
            spawn_local(async move {
                let (length, came) = receive(request.into_body()).await;
                assert_eq!(came, Some(trailers()));
                let mut stream = respond
                    .send_response(Response::new(()), false)
                    .expect("open");
                let sent = send(&mut stream, vec![b'.'; length].into(), false).await;
                sent.expect("the client takes it");
                stream.send_trailers(trailers()).expect("it is open");
            });
        }
    }

    /// Sends three concurrent requests over one connection through the proxy.
    async fn ask(protocol: Protocol, upstream: SocketAddr) {
        let (listener, address) = bound().await;
        spawn_local(async move {
            let (client, peer) = listener.accept().await.expect("somebody comes");
            serve(protocol.worker(upstream), Box::new(client), peer.ip()).await
        });
        let stream = TcpStream::connect(address).await.expect("it listens");
        let handshake = h2::client::handshake(stream).await;
        let (mut client, connection) = handshake.expect("a handshake");
        spawn_local(connection);
        let mut asked = Vec::new();
        for _ in 0..3 {
            let request = Request::post("http://a/x?y").header("content-length", LENGTH);
            let request = request.body(()).expect("it is valid");
            client = client.ready().await.expect("it takes more");
            let sent = client.send_request(request, false);
            let (response, mut stream) = sent.expect("it is sent");
            asked.push(spawn_local(async move {
                let sent = send(&mut stream, vec![b'.'; LENGTH].into(), false).await;
                sent.expect("the server takes it");
                stream.send_trailers(trailers()).expect("it is open");
                let response = response.await.expect("there is a response");
                assert_eq!(response.status(), 200);
                receive(response.into_body()).await
            }));
        }
        for asked in asked {
            let (length, came) = asked.await.expect("it was answered");
            assert_eq!(length, LENGTH);
            assert_eq!(came, (protocol == Protocol::H2c).then(trailers));
        }
    }

    #[tokio::test(flavor = "local")]
    async fn requests_of_http2_are_answered_by_a_server_of_http1() {
        let (origin, upstream) = bound().await;
        spawn_local(async move {
            while let Ok((stream, _)) = origin.accept().await {
                spawn_local(serve_h1(stream));
            }
        });
        ask(Protocol::H1, upstream).await;
    }

    #[tokio::test(flavor = "local")]
    async fn requests_of_http2_are_answered_over_one_connection_of_http2() {
        let (origin, upstream) = bound().await;
        spawn_local(async move {
            let (stream, _) = origin.accept().await.expect("the proxy comes");
            serve_h2(stream).await;
        });
        ask(Protocol::H2c, upstream).await;
    }
}
