//! `cache`: answers out of stored responses, and stores those that pass. Spec: RFC 9111.
//!
//! A request whose response may be stored is never forwarded itself: the filter asks in an exchange of its
//! own, and the request waits for what comes of it along with all others that want the same, on whatever
//! worker. So a client that leaves, or reads slowly, holds nobody up. What turns out not to be for others
//! goes to the one who asked, and the others are let pass.
//!
//! A request that asks for a part, with nothing stored, and one for a head pass: they are answered from
//! what is stored, and fetch nothing whole.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_mem::Lease;
use steppe_net::clock;

use super::explained::Judgment;
use super::factory::{FilterFactory, FilterParts};
use super::{About, Behind, ExchangeFilter, Filter, Ready, Serve, Step};
use crate::cache::control::RequestControl;
use crate::cache::{
    Ask, BackgroundFetch, Credentials, Reason, Fill, Filling, Found, Judged, KeyInput, Outcome, Place, Presented, Reader, Reading,
    CacheKey, Role, ServedFrom, Store, StoredResponse, judge, may_stand_in,
};
use crate::config::Cache;
use crate::error::GatewayError;
use crate::head::{ContentLength, RequestHead, ResponseHead};
use crate::limits::CACHE_LOOKUPS_MAX;
use crate::respond::Respond;
use crate::status;

/// Answers from a store, where it can.
#[derive(Debug)]
pub struct CacheFilter(Arc<Store>);

impl CacheFilter {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self(store)
    }
}

/// What a request asks of a cache.
#[derive(Debug, Clone, Copy, Default)]
struct Asked {
    control: RequestControl,
    credentials: Credentials,
    has_range: bool,
    /// It is to be answered by its origin: what it asks is no cache's to say.
    is_for_origin: bool,
}

impl Asked {
    fn of(head: &RequestHead, store: &Store) -> Self {
        let mut asked = Self::default();
        let (mut has_control, mut has_cookie, mut is_authenticated) = (false, false, false);
        for (_, name, _) in head.fields.iter() {
            let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
            match name.len() {
                5 => asked.has_range |= is("range"),
                6 => {
                    has_control |= is("pragma");
                    has_cookie |= is("cookie");
                }
                8 => asked.is_for_origin |= is("if-match"),
                // RFC 9440 §3.1: it says who it is from as well.
                11 => is_authenticated |= is("client-cert"),
                13 => {
                    has_control |= is("cache-control");
                    is_authenticated |= is("authorization");
                }
                19 => asked.is_for_origin |= is("if-unmodified-since"),
                _ => {}
            }
        }
        asked.credentials = match (is_authenticated, has_cookie) {
            (true, _) => Credentials::Authenticated,
            (false, true) => Credentials::Cookie,
            (false, false) => Credentials::None,
        };
        if has_control && store.settings.request_directives {
            asked.control = RequestControl::of(&head.fields);
        }
        asked
    }
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
            return Ok(pass_or_invalidate(store, about, head));
        }
        let mut asked = Asked::of(head, store);
        if asked.is_for_origin || head.asks_for_tunnel() || head.length != ContentLength::Empty {
            store.stats.count_bypass();
            return Ok(Step::Continue);
        }
        if about.identity.is_authenticated() {
            asked.credentials = Credentials::Authenticated;
        }
        let look = Look {
            store,
            route: about.route,
            scheme: about.scheme,
            lease: about.lease,
            asked,
            now: about.now,
        };
        let behind = || about.behind.make();
        Ok(match look.decide(head, behind)? {
            Decision::Serve(serve) => Step::Serve(serve),
            Decision::Respond(respond) => Step::Respond(respond),
            Decision::Pass => {
                store.stats.count_bypass();
                Step::Continue
            }
            Decision::Wait(place) => Step::Attach(Box::new(Waiting {
                place: Some(place),
                store: Arc::clone(store),
                route: about.route.into(),
                scheme: about.scheme.to_owned(),
                lease: about.lease.clone(),
                behind: about.behind.make(),
                asked,
                lookups: 1,
            })),
        })
    }
}

