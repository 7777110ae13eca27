//! The filters of a route see a request, one after the other.

use std::task::{Poll, ready};
use std::time::Instant;

use super::env::Env;
use super::forwarding::AnswerFrom;
use super::routed::{Routed, scheme};
use super::subrequest::SubrequestFactory;
use crate::due::Due;
use crate::error::GatewayError;
use crate::exchange::{Downstream, Part};
use crate::field::FieldId;
use crate::filter::attached::Attached;
use crate::filter::{About, Ready, ServedFrom, Step, WholeContent};
use crate::head::{RequestHead, ResponseHead};
use crate::metrics::CloseReason;
use crate::respond::Respond;

/// A request that its filters see.
pub(super) struct Filtering {
    /// The answer of the node itself (`Max-Forwards`). No filter sees the request; all see the response.
    answer: Option<Box<Respond>>,
    /// The place of the filter that is next, or whose state is waited for.
    place: usize,
    /// A filter's state that is not ready. `None`: the next filter is shown the request.
    waiting: Option<Waiting>,
}

/// A filter's state that the stage waits for.
struct Waiting {
    attached: Attached,
    /// When the state got some of the request's content, of which it wants more; `None`: it wants none.
    content_at: Option<Instant>,
}

impl Filtering {
    /// A request whose filters see it next. `answer`: the node answers it before they do.
    pub(super) fn new(routed: &Routed, answer: Option<Box<Respond>>) -> Self {
        Self {
            place: routed.places.start,
            answer,
            waiting: None,
        }
    }

    /// The earliest moment at which waiting ends; `late` is the reason where content of the client does not come.
    pub(super) fn due(&self, routed: &Routed, late: CloseReason) -> Option<Due> {
        let timeout = routed.timeouts.request_content;
        let of_content = (self.content_at()).and_then(|since| Due::after(since, timeout, late));
        Due::earliest([of_content, Due::total(routed.timeouts.total_at)])
    }

    /// True while the client is read, which shows that it leaves.
    pub(super) fn reads_client(&self) -> bool {
        self.content_at().is_some()
    }

    fn content_at(&self) -> Option<Instant> {
        self.waiting.as_ref()?.content_at
    }

    /// Shows the request to the filters from the next one on. Ready when all have let it pass, or one of them answers
    /// it.
    pub(super) fn poll<D>(
        &mut self,
        head: &mut RequestHead,
        routed: &mut Routed,
        env: &mut Env<'_, '_, D>,
    ) -> Poll<Result<AnswerFrom, GatewayError>>
    where
        D: Downstream + ?Sized,
    {
        if let Some(answer) = self.answer.take() {
            return Poll::Ready(Ok(AnswerFrom::Gateway(*answer)));
        }
        loop {
            let seen = match &mut self.waiting {
                None if self.place == routed.route.filters.len() => {
                    return Poll::Ready(Ok(AnswerFrom::Target));
                }
                None => {
                    let begun = self.begin_filter(head, routed, env);
                    begun.inspect_err(|error| routed.refused(self.place, error, env.journal))?
                }
                Some(waiting) => {
                    let ready = ready!(waiting.poll(head, routed, env))?;
                    self.attach(ready, env)
                }
            };
            match seen {
                Step::Continue => self.place += 1,
                Step::Attach(mut filter) => {
                    filter.meter(&routed.route.filters[self.place].metrics);
                    let content_at = filter.wants_content().then_some(env.now);
                    let place = self.place;
                    self.waiting = Some(Waiting {
                        attached: Attached { place, filter },
                        content_at,
                    });
                }
                Step::Respond(respond) => {
                    routed.note_answer_of(self.place, env.journal);
                    return Poll::Ready(Ok(AnswerFrom::Gateway(respond)));
                }
                Step::Serve(serve) => {
                    // A response that it fetched is its server's.
                    if serve.from != ServedFrom::Miss {
                        routed.note_answer_of(self.place, env.journal);
                    }
                    // The filter itself has seen the response, and those behind it are not asked.
                    routed.places.end = self.place;
                    return Poll::Ready(Ok(AnswerFrom::Filter(serve)));
                }
            }
        }
    }

