//! Services, and who serves them.

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

/// Services by their names. Clones share them.
#[derive(Clone)]
pub struct Worker {
    services: Arc<BTreeMap<String, Service>>,
    memory: Arc<Memory>,
}

/// What a worker is built from.
pub struct WorkerBuilder {
    services: BTreeMap<String, Service>,
    memory: Arc<Memory>,
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
    /// The trace that it belongs to, as the caller has it: what the handler asks of others passes it on.
    pub trace_parent: Option<TraceParent>,
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
    calls_max: usize,
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
            calls_max,
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
            services: BTreeMap::new(),
            memory: Arc::clone(memory),
        }
    }

    /// A connection, which names the services to its peer.
    #[expect(clippy::disallowed_methods, reason = "a connection begins")]
    fn driver(&self, transport: Transport, side: Side) -> io::Result<(Arc<Link>, Driver<Self>)> {
        // Without it answers are late, and right.
        let _ = transport.socket().set_nodelay(true);
        let now = Instant::now();
        let link = Link::new(side, &self.memory, now)
            .map_err(|error| io::Error::new(io::ErrorKind::OutOfMemory, error))?;
        link.register(&self.named()).map_err(invalid)?;
        let driver = Driver::new(Arc::clone(&link), transport, self.clone(), now);
        Ok((link, driver))
    }

    /// Checks whether the services can be named.
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

/// Runs a handler, until it is done or the stream is gone.
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
