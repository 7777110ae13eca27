//! Services and their handlers: the worker's side of calls.

mod connections;
mod listen;
mod register;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::Semaphore;

use crate::connection::{OpenError, Side};
use crate::frame::{self, Queueing, TraceParent, write_services};
use crate::io::{
    Accepted, Driver, Endpoint, Failure, Handle, Link, Memory, Receiver, Sender, Transport, Way,
};
use crate::limits::WORKER_CALL_BYTES;
use crate::status::Status;

pub use listen::WorkerServer;
pub use register::{Registered, WorkerStatus};

/// A set of services with their handlers. Clones share them.
#[derive(Clone)]
pub struct Worker {
    services: Arc<BTreeMap<String, Service>>,
    memory: Arc<Memory>,
}

/// Builder of a [`Worker`].
pub struct WorkerBuilder {
    services: BTreeMap<String, Service>,
    memory: Arc<Memory>,
}

/// A request, with the sender of its response.
#[derive(Debug)]
pub struct Request {
    /// Name of the called service.
    pub service: String,
    /// Media type of the request's messages.
    pub content_type: Option<String>,
    /// Key that permits running the request more than once.
    pub idempotency_key: Option<Vec<u8>>,
    /// Trace context of the caller; the handler passes it on in its own calls.
    pub trace_parent: Option<TraceParent>,
    /// Deadline of the call, at which the handler is dropped.
    pub deadline: Option<Instant>,
    /// Body of the request.
    pub body: Receiver,
    /// Sender of the response.
    pub response: Sender,
}

type Running = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

#[derive(Clone)]
struct Service {
    handler: Arc<dyn Fn(Request) -> Running + Send + Sync>,
    calls: Arc<Semaphore>,
    calls_max: usize,
}

impl WorkerBuilder {
    /// Adds a service that receives one message and responds with one. At most `calls_max` calls run at a time;
    /// further ones wait, or are refused if they may not wait.
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

    /// Adds a service that receives and sends any number of messages. If the handler fails, the stream is reset
    /// with its failure, unless it has ended.
    #[must_use]
    pub fn stream<H, F>(mut self, service: &str, calls_max: usize, handler: H) -> Self
    where
        H: Fn(Request) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let service_of = Service {
            handler: Arc::new(move |request| Box::pin(handler(request))),
            calls: Arc::new(Semaphore::new(calls_max.min(Semaphore::MAX_PERMITS))),
            calls_max,
        };
        self.services.insert(service.to_owned(), service_of);
        self
    }

    /// Builds the worker.
    #[must_use]
    pub fn build(self) -> Worker {
        Worker {
            services: Arc::new(self.services),
            memory: self.memory,
        }
    }
}

impl Worker {
    /// A builder without services.
    #[must_use]
    pub fn builder(memory: &Arc<Memory>) -> WorkerBuilder {
        WorkerBuilder {
            services: BTreeMap::new(),
            memory: Arc::clone(memory),
        }
    }

    /// A new connection, which registers the services at its peer.
    #[expect(clippy::disallowed_methods, reason = "a connection begins")]
    fn driver(&self, transport: Transport, side: Side) -> io::Result<(Arc<Link>, Driver<Self>)> {
        // Without TCP_NODELAY, responses are only slower.
        let _ = transport.socket().set_nodelay(true);
        let now = Instant::now();
        let link = Link::new(side, &self.memory, now)
            .map_err(|error| io::Error::new(io::ErrorKind::OutOfMemory, error))?;
        link.register(&self.named()).map_err(invalid)?;
        let driver = Driver::new(Arc::clone(&link), transport, self.clone(), now);
        Ok((link, driver))
    }

    /// Checks that the services fit a SERVICES frame.
    fn check(&self) -> io::Result<()> {
        write_services(&self.named(), &mut Vec::new()).map_err(|error| invalid(error.into()))
    }

    fn named(&self) -> Vec<frame::Service<'_>> {
        let services = self.services.iter();
        services
            .map(|(name, service)| frame::Service {
                name,
                calls_max: u32::try_from(service.calls_max).ok(),
            })
            .collect()
    }
}

fn invalid(error: OpenError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

impl Endpoint for Worker {
    const CALL_BYTES: usize = WORKER_CALL_BYTES;

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
            trace_parent: accepted.trace_parent,
            deadline: accepted.deadline,
            body: Receiver::new(Arc::clone(&handle), Way::Request),
            response: Sender::new(accepted.handle),
        };
        tokio::spawn(serve(service.clone(), handle, request));
    }
}

/// Runs a handler, until it has finished or the stream is closed.
async fn serve(service: Service, handle: Arc<Handle>, request: Request) {
    let run = async {
        let permit = match handle.queueing {
            Queueing::Allowed => service.calls.acquire().await.ok(),
            Queueing::Never => service.calls.try_acquire().ok(),
        };
        let Some(_permit) = permit else {
            let detail = "the service already runs its maximum number of calls";
            return Err(Failure::unprocessed(Status::Overloaded, detail));
        };
        handle.run();
        (service.handler)(request).await
    };
    tokio::select! {
        _ = handle.gone() => {}
        result = run => if let Err(failure) = result {
            handle.reset(&failure);
        }
    }
}