    /// Shows the request to the next filter.
    fn begin_filter<D>(
        &self,
        head: &mut RequestHead,
        routed: &Routed,
        env: &Env<'_, '_, D>,
    ) -> Result<Step, GatewayError>
    where
        D: Downstream + ?Sized,
    {
        let route = &routed.route;
        let each = &route.filters[self.place];
        let about = About {
            client: routed.client,
            listener: &env.client.listener.address,
            route: route.report.name.as_deref().unwrap_or_default(),
            lease: &route.lease,
            identity: &env.reused.identity,
            pool: each.pool.as_ref(),
            scheme: scheme(head, env.client),
            behind: &SubrequestFactory {
                context: env.client,
                route,
                place: self.place,
                client: routed.client,
                identity: &env.reused.identity,
                start: env.start_subrequest,
            },
            now: env.now,
        };
        each.filter.begin(&about, head)
    }

    /// The state that was waited for is ready: it sees the rest of the exchange.
    fn attach<D: ?Sized>(&mut self, ready: Ready, env: &Env<'_, '_, D>) -> Step {
        if let Some(Waiting { attached, .. }) = self.waiting.take() {
            env.reused.filters.borrow_mut().push(attached);
        }
        match ready {
            Ready::Continue => Step::Continue,
            Ready::Respond(respond) => Step::Respond(respond),
            Ready::Serve(serve) => Step::Serve(serve),
        }
    }
}

impl Waiting {
    /// Ready when the state is, which is given all content that it wants before.
    fn poll<D>(
        &mut self,
        head: &mut RequestHead,
        routed: &mut Routed,
        env: &mut Env<'_, '_, D>,
    ) -> Poll<Result<Ready, GatewayError>>
    where
        D: Downstream + ?Sized,
    {
        let Self {
            attached: Attached { place, filter },
            content_at,
        } = self;
        while filter.wants_content() {
            let part = match &mut routed.content {
                // An earlier filter has taken it.
                Some(parts) => parts.pop_front().ok_or_else(GatewayError::bad_request)?,
                None => {
                    answer_expectation(head, routed, env.down)?;
                    let Poll::Ready(part) = env.down.poll_part(env.cx) else {
                        if let Poll::Ready(Err(error)) = env.down.poll_flush(env.cx) {
                            return Poll::Ready(Err(error));
                        }
                        return Poll::Pending;
                    };
                    let part = part?;
                    if let Part::Chunk(chunk) = &part {
                        env.journal.log.received_bytes += chunk.len() as u64;
                    }
                    *content_at = Some(env.now);
                    part
                }
            };
            let put = filter.put_content(part);
            put.inspect_err(|error| routed.refused(*place, error, env.journal))?;
        }
        *content_at = None;
        let ready = ready!(filter.poll_ready(env.cx, head));
        let ready = ready.inspect_err(|error| routed.refused(*place, error, env.journal))?;
        if let Some(WholeContent { content, trailers }) = filter.take_content() {
            let parts = content.map(Part::Chunk).into_iter();
            let parts = parts.chain([Part::End(trailers)]).collect();
            routed.content = Some(Box::new(parts));
        }
        if filter.request_body().is_some() {
            // The content that it rewrites can't be had again.
            routed.replay.forget();
        }
        Poll::Ready(Ok(ready))
    }
}

/// Tells a client that expects it to go on: its request's content is wanted here (RFC 9110 §10.1.1).
fn answer_expectation<D>(
    head: &mut RequestHead,
    routed: &Routed,
    down: &mut D,
) -> Result<(), GatewayError>
where
    D: Downstream + ?Sized,
{
    if !head.fields.has(FieldId::Expect) || !down.can_put() {
        return Ok(());
    }
    head.fields.remove_where(|id| id == FieldId::Expect);
    down.put_interim(ResponseHead::go_on(&routed.route.lease)?)
}
