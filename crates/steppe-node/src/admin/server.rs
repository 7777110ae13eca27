//! Accepts and serves admin's connections, a bounded number at once.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use steppe_net::limits::ACCEPT_PAUSE;
use steppe_net::{BoundListener, Listener, Stream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

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
    places: Arc<Semaphore>,
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
        Ok(Self {
            listener,
            router,
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        })
    }

    /// Accepts for ever. Connections end with this future.
    pub(super) async fn run(self) {
        let mut connections = JoinSet::new();
        loop {
            // What finds no place waits in the listener's queue.
            let place = Arc::clone(&self.places).acquire_owned().await;
            let place = place.expect("nobody closes the semaphore");
            while connections.try_join_next().is_some() {}
            match poll_fn(|cx| self.listener.poll_accept(cx)).await {
                Ok((stream, _)) => {
                    let router = self.router.clone();
                    connections.spawn(async move {
                        serve(stream, router).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "admin cannot accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn serve(stream: Stream, router: Router) {
    match stream {
        Stream::Tcp(stream) => serve_io(stream, router).await,
        Stream::Unix(stream) => serve_io(stream, router).await,
    }
}

async fn serve_io<I>(io: I, router: Router)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(router);
    let io = TokioIo::new(StallBound::new(io, WRITE_STALL_TIME_MAX));
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
