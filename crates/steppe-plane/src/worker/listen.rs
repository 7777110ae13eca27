//! A worker that listens.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, ToSocketAddrs};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Worker;
use super::connections::Connections;
use crate::connection::Side;
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
        WorkerServer::new(self.clone(), listener)
    }
}

impl WorkerServer {
    fn new(worker: Worker, listener: TcpListener) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (drain, drained) = oneshot::channel();
        Ok(Self {
            address,
            drain: Some(drain),
            task: tokio::spawn(serve(Connections::new(worker), listener, drained)),
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
    mut drain: oneshot::Receiver<Instant>,
) -> bool {
    let deadline = loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            deadline = &mut drain => break deadline,
        };
        match accepted {
            // Without room for it, a connection is closed.
            Ok((socket, _)) => _ = connections.serve(socket, Side::Acceptor),
            // Out of descriptors, most likely: one of them closes.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    };
    // Who connects now is refused, and goes elsewhere.
    drop(listener);
    // Where nobody can ask for a drain, this task is being aborted.
    let Ok(deadline) = deadline else { return false };
    connections.drain(deadline).ends().await
}
