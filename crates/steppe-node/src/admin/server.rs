//! Accepts and serves admin's connections, a bounded number at once.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use steppe_net::limits::ACCEPT_PAUSE;
use steppe_net::tls::ListenerTls;
use steppe_net::{BoundListener, Listener, Stream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::yield_now;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::connections::{Activity, Connections};
use super::limits::{
    CONNECTION_TIME_MAX, CONNECTIONS_MAX, HANDSHAKE_TIMEOUT, HEADER_BYTES_MAX, HEADER_COUNT_MAX,
    HEADER_TIMEOUT, LAST_RESPONSE_TIME_MAX, WRITE_STALL_TIME_MAX,
};
use super::stall::StallBound;
use super::{AdminError, socket_error};

/// A listener of admin and its endpoints.
#[derive(Debug)]
pub(super) struct Server {
    listener: Listener,
    /// TLS of the listener; `None`: without.
    tls: Option<Arc<ListenerTls>>,
    router: Router,
}

impl Server {
    pub(super) fn new(
        key: &'static str,
        bound: BoundListener,
        (tls, router): (Option<Arc<ListenerTls>>, Router),
    ) -> Result<Self, AdminError> {
        let address = bound.address().clone();
        let listener = bound
            .into_listener()
            .map_err(|source| socket_error(key, &address, source))?;
        Ok(Self {
            listener,
            tls,
            router,
        })
    }

    /// Accepts for ever. Connections end with this future.
    pub(super) async fn run(self) {
        let mut connections = Connections::new(CONNECTIONS_MAX);
        loop {
            match poll_fn(|cx| self.listener.poll_accept(cx)).await {
                Ok((stream, _)) => {
                    let router = self.router.clone();
                    // With the certificate files as they were read last.
                    let tls = self.tls.as_ref().map(|tls| tls.rustls_config().into());
                    connections.make_room().await;
                    connections.spawn(|activity| serve(stream, (tls, router), activity));
                    // The new connection reads its request before a newer one can take its place,
                    // even if hundreds wait in the listener's queue.
                    yield_now().await;
                }
                Err(error) => {
                    tracing::warn!(%error, "admin failed to accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn serve(stream: Stream, told: (Option<TlsAcceptor>, Router), activity: Activity) {
    match stream {
        Stream::Tcp(stream) => serve_io(stream, told, activity).await,
        Stream::Unix(stream) => serve_io(stream, told, activity).await,
    }
}

async fn serve_io<I>(io: I, (tls, router): (Option<TlsAcceptor>, Router), activity: Activity)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = StallBound::new(io, WRITE_STALL_TIME_MAX, activity.clone());
    let Some(tls) = tls else {
        return serve_http(io, router, activity).await;
    };
    match timeout(HANDSHAKE_TIMEOUT, tls.accept(io)).await {
        Ok(Ok(session)) => serve_http(session, router, activity).await,
        Ok(Err(error)) => tracing::debug!(%error, "admin TLS handshake failed"),
        Err(_) => tracing::debug!("admin TLS handshake timed out"),
    }
}

async fn serve_http<I>(io: I, router: Router, activity: Activity)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(io);
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |request| {
        let in_flight = activity.begin_request();
        let response = router.call(request);
        async move {
            let response = response.await;
            response.map(|response| response.map(|content| in_flight.with_content(content)))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(HEADER_COUNT_MAX)
        .serve_connection(io, service);
    let mut connection = pin!(connection);
    let mut end = timeout(CONNECTION_TIME_MAX, connection.as_mut()).await;
    if end.is_err() {
        connection.as_mut().graceful_shutdown();
        end = timeout(LAST_RESPONSE_TIME_MAX, connection).await;
    }
    match end {
        Ok(Ok(())) => {}
        // A peer that disconnects or breaks the protocol is not an error of the node.
        Ok(Err(error)) => tracing::debug!(%error, "admin connection ended"),
        Err(_) => tracing::debug!("admin connection timed out"),
    }
}
