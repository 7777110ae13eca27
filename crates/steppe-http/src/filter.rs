//! Filters: what a route does to an exchange that passes through it.
//!
//! A route's filters see the request in the order in which the route names them,
//! and the response in reverse. A filter that fails refuses the exchange with its
//! error.
//!
//! A new filter is one file (or folder) in `filter/`, as `transform.rs` is. It implements [`FilterFactory`] for its
//! configuration, [`Filter`], [`ExchangeFilter`] where it needs a state of its own for each exchange, and
//! [`BodyTransform`] where it rewrites content. `kinds.rs` lists it in a line. Its keys are one file in `config/keys/`;
//! `config/keys/filter.rs` names it in `FILTER` and `FilterVariant`, and the compiler then asks for it in each match, as
//! `FilterKind` in `config/filter.rs` does. Its page is in `docs/gateway/filters/`. A program that embeds the gateway
//! needs none of these: it brings a factory by [`custom`].

mod api_keys;
pub(crate) mod attached;
mod authorize;
mod basic_auth;
mod cache;
mod compress;
pub(crate) mod cors;
mod error_pages;
mod explained;
mod factory;
mod forward_auth;
mod ip;
mod json_bytes;
mod jwt;
mod kinds;
mod rate_limit;
mod redirect;
mod representation;
mod request_id;
mod security_headers;
mod sources;
#[cfg(test)]
mod testing;
mod token;
mod transform;

use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use steppe_mem::{Account, Chunk, Lease, Reservation};
use steppe_net::ListenAddress;

use crate::error::GatewayError;
use crate::exchange::{Downstream, Page, Part};
use crate::field::FieldBlock;
use crate::head::{RequestHead, ResponseHead};
use crate::local::Responder;
use crate::metrics::FilterMetrics;
use crate::respond::Respond;
use crate::upstream::Pool;

pub use crate::cache::ServedFrom;
pub(crate) use api_keys::keep_current;
pub use api_keys::{KeyFile, NewKey};
pub use compress::CompressFilter;
pub(crate) use explained::target_of;
pub use explained::{FilterVerdict, Judgment, by_beginning};
pub use factory::{FileError, FilterFactory, FilterFiles, FilterParts};
pub use jwt::{FetchKeys, RemoteKeys};
pub use kinds::{custom, factory};
pub use rate_limit::LimitCounts;
pub use token::{Identity, Token};
pub use transform::{TransformFilter, rewrite_json};

/// One filter of a configuration. Shared by all workers, so its state is atomics or
/// nothing.
///
/// Order of calls, for each exchange:
/// 1. [`Filter::begin`] once, after every filter before it let the request pass.
/// 2. [`Filter::request_trailers`], if the request has trailers.
/// 3. [`Filter::response`] once, with the final head; not if an attempt fails
///    without one, and only for the attempt that the client gets to see. A filter does not see
///    the response that it made itself; it sees without 1 the one of a filter before it
///    ([`Step::Respond`]).
/// 4. [`Filter::response_trailers`], if the response has trailers.
pub trait Filter: fmt::Debug + Send + Sync {
    /// Sees a request's head before it is forwarded.
    ///
    /// # Errors
    /// The error that the client is refused with.
    fn begin(&self, about: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError>;

    /// Sees the request's trailers before they are forwarded.
    fn request_trailers(&self, _trailers: &mut FieldBlock) {}

    /// Sees a response's head before it is sent.
    ///
    /// # Errors
    /// The error that the client is refused with instead.
    fn response(&self, _head: &mut ResponseHead) -> Result<(), GatewayError> {
        Ok(())
    }

    /// Sees the response's trailers before they are sent.
    fn response_trailers(&self, _trailers: &mut FieldBlock) {}

    /// Gives up what it keeps and nobody can use any more. Called about once a second by each worker: where nothing is
    /// due, it looks at none of it.
    fn sweep(&self) {}

    /// The counts of a filter that decides with other nodes.
    fn limits(&self) -> Option<&LimitCounts> {
        None
    }

    /// The set of keys that the filter has by URL, which the control thread fetches.
    fn remote_keys(&self) -> Option<&Arc<RemoteKeys>> {
        None
    }

    /// The file of keys that is read again when it changes.
    fn key_file(&self) -> Option<&Arc<KeyFile>> {
        None
    }
}

/// The context of an exchange when its filters begin.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// The client, as far as trusted proxies vouch for it.
    pub client: IpAddr,
    /// The listener that its connection came to.
    pub listener: &'a ListenAddress,
    /// The name of the route.
    pub route: &'a str,
    /// The lease that memory of the exchange is charged to.
    pub lease: &'a Lease,
    /// The identity that filters before this one have verified.
    pub identity: &'a Identity,
    /// The worker's pool of the upstream that the filter asks, where it asks one.
    pub pool: Option<&'a Rc<Pool>>,
    /// The scheme that its client asked by: `http` or `https`.
    pub scheme: &'a str,
    /// The rest of the route behind this filter, for subrequests.
    pub behind: &'a dyn MakeBehind,
    /// The time.
    pub now: Instant,
}

