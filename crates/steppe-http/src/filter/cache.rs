//! `cache`: serves stored responses, and stores the responses that pass. Spec: RFC 9111.
//!
//! A request whose response may be stored is not forwarded itself: the filter fetches the response in an exchange of
//! its own, and all requests that want it wait for that, on whatever worker. So a client that leaves, or reads slowly,
//! delays no other. A response that turns out to be private goes to the request that it was fetched for, and the other
//! requests are forwarded.
//!
//! HEAD requests, and range requests with nothing stored, are forwarded: they are answered from stored responses, and
//! fetch none.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use steppe_mem::Lease;
use steppe_net::clock;

use super::explained::Judgment;
use super::factory::{FilterFactory, FilterParts};
use super::{About, Behind, ExchangeFilter, Filter, Ready, Serve, Step};
use crate::cache::control::RequestControl;
use crate::cache::{
    BackgroundFetch, CacheKey, CacheRequest, CachedRequest, Constraints, Credentials, Fetch,
    FetchAnswer, FetchOutcome, FetchRequest, FetchSink, FetchWaiter, Found, Freshness, Joined,
    KeyInput, Lookup, Reader, Reason, ServedFrom, Store, StoredResponse, freshness, may_stand_in,
    request_for,
};
use crate::config::Cache;
use crate::error::GatewayError;
use crate::head::{ContentLength, RequestHead, ResponseHead};
use crate::limits::CACHE_LOOKUPS_MAX;
use crate::respond::Respond;
use crate::status;

/// The filter, with its store.
#[derive(Debug)]
pub struct CacheFilter(Arc<Store>);

impl CacheFilter {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self(store)
    }
}

/// The constraints of a request. `None` where its preconditions are for the origin server: a cache can't evaluate
/// `If-Match` and `If-Unmodified-Since` (RFC 9111 §4.3.2).
fn constraints(head: &RequestHead, store: &Store) -> Option<Constraints> {
    let mut constraints = Constraints::default();
    let (mut has_control, mut has_cookie, mut is_authenticated) = (false, false, false);
    for (_, name, _) in head.fields.iter() {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match name.len() {
            5 => constraints.has_range |= is("range"),
            6 => {
                has_control |= is("pragma");
                has_cookie |= is("cookie");
            }
            8 if is("if-match") => return None,
            // RFC 9440 §3.1: a client certificate is a credential as well.
            11 => is_authenticated |= is("client-cert"),
            13 => {
                has_control |= is("cache-control");
                is_authenticated |= is("authorization");
            }
            19 if is("if-unmodified-since") => return None,
            _ => {}
        }
    }
    constraints.credentials = match (is_authenticated, has_cookie) {
        (true, _) => Credentials::Authenticated,
        (false, true) => Credentials::Cookie,
        (false, false) => Credentials::None,
    };
    if has_control && store.settings.request_directives {
        constraints.control = RequestControl::of(&head.fields);
    }
    Some(constraints)
}

impl FilterFactory for Cache {
    fn build(&self, parts: &FilterParts<'_>) -> Arc<dyn Filter> {
        let store = parts.caches.add(parts.name, self, parts.account);
        Arc::new(CacheFilter::new(store))
    }

    fn explain(
        &self,
        _: &dyn Filter,
        _: &About<'_>,
        _: &mut RequestHead,
    ) -> Result<Judgment, GatewayError> {
        Ok(Judgment::depends("depends on the cached responses"))
    }
}

impl Filter for CacheFilter {
    fn begin(&self, about: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        let store = &self.0;
        let is_get = head.method() == b"GET";
        if !is_get && head.method() != b"HEAD" {
            return Ok(forward_other_method(store, about, head));
        }
        let is_forwarded = head.asks_for_tunnel() || head.length != ContentLength::Empty;
        let constraints = constraints(head, store).filter(|_| !is_forwarded);
        let Some(mut constraints) = constraints else {
            store.stats.count_bypass();
            return Ok(Step::Continue);
        };
        if about.identity.is_authenticated() {
            constraints.credentials = Credentials::Authenticated;
        }
        let look = CacheLookup {
            store,
            lease: about.lease,
            subrequest: &|| about.behind.make(),
            request: CacheRequest {
                input: key_input(about, head),
                constraints,
                now: about.now,
            },
        };
        Ok(match look.decide()? {
            Decision::Ready(Ready::Continue) => Step::Continue,
            Decision::Ready(Ready::Respond(respond)) => Step::Respond(respond),
            Decision::Ready(Ready::Serve(serve)) => Step::Serve(serve),
            Decision::Wait(waiter) => Step::Attach(Box::new(WaitingRequest {
                waiter: Some(waiter),
                store: Arc::clone(store),
                route: about.route.into(),
                scheme: about.scheme.to_owned(),
                lease: about.lease.clone(),
                subrequest: about.behind.make(),
                constraints,
                lookups: 1,
            })),
        })
    }
}

fn key_input<'a>(about: &About<'a>, head: &'a RequestHead) -> KeyInput<'a> {
    KeyInput {
        route: about.route,
        scheme: about.scheme,
        head,
    }
}

