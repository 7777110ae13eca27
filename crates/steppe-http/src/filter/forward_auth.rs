//! `forward-auth`: another service decides about each request.
//!
//! It is asked by a GET that names the request, over connections of the worker's own pool. What it answers
//! with 2xx passes; any other answer is the client's. It fails closed: where there is no answer, the client
//! gets the error.
//!
//! Left out: content of requests, which the service is not shown.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_mem::Lease;
use steppe_net::clock;
use tokio::time::timeout_at;

use super::{About, ExchangeFilter, Filter, Identity, Ready, Step};
use crate::config::ForwardAuth;
use crate::error::{GatewayError, Resend};
use crate::exchange::{Outgoing, Part};
use crate::field::{FieldBlock, FieldId};
use crate::head::{RequestHead, ResponseHead};
use crate::limits::RESPOND_BYTES_MAX;
use crate::metrics::CloseReason;
use crate::respond::Respond;
use crate::upstream::channel::UpstreamStream;
use crate::upstream::{Failure, Next, Pool, PooledStream, Selection};

/// Passes what another service lets pass.
#[derive(Debug)]
pub struct ForwardAuthFilter(Arc<ForwardAuth>);

/// A request about which the service is being asked.
struct Asking {
    config: Arc<ForwardAuth>,
    answer: Pin<Box<dyn Future<Output = Result<Answer, GatewayError>>>>,
    identity: Identity,
}

/// What the service is asked, and how.
struct Question {
    config: Arc<ForwardAuth>,
    pool: Rc<Pool>,
    selection: Selection,
    head: RequestHead,
    lease: Lease,
    began_at: Instant,
}

/// What it says.
enum Answer {
    /// The request passes, with these fields.
    Pass(Vec<(String, Vec<u8>)>),
    /// The client is told this.
    Respond(Respond),
}

impl ForwardAuthFilter {
    /// A filter that asks as `config` says.
    #[must_use]
    pub fn new(config: ForwardAuth) -> Self {
        Self(Arc::new(config))
    }

    /// The GET that names a request.
    fn question(&self, head: &RequestHead, lease: &Lease) -> Result<RequestHead, GatewayError> {
        const HOST: &[u8] = b"localhost";
        /// What the node vouches for.
        const ALWAYS: [&[u8]; 4] = [
            b"x-forwarded-for",
            b"x-forwarded-proto",
            b"x-forwarded-host",
            b"forwarded",
        ];
        let mut asked = RequestHead::new(b"GET", HOST, self.0.path.as_bytes(), lease)?;
        let fields = &mut asked.fields;
        let wanted = self.0.request_headers.iter().map(|name| name.as_bytes());
        for name in ALWAYS.into_iter().chain(wanted) {
            for value in head.fields.values_named(name) {
                fields.append(name, value)?;
            }
        }
        fields.set(b"x-forwarded-method", head.method())?;
        // In normal form: what is allowed is what is sent.
        let mut uri = head.path().to_vec();
        if let Some(query) = head.query() {
            uri.push(b'?');
            uri.extend_from_slice(query);
        }
        fields.set(b"x-forwarded-uri", &uri)?;
        Ok(asked)
    }
}

impl Filter for ForwardAuthFilter {
    fn begin(&self, about: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        let pool = about
            .pool
            .map(Rc::clone)
            .and_then(|pool| pool.downcast().ok());
        let pool: Rc<Pool> = pool.expect("its configuration names servers");
        // A client's own say nothing.
        for name in &self.0.response_headers {
            head.fields.remove(name.as_bytes());
        }
        let question = self.question(head, about.lease)?;
        let mut selection = Selection::default();
        pool.select(&mut selection, head, about.client, about.now);
        let question = Question {
            config: Arc::clone(&self.0),
            pool,
            selection,
            head: question,
            lease: about.lease.clone(),
            began_at: about.now,
        };
        Ok(Step::Attach(Box::new(Asking {
            config: Arc::clone(&self.0),
            answer: Box::pin(question.ask()),
            identity: about.identity.clone(),
        })))
    }

    fn request_trailers(&self, trailers: &mut FieldBlock) {
        for name in &self.0.response_headers {
            trailers.remove(name.as_bytes());
        }
    }
}

impl ExchangeFilter for Asking {
    fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut RequestHead,
    ) -> Poll<Result<Ready, GatewayError>> {
        let answer = ready!(self.answer.as_mut().poll(cx));
        Poll::Ready(match answer? {
            Answer::Respond(respond) => Ok(Ready::Respond(respond)),
            Answer::Pass(fields) => {
                for (name, value) in &fields {
                    head.fields.append(name.as_bytes(), value)?;
                }
                self.identity.authenticate();
                Ok(Ready::Continue)
            }
        })
    }
}

