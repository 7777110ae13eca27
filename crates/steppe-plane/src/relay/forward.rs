//! The forwarding of one call.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::time::timeout_at;

use super::access::{Access, Rules};
use super::counts::Counts;
use super::pressure::Pressure;
use super::pump::{Limit, Pump, Stuck};
use super::queue::{Queue, RelayConfig};
use super::registry::{Registry, Service, Taken, lock};
use super::tries::{Tries, is_elsewhere};
use crate::frame::{Head, Payment, Queueing};
use crate::io::{Accepted, Failure, Handle, Link, Receiver, Sender, Way};
use crate::limits::{EAGER_BYTES_MAX, RELAY_TRIES_MAX};
use crate::status::Status;

/// The state that all forwarded calls share.
#[derive(Debug)]
pub(super) struct Passage {
    config: Mutex<RelayConfig>,
    is_draining: AtomicBool,
    pub(super) rules: Rules,
    pub(super) registry: Registry,
    pub(super) queue: Queue,
    pub(super) counts: Counts,
    pub(super) pressure: Pressure,
}

/// The result of a call at one worker.
enum Passed {
    /// The response has ended, with the status of the worker.
    Ended(Status),
    /// The worker did not process the call, and no part of its body is lost: another worker may get it.
    Untouched(Failure),
}

/// Forwards a call, until it has ended or its caller is gone.
pub(super) async fn forward(passage: Arc<Passage>, (accepted, access): (Accepted, Arc<Access>)) {
    let handle = &accepted.handle;
    let status = tokio::select! {
        biased;
        // The stream at the worker is dropped, and so cancelled.
        left = handle.gone() => left.status,
        // Polled after `gone`, which registers the waker of the task.
        denied = access.revoked(&accepted.service) => {
            handle.reset(&denied);
            denied.status
        }
        result = passage.pass(&accepted) => result.unwrap_or_else(|failure| {
            handle.reset(&failure);
            failure.status
        }),
    };
    passage.counts.finish(status);
}

impl Passage {
    pub(super) fn new(config: RelayConfig) -> Self {
        Self {
            config: Mutex::new(config),
            is_draining: AtomicBool::new(false),
            rules: Rules::default(),
            registry: Registry::default(),
            queue: Queue::default(),
            counts: Counts::default(),
            pressure: Pressure::default(),
        }
    }

    /// Accepts no further calls.
    pub(super) fn drain(&self) {
        self.is_draining.store(true, Ordering::Release);
    }

