//! The embedded demo origin: a server to proxy to before there is an origin.
//!
//! The origin shows the request as it arrived, and has an endpoint for each kind of response that
//! is hard on a proxy: streamed, slow, endless, upgraded. It runs on a thread of its own, and
//! shares no code with the gateway.
//!
//! Invariant: every answer is bounded ([`limits`]) and escapes the text that it repeats.
//!
//! Leaves out: speed. It is no benchmark.

mod answers;
mod certificate;
pub mod limits;
mod page;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use axum::routing::{any, get};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use steppe_net::limits::ACCEPT_PAUSE;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use crate::memory::StackMark;
pub use certificate::Certificate;
use limits::{CONNECTION_TIME_MAX, CONNECTIONS_MAX, HEADER_TIMEOUT};

/// A running demo origin; it stops when this is dropped.
#[derive(Debug)]
pub struct Demo {
    address: SocketAddr,
    // In this order: the thread ends once the sender is gone.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Serves `listener` on a thread of its own.
///
/// # Errors
/// If the system has no thread or no epoll instance left.
pub fn spawn(listener: TcpListener) -> io::Result<Demo> {
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let serve = move || {
        let _stack = StackMark::here();
        runtime.block_on(async {
            tokio::select! {
                () = accept(listener) => {}
                // Also ends when the sender was dropped.
                _ = stopped => {}
            }
        });
    };
    let thread = std::thread::Builder::new()
        .name("demo-origin".to_owned())
        .spawn(serve)?;
    Ok(Demo {
        address,
        stop: Some(stop),
        thread: Some(thread),
    })
}

impl Demo {
    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().map(JoinHandle::join);
        if matches!(ended, Some(Err(_))) {
            tracing::error!("the demo origin panicked");
        }
    }
}

async fn accept(listener: TcpListener) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the demo origin cannot listen"),
    };
    let router = router();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let router = router.clone();
                connections.spawn(async move {
                    serve(stream, router).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the demo origin cannot accept");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, router: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .with_upgrades();
    match tokio::time::timeout(CONNECTION_TIME_MAX, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "demo connection ended"),
        Err(_) => tracing::debug!("demo connection timed out"),
    }
}

fn router() -> Router {
    Router::new()
        .route("/echo", any(answers::echo))
        .route("/bytes/{count}", get(answers::bytes))
        .route("/slow", get(answers::slow))
        .route("/events", get(answers::events))
        .route("/ws", get(answers::web_socket))
        .route("/status/{code}", any(answers::status))
        .fallback(page::show)
}

#[cfg(test)]
mod tests;
