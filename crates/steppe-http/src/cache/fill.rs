//! A response on its way into the store: who fetches it, and what those who wait for it get.
//!
//! [`Filling`] is the client of an exchange that the cache has of its own, so that nobody's leaving ends it;
//! [`Fill`] is what it shares with those who wait. A response that is not for others goes to the one who
//! asked for it, and everybody else is let go on by themselves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use slab::Slab;
use steppe_mem::Lease;

use super::body::{Body, BodyReader};
use super::control::{RequestControl, ResponseControl};
use super::freshness::{Received, Terms, may_stand_in};
use super::key::{Resource, Selecting};
use super::store::Store;
use super::stored::{Lines, Making, Stored, StoredHead, take_over, withheld_lines};
use crate::date;
use crate::error::GatewayError;
use crate::exchange::{Downstream, Part, Refusal, Sink, Source};
use crate::field::{FieldBlock, FieldId};
use crate::filter::ServedFrom;
use crate::head::{ContentLength, ResponseHead};

/// What one exchange of the cache shares with those who wait for it.
#[derive(Debug)]
pub(crate) struct Fill {
    state: Mutex<State>,
    /// What it is likely to be selected by.
    expected: Option<Selecting>,
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
    /// Lines that are for the one who asked for it, and for nobody else.
    own_lines: Lines,
    /// Of those who wait.
    wakers: Slab<Waker>,
}

/// Where one who waits has a waker; to be [given up](Fill::give_up) by who does not wait any more.
pub(crate) type Seat = Option<usize>;

/// What came of it.
#[derive(Debug, Clone, Default)]
pub(crate) enum Outcome {
    /// Nothing yet.
    #[default]
    Pending,
    /// A response that may be for all who wait, and where it is from.
    Shared(Arc<Stored>, ServedFrom),
    /// A response for the one who asked.
    Own(Arc<Stored>),
    /// There is none: the status that says why.
    Failed(u16),
}

/// What is asked, and how its response may be used.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) store: Arc<Store>,
    pub(crate) resource: Arc<Resource>,
    pub(crate) fill: Arc<Fill>,
    /// Fields of the request.
    pub(crate) asked: FieldBlock,
    pub(crate) control: RequestControl,
    /// It says who it is from.
    pub(crate) is_authorized: bool,
    /// What its server is asked about.
    pub(crate) stale: Option<Arc<Stored>>,
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
}

#[derive(Debug)]
enum Stage {
    /// No head yet.
    Head,
    /// Content goes to the store, and to whoever reads it.
    Storing(Arc<Stored>),
    /// Content goes to whoever reads it.
    Passing(Arc<Body>),
    /// Content is of no use.
    Discarding,
    Over,
}