    pub(super) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    /// Sets the limits for further calls.
    pub(super) fn set_config(&self, config: RelayConfig) {
        *lock(&self.config) = config;
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the wait of a call begins, and what is left of its deadline is passed on"
    )]
    async fn pass(&self, accepted: &Accepted) -> Result<Status, Failure> {
        let begun = Instant::now();
        let config = *lock(&self.config);
        let mut request = Receiver::new(Arc::clone(&accepted.handle), Way::Request);
        let body = poll_fn(|cx| request.poll_head(cx)).await?;
        let length = body.and_then(|body| body.length);
        if length.is_some_and(|length| length > config.payload_bytes_max) {
            return Err(Failure::unprocessed(
                Status::TooLarge,
                format!(
                    "{} bytes, at most {} are allowed",
                    length.unwrap_or_default(),
                    config.payload_bytes_max
                ),
            ));
        }
        let payment = body.map_or(Payment::Standing, |body| body.payment);
        let now = Instant::now();
        let mut tries = Tries::new(now + config.queue_wait);
        let limit = Limit {
            length,
            bytes_max: config.payload_bytes_max,
            until: now + config.grant_wait(),
            wait: config.grant_wait(),
            pressure: &self.pressure,
        };
        loop {
            let left = accepted
                .deadline
                .map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let head = Head {
                length,
                payment,
                deadline: left,
                queueing: accepted.handle.queueing,
                content_type: accepted.content_type.as_deref(),
                trace_parent: accepted.trace_parent,
                idempotency_key: accepted.idempotency_key.as_deref(),
                ..Head::request(&accepted.service)
            };
            let handle = self.open(&head, &tries).await?;
            accepted.handle.run();
            let worker = Arc::clone(&handle.link);
            let passed = exchange(
                (&mut request, Sender::new(Arc::clone(&accepted.handle))),
                handle,
                (payment, limit),
                (&self.counts, begun),
            );
            match passed.await? {
                Passed::Ended(status) => return Ok(status),
                Passed::Untouched(failure) => tries.note(&self.registry, &worker, failure)?,
            }
        }
    }

    /// The tries of a new call, whose time to wait for workers begins now.
    #[expect(clippy::disallowed_methods, reason = "the wait of a call begins")]
    pub(super) fn tries(&self) -> Tries {
        Tries::new(Instant::now() + lock(&self.config).queue_wait)
    }

    /// Opens a stream at a worker of the service in `head` that has not refused the call, once such a worker has
    /// room.
    pub(super) async fn open(
        &self,
        head: &Head<'_>,
        tries: &Tries,
    ) -> Result<Arc<Handle>, Failure> {
        let config = *lock(&self.config);
        let Some(service) = self.registry.find(head.service) else {
            return Err(Failure::unprocessed(Status::UnknownService, head.service));
        };
        let queueing = config.queueing(head.queueing);
        let head = &Head { queueing, ..*head };
        let bytes = head.length.unwrap_or(0);
        let mut lost = 0;
        loop {
            // A new call takes free room before calls that are only being woken for it.
            let (link, taken) = match service.take(bytes, tries.refused()) {
                Some(taken) => taken,
                // The next worker with room may be one that has refused the call, so the call does not wait.
                None if let Some(refusal) = tries.refusal() => return Err(refusal.clone()),
                None if head.queueing == Queueing::Never => {
                    let detail = "no worker has room for the call now";
                    return Err(retry_later(Status::Overloaded, detail));
                }
                None => self.wait((&service, head), tries).await?,
            };
            match timeout_at(tries.until().into(), open_at(&link, head)).await {
                Ok(Ok(handle)) => {
                    handle.keep(Box::new(taken));
                    return Ok(handle);
                }
                Ok(Err(failure)) if failure.status == Status::Unavailable => {
                    // The worker drains or is lost. Its endpoint reports that to the registry too.
                    self.registry.remove(&link);
                    lost += 1;
                    if lost == RELAY_TRIES_MAX {
                        return Err(failure);
                    }
                }
                Ok(Err(failure)) => return Err(failure),
                Err(_) => {
                    let detail = "no worker accepted the call in time";
                    return Err(retry_later(Status::Overloaded, detail));
                }
            }
        }
    }

    /// Waits until a worker has room.
    #[expect(clippy::disallowed_methods, reason = "the wait for a worker begins")]
    async fn wait(
        &self,
        (service, head): (&Arc<Service>, &Head<'_>),
        tries: &Tries,
    ) -> Result<(Arc<Link>, Taken), Failure> {
        let until = tries.until();
        let held = match head.payment {
            Payment::Granted => 0,
            Payment::Standing => head.length.unwrap_or(EAGER_BYTES_MAX as u64),
        };
        let bytes_max = lock(&self.config).queue_bytes;
        let _queued = self.queue.enter(held, bytes_max)?;
        let _waiting = service.wait();
        let since = Instant::now();
        let free = async {
            loop {
                // Before the look: two workers that are free at once wake two calls.
                let mut freed = pin!(service.freed());
                freed.as_mut().enable();
                if let Some(taken) = service.take(head.length.unwrap_or(0), tries.refused()) {
                    return taken;
                }
                freed.await;
            }
        };
        let press = self
            .pressure
            .press_at(since + until.saturating_duration_since(since) / 2);
        let freed = tokio::select! {
            biased;
            freed = timeout_at(until.into(), free) => freed,
            never = press => never,
        };
        self.counts.queue(since.elapsed());
        freed.map_err(|_| match service.is_served() {
            true => retry_later(
                Status::Overloaded,
                "no worker had room for the call in time",
            ),
            false => retry_later(Status::Unavailable, "the service has no connected worker"),
        })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the deadline of a call begins at a worker"
)]
async fn open_at(link: &Arc<Link>, head: &Head<'_>) -> Result<Arc<Handle>, Failure> {
    poll_fn(|cx| match link.open(head, cx.waker(), Instant::now()) {
        Ok(Some(handle)) => Poll::Ready(Ok(handle)),
        Ok(None) => Poll::Pending,
        Err(failure) => Poll::Ready(Err(failure)),
    })
    .await
}

