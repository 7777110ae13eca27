//! Toy filters: one that waits, one that answers by itself, one that rewrites bodies.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use steppe_http::config::Respond;
use steppe_http::error::GatewayError;
use steppe_http::exchange::Part;
use steppe_http::field::FieldBlock;
use steppe_http::filter::{
    About, BodyTransform, ExchangeFilter, Filter, FilterFactory, FilterParts, Ready, Step,
};
use steppe_http::head::{ContentLength, RequestHead, ResponseHead};
use steppe_mem::{Buffer, Lease, Waiter};
use steppe_testkit::eventually;

/// Makes the same filter whenever it is asked.
#[derive(Debug)]
pub struct Same(pub Arc<dyn Filter>);

impl FilterFactory for Same {
    fn build(&self, _: &FilterParts<'_>) -> Arc<dyn Filter> {
        Arc::clone(&self.0)
    }
}

/// Factories of filters that know nothing of a configuration.
pub fn same(filters: Vec<Arc<dyn Filter>>) -> Vec<Arc<dyn FilterFactory>> {
    let made = filters.into_iter().map(Same);
    made.map(|same| Arc::new(same) as Arc<dyn FilterFactory>)
        .collect()
}

/// Lets each request wait until somebody outside says what becomes of it.
#[derive(Debug, Default, Clone)]
pub struct Gate(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    tickets: Vec<Arc<Mutex<Ticket>>>,
}

/// A request that waits.
#[derive(Debug, Default)]
struct Ticket {
    verdict: Option<Verdict>,
    waker: Option<Waker>,
    /// Number of times that the request was polled.
    polls: usize,
    is_dropped: bool,
}

/// The outcome of a request that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    Answer(u16),
    Fail,
}

