//! A response on its way into the store: who fetches it, and what those who wait for it get.
//!
//! [`Filling`] is the client of an exchange that the cache has of its own, so that nobody's leaving ends it,
//! unless as many go on without anybody as may; [`Fill`] is what it shares with those who wait. A response that is
//! not for others goes to the one who asked for it, and everybody else is let go on by themselves.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use slab::Slab;
use steppe_mem::Lease;
use steppe_net::clock;
use tokio::time::{Sleep, sleep};

use super::background::{BackgroundFetch, Reason};
use super::body::{Body, BodyReader};
use super::control::{RequestControl, ResponseControl};
use super::credentials::{Credentials, Presented};
use super::freshness::{Received, Terms, may_stand_in};
use super::key::CacheKey;
use super::stats::ServedFrom;
use super::store::Store;
use super::stored::{Lines, StoredParts, StoredResponse, StoredHead, take_over, withheld_lines};
use super::validation::is_validated;
use super::variant::Variant;
use crate::date;
use crate::error::GatewayError;
use crate::exchange::{Downstream, Part, Refusal, Sink, Source};
use crate::field::{FieldBlock, FieldId};
use crate::head::{ContentLength, ResponseHead};
use crate::limits::{CACHE_WINDOW_BYTES, CACHE_WINDOW_PATIENCE};

/// What one exchange of the cache shares with those who wait for it.
#[derive(Debug)]
pub(crate) struct Fill {
    state: Mutex<State>,
    /// What it is likely to be selected by.
    expected: Option<Variant>,
    /// Those of the request that it is for.
    credentials: Credentials,
    /// What comes is not to be stored: it is out of date already.
    is_doomed: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    outcome: Outcome,
    /// Content for the one who asked for it.
    own: Option<BodyReader>,
    /// Whoever asked for it has left.
    is_left: bool,
    /// Those who wait for it.
    waiting: usize,
    /// Of who fetches it.
    filler: Option<Waker>,
    /// Lines that are for the one who asked for it, and for nobody else.
    own_lines: Lines,
    /// Of those who wait.
    wakers: Slab<Waker>,
}

/// One who waits. Dropped, it does not wait any more.
#[derive(Debug)]
pub(crate) struct Place {
    fill: Arc<Fill>,
    /// It is the one who asked.
    is_leader: bool,
    /// Where its waker is, which keeps memory of its task.
    seat: Option<usize>,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub(crate) enum Outcome {
    /// Nothing yet.
    #[default]
    Pending,
    /// A response that may be for all who wait, and where it is from.
    Shared(Arc<StoredResponse>, ServedFrom),
    /// A response for the one who asked.
    Own(Arc<StoredResponse>),
    /// There is none: the status that says why.
    Failed(u16),
    /// There is none, since nobody waited for it.
    Left,
    /// A response that neither answers the requests nor renews what was stored: they are looked up anew.
    Void,
}

/// What is asked, and how its response may be used.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) store: Arc<Store>,
    pub(crate) key: Arc<CacheKey>,
    pub(crate) fill: Arc<Fill>,
    /// Fields of the request.
    pub(crate) asked: FieldBlock,
    pub(crate) control: RequestControl,
    /// Those of the request.
    pub(crate) credentials: Credentials,
    /// What its server is asked about.
    pub(crate) stale: Option<Arc<StoredResponse>>,
    /// What is not stored is charged to it.
    pub(crate) lease: Lease,
}

/// The client's side of an exchange that the cache has.
#[derive(Debug)]
pub(crate) struct Filling {
    ask: Ask,
    began_at: Instant,
    stage: Stage,
    has_given_request: bool,
    /// It goes on though nobody waits for it.
    background: Option<BackgroundFetch>,
    /// Readers hold others up: what they had read when that began, and until when they may.
    lag: Option<(u64, Pin<Box<Sleep>>)>,
}

#[derive(Debug)]
enum Stage {
    /// No head yet.
    Head,
    /// Content goes to the store, and to whoever reads it.
    Storing(Arc<StoredResponse>),
    /// Content goes to whoever reads it.
    Passing(Arc<Body>),
    /// Content is of no use.
    Discarding,
    Over,
}