/// Requests that change something have what they change forgotten (RFC 9111 §4.4).
fn pass_or_invalidate(store: &Arc<Store>, about: &About<'_>, head: &RequestHead) -> Step {
    store.stats.count_bypass();
    // RFC 9110 §9.2.1: these change nothing.
    if matches!(head.method(), b"OPTIONS" | b"TRACE" | b"CONNECT") {
        return Step::Continue;
    }
    let input = KeyInput {
        route: about.route,
        scheme: about.scheme,
        head,
    };
    match store.find(input) {
        Some(found) => Step::Attach(Box::new(Invalidating {
            store: Arc::clone(store),
            key: found.key,
        })),
        None => Step::Continue,
    }
}

/// One look at the store.
struct Look<'a> {
    store: &'a Arc<Store>,
    route: &'a str,
    scheme: &'a str,
    lease: &'a Lease,
    asked: Asked,
    now: Instant,
}

/// What becomes of a request.
enum Decision {
    Serve(Serve),
    Respond(Respond),
    Pass,
    /// A response is on its way.
    Wait(Place),
}

impl Look<'_> {
    fn decide(
        &self,
        head: &RequestHead,
        behind: impl Fn() -> Rc<dyn Behind>,
    ) -> Result<Decision, GatewayError> {
        let input = KeyInput {
            route: self.route,
            scheme: self.scheme,
            head,
        };
        let Some(found) = self.store.find(input) else {
            return Ok(Decision::Pass);
        };
        if let Some(stored) = &found.stored {
            let judged = judge(&stored.terms, &self.asked.control, self.now);
            let from = match judged {
                Judged::Fresh => Some(ServedFrom::Hit),
                Judged::Stale | Judged::StaleMeanwhile => Some(ServedFrom::Stale),
                Judged::Validate => None,
            };
            if judged == Judged::StaleMeanwhile {
                self.refresh(&found, head, behind);
            } else if from.is_none() {
                return self.fetch(&found, head, behind);
            }
            stored.use_once();
            let from = from.expect("it is used");
            return Ok(Decision::Serve(self.serve(stored, head, from)?));
        }
        self.fetch(&found, head, behind)
    }

    fn serve(
        &self,
        stored: &Arc<StoredResponse>,
        head: &RequestHead,
        from: ServedFrom,
    ) -> Result<Serve, GatewayError> {
        self.store.stats.count_served(from);
        let reading = self.reading(head, from, false);
        let reader = Reader::new(stored, None, &reading)?;
        Ok(Serve {
            by: Box::new(reader),
            from,
        })
    }

    #[expect(clippy::fn_params_excessive_bools, reason = "older than the rule")]
    fn reading<'a>(
        &'a self,
        head: &'a RequestHead,
        from: ServedFrom,
        is_collapsed: bool,
    ) -> Reading<'a> {
        Reading {
            head,
            lease: self.lease,
            from,
            is_collapsed,
            is_stored: true,
            says_so: self.store.settings.cache_status,
            now: self.now,
        }
    }

    /// Has a response fetched, or waits for one that is, unless the request is better let pass.
    fn fetch(
        &self,
        found: &Found,
        head: &RequestHead,
        behind: impl Fn() -> Rc<dyn Behind>,
    ) -> Result<Decision, GatewayError> {
        let control = &self.asked.control;
        if control.only_if_cached {
            return Ok(Decision::Respond(words(504)));
        }
        // Where something is stored, it may still hold, or stand in for an error.
        let is_better_passed = || {
            head.method() == b"HEAD"
                || self.asked.has_range
                || self
                    .store
                    .hit_for_pass
                    .is_marked(&found.key, self.asked.credentials, self.now)
        };
        if control.no_store || (found.stored.is_none() && is_better_passed()) {
            return Ok(Decision::Pass);
        }
        let asks_anew = control.no_cache || control.max_age.is_some();
        let joins = |fill: &Fill| !asks_anew || fill.is_pending();
        let asked = self.presented(head);
        let role = self.store.lead_or_follow(&found.key, asked, joins);
        Ok(Decision::Wait(match role {
            Role::Follower(fill) => Place::following(fill),
            Role::Leader(fill) => {
                if let Err(error) = self.ask(found, &fill, head, &*behind(), None) {
                    return self.stand_in(found, head).unwrap_or(Err(error));
                }
                Place::leading(fill)
            }
        }))
    }

    /// What is stored, where nobody can be asked and it may be used then.
    fn stand_in(
        &self,
        found: &Found,
        head: &RequestHead,
    ) -> Option<Result<Decision, GatewayError>> {
        let stored = found.stored.as_ref()?;
        let may = may_stand_in(&stored.terms, &self.asked.control, self.now);
        may.then(|| {
            Ok(Decision::Serve(self.serve(
                stored,
                head,
                ServedFrom::Stale,
            )?))
        })
    }

    fn presented<'a>(&self, head: &'a RequestHead) -> Presented<'a> {
        Presented {
            fields: &head.fields,
            credentials: self.asked.credentials,
        }
    }

    /// Has a response fetched that nobody waits for, unless one is.
    fn refresh(&self, found: &Found, head: &RequestHead, behind: impl Fn() -> Rc<dyn Behind>) {
        // Where there is no room for it, the next request tries again.
        let Some(background) = BackgroundFetch::begin(&self.store.background, Reason::Revalidation) else {
            return;
        };
        let asked = self.presented(head);
        let role = self.store.lead_or_follow(&found.key, asked, |_| true);
        if let Role::Leader(fill) = role {
            fill.leave();
            let _ = self.ask(found, &fill, head, &*behind(), Some(background));
        }
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn ask(
        &self,
        found: &Found,
        fill: &Arc<Fill>,
        head: &RequestHead,
        behind: &dyn Behind,
        background: Option<BackgroundFetch>,
    ) -> Result<(), GatewayError> {
        let copied = head.fields.try_clone().map_err(GatewayError::from);
        let copied = copied.and_then(|asked| {
            let asking = head_to_ask(head, found.stored.as_deref())?;
            Ok((asked, asking))
        });
        let (asked, asking) = copied.inspect_err(|_| {
            self.store.abandon(&found.key, fill);
        })?;
        // Dropped on the way, it ends what waits for it.
        let ask = Ask {
            store: Arc::clone(self.store),
            key: Arc::clone(&found.key),
            fill: Arc::clone(fill),
            asked,
            control: self.asked.control,
            credentials: self.asked.credentials,
            stale: found.stored.clone(),
            lease: self.lease.clone(),
        };
        let filling = Filling::new(ask, self.now, background);
        behind.ask(asking, Box::new(filling))
    }
}

