//! A worker that listens.

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

/// A worker that listens. Where it is dropped, its connections are cut.
#[derive(Debug)]
pub struct WorkerServer {
    address: SocketAddr,
    /// Takes the end of a drain's time.
    drain: Option<oneshot::Sender<Instant>>,
    task: JoinHandle<bool>,
}

impl Worker {
    /// Listens on `address`, and serves whoever connects.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::InvalidInput`] where the services can't be named, see
    /// [`Worker::register`].
    pub async fn listen(&self, address: impl ToSocketAddrs) -> io::Result<WorkerServer> {
        self.check()?;
        let listener = TcpListener::bind(address).await?;
        WorkerServer::new(self.clone(), listener, None)
    }

    /// The same by TLS, which has to offer [`ALPN`](crate::ALPN). Files of `tls` that change are read again.
    ///
    /// # Errors
    /// See [`Worker::listen`].
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

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens no more, takes no further calls on connections that there are, and finishes those that are
    /// open, for as long as `patience`; then resets what is left. Whether all were finished. Then it is
    /// safe to stop; [`Worker::listen`] resumes.
    ///
    /// # Cancel safety
    /// Where it is dropped, connections are cut.
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

/// Serves until a drain has ended; whether it left nothing open.
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
            // One that failed says nothing: whoever dialed knows.
            Some(Ok(Ok(transport))) = handshakes.join_next() => {
                let _ = connections.serve(transport, Side::Acceptor);
                continue;
            }
            deadline = &mut drain => break deadline,
        };
        match (accepted, &tls) {
            // Without room for it, a connection is closed.
            (Ok((socket, _)), None) => _ = connections.serve(socket, Side::Acceptor),
            (Ok((socket, _)), Some(tls)) => {
                if let Ok(charge) = reserve_session(connections.memory()) {
                    handshakes.spawn(Transport::accept(socket, tls.rustls_config(), charge));
                }
            }
            // Out of descriptors, most likely: one of them closes.
            (Err(_), _) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    };
    // Who connects now is refused, and goes elsewhere.
    drop(listener);
    // Where nobody can ask for a drain, this task is being aborted.
    let Ok(deadline) = deadline else { return false };
    connections.drain(deadline).ends().await
}