/// Forwards a request that is neither GET nor HEAD. An unsafe one invalidates stored responses (RFC 9111 §4.4).
fn forward_other_method(store: &Arc<Store>, about: &About<'_>, head: &RequestHead) -> Step {
    store.stats.count_bypass();
    // RFC 9110 §9.2.1: safe methods; CONNECT has no resource.
    if matches!(head.method(), b"OPTIONS" | b"TRACE" | b"CONNECT") {
        return Step::Continue;
    }
    match store.find(key_input(about, head)) {
        Some(found) => Step::Attach(Box::new(Invalidating {
            store: Arc::clone(store),
            key: found.key,
        })),
        None => Step::Continue,
    }
}

/// One look-up of a request.
struct CacheLookup<'a> {
    store: &'a Arc<Store>,
    lease: &'a Lease,
    /// Makes the exchange that a response is fetched in.
    subrequest: &'a dyn Fn() -> Rc<dyn Behind>,
    request: CacheRequest<'a>,
}

/// The result of a look-up for the request.
enum Decision {
    Ready(Ready),
    /// The request waits for a fetch.
    Wait(FetchWaiter),
}

impl CacheLookup<'_> {
    fn decide(&self) -> Result<Decision, GatewayError> {
        let ready = match self.request.look_up(self.store) {
            Lookup::Fresh(stored) => self.serve(&stored, ServedFrom::Hit)?,
            Lookup::Stale(stored, revalidation) => {
                if let Some(found) = revalidation {
                    self.revalidate(found);
                }
                self.serve(&stored, ServedFrom::Stale)?
            }
            Lookup::Miss(found) => return self.fetch(found),
            Lookup::OnlyIfCached => Ready::Respond(words(504)),
            Lookup::Pass => self.pass(),
        };
        Ok(Decision::Ready(ready))
    }

    fn pass(&self) -> Ready {
        self.store.stats.count_bypass();
        Ready::Continue
    }

    fn serve(&self, stored: &Arc<StoredResponse>, from: ServedFrom) -> Result<Ready, GatewayError> {
        let reader = Reader::new(stored, None, &self.reading(from))?;
        Ok(self.served(reader, from))
    }

    fn served(&self, reader: Reader, from: ServedFrom) -> Ready {
        self.store.stats.count_served(from);
        Ready::Serve(Serve {
            by: Box::new(reader),
            from,
        })
    }

    fn reading(&self, from: ServedFrom) -> CachedRequest<'_> {
        CachedRequest {
            head: self.request.input.head,
            lease: self.lease,
            from,
            is_collapsed: false,
            is_stored: true,
            has_cache_status: self.store.settings.cache_status,
            now: self.request.now,
        }
    }

    /// Joins a fetch, or begins one.
    fn fetch(&self, found: Found) -> Result<Decision, GatewayError> {
        let control = &self.request.constraints.control;
        let asks_anew = control.no_cache || control.max_age.is_some();
        let asked = self.request.presented();
        let joined = Fetch::join(self.store, &found.key, asked, |fetch| {
            !asks_anew || fetch.is_pending()
        });
        let fetch = match joined {
            Joined::Follower(waiter) => return Ok(Decision::Wait(waiter)),
            Joined::Leader(fetch) => fetch,
        };
        let leader = fetch.leader();
        let Err(error) = self.begin(fetch, found.stored.clone()) else {
            return Ok(Decision::Wait(leader));
        };
        let stale = found.stored;
        match stale.filter(|stale| may_stand_in(&stale.terms, control, self.request.now)) {
            Some(stale) => Ok(Decision::Ready(self.serve(&stale, ServedFrom::Stale)?)),
            None => Err(error),
        }
    }

    /// Fetches in the background, unless a fetch is in flight.
    fn revalidate(&self, found: Found) {
        // Where there are too many, the next request tries again.
        let background = &self.store.background;
        let Some(background) = BackgroundFetch::begin(background, Reason::Revalidation) else {
            return;
        };
        let asked = self.request.presented();
        let joined = Fetch::join(self.store, &found.key, asked, |_| true);
        if let Joined::Leader(fetch) = joined {
            let _ = self.begin(fetch.in_background(background), found.stored);
        }
    }

    /// Begins the exchange of `fetch`, which validates `stale`.
    fn begin(&self, fetch: Fetch, stale: Option<Arc<StoredResponse>>) -> Result<(), GatewayError> {
        let head = self.request.input.head;
        let stored = stale.as_ref().map(|stale| &stale.head);
        let fields = head.fields.try_clone().map_err(GatewayError::from);
        let copies = fields.and_then(|fields| Ok((fields, request_for(head, stored)?)));
        let (fields, head) = match copies {
            Ok(copies) => copies,
            Err(error) => {
                fetch.finish(FetchOutcome::Failed(503));
                return Err(error);
            }
        };
        let request = FetchRequest {
            fields,
            control: self.request.constraints.control,
            stale,
            lease: self.lease.clone(),
            began_at: self.request.now,
        };
        (self.subrequest)().ask(head, Box::new(FetchSink::new(fetch, request)))
    }

    /// Uses the answer of a fetch; `None` where the request is to be looked up again.
    fn take(
        &self,
        waiter: &FetchWaiter,
        answer: FetchAnswer,
    ) -> Result<Option<Ready>, GatewayError> {
        let is_leader = waiter.is_leader();
        let (response, from, is_stored) = match answer {
            FetchAnswer::Shared(response, from) if is_leader || self.may_use(&response, from) => {
                (response, from, true)
            }
            FetchAnswer::Shared(..) | FetchAnswer::Retry => return Ok(None),
            FetchAnswer::Private(response) if is_leader => (response, ServedFrom::Miss, false),
            FetchAnswer::Private(_) | FetchAnswer::Pass => return Ok(Some(self.pass())),
            FetchAnswer::Failed(status) => return Ok(Some(Ready::Respond(words(status)))),
        };
        let reading = CachedRequest {
            is_collapsed: !is_leader,
            is_stored,
            ..self.reading(from)
        };
        let reserved = waiter.take_reserved();
        let reader = match Reader::new(&response, reserved.content, &reading) {
            Ok(reader) => reader.with_lines(&reserved.lines)?,
            // The start of content that turned out too large may be gone.
            Err(_) if !is_leader => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(self.served(reader, from)))
    }

    /// True if the request may use a response that was fetched for another one.
    fn may_use(&self, stored: &StoredResponse, from: ServedFrom) -> bool {
        // The response is newer than the request: `no-cache` of the request is met.
        let control = RequestControl {
            no_cache: false,
            ..self.request.constraints.control
        };
        let freshness = freshness(&stored.terms, &control, self.request.now);
        stored.variant.matches(&self.request.input.head.fields)
            && (from != ServedFrom::Miss || freshness != Freshness::Validate)
    }
}