impl Fill {
    pub(super) fn new(expected: Option<Variant>, credentials: Credentials) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            expected,
            credentials,
            is_doomed: AtomicBool::new(false),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether what comes is likely to be for a request with `asked`.
    pub(super) fn may_be_for(&self, asked: Presented<'_>) -> bool {
        let expected = self.expected.as_ref();
        let is_selected = || expected.is_none_or(|expected| expected.matches(asked.fields));
        self.credentials == asked.credentials && is_selected()
    }

    /// Whether nothing has come yet.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.state().outcome, Outcome::Pending)
    }

    /// What comes is out of date.
    pub(super) fn doom(&self) {
        self.is_doomed.store(true, Ordering::Release);
    }

    fn is_doomed(&self) -> bool {
        self.is_doomed.load(Ordering::Acquire)
    }

    /// Whoever asked for it does not wait any more.
    pub(crate) fn leave(&self) {
        let mut state = self.state();
        state.is_left = true;
        let own = state.own.take();
        drop(state);
        drop(own);
    }

    /// Ready while nobody waits for it; wakes when that changes.
    fn poll_unawaited(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        state.filler = Some(cx.waker().clone());
        match state.waiting {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    fn settle(&self, outcome: Outcome, own: Option<BodyReader>) {
        let mut state = self.state();
        state.outcome = outcome;
        state.own = own;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// There will be no response.
    pub(super) fn fail(&self, status: u16) {
        self.settle(Outcome::Failed(status), None);
    }

    fn is_left(&self) -> bool {
        self.state().is_left
    }

    /// Keeps the lines of `fields` that are `withheld` from others for the one who asked.
    fn keep_own_lines(&self, fields: &FieldBlock, withheld: &[Box<[u8]>]) {
        let lines = withheld_lines(fields, withheld);
        let mut state = self.state();
        if !state.is_left {
            state.own_lines = lines;
        }
    }
}

impl Place {
    /// Of the one who asked for `fill`.
    pub(crate) fn leading(fill: Arc<Fill>) -> Self {
        let mut place = Self::following(fill);
        place.is_leader = true;
        place
    }

    /// Of another one.
    pub(crate) fn following(fill: Arc<Fill>) -> Self {
        let mut state = fill.state();
        state.waiting += 1;
        let filler = (state.waiting == 1).then(|| state.filler.take()).flatten();
        drop(state);
        filler.into_iter().for_each(Waker::wake);
        Self {
            fill,
            is_leader: false,
            seat: None,
        }
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.is_leader
    }

    /// Ready when there is an outcome.
    pub(crate) fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        let mut state = self.fill.state();
        if !matches!(state.outcome, Outcome::Pending) {
            return Poll::Ready(state.outcome.clone());
        }
        match self.seat.and_then(|at| state.wakers.get_mut(at)) {
            Some(waker) => waker.clone_from(cx.waker()),
            None => self.seat = Some(state.wakers.insert(cx.waker().clone())),
        }
        Poll::Pending
    }

    /// Lines of the response that only the one who asked for it gets.
    pub(crate) fn take_own_lines(&self) -> Lines {
        std::mem::take(&mut self.fill.state().own_lines)
    }

    /// The content of a response for the one who asked.
    pub(crate) fn take_own(&self) -> Option<BodyReader> {
        self.fill.state().own.take()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.fill.state();
        state.waiting -= 1;
        let seat = self.seat;
        let waker = seat.and_then(|at| state.wakers.try_remove(at));
        let filler = (state.waiting == 0).then(|| state.filler.take()).flatten();
        drop(state);
        drop(waker);
        if self.is_leader {
            self.fill.leave();
        }
        filler.into_iter().for_each(Waker::wake);
    }
}

impl Filling {
    /// For what `ask` asks at `began_at`; it goes on as `background` where nobody waits from the start.
    pub(crate) fn new(ask: Ask, began_at: Instant, background: Option<BackgroundFetch>) -> Self {
        Self {
            ask,
            began_at,
            stage: Stage::Head,
            has_given_request: false,
            background,
            lag: None,
        }
    }

    /// What is stored, where it may stand in for what failed with `status`.
    fn stand_in(&self, status: u16, now: Instant) -> Option<Arc<StoredResponse>> {
        // RFC 5861 §4.
        let is_error = matches!(status, 500 | 502..=504);
        let stale = self.ask.stale.as_ref().filter(|_| is_error)?;
        may_stand_in(&stale.terms, &self.ask.control, now).then(|| Arc::clone(stale))
    }

    /// It is over: nobody follows it any more.
    fn end(&mut self) {
        self.stage = Stage::Over;
        self.ask.store.end_fill(&self.ask.key, &self.ask.fill);
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn terms(
        &self,
        status: u16,
        fields: &FieldBlock,
        control: &ResponseControl,
        now: Instant,
    ) -> Option<Terms> {
        let received = Received {
            status,
            fields,
            control,
            is_authorized: self.ask.credentials.is_authenticated(),
            delay: now.saturating_duration_since(self.began_at),
            time: date::since_epoch().as_secs(),
        };
        Terms::of(&received, &self.ask.store.settings, now)
    }

    /// The server says that what is stored still holds: its fields take the place of those that are stored
    /// (RFC 9111 §3.2, §4.3.4).
    fn revalidated(
        &mut self,
        stale: &Arc<StoredResponse>,
        head: &ResponseHead,
        now: Instant,
    ) -> Result<(), GatewayError> {
        let mut updated = stale.head.to_head(&self.ask.lease)?;
        for (id, name, _) in head.fields.iter() {
            if is_updated(id, name) {
                updated.fields.remove(name);
            }
        }
        for (id, name, value) in head.fields.iter() {
            if is_updated(id, name) {
                updated.fields.append_known(id, name, value)?;
            }
        }
        if !head.fields.has(FieldId::Date) {
            // RFC 9110 §6.6.1: of when it came.
            updated.fields.set(b"date", &date::now())?;
        }
        let control = ResponseControl::of(&updated.fields);
        let terms = self.terms(updated.status, &updated.fields, &control, now);
        let variant = Variant::of(&updated.fields, &self.ask.asked);
        (self.ask.fill).keep_own_lines(&head.fields, &control.withheld);
        let store = &self.ask.store;
        let parts = |(terms, variant)| StoredParts {
            key: Arc::clone(&self.ask.key),
            variant,
            terms,
            head: StoredHead::of(&updated, &control.withheld),
            body: Arc::clone(&stale.body),
        };
        let may_be_kept = !self.ask.fill.is_doomed();
        let renewed = terms
            .zip(variant)
            .filter(|_| may_be_kept)
            .map(|parts| StoredResponse::new(parts(parts), &store.lease));
        let stored = match renewed {
            Some(Ok(stored)) => {
                stored.take_mark_of(stale);
                store.insert(&stored);
                stored
            }
            // It may be used for those who asked, and no longer.
            _ => Arc::clone(stale),
        };
        self.end();
        let outcome = Outcome::Shared(stored, ServedFrom::Revalidated);
        self.ask.fill.settle(outcome, None);
        Ok(())
    }

    /// The server says that something else than what is stored still holds: it renews nothing (RFC 9111
    /// §4.3.4), and nobody is answered with it. Requests are looked up anew where what is stored was forgotten
    /// for it, and pass where it was not, since it is one visitor's.
    fn void(&mut self, stale: &Arc<StoredResponse>) {
        let outcome = match self.is_of_one_visitor() {
            true => Outcome::Left,
            false => {
                self.ask.store.supersede(stale);
                Outcome::Void
            }
        };
        self.end();
        self.stage = Stage::Discarding;
        self.ask.fill.settle(outcome, None);
    }

    /// True if the response may be about the client alone that asked.
    fn is_of_one_visitor(&self) -> bool {
        self.ask.credentials != Credentials::None
    }

    /// Stores the response, as far as it may be; else it is for whoever asked.
    fn receive(
        &mut self,
        head: &ResponseHead,
        stale: Option<&Arc<StoredResponse>>,
        now: Instant,
    ) -> Result<(), GatewayError> {
        let Ask {
            store,
            fill,
            asked,
            credentials,
            ..
        } = &self.ask;
        let control = ResponseControl::of(&head.fields);
        let terms = self.terms(head.status, &head.fields, &control, now);
        let variant = Variant::of(&head.fields, asked);
        let fits = match head.length {
            ContentLength::Known(bytes) => store.settings.stores(bytes),
            ContentLength::Empty | ContentLength::Unknown => true,
        };
        let is_for_others = terms.is_some() && variant.is_some() && fits;
        // An error may be this client's own doing, or a filter's.
        let is_error = head.status >= 400;
        let says_so = !self.ask.control.no_store && !is_error;
        if !is_for_others && says_so {
            store.hit_for_pass.mark(&self.ask.key, *credentials, now);
            // RFC 9111 §4.3.3: it takes the place of what is stored, unless it is one visitor's.
            if let Some(stale) = stale.filter(|_| !self.is_of_one_visitor()) {
                store.supersede(stale);
            }
        }
        let is_stored = is_for_others
            && !fill.is_doomed()
            && !self.ask.control.no_store
            && !store.is_full_of_what_is_read();
        let parts = |body, withheld: &[Box<[u8]>]| StoredParts {
            key: Arc::clone(&self.ask.key),
            variant: variant.clone().unwrap_or_default(),
            terms: terms.unwrap_or_else(|| Terms::none(&head.fields, now)),
            head: StoredHead::of(head, withheld),
            body,
        };
        if is_stored {
            store.leave_room(0);
            if let Ok(stored) = StoredResponse::new(parts(Body::kept(), &control.withheld), &store.lease) {
                // Its place is kept for the one who asked, whatever comes before that reads.
                let reader = if fill.is_left() {
                    None
                } else {
                    stored.body.reader()
                };
                let outcome = Outcome::Shared(Arc::clone(&stored), ServedFrom::Miss);
                fill.keep_own_lines(&head.fields, &control.withheld);
                fill.settle(outcome, reader);
                self.stage = Stage::Storing(stored);
                return Ok(());
            }
        }
        let own = StoredResponse::new(parts(Body::passing(), &[]), &self.ask.lease)?;
        let body = Arc::clone(&own.body);
        let reader = if fill.is_left() { None } else { body.reader() };
        self.end();
        self.stage = Stage::Passing(body);
        self.ask.fill.settle(Outcome::Own(own), reader);
        Ok(())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "content turned out too large to be stored: until when nobody waits for it again"
    )]
    fn store(&mut self, part: Part) {
        let Stage::Storing(stored) = &self.stage else {
            return;
        };
        let stored = Arc::clone(stored);
        let store = &self.ask.store;
        match part {
            Part::Chunk(chunk) => {
                store.leave_room(chunk.len());
                let bytes = stored.body.bytes_so_far() + chunk.len() as u64;
                let is_too_much = !store.settings.stores(bytes);
                let taken = match is_too_much {
                    true => Err(chunk),
                    false => take_over(chunk, &store.lease),
                };
                match taken {
                    Ok(chunk) => {
                        stored.add_bytes(chunk.charged_bytes());
                        stored.body.push(chunk);
                    }
                    Err(mut chunk) => {
                        let _ = chunk.share();
                        if is_too_much {
                            let credentials = self.ask.credentials;
                            store.hit_for_pass.mark(&self.ask.key, credentials, clock::now());
                        }
                        let body = Arc::clone(&stored.body);
                        body.stop_keeping();
                        self.end();
                        body.push(chunk);
                        self.background = None;
                        self.stage = Stage::Passing(body);
                    }
                }
            }
            Part::End(_) => {
                stored.body.finish(None);
                if !self.ask.fill.is_doomed() {
                    store.insert(&stored);
                }
                self.end();
            }
        }
    }
}

/// Fields of a 304 that say something new of the response that is stored: not those that belong to its
/// content as it is.
fn is_updated(id: FieldId, name: &[u8]) -> bool {
    const KEPT: [&[u8]; 4] = [
        b"content-encoding",
        b"content-md5",
        b"content-range",
        b"etag",
    ];
    id != FieldId::ContentLength
        && !id.is_hop_by_hop()
        && !KEPT.iter().any(|kept| name.eq_ignore_ascii_case(kept))
}

impl Sink for Filling {
    fn can_put(&self) -> bool {
        match &self.stage {
            Stage::Passing(body) => body.has_room(),
            _ => true,
        }
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        match (&self.stage, part) {
            (Stage::Storing(_), part) => self.store(part),
            (Stage::Passing(body), Part::Chunk(mut chunk)) => {
                let _ = chunk.share();
                body.push(chunk);
            }
            (Stage::Passing(body), Part::End(trailers)) => {
                body.finish(trailers);
                self.stage = Stage::Over;
            }
            _ => {}
        }
        Ok(())
    }

    fn written(&self) -> u64 {
        match &self.stage {
            Stage::Passing(body) => body.passed_bytes(),
            _ => 0,
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        let Stage::Passing(body) = &self.stage else {
            return Poll::Ready(Ok(()));
        };
        loop {
            if body.poll_room(cx).is_ready() {
                if body.is_nearly_read() {
                    self.lag = None;
                }
                return Poll::Ready(Ok(()));
            }
            let passed = body.passed_bytes();
            let window = CACHE_WINDOW_BYTES as u64;
            self.lag.take_if(|(began, _)| passed >= *began + window);
            if !body.is_held_up() {
                return Poll::Pending;
            }
            let (_, patience) = self
                .lag
                .get_or_insert_with(|| (passed, Box::pin(sleep(CACHE_WINDOW_PATIENCE))));
            ready!(patience.as_mut().poll(cx));
            self.lag = None;
            body.leave_behind();
        }
    }
}

impl Source for Filling {
    fn poll_part(&mut self, _: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        if std::mem::replace(&mut self.has_given_request, true) {
            return Poll::Pending;
        }
        Poll::Ready(Ok(Part::End(None)))
    }

    fn is_starved(&self) -> bool {
        false
    }
}

impl Downstream for Filling {
    fn charge_to(&mut self, _: &Lease) {}

    fn put_interim(&mut self, _: ResponseHead) -> Result<(), GatewayError> {
        Ok(())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "when an answer to the cache began: how old it is from here on"
    )]
    fn put_head(&mut self, head: ResponseHead) -> Result<(), GatewayError> {
        let now = clock::now();
        if let Some(stand_in) = self.stand_in(head.status, now) {
            self.end();
            self.stage = Stage::Discarding;
            let outcome = Outcome::Shared(stand_in, ServedFrom::Stale);
            self.ask.fill.settle(outcome, None);
            return Ok(());
        }
        match self.ask.stale.take() {
            Some(stale) if head.status == 304 => {
                if is_validated(&head.fields, &stale.head) {
                    return self.revalidated(&stale, &head, now);
                }
                self.void(&stale);
                Ok(())
            }
            stale => self.receive(&head, stale.as_ref(), now),
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "whether what is stored may still stand in"
    )]
    fn put_refusal(&mut self, refusal: &Refusal<'_>) -> Option<u64> {
        let now = clock::now();
        let outcome = match self.stand_in(refusal.status, now) {
            Some(stand_in) => {
                Outcome::Shared(stand_in, ServedFrom::Stale)
            }
            None => Outcome::Failed(refusal.status),
        };
        self.end();
        self.ask.fill.settle(outcome, None);
        Some(0)
    }

    fn retract(&mut self) -> bool {
        false
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_unawaited = match &self.stage {
            Stage::Passing(body) => return body.poll_unread(cx),
            Stage::Discarding => return Poll::Ready(()),
            Stage::Over => return Poll::Pending,
            Stage::Head => self.ask.fill.poll_unawaited(cx).is_ready(),
            // Who waited reads by now.
            Stage::Storing(stored) => {
                self.ask.fill.poll_unawaited(cx).is_ready()
                    && stored.body.poll_unread(cx).is_ready()
            }
        };
        if !is_unawaited {
            self.background = None;
            return Poll::Pending;
        }
        if self.background.is_none() {
            self.background = BackgroundFetch::begin(&self.ask.store.background, Reason::ClientsLeft);
        }
        if self.background.is_some() {
            return Poll::Pending;
        }
        if self.ask.fill.is_pending() {
            self.ask.fill.settle(Outcome::Left, None);
        }
        Poll::Ready(())
    }

    fn start_tunnel(&mut self) {}
}

impl Drop for Filling {
    fn drop(&mut self) {
        match &self.stage {
            Stage::Storing(stored) => stored.body.cut(),
            Stage::Passing(body) => body.cut(),
            Stage::Head | Stage::Discarding | Stage::Over => {}
        }
        if self.ask.fill.is_pending() {
            self.ask.fill.settle(Outcome::Failed(502), None);
        }
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use steppe_mem::{Budget, Buffer};

    use super::*;
    use crate::cache::key::KeyInput;
    use crate::config;
    use crate::head::RequestHead;

    #[test]
    fn who_does_not_wait_any_more_leaves_no_waker() {
        let fill = Fill::new(None, Credentials::None);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(fill.poll_unawaited(&mut cx).is_ready());
        let following = (1..100).map(|_| Place::following(Arc::clone(&fill)));
        let mut places = vec![Place::leading(Arc::clone(&fill))];
        places.extend(following);
        for _ in 0..3 {
            for place in &mut places {
                assert!(place.poll_outcome(&mut cx).is_pending());
            }
        }
        assert_eq!(
            fill.state().wakers.len(),
            100,
            "one each, however often it is asked"
        );
        let mut last = places.pop().expect("a hundred");
        drop(places);
        assert_eq!(fill.state().wakers.len(), 1);
        assert!(fill.is_left() && fill.poll_unawaited(&mut cx).is_pending());
        fill.fail(502);
        let outcome = last.poll_outcome(&mut cx);
        assert!(matches!(outcome, Poll::Ready(Outcome::Failed(502))));
        drop(last);
        assert!(fill.poll_unawaited(&mut cx).is_ready());
    }

    #[test]
    fn who_takes_a_piece_now_and_then_holds_others_up_no_longer() {
        const PIECE: usize = CACHE_WINDOW_BYTES / 8;
        let budget = Budget::new(16 << 20);
        let lease = budget.root().lease();
        let head = RequestHead::new(b"GET", b"a.test", b"/", &lease).expect("it is valid");
        let store = Store::new("test", config::Cache::default(), budget.root());
        let found = store.find(KeyInput {
            route: "r",
            scheme: "http",
            head: &head,
        });
        let found = found.expect("it names a host");
        let ask = Ask {
            store,
            key: found.key,
            fill: Fill::new(None, Credentials::None),
            asked: head.fields,
            control: RequestControl::default(),
            credentials: Credentials::None,
            stale: None,
            lease: lease.clone(),
        };
        let mut filling = Filling::new(ask, Instant::now(), None);
        let body = Body::passing();
        let readers = (body.reader(), body.reader());
        let (mut slow, mut fast) = (readers.0.expect("start"), readers.1.expect("start"));
        filling.stage = Stage::Passing(Arc::clone(&body));
        let put = |filling: &mut Filling| {
            let mut buffer = Buffer::take(&lease, PIECE).expect("room");
            buffer.put(&[0; PIECE]).expect("room");
            filling.put(Part::Chunk(buffer.into())).expect("room");
        };
        let mut cx = Context::from_waker(Waker::noop());
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().expect("a runtime");
        let _entered = runtime.enter();
        while body.has_room() {
            put(&mut filling);
        }
        while fast.poll_chunk(&mut cx).is_ready() {}
        assert!(filling.poll_flush(&mut cx).is_pending());
        assert!(filling.lag.is_some(), "it has until then");
        // What it makes room for is not read by the other one yet.
        assert!(slow.poll_chunk(&mut cx).is_ready());
        assert!(filling.poll_flush(&mut cx).is_ready());
        put(&mut filling);
        assert!(filling.poll_flush(&mut cx).is_pending());
        assert!(fast.poll_chunk(&mut cx).is_ready());
        let (_, patience) = filling.lag.as_mut().expect("it has no longer");
        patience.as_mut().reset(tokio::time::Instant::now());
        runtime
            .block_on(poll_fn(|cx| filling.poll_flush(cx)))
            .expect("room");
        assert!(matches!(slow.poll_chunk(&mut cx), Poll::Ready(Err(_))));
        assert!(fast.poll_chunk(&mut cx).is_pending());
    }
}