/// Forwards both bodies, until the response has ended.
#[expect(clippy::disallowed_methods, reason = "when its answer began")]
async fn exchange(
    (request, mut response): (&mut Receiver, Sender),
    worker: Arc<Handle>,
    (payment, limit): (Payment, Limit<'_>),
    (counts, begun): (&Counts, Instant),
) -> Result<Passed, Failure> {
    let mut to_worker = Some(Sender::new(Arc::clone(&worker)));
    let mut from_worker = Receiver::new(worker, Way::Response);
    let mut has_answered = false;
    let outcome = {
        let mut up = pin!(upward(request, &mut to_worker, (payment, limit)));
        let mut down = pin!(downward(&mut from_worker, &mut response, || {
            has_answered = true;
            counts.answer(begun.elapsed());
        }));
        let mut is_up = true;
        poll_fn(|cx| {
            if is_up && let Poll::Ready(sent) = up.as_mut().poll(cx) {
                is_up = false;
                if let Err(failure) = sent {
                    return Poll::Ready(Err(failure));
                }
            }
            down.as_mut().poll(cx)
        })
        .await
    };
    match outcome {
        Ok(ended) => {
            let status = ended
                .as_ref()
                .map_or_else(|failure| failure.status, |()| Status::Ok);
            match ended {
                Ok(()) => response.end()?,
                Err(failure) => {
                    if is_elsewhere(&failure) && !has_answered && !request.has_begun() {
                        return Ok(Passed::Untouched(failure));
                    }
                    if from_worker.gone().is_some() {
                        return Err(failure);
                    }
                    response.fail(&failure);
                }
            }
            Ok(Passed::Ended(status))
        }
        Err(failure) => Err(failure),
    }
}

async fn upward(
    request: &mut Receiver,
    worker: &mut Option<Sender>,
    (payment, limit): (Payment, Limit<'_>),
) -> Result<(), Failure> {
    let Some(mut to) = worker.take() else {
        return Ok(());
    };
    match Pump::new(request, &mut to, payment).run_within(limit).await {
        Ok(()) => {
            // If the worker has ended before, its response tells the result.
            let _ = to.end();
            Ok(())
        }
        // The caller has ended its request early, and still expects the response.
        Err(Stuck::Source(failure)) => {
            to.fail(&failure);
            Ok(())
        }
        Err(Stuck::Sink) => Ok(()),
        Err(Stuck::Here(failure)) => Err(failure),
    }
}

/// Forwards the response. Returns the worker's result; the error is a failure to forward it.
async fn downward(
    worker: &mut Receiver,
    response: &mut Sender,
    has_answered: impl FnOnce(),
) -> Result<Result<(), Failure>, Failure> {
    let body = match poll_fn(|cx| worker.poll_head(cx)).await {
        Ok(Some(body)) => body,
        Ok(None) => return Ok(Ok(())),
        Err(failure) => return Ok(Err(failure)),
    };
    has_answered();
    let content_type = worker.content_type();
    let head = Head {
        length: body.length,
        payment: body.payment,
        content_type: content_type.as_deref(),
        ..Head::response()
    };
    response.respond(&head).await?;
    match Pump::new(worker, response, body.payment).run().await {
        Ok(()) => Ok(Ok(())),
        Err(Stuck::Source(failure)) => Ok(Err(failure)),
        Err(Stuck::Sink) => Err(Failure::new(
            Status::Cancelled,
            "the caller has disconnected",
        )),
        Err(Stuck::Here(failure)) => Err(failure),
    }
}

fn retry_later(status: Status, detail: &str) -> Failure {
    Failure {
        retry_after: Some(Duration::from_secs(1)),
        ..Failure::unprocessed(status, detail)
    }
}
