//! Accepts and serves admin's connections, a bounded number at once.

use std::future::poll_fn;
use std::pin::pin;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use steppe_net::limits::ACCEPT_PAUSE;
use steppe_net::{BoundListener, Listener, Stream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::connections::{Activity, Connections};
use super::limits::{
    CONNECTION_TIME_MAX, CONNECTIONS_MAX, HEADER_BYTES_MAX, HEADER_COUNT_MAX, HEADER_TIMEOUT,
    LAST_RESPONSE_TIME_MAX, WRITE_STALL_TIME_MAX,
};
use super::stall::StallBound;
use super::{AdminError, socket_error};

/// One listener and what it answers.
#[derive(Debug)]
pub(super) struct Server {
    listener: Listener,
    router: Router,
}

impl Server {
    pub(super) fn new(
        key: &'static str,
        bound: BoundListener,
        router: Router,
    ) -> Result<Self, AdminError> {
        let address = bound.address().clone();
        let listener = bound
            .into_listener()
            .map_err(|source| socket_error(key, &address, source))?;
        Ok(Self { listener, router })
    }

    /// Accepts for ever. Connections end with this future.
    pub(super) async fn run(self) {
        let mut connections = Connections::new(CONNECTIONS_MAX);
        loop {
            match poll_fn(|cx| self.listener.poll_accept(cx)).await {
                Ok((stream, _)) => {
                    let router = self.router.clone();
                    connections.make_room().await;
                    connections.spawn(|activity| serve(stream, router, activity));
                    // The new one reads what it was sent before a newer one can take its place,
                    // even if hundreds wait in the listener's queue.
                    yield_now().await;
                }
                Err(error) => {
                    tracing::warn!(%error, "admin cannot accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn serve(stream: Stream, router: Router, activity: Activity) {
    match stream {
        Stream::Tcp(stream) => serve_io(stream, router, activity).await,
        Stream::Unix(stream) => serve_io(stream, router, activity).await,
    }
}

async fn serve_io<I>(io: I, router: Router, activity: Activity)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(StallBound::new(io, WRITE_STALL_TIME_MAX, activity.clone()));
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
        // A peer that leaves or errs is its own business.
        Ok(Err(error)) => tracing::debug!(%error, "admin connection ended"),
        Err(_) => tracing::debug!("admin connection ran out of time"),
    }
}