/// The rest of a route behind a filter: further filters, and the target.
pub trait Behind: fmt::Debug {
    /// Has them answer `head` in an exchange of its own, which goes on whatever becomes of the one that
    /// the filter saw. `down` is its client.
    ///
    /// # Errors
    /// Where the budget has no room for it.
    fn ask(&self, head: RequestHead, down: Box<dyn Downstream>) -> Result<(), GatewayError>;
}

/// Makes a [`Behind`] for who needs one: most exchanges don't.
pub trait MakeBehind: fmt::Debug {
    /// A handle of it that may be kept.
    fn make(&self) -> Rc<dyn Behind>;
}

/// The decision of a filter on a request.
#[derive(Debug)]
pub enum Step {
    /// The request passes.
    Continue,
    /// The request passes once this state is [ready](ExchangeFilter::poll_ready), which then sees
    /// the rest of the exchange.
    Attach(Box<dyn ExchangeFilter>),
    /// The filter answers. The filters behind it see the response too, without having begun.
    Respond(Respond),
    /// The filter answers, with content that may still be on its way. Only the filters before this
    /// one see the response.
    Serve(Serve),
}

/// A response that a filter has, or gets from somewhere.
pub struct Serve {
    /// The source of the response.
    pub by: Box<dyn Responder>,
    /// Where it is from, for the access log.
    pub from: ServedFrom,
}

impl fmt::Debug for Serve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Serve").field(&self.from).finish()
    }
}

/// The number of entries, of `bytes` each, of a filter's table, and their charge: `wanted` where the budget has room, else
/// half as many, and again, down to `least`, which it has anyway.
fn table_of(
    account: &Account,
    wanted: usize,
    least: usize,
    bytes: usize,
) -> (usize, Option<Reservation>) {
    let lease = account.lease();
    let mut entries = wanted.max(least);
    loop {
        match lease.try_reserve(entries * bytes) {
            Ok(charge) => return (entries, Some(charge)),
            Err(_) if entries > least => entries = (entries / 2).max(least),
            Err(_) => return (least, None),
        }
    }
}

/// A response of a filter's own, with a word about it for people.
fn refusal(status: u16, text: &str, fields: Vec<(String, String)>) -> Step {
    Step::Respond(respond_with(status, text, fields))
}

fn respond_with(status: u16, text: &str, mut fields: Vec<(String, String)>) -> Respond {
    if !text.is_empty() {
        fields.push(("content-type".to_owned(), "text/plain".to_owned()));
    }
    Respond {
        status,
        body: text.as_bytes().to_vec(),
        fields,
    }
}

/// The decision of a filter on a request that waited.
#[derive(Debug)]
pub enum Ready {
    /// The request passes.
    Continue,
    /// As [`Step::Respond`].
    Respond(Respond),
    /// As [`Step::Serve`].
    Serve(Serve),
}

/// The author of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// A filter's or a folder's of this node.
    Gateway,
    /// A server's, however it came, or that of an upstream which the configuration has the words of.
    Upstream,
}

/// Content of a message from its beginning to its end.
#[derive(Debug)]
pub struct WholeContent {
    /// `None`: there is none.
    pub content: Option<Chunk>,
    /// The trailers.
    pub trailers: Option<FieldBlock>,
}