/// `head` as the cache asks: for all of the response, unless it is `stored` as it is.
fn head_to_ask(head: &RequestHead, stored: Option<&StoredResponse>) -> Result<RequestHead, GatewayError> {
    const CONDITIONS: [&[u8]; 4] = [
        b"range",
        b"if-range",
        b"if-none-match",
        b"if-modified-since",
    ];
    let mut asking = head.try_clone()?;
    CONDITIONS
        .iter()
        .for_each(|name| asking.fields.remove(name));
    if asking.method() != b"GET" {
        asking.set_method(b"GET")?;
    }
    let Some(stored) = stored else {
        return Ok(asking);
    };
    if let Some(tag) = stored.head.values(b"etag").next() {
        asking.fields.append(b"if-none-match", tag)?;
    }
    if let Some(modified) = stored.head.values(b"last-modified").next() {
        asking.fields.append(b"if-modified-since", modified)?;
    }
    Ok(asking)
}

/// A status with a word about it.
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

/// A request that waits for a response.
#[derive(Debug)]
struct Waiting {
    place: Option<Place>,
    store: Arc<Store>,
    route: Box<str>,
    scheme: String,
    lease: Lease,
    behind: Rc<dyn Behind>,
    asked: Asked,
    lookups: usize,
}

impl Waiting {
    #[expect(
        clippy::disallowed_methods,
        reason = "a response came that a request waited for: how old it is"
    )]
    fn look(&self) -> Look<'_> {
        Look {
            store: &self.store,
            route: &self.route,
            scheme: &self.scheme,
            lease: &self.lease,
            asked: self.asked,
            now: clock::now(),
        }
    }

    /// What came may be for the request, or for others only.
    fn take(
        &self,
        place: &Place,
        outcome: &Outcome,
        head: &RequestHead,
    ) -> Result<Option<Ready>, GatewayError> {
        let look = self.look();
        match outcome {
            Outcome::Pending | Outcome::Void => Ok(None),
            Outcome::Failed(status) => Ok(Some(Ready::Respond(words(*status)))),
            Outcome::Own(_) if !place.is_leader() => {
                self.store.stats.count_bypass();
                Ok(Some(Ready::Continue))
            }
            Outcome::Left => {
                self.store.stats.count_bypass();
                Ok(Some(Ready::Continue))
            }
            Outcome::Own(stored) => {
                let reading = Reading {
                    is_stored: false,
                    ..look.reading(head, ServedFrom::Miss, false)
                };
                let reader = Reader::new(stored, place.take_own(), &reading)?;
                self.store.stats.count_served(ServedFrom::Miss);
                Ok(Some(served(reader, ServedFrom::Miss)))
            }
            Outcome::Shared(stored, from) => {
                if !place.is_leader() && !is_good_for(stored, *from, head, &look) {
                    return Ok(None);
                }
                let reading = look.reading(head, *from, !place.is_leader());
                let own = place.is_leader().then(|| place.take_own()).flatten();
                let reader = match Reader::new(stored, own, &reading) {
                    Ok(reader) => reader,
                    // Its start may be gone where it turned out to be too large.
                    Err(_) if !place.is_leader() => return Ok(None),
                    Err(error) => return Err(error),
                };
                let reader = match place.is_leader() {
                    true => reader.with_lines(&place.take_own_lines())?,
                    false => reader,
                };
                self.store.stats.count_served(*from);
                Ok(Some(served(reader, *from)))
            }
        }
    }
}

