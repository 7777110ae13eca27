//! Responses of the gateway's own: errors, and answers to requests without a route.

use std::sync::Arc;
use std::task::{Poll, ready};

use super::env::Env;
use super::forwarding::Cut;
use super::request::End;
use crate::due::Due;
use crate::error::{GatewayError, Origin};
use crate::exchange::{Downstream, Page, Refusal, RefusalContent};
use crate::filter::attached::AttachedFilters;
use crate::gateway::ending::Ending;
use crate::grpc::Code;
use crate::metrics::CloseReason;
use crate::status;

/// A response of the gateway's own that is put, and is to be flushed.
pub(super) struct Refusing {
    put: Put,
    /// When the client has had time enough to take the next of it; `None` before the first wait.
    due: Option<Due>,
    /// Bytes that the client had taken at the last wait.
    written: u64,
}

enum Put {
    /// A whole response.
    Response,
    /// Trailers of a call whose response was cut.
    Trailers(Ending),
}

/// A field that a refusal has beside those of all refusals.
pub(super) type RefusalField<'a> = (&'a str, &'a str);

impl Refusing {
    /// Answers with an error, and counts its reason. `None`: the client is gone, or has seen too much for an answer.
    pub(super) fn refuse<D>(error: GatewayError, env: &mut Env<'_, '_, D>) -> Option<Self>
    where
        D: Downstream + ?Sized,
    {
        env.client.count_closed(error.reason);
        let log = &mut env.journal.log;
        log.reason = Some(error.reason);
        match error.status {
            499 => {
                log.refused(error.status, 0);
                None
            }
            503 => Self::respond(503, Some(("retry-after", "1")), env),
            status => Self::respond(status, None, env),
        }
    }

    /// Answers with a status and a word about it. `None`: the client has seen too much for that.
    pub(super) fn respond<D>(
        status: u16,
        field: Option<RefusalField<'_>>,
        env: &mut Env<'_, '_, D>,
    ) -> Option<Self>
    where
        D: Downstream + ?Sized,
    {
        let settings = env.client.settings();
        let transport_security = settings.strict_transport_security.as_deref();
        let transport_security =
            transport_security.map(|value| ("strict-transport-security", value));
        let fields = field.into_iter().chain(transport_security);
        let journal = &mut *env.journal;
        let Some(call) = &mut journal.grpc_call else {
            let mut room = [("", ""); 2];
            let mut count = 0;
            for field in fields {
                room[count] = field;
                count += 1;
            }
            let page = page(&env.reused.filters, status);
            let content = match &page {
                Some(page) => RefusalContent::Page(page),
                None => RefusalContent::Word,
            };
            return Self::put(
                &Refusal {
                    status,
                    fields: &room[..count],
                    content,
                },
                env,
            );
        };
        // A call is told beside 200 (gRPC's "Trailers-Only").
        let code = Code::of(status, journal.log.reason);
        call.refuse(code);
        let of_call = [
            ("content-type", call.dialect.media_type_of_refusal()),
            ("grpc-status", code.as_str()),
            ("grpc-message", status::reason(status)),
        ];
        let fields: Vec<_> = fields.chain(of_call).collect();
        Self::put(
            &Refusal {
                status: 200,
                fields: &fields,
                content: RefusalContent::Nothing,
            },
            env,
        )
    }

    fn put<D>(refusal: &Refusal<'_>, env: &mut Env<'_, '_, D>) -> Option<Self>
    where
        D: Downstream + ?Sized,
    {
        let sent = env.down.put_refusal(refusal);
        env.journal.log.refused(refusal.status, sent.unwrap_or(0));
        sent.map(|_| Self::of(Put::Response))
    }

    /// Ends a response that `error` has cut: a call is told in trailers, where they can follow what its client has.
    /// `None`: a closed connection is all that tells the client.
    pub(super) fn cut<D: ?Sized>(
        error: &GatewayError,
        response: Cut,
        env: &mut Env<'_, '_, D>,
    ) -> Option<Self> {
        env.client.count_closed(error.reason);
        let journal = &mut *env.journal;
        journal.log.reason = Some(error.reason);
        let is_open = response == Cut::InContent && error.origin != Origin::Downstream;
        let call = journal
            .grpc_call
            .as_mut()
            .filter(|call| is_open && call.takes_status())?;
        let code = Code::of(error.status, Some(error.reason));
        call.refuse(code);
        Some(Self::of(Put::Trailers(Ending::new(code))))
    }

    fn of(put: Put) -> Self {
        Self {
            put,
            due: None,
            written: 0,
        }
    }

    /// The moment at which the client has had time enough.
    pub(super) fn due(&self) -> Option<Due> {
        self.due
    }

    /// Ready when the client has it, or can't take it.
    pub(super) fn poll<D>(&mut self, env: &mut Env<'_, '_, D>) -> Poll<End>
    where
        D: Downstream + ?Sized,
    {
        let flushed = match &mut self.put {
            Put::Response => env.down.poll_flush(env.cx),
            Put::Trailers(ending) => ending.poll(env.cx, env.client.exchange_lease(), env.down),
        };
        // A client that takes a little at a time has not stalled.
        let written = env.down.written();
        if flushed.is_pending() && (self.due.is_none() || written != self.written) {
            self.written = written;
            let timeout = env.client.write_timeout();
            self.due = Due::after(env.now, timeout, CloseReason::WriteStall);
        }
        Poll::Ready(ready!(flushed).map_or(End::Aborted, |()| End::Response))
    }
}

/// The content that the first filter with a page for `status` has.
fn page(filters: &AttachedFilters, status: u16) -> Option<Arc<Page>> {
    let filters = filters.borrow();
    let mut filters = filters.iter();
    filters.find_map(|attached| attached.filter.page(status))
}
