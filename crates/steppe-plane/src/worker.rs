//! Services, and who serves them.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use crate::connection::Side;
use crate::frame::Queueing;
use crate::io::{Accepted, Driver, Endpoint, Failure, Handle, Link, Memory, Receiver, Sender, Way};
use crate::limits::{ACCEPT_PAUSE, DRAIN_POLL};
use crate::status::Status;

/// Services by their names. Clones share them.
#[derive(Clone)]
pub struct Worker {
    services: Arc<HashMap<String, Service>>,
    memory: Arc<Memory>,
}

/// What a worker is built from.
pub struct WorkerBuilder {
    services: HashMap<String, Service>,
    memory: Arc<Memory>,
}

/// A worker that listens. Where it is dropped, its connections are cut.
#[derive(Debug)]
pub struct WorkerServer {
    address: SocketAddr,
    links: Arc<Mutex<Vec<Weak<Link>>>>,
    task: JoinHandle<()>,
}

/// A request, and what answers it.
#[derive(Debug)]
pub struct Request {
    /// The service that it names.
    pub service: String,
    /// The media type of its messages.
    pub content_type: Option<String>,
    /// Permits to run it more than once.
    pub idempotency_key: Option<Vec<u8>>,
    /// When its time is over. The handler is dropped then.
    pub deadline: Option<Instant>,
    /// Its body.
    pub body: Receiver,
    /// The response.
    pub response: Sender,
}

type Running = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

#[derive(Clone)]
struct Service {
    handler: Arc<dyn Fn(Request) -> Running + Send + Sync>,
    calls: Arc<Semaphore>,
}

impl WorkerBuilder {
    /// Adds a service that takes one message and answers with one. At most `calls_max` run at a time;
    /// others wait, or are refused where they do not.
    #[must_use]
    pub fn unary<H, F>(self, service: &str, calls_max: usize, handler: H) -> Self
    where
        H: Fn(Bytes) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Bytes, Failure>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        self.stream(service, calls_max, move |mut request| {
            let handler = Arc::clone(&handler);
            async move {
                let body = request.body.whole().await?;
                match handler(body).await {
                    Ok(response) => request.response.send_whole(response).await,
                    Err(failure) => {
                        request.response.fail(&failure);
                        Ok(())
                    }
                }
            }
        })
    }

    /// Adds a service that takes and answers as it likes. Where its handler fails, the stream is reset
    /// with that, unless it has ended.
    #[must_use]
    pub fn stream<H, F>(mut self, service: &str, calls_max: usize, handler: H) -> Self
    where
        H: Fn(Request) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let service_of = Service {
            handler: Arc::new(move |request| Box::pin(handler(request))),
            calls: Arc::new(Semaphore::new(calls_max.min(Semaphore::MAX_PERMITS))),
        };
        self.services.insert(service.to_owned(), service_of);
        self
    }

    /// The worker.
    #[must_use]
    pub fn build(self) -> Worker {
        Worker {
            services: Arc::new(self.services),
            memory: self.memory,
        }
    }
}

impl Worker {
    /// A worker without services.
    #[must_use]
    pub fn builder(memory: &Arc<Memory>) -> WorkerBuilder {
        WorkerBuilder {
            services: HashMap::new(),
            memory: Arc::clone(memory),
        }
    }

    /// Listens on `address`, and serves whoever connects.
    ///
    /// # Errors
    /// What the system says.
    pub async fn listen(&self, address: impl ToSocketAddrs) -> io::Result<WorkerServer> {
        let listener = TcpListener::bind(address).await?;
        let links = Arc::new(Mutex::new(Vec::new()));
        Ok(WorkerServer {
            address: listener.local_addr()?,
            task: tokio::spawn(accept(self.clone(), listener, Arc::clone(&links))),
            links,
        })
    }

    fn driver(&self, socket: TcpStream, side: Side) -> Option<(Arc<Link>, Driver<Self>)> {
        // Without it answers are late, and right.
        let _ = socket.set_nodelay(true);
        let now = Instant::now();
        let link = Link::new(side, &self.memory, now).ok()?;
        let driver = Driver::new(Arc::clone(&link), socket, self.clone(), now);
        Some((link, driver))
    }
}

impl WorkerServer {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no further calls, and finishes those that are open, for as long as `patience`; then cuts
    /// what is left. Whether all were finished.
    pub async fn drain(self, patience: Duration) -> bool {
        let links: Vec<Arc<Link>> = {
            let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
            links.iter().filter_map(Weak::upgrade).collect()
        };
        for link in &links {
            link.drain();
        }
        let drained = async {
            while !links.iter().all(|link| link.is_drained()) {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        };
        tokio::time::timeout(patience, drained).await.is_ok()
    }
}

impl Drop for WorkerServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(worker: Worker, listener: TcpListener, links: Arc<Mutex<Vec<Weak<Link>>>>) {
    let mut drivers = JoinSet::new();
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            // Out of descriptors, most likely: one of them closes.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        while drivers.try_join_next().is_some() {}
        // Without room for it, a connection is closed.
        if let Some((link, driver)) = worker.driver(socket, Side::Acceptor) {
            drivers.spawn(driver);
            let mut links = links.lock().unwrap_or_else(PoisonError::into_inner);
            links.retain(|link| link.strong_count() > 0);
            links.push(Arc::downgrade(&link));
        }
    }
}

impl Endpoint for Worker {
    fn accept(&self, accepted: Accepted) {
        let Some(service) = self.services.get(&accepted.service) else {
            let failure = Failure::unprocessed(Status::UnknownService, accepted.service);
            return accepted.handle.reset(&failure);
        };
        let handle = Arc::clone(&accepted.handle);
        let request = Request {
            service: accepted.service,
            content_type: accepted.content_type,
            idempotency_key: accepted.idempotency_key,
            deadline: accepted.deadline,
            body: Receiver::new(Arc::clone(&handle), Way::Request),
            response: Sender::new(accepted.handle),
        };
        tokio::spawn(serve(service.clone(), handle, request));
    }
}

/// Runs a handler, until it is done or the stream is gone.
async fn serve(service: Service, handle: Arc<Handle>, request: Request) {
    let run = async {
        let permit = match handle.queueing {
            Queueing::Allowed => service.calls.acquire().await.ok(),
            Queueing::Never => service.calls.try_acquire().ok(),
        };
        let Some(_permit) = permit else {
            let detail = "as many calls run as the service takes";
            return Err(Failure::unprocessed(Status::Overloaded, detail));
        };
        (service.handler)(request).await
    };
    tokio::select! {
        _ = handle.gone() => {}
        result = run => if let Err(failure) = result {
            handle.reset(&failure);
        }
    }
}