impl Fill {
    pub(super) fn new(expected: Option<Selecting>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            expected,
            is_doomed: AtomicBool::new(false),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether what comes is likely to be for a request with `asked`.
    pub(super) fn may_be_for(&self, asked: &FieldBlock) -> bool {
        self.expected
            .as_ref()
            .is_none_or(|expected| expected.matches(asked))
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

    /// Ready when there is an outcome.
    pub(crate) fn poll_outcome(&self, cx: &mut Context<'_>, seat: &mut Seat) -> Poll<Outcome> {
        let mut state = self.state();
        if !matches!(state.outcome, Outcome::Pending) {
            return Poll::Ready(state.outcome.clone());
        }
        match seat.and_then(|at| state.wakers.get_mut(at)) {
            Some(waker) => waker.clone_from(cx.waker()),
            None => *seat = Some(state.wakers.insert(cx.waker().clone())),
        }
        Poll::Pending
    }

    /// Who had this seat does not wait any more: a waker keeps memory of its task.
    pub(crate) fn give_up(&self, seat: Seat) {
        let waker = seat.and_then(|at| self.state().wakers.try_remove(at));
        drop(waker);
    }

    /// Lines of the response that only the one who asked for it gets.
    pub(crate) fn take_own_lines(&self) -> Lines {
        std::mem::take(&mut self.state().own_lines)
    }

    /// The content of a response for the one who asked.
    pub(crate) fn take_own(&self) -> Option<BodyReader> {
        self.state().own.take()
    }

    /// Whoever asked for it does not wait any more.
    pub(crate) fn leave(&self) {
        let mut state = self.state();
        state.is_left = true;
        let own = state.own.take();
        drop(state);
        drop(own);
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

impl Filling {
    /// For what `ask` asks at `began_at`.
    pub(crate) fn new(ask: Ask, began_at: Instant) -> Self {
        Self {
            ask,
            began_at,
            stage: Stage::Head,
            has_given_request: false,
        }
    }

    /// What is stored, where it may stand in for what failed with `status`.
    fn stand_in(&self, status: u16, now: Instant) -> Option<Arc<Stored>> {
        // RFC 5861 §4.
        let is_error = matches!(status, 500 | 502..=504);
        let stale = self.ask.stale.as_ref().filter(|_| is_error)?;
        may_stand_in(&stale.terms, &self.ask.control, now).then(|| Arc::clone(stale))
    }

    /// It is over: nobody follows it any more.
    fn end(&mut self) {
        self.stage = Stage::Over;
        self.ask.store.end_fill(&self.ask.resource, &self.ask.fill);
    }

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
            is_authorized: self.ask.is_authorized,
            delay: now.saturating_duration_since(self.began_at),
            time: date::since_epoch().as_secs(),
        };
        Terms::of(&received, &self.ask.store.settings, now)
    }

    /// The server says that what is stored still holds: its fields take the place of those that are stored
    /// (RFC 9111 §3.2, §4.3.4).
    fn revalidated(
        &mut self,
        stale: &Arc<Stored>,
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
        let selecting = Selecting::of(&updated.fields, &self.ask.asked);
        (self.ask.fill).keep_own_lines(&head.fields, &control.withheld);
        let store = &self.ask.store;
        store.stats.revalidated();
        let making = |(terms, selecting)| Making {
            resource: Arc::clone(&self.ask.resource),
            selecting,
            terms,
            head: StoredHead::of(&updated, &control.withheld),
            body: Arc::clone(&stale.body),
        };
        let may_be_kept = !self.ask.fill.is_doomed();
        let renewed = terms
            .zip(selecting)
            .filter(|_| may_be_kept)
            .map(|parts| Stored::new(making(parts), &store.lease));
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

    /// Stores the response, as far as it may be; else it is for whoever asked.
    fn receive(&mut self, head: &ResponseHead, now: Instant) -> Result<(), GatewayError> {
        let Ask {
            store, fill, asked, ..
        } = &self.ask;
        let control = ResponseControl::of(&head.fields);
        let terms = self.terms(head.status, &head.fields, &control, now);
        let selecting = Selecting::of(&head.fields, asked);
        let most = store.settings.max_object_bytes as u64;
        let fits = !matches!(head.length, ContentLength::Known(bytes) if bytes > most);
        let is_for_others = terms.is_some() && selecting.is_some() && fits;
        if !is_for_others && !self.ask.is_authorized && !self.ask.control.no_store {
            store.pass_on(&self.ask.resource, now);
        }
        let is_stored = is_for_others && !fill.is_doomed() && !self.ask.control.no_store;
        let making = |body, withheld: &[Box<[u8]>]| Making {
            resource: Arc::clone(&self.ask.resource),
            selecting: selecting.clone().unwrap_or_default(),
            terms: terms.unwrap_or_else(|| Terms::none(&head.fields, now)),
            head: StoredHead::of(head, withheld),
            body,
        };
        if is_stored {
            store.leave_room(0);
            if let Ok(stored) = Stored::new(making(Body::kept(), &control.withheld), &store.lease) {
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
        let own = Stored::new(making(Body::passing(), &[]), &self.ask.lease)?;
        let body = Arc::clone(&own.body);
        let reader = if fill.is_left() { None } else { body.reader() };
        self.end();
        self.stage = Stage::Passing(body);
        self.ask.fill.settle(Outcome::Own(own), reader);
        Ok(())
    }

    fn store(&mut self, part: Part) {
        let Stage::Storing(stored) = &self.stage else {
            return;
        };
        let stored = Arc::clone(stored);
        let store = &self.ask.store;
        match part {
            Part::Chunk(chunk) => {
                store.leave_room(chunk.len());
                let is_too_much = stored.body.bytes_so_far() + chunk.len() as u64
                    > store.settings.max_object_bytes as u64;
                let taken = if is_too_much {
                    Err(chunk)
                } else {
                    take_over(chunk, &store.lease)
                };
                match taken {
                    Ok(chunk) => {
                        stored.add_bytes(chunk.charged_bytes());
                        stored.body.push(chunk);
                    }
                    Err(mut chunk) => {
                        let _ = chunk.share();
                        if is_too_much {
                            store.pass_on(&self.ask.resource, stored.terms.received_at);
                        }
                        let body = Arc::clone(&stored.body);
                        body.stop_keeping();
                        self.end();
                        body.push(chunk);
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
        0
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        match &self.stage {
            Stage::Passing(body) => body.poll_room(cx).map(Ok),
            _ => Poll::Ready(Ok(())),
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

    fn put_interim(&mut self, _: &ResponseHead) -> Result<(), GatewayError> {
        Ok(())
    }

    fn put_head(&mut self, head: &ResponseHead) -> Result<(), GatewayError> {
        let now = Instant::now();
        if let Some(stand_in) = self.stand_in(head.status, now) {
            self.end();
            self.stage = Stage::Discarding;
            self.ask.store.stats.stood_in();
            let outcome = Outcome::Shared(stand_in, ServedFrom::Stale);
            self.ask.fill.settle(outcome, None);
            return Ok(());
        }
        match self.ask.stale.take() {
            Some(stale) if head.status == 304 => self.revalidated(&stale, head, now),
            _ => self.receive(head, now),
        }
    }

    fn put_refusal(&mut self, refusal: &Refusal<'_>) -> Option<u64> {
        let now = Instant::now();
        let outcome = match self.stand_in(refusal.status, now) {
            Some(stand_in) => {
                self.ask.store.stats.stood_in();
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
        match &self.stage {
            Stage::Passing(body) => body.poll_abandoned(cx),
            Stage::Discarding => Poll::Ready(()),
            _ => Poll::Pending,
        }
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
    use super::*;

    #[test]
    fn who_does_not_wait_any_more_leaves_no_waker() {
        let fill = Fill::new(None);
        let mut cx = Context::from_waker(Waker::noop());
        let mut seats: Vec<Seat> = vec![None; 100];
        for _ in 0..3 {
            for seat in &mut seats {
                assert!(fill.poll_outcome(&mut cx, seat).is_pending());
            }
        }
        assert_eq!(
            fill.state().wakers.len(),
            100,
            "one each, however often it is asked"
        );
        let last = seats.pop();
        seats.into_iter().for_each(|seat| fill.give_up(seat));
        assert_eq!(fill.state().wakers.len(), 1);
        fill.fail(502);
        fill.give_up(last.flatten());
        let outcome = fill.poll_outcome(&mut cx, &mut None);
        assert!(matches!(outcome, Poll::Ready(Outcome::Failed(502))));
    }
}
