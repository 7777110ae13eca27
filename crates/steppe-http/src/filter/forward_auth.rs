//! `forward-auth`: another service decides about each request.
//!
//! The service is asked by a GET that names the request, over connections of the worker's own pool. What it answers
//! with 2xx passes; any other answer is the client's. It fails closed: where there is no answer, the client
//! gets the error.
//!
//! Left out: content of requests, which the service is not shown.

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_mem::Lease;
use steppe_net::clock;
use tokio::time::timeout_at;

use super::explained::Judgment;
use super::factory::{FilterFactory, FilterParts};
use super::{About, ExchangeFilter, Filter, Identity, Ready, Step};
use crate::config::ForwardAuth;
use crate::error::{GatewayError, Resend};
use crate::exchange::Part;
use crate::field::{Field, FieldBlock, FieldId};
use crate::head::RequestHead;
use crate::limits::RESPOND_BYTES_MAX;
use crate::metrics::CloseReason;
use crate::respond::Respond;
use crate::upstream::{Call, Fault, Outcome, Pool, Selection, content, final_head, put};

/// Passes what another service lets pass.
#[derive(Debug)]
pub struct ForwardAuthFilter(Arc<ForwardAuth>);

/// A request about which the service is being asked.
struct Asking {
    config: Arc<ForwardAuth>,
    answer: Pin<Box<dyn Future<Output = Result<AuthResponse, GatewayError>>>>,
    identity: Identity,
}

/// A request to the service.
struct AuthRequest {
    config: Arc<ForwardAuth>,
    pool: Rc<Pool>,
    selection: Selection,
    head: RequestHead,
    lease: Lease,
    began_at: Instant,
}

/// The service's answer.
enum AuthResponse {
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
        /// Fields that the node sets itself, and always sends.
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
            let bytes = head.fields.bytes();
            let is_named = |field: &&Field| field.name(bytes).eq_ignore_ascii_case(name);
            for &field in head.fields.fields().iter().filter(is_named) {
                fields.append_copy(field, &head.fields)?;
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

impl FilterFactory for ForwardAuth {
    fn upstream(&self) -> Option<usize> {
        Some(self.upstream)
    }

    fn build(&self, _: &FilterParts<'_>) -> Arc<dyn Filter> {
        Arc::new(ForwardAuthFilter::new(self.clone()))
    }

    fn explain(
        &self,
        _: &dyn Filter,
        _: &About<'_>,
        _: &mut RequestHead,
    ) -> Result<Judgment, GatewayError> {
        Ok(Judgment::depends("depends on the authorization service"))
    }
}

impl Filter for ForwardAuthFilter {
    fn begin(&self, about: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        let pool = Rc::clone(about.pool.expect("its configuration names servers"));
        // A client's own say nothing.
        for name in &self.0.response_headers {
            head.fields.remove(name.as_bytes());
        }
        let question = self.question(head, about.lease)?;
        pool.count_request(about.now);
        let selection = pool.select(head, about.client);
        let question = AuthRequest {
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
            AuthResponse::Respond(respond) => Ok(Ready::Respond(respond)),
            AuthResponse::Pass(fields) => {
                for (name, value) in &fields {
                    head.fields.append(name.as_bytes(), value)?;
                }
                self.identity.authenticate();
                Ok(Ready::Continue)
            }
        })
    }
}

impl AuthRequest {
    /// Asks one server, and another connection where the first had closed while it was idle.
    #[expect(
        clippy::disallowed_methods,
        reason = "the service answers: how long it took, for the outlier detection"
    )]
    async fn ask(mut self) -> Result<AuthResponse, GatewayError> {
        let ends_at = self.began_at + self.config.timeout;
        let pool = Rc::clone(&self.pool);
        if !pool.admits(&mut self.selection, self.began_at) {
            return Err(GatewayError::upstream(CloseReason::CircuitOpen, 503));
        }
        let mut call = match Call::checkout(&pool, &mut self.selection, self.began_at)? {
            Some(call) => call,
            None => within(ends_at, Call::connect(pool, &mut self.selection, None)).await?,
        };
        loop {
            let asked = within(ends_at, self.converse(&mut call)).await;
            let now = clock::now();
            let error = match asked {
                Ok(answer) => {
                    call.finish(Outcome::Complete, now).put_back(now);
                    return Ok(answer);
                }
                Err(error) => error,
            };
            let fault = Fault {
                error: &error,
                is_excused: !self.selection.was_resent(),
                is_timely: false,
                is_client_late: false,
            };
            let finished = call.finish(Outcome::Failed(fault), now);
            if error.resend == Resend::No || !self.try_spend_resend(now) {
                return Err(error);
            }
            let again = finished.again().connect(&mut self.selection, None);
            call = within(ends_at, again).await?;
        }
    }

    /// True when it is asked again on another connection; counts it if so.
    fn try_spend_resend(&mut self, now: Instant) -> bool {
        self.selection.count_resend() && self.pool.admits(&mut self.selection, now)
    }

    /// One request, and the answer to it.
    #[expect(
        clippy::disallowed_methods,
        reason = "the service answers: how long it took, for the outlier detection"
    )]
    async fn converse(&mut self, call: &mut Call) -> Result<AuthResponse, GatewayError> {
        let authority = call.authority();
        // A socket has no name.
        if !authority.starts_with("unix:") {
            self.head.fields.set(b"host", authority.as_bytes())?;
        }
        call.start(&self.head, &self.lease, clock::now())?;
        put(call.upstream(), Part::End(None)).await?;
        let head = final_head(call.upstream()).await?;
        call.note_status(head.status, &mut self.selection, clock::now());
        let room = self.lease.try_reserve(RESPOND_BYTES_MAX)?;
        // The content is for people: it is short.
        let body = content(call.upstream(), RESPOND_BYTES_MAX).await?;
        drop(room);
        Ok(match head.status {
            200..300 => AuthResponse::Pass(self.told(&head.fields)),
            status => AuthResponse::Respond(Respond {
                status,
                fields: passed_on(&head.fields),
                body,
            }),
        })
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

/// The result of `asked`, or a timeout.
async fn within<T>(
    ends_at: Instant,
    asked: impl Future<Output = Result<T, GatewayError>>,
) -> Result<T, GatewayError> {
    let late = |_| Err(GatewayError::timeout(CloseReason::FirstByteTimeout));
    timeout_at(ends_at.into(), asked).await.unwrap_or_else(late)
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

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Asking").field(&self.config).finish()
    }
}