/// The state of a filter for one exchange.
///
/// Order of calls:
/// 1. While it [wants content](ExchangeFilter::wants_content), it is given all of the request's,
///    by [`ExchangeFilter::put_content`].
///    [`ExchangeFilter::poll_ready`] until it is ready. The client may leave
///    meanwhile: then the state is dropped. [`ExchangeFilter::take_content`] once it is ready.
/// 2. [`ExchangeFilter::request_body`] when content is about to be forwarded.
/// 3. [`ExchangeFilter::written_by`] and [`ExchangeFilter::response`] right after [`Filter::response`].
/// 4. [`ExchangeFilter::response_body`] when content is about to be sent.
/// 5. [`ExchangeFilter::page`] at any time, instead of what follows.
pub trait ExchangeFilter: fmt::Debug {
    /// Takes what counts for its filter, once, before all else.
    fn meter(&mut self, _meter: &Rc<FilterMetrics>) {}

    /// True when it has to have the request's content before the request goes on. From its end on it
    /// does not.
    fn wants_content(&self) -> bool {
        false
    }

    /// Takes a part of the request's content.
    ///
    /// # Errors
    /// The error that the client is refused with.
    fn put_content(&mut self, _part: Part) -> Result<(), GatewayError> {
        Ok(())
    }

    /// The transformed content, of the length in the head.
    fn take_content(&mut self) -> Option<WholeContent> {
        None
    }

    /// Ready when the request may go on.
    ///
    /// # Errors
    /// The error that the client is refused with.
    fn poll_ready(
        &mut self,
        _cx: &mut Context<'_>,
        _head: &mut RequestHead,
    ) -> Poll<Result<Ready, GatewayError>> {
        Poll::Ready(Ok(Ready::Continue))
    }

    /// Learns whose the response is, right before it sees its head.
    fn written_by(&mut self, _author: Author) {}

    /// The error page for `status`, with which the exchange is refused.
    fn page(&self, _status: u16) -> Option<Arc<Page>> {
        None
    }

    /// Sees a response's head before it is sent.
    ///
    /// # Errors
    /// The error that the client is refused with instead.
    fn response(&mut self, _head: &mut ResponseHead) -> Result<(), GatewayError> {
        Ok(())
    }

    /// True when the response's head waits for the first of its content: until then the client is sent
    /// nothing, and may be refused.
    fn holds_head(&self) -> bool {
        false
    }

    /// The first of the content is there: the head that was held goes on.
    fn release_head(&mut self, _head: &mut ResponseHead) {}

    /// A transformation of the request's content. Such a request is sent to one server only. Its
    /// head's length must be set to that of the result.
    fn request_body(&mut self) -> Option<&mut dyn BodyTransform> {
        None
    }

    /// A transformation of the response's content. Its head's length must be set to that of the
    /// result.
    fn response_body(&mut self) -> Option<&mut dyn BodyTransform> {
        None
    }
}

/// Rewrites content piece by piece.
///
/// Order of calls:
/// 1. [`BodyTransform::poll_part`] at any time until it gave the end; before anything
///    was put it is ready with `None`.
/// 2. [`BodyTransform::put`] first, and whenever `poll_part` was ready with `None`.
/// 3. [`BodyTransform::poll_paused`] when there is nothing to be put for now.
pub trait BodyTransform {
    /// Takes a part over.
    ///
    /// # Errors
    /// The error that the exchange fails with.
    fn put(&mut self, part: Part) -> Result<(), GatewayError>;

    /// The next part that goes on; `None` when another must be put first. `Pending`
    /// when it waits for budget, of `lease`.
    ///
    /// # Errors
    /// The error that the exchange fails with.
    fn poll_part(
        &mut self,
        cx: &mut Context<'_>,
        lease: &Lease,
    ) -> Poll<Result<Option<Part>, GatewayError>>;

    /// A part that goes on although what was put is not all yet. `Pending` where there is none, or
    /// where more is waited for a little longer: then it wakes the task.
    ///
    /// # Errors
    /// The error that the exchange fails with.
    fn poll_paused(
        &mut self,
        _cx: &mut Context<'_>,
        _lease: &Lease,
    ) -> Poll<Result<Part, GatewayError>> {
        Poll::Pending
    }
}