#[derive(Debug)]
struct AtGate(Arc<Mutex<Ticket>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gate {
    /// Waits until `count` requests have come.
    pub fn wait_for(&self, count: usize) {
        eventually("they have come", || {
            let tickets = &lock(&self.0).tickets;
            tickets.len() >= count && lock(&tickets[count - 1]).polls > 0
        });
    }

    /// Says what becomes of the request that came as number `index`.
    pub fn decide(&self, index: usize, verdict: Verdict) {
        let ticket = Arc::clone(&lock(&self.0).tickets[index]);
        let mut ticket = lock(&ticket);
        ticket.verdict = Some(verdict);
        ticket.waker.take().expect("it waits").wake();
    }

    /// Number of times that the request of number `index` was polled.
    pub fn polls(&self, index: usize) -> usize {
        lock(&lock(&self.0).tickets[index]).polls
    }

    /// Waits until the state of request `index` is dropped.
    pub fn wait_for_drop(&self, index: usize) {
        eventually("it is dropped", || {
            lock(&lock(&self.0).tickets[index]).is_dropped
        });
    }
}

impl Filter for Gate {
    fn begin(&self, _: &About<'_>, _: &mut RequestHead) -> Result<Step, GatewayError> {
        let ticket = Arc::default();
        lock(&self.0).tickets.push(Arc::clone(&ticket));
        Ok(Step::Attach(Box::new(AtGate(ticket))))
    }
}

impl ExchangeFilter for AtGate {
    fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut RequestHead,
    ) -> Poll<Result<Ready, GatewayError>> {
        let mut ticket = lock(&self.0);
        ticket.polls += 1;
        Poll::Ready(match ticket.verdict {
            Some(Verdict::Pass) => {
                head.fields.append(b"x-gate", b"passed")?;
                Ok(Ready::Continue)
            }
            Some(Verdict::Answer(status)) => Ok(Ready::Respond(respond(status, "gate"))),
            Some(Verdict::Fail) => Err(GatewayError::bad_request()),
            None => {
                ticket.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
        })
    }

    fn response(&mut self, head: &mut ResponseHead) -> Result<(), GatewayError> {
        Ok(head.fields.append(b"x-gate", b"saw")?)
    }
}

impl Drop for AtGate {
    fn drop(&mut self) {
        lock(&self.0).is_dropped = true;
    }
}

/// Answers what has a field `denied` by itself.
#[derive(Debug)]
pub struct Deny;

impl Filter for Deny {
    fn begin(&self, about: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        assert!(about.client.is_loopback(), "{about:?}");
        assert_eq!(about.route, "all");
        let is_denied = head.fields.values_named(b"denied").next().is_some();
        Ok(if is_denied {
            Step::Respond(respond(403, "not you"))
        } else {
            Step::Continue
        })
    }
}

fn respond(status: u16, body: &str) -> Respond {
    Respond {
        status,
        body: body.into(),
        fields: vec![("x-by".into(), "filter".into())],
    }
}

/// Adds its name to heads, to each chunk, before the end, and to trailers.
#[derive(Debug)]
pub struct Mark(pub &'static str);

#[derive(Debug)]
struct Marking {
    request: Transform,
    response: Transform,
}

/// Each chunk gets the name as its last bytes; the end, a chunk before it.
#[derive(Debug)]
struct Transform {
    name: &'static str,
    parts: VecDeque<Part>,
    /// A chunk that is still to be written, for want of memory.
    rewriting: Option<Vec<u8>>,
    waiter: Waiter,
}

impl Filter for Mark {
    fn begin(&self, _: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        head.fields.append(b"x-mark", self.0.as_bytes())?;
        if head.length != ContentLength::Empty {
            head.length = ContentLength::Unknown;
        }
        Ok(Step::Attach(Box::new(Marking {
            request: Transform::new(self.0),
            response: Transform::new(self.0),
        })))
    }

    fn request_trailers(&self, trailers: &mut FieldBlock) {
        trailers.append(b"x-mark", self.0.as_bytes()).expect("room");
    }

    fn response(&self, head: &mut ResponseHead) -> Result<(), GatewayError> {
        head.fields.append(b"x-mark", self.0.as_bytes())?;
        if head.length != ContentLength::Empty {
            head.length = ContentLength::Unknown;
        }
        Ok(())
    }

    fn response_trailers(&self, trailers: &mut FieldBlock) {
        trailers.remove(b"secret");
        trailers.append(b"x-mark", self.0.as_bytes()).expect("room");
    }
}

impl ExchangeFilter for Marking {
    fn request_body(&mut self) -> Option<&mut dyn BodyTransform> {
        Some(&mut self.request)
    }

    fn response_body(&mut self) -> Option<&mut dyn BodyTransform> {
        Some(&mut self.response)
    }
}

impl Transform {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            parts: VecDeque::new(),
            rewriting: None,
            waiter: Waiter::default(),
        }
    }
}

impl BodyTransform for Transform {
    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        assert!(self.parts.is_empty(), "put before the last part went on");
        self.parts.push_back(part);
        Ok(())
    }

    fn poll_part(
        &mut self,
        cx: &mut Context<'_>,
        lease: &Lease,
    ) -> Poll<Result<Option<Part>, GatewayError>> {
        if self.rewriting.is_none() {
            match self.parts.pop_front() {
                None => return Poll::Ready(Ok(None)),
                Some(Part::Chunk(chunk)) => {
                    self.rewriting = Some([chunk.filled(), self.name.as_bytes()].concat());
                }
                Some(Part::End(trailers)) if self.name.is_empty() => {
                    return Poll::Ready(Ok(Some(Part::End(trailers))));
                }
                Some(end) => {
                    self.rewriting = Some(format!("<{}>", self.name).into_bytes());
                    self.name = "";
                    self.parts.push_back(end);
                }
            }
        }
        let content = self.rewriting.as_ref().expect("it was put there");
        let mut buffer = ready!(Buffer::poll_take(
            cx,
            lease,
            content.len(),
            &mut self.waiter
        ));
        buffer.put(content).expect("it was taken for it");
        self.rewriting = None;
        Poll::Ready(Ok(Some(Part::Chunk(buffer.into()))))
    }
}