impl Question {
    /// Asks one server, and another connection where the first had closed while it was idle.
    #[expect(
        clippy::disallowed_methods,
        reason = "the service answers: how long it took, for the outlier detection"
    )]
    async fn ask(mut self) -> Result<Answer, GatewayError> {
        let ends_at = self.began_at + self.config.timeout;
        let upstream = Arc::clone(self.pool.upstream());
        if !self.pool.admits(&mut self.selection, self.began_at) {
            return Err(GatewayError::upstream(CloseReason::CircuitOpen, 503));
        }
        let mut stream = match self.pool.checkout(&mut self.selection)? {
            Next::Stream(stream) => stream,
            Next::Connect => {
                let connected = self.pool.connect_any(&mut self.selection, None);
                within(ends_at, connected).await?
            }
        };
        loop {
            let began_at = clock::now();
            let asked = self.converse(&mut stream, ends_at).await;
            let now = clock::now();
            let elapsed = now.saturating_duration_since(began_at);
            match asked {
                Ok((status, answer)) => {
                    match Failure::status(status) {
                        Some(failure) => upstream.failed(stream.state(), failure, elapsed),
                        None => {
                            stream.state().answered(elapsed, now);
                            stream.state().succeeded();
                            self.pool.succeeded(&mut self.selection, now);
                        }
                    }
                    self.pool.put_back(stream, now);
                    return Ok(answer);
                }
                Err(error) if error.resend != Resend::No && self.may_resend(now) => {
                    let target = stream.target();
                    drop(stream);
                    let again = self.pool.reconnect(target, &mut self.selection, None);
                    stream = within(ends_at, again).await?;
                }
                Err(error) => {
                    if let Some(failure) = blame(&error) {
                        upstream.failed(stream.state(), failure, elapsed);
                    }
                    return Err(error);
                }
            }
        }
    }

    /// True when it is asked again on another connection; counts it if so.
    fn may_resend(&mut self, now: Instant) -> bool {
        self.selection.count_resend() && self.pool.admits(&mut self.selection, now)
    }

    /// One request, and the answer to it with its status.
    async fn converse(
        &mut self,
        stream: &mut PooledStream,
        ends_at: Instant,
    ) -> Result<(u16, Answer), GatewayError> {
        let authority = stream.authority();
        // A socket has no name.
        if !authority.starts_with("unix:") {
            self.head.fields.set(b"host", authority.as_bytes())?;
        }
        let (stream, _) = stream.split();
        stream.start(&Outgoing {
            head: &self.head,
            authority: "",
            lease: &self.lease,
        })?;
        stream.put(Part::End(None))?;
        within(ends_at, self.answer(stream)).await
    }

    async fn answer(&self, stream: &mut dyn UpstreamStream) -> Result<(u16, Answer), GatewayError> {
        let head = final_head(stream).await?;
        let is_pass = (200..300).contains(&head.status);
        let room = self.lease.try_reserve(RESPOND_BYTES_MAX)?;
        let body = content(stream).await?;
        let answer = if is_pass {
            Answer::Pass(self.told(&head.fields))
        } else {
            Answer::Respond(Respond {
                status: head.status,
                fields: passed_on(&head.fields),
                body,
            })
        };
        drop(room);
        Ok((head.status, answer))
    }

    /// Fields of an answer that the request is given.
    fn told(&self, fields: &FieldBlock) -> Vec<(String, Vec<u8>)> {
        let names = self.config.response_headers.iter();
        let told = names.flat_map(|name| {
            let values = fields.values_named(name.as_bytes());
            values.map(|value| (name.clone(), value.to_vec()))
        });
        told.collect()
    }
}

/// What comes of `asked` in time.
async fn within<T>(
    ends_at: Instant,
    asked: impl Future<Output = Result<T, GatewayError>>,
) -> Result<T, GatewayError> {
    let late = |_| Err(GatewayError::timeout(CloseReason::FirstByteTimeout));
    timeout_at(ends_at.into(), asked).await.unwrap_or_else(late)
}

async fn final_head(stream: &mut dyn UpstreamStream) -> Result<ResponseHead, GatewayError> {
    let mut is_flushed = false;
    loop {
        let head = poll_fn(|cx| {
            // What it answered before it stopped reading is worth having.
            is_flushed = is_flushed || stream.poll_flush(cx).is_ready();
            stream.poll_head(cx)
        });
        let head = head.await?;
        if !head.is_interim() {
            return Ok(head);
        }
    }
}

/// All content of an answer, which is for people: it is short.
async fn content(stream: &mut dyn UpstreamStream) -> Result<Vec<u8>, GatewayError> {
    let mut content = Vec::new();
    loop {
        match poll_fn(|cx| stream.poll_part(cx)).await? {
            Part::End(_) => return Ok(content),
            Part::Chunk(chunk) => content.extend_from_slice(chunk.filled()),
        }
        if content.len() > RESPOND_BYTES_MAX {
            return Err(GatewayError::bad_response());
        }
    }
}

/// Fields of an answer that its client gets: not those of its connection and its framing.
fn passed_on(fields: &FieldBlock) -> Vec<(String, String)> {
    let lines = fields.iter().filter(|(id, _, _)| {
        !id.is_hop_by_hop() && !matches!(id, FieldId::ContentLength | FieldId::Via)
    });
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned).ok();
    let texts = lines.filter_map(|(_, name, value)| Some((text(name)?, text(value)?)));
    texts.collect()
}

/// What an error says of the server.
fn blame(error: &GatewayError) -> Option<Failure> {
    match error.reason {
        CloseReason::UpstreamReset => Some(Failure::Reset),
        CloseReason::BadResponse => Some(Failure::Garbage),
        CloseReason::FirstByteTimeout => Some(Failure::Timeout),
        _ => None,
    }
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Asking").field(&self.config).finish()
    }
}
