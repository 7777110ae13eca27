//! A worker that listens for callers and relays.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use steppe_net::tls::{ListenerTls, keep_current};
use tokio::net::{TcpListener, ToSocketAddrs};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use super::Worker;
use super::connections::Connections;
use crate::connection::Side;
use crate::io::{Transport, reserve_session};
use crate::limits::{ACCEPT_PAUSE, DEADLINE_MAX};

/// A worker that listens. Dropping this cuts its connections.
#[derive(Debug)]
pub struct WorkerServer {
    address: SocketAddr,
    /// Sends the deadline of a drain to the task.
    drain: Option<oneshot::Sender<Instant>>,
    task: JoinHandle<bool>,
}

impl Worker {
    /// Listens on `address`, and serves every peer that connects.
    ///
    /// # Errors
    /// The error of the system; [`io::ErrorKind::InvalidInput`] if the services can't be registered, see
    /// [`Worker::register`].
    pub async fn listen(&self, address: impl ToSocketAddrs) -> io::Result<WorkerServer> {
        self.check()?;
        let listener = TcpListener::bind(address).await?;
        WorkerServer::new(self.clone(), listener, None)
    }

    /// Listens over TLS, which has to offer [`ALPN`](crate::ALPN). Changed files of `tls` are reloaded.
    ///
    /// # Errors
    /// The errors of [`Worker::listen`].
    pub async fn listen_tls(
        &self,
        address: impl ToSocketAddrs,
        tls: Arc<ListenerTls>,
    ) -> io::Result<WorkerServer> {
        self.check()?;
        let listener = TcpListener::bind(address).await?;
        WorkerServer::new(self.clone(), listener, Some(tls))
    }
}

impl WorkerServer {
    fn new(
        worker: Worker,
        listener: TcpListener,
        tls: Option<Arc<ListenerTls>>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (drain, drained) = oneshot::channel();
        Ok(Self {
            address,
            drain: Some(drain),
            task: tokio::spawn(serve(Connections::new(worker), listener, tls, drained)),
        })
    }

    /// Address of the listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the listener, accepts no further calls on open connections, and finishes the open calls
    /// for up to `patience`; then resets the rest. True if all calls were finished. After that, the process can be
    /// stopped, or [`Worker::listen`] called again.
    ///
    /// # Cancel safety
    /// A future that is dropped cuts the connections.
    #[expect(clippy::disallowed_methods, reason = "the time of a drain begins")]
    pub async fn drain(mut self, patience: Duration) -> bool {
        if let Some(drain) = self.drain.take() {
            let _ = drain.send(Instant::now() + patience.min(DEADLINE_MAX));
        }
        (&mut self.task).await.unwrap_or(false)
    }
}

impl Drop for WorkerServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves until a drain has ended. True if it finished all calls.
async fn serve(
    mut connections: Connections,
    listener: TcpListener,
    tls: Option<Arc<ListenerTls>>,
    mut drain: oneshot::Receiver<Instant>,
) -> bool {
    let mut tasks = JoinSet::new();
    if let Some(tls) = &tls {
        tasks.spawn(keep_current(Arc::clone(tls)));
    }
    let mut handshakes = JoinSet::new();
    let deadline = loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // A failed handshake is not logged: the peer that dialed sees it.
            Some(Ok(Ok(transport))) = handshakes.join_next() => {
                let _ = connections.serve(transport, Side::Acceptor);
                continue;
            }
            deadline = &mut drain => break deadline,
        };
        match (accepted, &tls) {
            // A connection without room for it is closed.
            (Ok((socket, _)), None) => _ = connections.serve(socket, Side::Acceptor),
            (Ok((socket, _)), Some(tls)) => {
                if let Ok(charge) = reserve_session(connections.memory()) {
                    handshakes.spawn(Transport::accept(socket, tls.rustls_config(), charge));
                }
            }
            // Probably out of file descriptors, until a connection closes.
            (Err(_), _) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    };
    // Peers that connect from now on are refused, and use another worker.
    drop(listener);
    // Without a sender of drains, this task is being aborted.
    let Ok(deadline) = deadline else { return false };
    connections.drain(deadline).ends().await
}