fn served(reader: Reader, from: ServedFrom) -> Ready {
    Ready::Serve(Serve {
        by: Box::new(reader),
        from,
    })
}

/// Whether a response that another request had fetched is for this one.
fn is_good_for(stored: &StoredResponse, from: ServedFrom, head: &RequestHead, look: &Look<'_>) -> bool {
    // It came after the request did: it need not be asked about again, unless for each.
    let mut control = look.asked.control;
    control.no_cache = false;
    let judged = judge(&stored.terms, &control, look.now);
    let is_usable = from != ServedFrom::Miss || judged != Judged::Validate;
    stored.variant.matches(&head.fields) && is_usable
}

impl ExchangeFilter for Waiting {
    fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut RequestHead,
    ) -> Poll<Result<Ready, GatewayError>> {
        loop {
            let Some(mut place) = self.place.take() else {
                return Poll::Ready(Ok(Ready::Continue));
            };
            let polled = place.poll_outcome(cx);
            if polled.is_pending() {
                self.place = Some(place);
                return Poll::Pending;
            }
            if let Some(ready) = self.take(&place, &ready!(polled), head)? {
                return Poll::Ready(Ok(ready));
            }
            self.lookups += 1;
            if self.lookups > CACHE_LOOKUPS_MAX {
                self.store.stats.count_bypass();
                return Poll::Ready(Ok(Ready::Continue));
            }
            let behind = || Rc::clone(&self.behind);
            match self.look().decide(head, behind)? {
                Decision::Serve(serve) => return Poll::Ready(Ok(Ready::Serve(serve))),
                Decision::Respond(respond) => return Poll::Ready(Ok(Ready::Respond(respond))),
                Decision::Pass => {
                    self.store.stats.count_bypass();
                    return Poll::Ready(Ok(Ready::Continue));
                }
                Decision::Wait(place) => self.place = Some(place),
            }
        }
    }
}

/// A request that may change what is stored.
#[derive(Debug)]
struct Invalidating {
    store: Arc<Store>,
    key: Arc<CacheKey>,
}

impl ExchangeFilter for Invalidating {
    fn response(&mut self, head: &mut ResponseHead) -> Result<(), GatewayError> {
        // RFC 9111 §4.4: not where it failed.
        if (200..400).contains(&head.status) {
            let referred = |name: &'static [u8]| {
                let values = head.fields.values_named(name);
                values.filter_map(|value| Store::reference(&self.key, value))
            };
            let mut references: Vec<Vec<u8>> = referred(b"location").collect();
            references.extend(referred(b"content-location"));
            self.store.invalidate(&self.key, &references);
        }
        Ok(())
    }
}