/// A response with a status and its reason phrase as content.
fn words(status: u16) -> Respond {
    let text = format!("{status} {}\n", status::reason(status));
    let mut fields = vec![(
        "content-type".to_owned(),
        "text/plain; charset=utf-8".to_owned(),
    )];
    if status == 503 {
        fields.push(("retry-after".to_owned(), "1".to_owned()));
    }
    Respond {
        status,
        body: text.into_bytes(),
        fields,
    }
}

/// A request that waits for a fetch.
#[derive(Debug)]
struct WaitingRequest {
    waiter: Option<FetchWaiter>,
    store: Arc<Store>,
    route: Box<str>,
    scheme: String,
    lease: Lease,
    subrequest: Rc<dyn Behind>,
    constraints: Constraints,
    lookups: usize,
}

impl WaitingRequest {
    /// Uses the answer of a fetch, or looks the request up again.
    #[expect(
        clippy::disallowed_methods,
        reason = "a response came that a request waited for: its age"
    )]
    fn take(
        &mut self,
        waiter: &FetchWaiter,
        answer: FetchAnswer,
        head: &RequestHead,
    ) -> Result<Decision, GatewayError> {
        let look = CacheLookup {
            store: &self.store,
            lease: &self.lease,
            subrequest: &|| Rc::clone(&self.subrequest),
            request: CacheRequest {
                input: KeyInput {
                    route: &self.route,
                    scheme: &self.scheme,
                    head,
                },
                constraints: self.constraints,
                now: clock::now(),
            },
        };
        if let Some(ready) = look.take(waiter, answer)? {
            return Ok(Decision::Ready(ready));
        }
        self.lookups += 1;
        if self.lookups > CACHE_LOOKUPS_MAX {
            return Ok(Decision::Ready(look.pass()));
        }
        look.decide()
    }
}

impl ExchangeFilter for WaitingRequest {
    fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut RequestHead,
    ) -> Poll<Result<Ready, GatewayError>> {
        while let Some(mut waiter) = self.waiter.take() {
            let Poll::Ready(answer) = waiter.poll_answer(cx) else {
                self.waiter = Some(waiter);
                return Poll::Pending;
            };
            match self.take(&waiter, answer, head)? {
                Decision::Ready(ready) => return Poll::Ready(Ok(ready)),
                Decision::Wait(waiter) => self.waiter = Some(waiter),
            }
        }
        Poll::Ready(Ok(Ready::Continue))
    }
}

/// A request with an unsafe method, whose response invalidates stored ones.
#[derive(Debug)]
struct Invalidating {
    store: Arc<Store>,
    key: Arc<CacheKey>,
}

impl ExchangeFilter for Invalidating {
    fn response(&mut self, head: &mut ResponseHead) -> Result<(), GatewayError> {
        // RFC 9111 §4.4: an error response invalidates nothing.
        if (200..400).contains(&head.status) {
            let referred = |name: &'static [u8]| {
                let values = head.fields.values_named(name);
                values.filter_map(|value| self.key.reference(value))
            };
            let mut references: Vec<Vec<u8>> = referred(b"location").collect();
            references.extend(referred(b"content-location"));
            self.store.invalidate(&self.key, &references);
        }
        Ok(())
    }
}
