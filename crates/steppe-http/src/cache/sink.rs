//! The client's side of an exchange that fetches a response for the cache.
//!
//! An exchange of the cache's own outlives the clients that wait for it, so that none of them ends it by leaving. Its
//! response goes to the store, and to readers as it arrives; where it is not stored it goes through a window to
//! those that may have it.
//!
//! Non-goals: the effects of a fetch's end, all of which [`Fetch::finish`] has.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_mem::{Chunk, Lease};
use steppe_net::clock;
use tokio::time::{Sleep, sleep};

use super::body::{Body, BodyWriter};
use super::control::{RequestControl, ResponseControl};
use super::fetch::{Fetch, FetchOutcome};
use super::freshness::{Received, Terms, may_stand_in};
use super::stored::{StoredHead, StoredParts, StoredResponse, take_over, withheld_lines};
use super::validation::{freshened, is_validated};
use super::variant::Variant;
use crate::date;
use crate::error::GatewayError;
use crate::exchange::{Downstream, Part, Refusal, Sink, Source};
use crate::field::FieldBlock;
use crate::head::{ContentLength, ResponseHead};
use crate::limits::{CACHE_WINDOW_BYTES, CACHE_WINDOW_PATIENCE};

/// The request that a response is fetched for.
#[derive(Debug)]
pub(crate) struct FetchRequest {
    pub(crate) fields: FieldBlock,
    pub(crate) control: RequestControl,
    /// The stored response that the origin server is asked to validate.
    pub(crate) stale: Option<Arc<StoredResponse>>,
    /// A response that is not stored is charged to it.
    pub(crate) lease: Lease,
    pub(crate) began_at: Instant,
}

/// The client's side of the exchange.
#[derive(Debug)]
pub(crate) struct FetchSink {
    request: FetchRequest,
    stage: StoringStage,
    has_given_request: bool,
    /// Set while slow readers hold up others.
    lag: Option<Lag>,
}

/// A lag of readers that hold up others.
#[derive(Debug)]
struct Lag {
    /// Bytes that they had passed when the lag began.
    began_at_bytes: u64,
    /// The end of the patience with them.
    patience: Pin<Box<Sleep>>,
}

#[derive(Debug)]
enum StoringStage {
    /// Before the head.
    Head(Fetch),
    /// Content goes to the store, and to readers.
    Storing(Storing),
    /// Content goes to readers.
    Passing(BodyWriter),
    /// Content is of no use: the exchange is to be canceled.
    Discarding,
    Over,
}

#[derive(Debug)]
struct Storing {
    fetch: Fetch,
    response: Arc<StoredResponse>,
    writer: BodyWriter,
}

/// The disposition of a response by its head.
enum Disposition {
    /// It is stored, and shared as it arrives.
    Store(Arc<StoredResponse>, BodyWriter),
    /// The fetch ends here; its content is dealt with in this stage.
    Finish(FetchOutcome, StoringStage),
}

impl FetchRequest {
    /// The stored response, where it may stand in for an error with `status` (RFC 5861 §4).
    fn stand_in(&self, status: u16, now: Instant) -> Option<&Arc<StoredResponse>> {
        let is_error = matches!(status, 500 | 502..=504);
        let stale = self.stale.as_ref().filter(|_| is_error)?;
        may_stand_in(&stale.terms, &self.control, now).then_some(stale)
    }

    /// Decides on a response by its `head`.
    ///
    /// # Errors
    /// Where the budget has no room.
    fn dispose(
        &self,
        head: &ResponseHead,
        fetch: &Fetch,
        now: Instant,
    ) -> Result<Disposition, GatewayError> {
        if let Some(stale) = self.stand_in(head.status, now) {
            let outcome = FetchOutcome::StaleIfError(Arc::clone(stale));
            return Ok(Disposition::Finish(outcome, StoringStage::Discarding));
        }
        match &self.stale {
            Some(stale) if head.status == 304 && !is_validated(&head.fields, &stale.head) => {
                let outcome = FetchOutcome::Mismatched(Arc::clone(stale));
                Ok(Disposition::Finish(outcome, StoringStage::Discarding))
            }
            Some(stale) if head.status == 304 => {
                let updated = freshened(&stale.head, head, &self.lease)?;
                let draft = self.draft(&updated, fetch, now);
                let lines = withheld_lines(&head.fields, &draft.control.withheld);
                fetch.shared.reserve_lines(lines);
                let outcome = draft.renew(stale, fetch);
                Ok(Disposition::Finish(outcome, StoringStage::Over))
            }
            stale => self.draft(head, fetch, now).receive(stale.as_ref(), fetch),
        }
    }

    fn draft<'a>(
        &'a self,
        head: &'a ResponseHead,
        fetch: &Fetch,
        now: Instant,
    ) -> StorableResponse<'a> {
        let control = ResponseControl::of(&head.fields);
        let received = Received {
            status: head.status,
            fields: &head.fields,
            control: &control,
            is_authorized: fetch.shared.credentials.is_authenticated(),
            delay: now.saturating_duration_since(self.began_at),
            time: date::since_epoch().as_secs(),
        };
        let terms = Terms::of(&received, &fetch.store.settings, now);
        StorableResponse {
            request: self,
            head,
            terms,
            variant: Variant::of(&head.fields, &self.fields),
            control,
            now,
        }
    }
}

/// A response that may be stored.
struct StorableResponse<'a> {
    request: &'a FetchRequest,
    head: &'a ResponseHead,
    control: ResponseControl,
    /// `None` where the response must not be stored.
    terms: Option<Terms>,
    /// `None` where no other request may use the response.
    variant: Option<Variant>,
    now: Instant,
}

impl StorableResponse<'_> {
    /// The stored response with the fields of the 304 for it, as far as it may still be stored. Where those say that it
    /// may not (RFC 9111 §4.3.4, §3), it is for the leader alone, and is taken out.
    fn renew(self, stale: &Arc<StoredResponse>, fetch: &Fetch) -> FetchOutcome {
        if !self.is_storable() {
            let parts = self.parts(fetch, &self.control.withheld, &stale.body);
            if let Ok(response) = StoredResponse::new(parts, &self.request.lease) {
                let stale = Some(Arc::clone(stale));
                return FetchOutcome::Unstorable { response, stale };
            }
        }
        let renewed = (self.is_storable() && !fetch.shared.is_invalidated()).then(|| {
            let parts = self.parts(fetch, &self.control.withheld, &stale.body);
            StoredResponse::new(parts, &fetch.store.lease)
        });
        let Some(Ok(response)) = renewed else {
            return FetchOutcome::UsedOnce(Arc::clone(stale));
        };
        response.take_mark_of(stale);
        FetchOutcome::Revalidated(response)
    }

    /// Stores the response, if it may be stored and there is room; else it is for the leader alone.
    fn receive(
        self,
        stale: Option<&Arc<StoredResponse>>,
        fetch: &Fetch,
    ) -> Result<Disposition, GatewayError> {
        let store = &fetch.store;
        let fits = match self.head.length {
            ContentLength::Known(bytes) => store.settings.stores(bytes),
            ContentLength::Empty | ContentLength::Unknown => true,
        };
        let is_storable = self.is_storable() && fits;
        let no_store = self.request.control.no_store;
        let is_invalidated = fetch.shared.is_invalidated();
        if is_storable && !no_store && !is_invalidated && !store.is_full_of_readers() {
            store.leave_room(0);
            let writer = BodyWriter::stored();
            let parts = self.parts(fetch, &self.control.withheld, writer.body());
            if let Ok(response) = StoredResponse::new(parts, &store.lease) {
                let lines = withheld_lines(&self.head.fields, &self.control.withheld);
                fetch.shared.reserve_lines(lines);
                return Ok(Disposition::Store(response, writer));
            }
        }
        let writer = BodyWriter::passing();
        let parts = self.parts(fetch, &[], writer.body());
        let response = StoredResponse::new(parts, &self.request.lease)?;
        // An error may be this client's own doing, or a filter's.
        let is_error = self.head.status >= 400;
        let outcome = match is_storable || no_store || is_error {
            true => FetchOutcome::NotStored(response),
            false => FetchOutcome::Unstorable {
                response,
                stale: stale.cloned(),
            },
        };
        Ok(Disposition::Finish(outcome, StoringStage::Passing(writer)))
    }

    fn is_storable(&self) -> bool {
        self.terms.is_some() && self.variant.is_some()
    }

    fn parts(&self, fetch: &Fetch, withheld: &[Box<[u8]>], body: &Arc<Body>) -> StoredParts {
        let none = || Terms::none(&self.head.fields, self.now);
        StoredParts {
            key: Arc::clone(&fetch.shared.key),
            variant: self.variant.clone().unwrap_or_default(),
            terms: self.terms.unwrap_or_else(none),
            head: StoredHead::of(self.head, withheld),
            body: Arc::clone(body),
        }
    }
}

impl Storing {
    /// Stores a part of the content; returns the stage that follows.
    #[expect(
        clippy::disallowed_methods,
        reason = "content turned out too large to be stored: when hit-for-pass begins"
    )]
    fn put(self, part: Part) -> StoringStage {
        let Part::Chunk(chunk) = part else {
            // Trailers are not stored.
            self.writer.finish(None);
            self.fetch.finish(FetchOutcome::Complete(self.response));
            return StoringStage::Over;
        };
        let store = &self.fetch.store;
        store.leave_room(chunk.len());
        let bytes = self.writer.bytes_so_far() + chunk.len() as u64;
        if !store.settings.stores(bytes) {
            return self.pass_on(chunk, FetchOutcome::TooLarge(clock::now()));
        }
        match take_over(chunk, &store.lease) {
            Ok(chunk) => {
                self.response.add_bytes(chunk.charged_bytes());
                self.writer.push(chunk);
                StoringStage::Storing(self)
            }
            Err(chunk) => self.pass_on(chunk, FetchOutcome::Incomplete),
        }
    }

    /// Has the content pass from `chunk` on.
    fn pass_on(self, mut chunk: Chunk, outcome: FetchOutcome) -> StoringStage {
        let _ = chunk.share();
        self.writer.stop_storing();
        self.fetch.finish(outcome);
        self.writer.push(chunk);
        StoringStage::Passing(self.writer)
    }
}

impl FetchSink {
    /// The client's side of the exchange that `fetch` makes for `request`.
    pub(crate) fn new(fetch: Fetch, request: FetchRequest) -> Self {
        Self {
            request,
            stage: StoringStage::Head(fetch),
            has_given_request: false,
            lag: None,
        }
    }

    /// Takes the fetch out of the stage before the head.
    fn take_fetch(&mut self) -> Option<Fetch> {
        match std::mem::replace(&mut self.stage, StoringStage::Over) {
            StoringStage::Head(fetch) => Some(fetch),
            stage => {
                self.stage = stage;
                None
            }
        }
    }
}

impl Sink for FetchSink {
    fn can_put(&self) -> bool {
        match &self.stage {
            StoringStage::Passing(writer) => writer.has_room(),
            _ => true,
        }
    }

    fn put(&mut self, part: Part) -> Result<(), GatewayError> {
        self.stage = match (std::mem::replace(&mut self.stage, StoringStage::Over), part) {
            (StoringStage::Storing(storing), part) => storing.put(part),
            (StoringStage::Passing(writer), Part::Chunk(mut chunk)) => {
                let _ = chunk.share();
                writer.push(chunk);
                StoringStage::Passing(writer)
            }
            (StoringStage::Passing(writer), Part::End(trailers)) => {
                writer.finish(trailers);
                StoringStage::Over
            }
            (stage, _) => stage,
        };
        Ok(())
    }

    fn written(&self) -> u64 {
        match &self.stage {
            StoringStage::Passing(writer) => writer.passed_bytes(),
            _ => 0,
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GatewayError>> {
        let StoringStage::Passing(writer) = &self.stage else {
            return Poll::Ready(Ok(()));
        };
        loop {
            if writer.poll_room(cx).is_ready() {
                if writer.is_nearly_read() {
                    self.lag = None;
                }
                return Poll::Ready(Ok(()));
            }
            let passed = writer.passed_bytes();
            let window = CACHE_WINDOW_BYTES as u64;
            self.lag
                .take_if(|lag| passed >= lag.began_at_bytes + window);
            if !writer.is_held_up() {
                return Poll::Pending;
            }
            let lag = self.lag.get_or_insert_with(|| Lag {
                began_at_bytes: passed,
                patience: Box::pin(sleep(CACHE_WINDOW_PATIENCE)),
            });
            ready!(lag.patience.as_mut().poll(cx));
            self.lag = None;
            writer.drop_laggards();
        }
    }
}

impl Source for FetchSink {
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

impl Downstream for FetchSink {
    fn charge_to(&mut self, _: &Lease) {}

    fn put_interim(&mut self, _: ResponseHead) -> Result<(), GatewayError> {
        Ok(())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a response to the cache began: its age is counted from here on"
    )]
    fn put_head(&mut self, head: ResponseHead) -> Result<(), GatewayError> {
        let StoringStage::Head(fetch) = &self.stage else {
            return Ok(());
        };
        // Where this fails, a refusal follows, which the fetch is still there for.
        let disposition = self.request.dispose(&head, fetch, clock::now())?;
        let Some(fetch) = self.take_fetch() else {
            return Ok(());
        };
        self.request.stale = None;
        self.stage = match disposition {
            Disposition::Store(response, writer) => {
                fetch.share(&response);
                StoringStage::Storing(Storing {
                    fetch,
                    response,
                    writer,
                })
            }
            Disposition::Finish(outcome, stage) => {
                fetch.finish(outcome);
                stage
            }
        };
        Ok(())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "an exchange of the cache failed: whether a stale response may stand in"
    )]
    fn put_refusal(&mut self, refusal: &Refusal<'_>) -> Option<u64> {
        let fetch = self.take_fetch()?;
        let stale = self.request.stand_in(refusal.status, clock::now());
        fetch.finish(match stale {
            Some(stale) => FetchOutcome::StaleIfError(Arc::clone(stale)),
            None => FetchOutcome::Failed(refusal.status),
        });
        Some(0)
    }

    fn retract(&mut self) -> bool {
        false
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.stage {
            StoringStage::Head(fetch) => ready!(fetch.poll_unawaited(cx, None)),
            StoringStage::Storing(storing) => {
                // The waiters read by now.
                return storing.fetch.poll_unawaited(cx, Some(&storing.writer));
            }
            StoringStage::Passing(writer) => return writer.poll_unread(cx),
            StoringStage::Discarding => return Poll::Ready(()),
            StoringStage::Over => return Poll::Pending,
        }
        if let Some(fetch) = self.take_fetch() {
            fetch.finish(FetchOutcome::Unawaited);
        }
        self.stage = StoringStage::Discarding;
        Poll::Ready(())
    }

    fn start_tunnel(&mut self) {}
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Waker;

    use steppe_mem::{Budget, Buffer};

    use super::*;
    use crate::cache::credentials::{Credentials, Presented};
    use crate::cache::fetch::Joined;
    use crate::cache::key::KeyInput;
    use crate::cache::store::Store;
    use crate::config;
    use crate::head::RequestHead;

    #[test]
    fn a_reader_that_takes_a_piece_now_and_then_is_dropped_all_the_same() {
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
        let asked = Presented {
            fields: &head.fields,
            credentials: Credentials::None,
        };
        let Joined::Leader(fetch) = Fetch::join(&store, &found.key, asked, |_| true) else {
            panic!("no request fetches it yet");
        };
        let request = FetchRequest {
            fields: head.fields,
            control: RequestControl::default(),
            stale: None,
            lease: lease.clone(),
            began_at: Instant::now(),
        };
        let mut sink = FetchSink::new(fetch, request);
        let writer = BodyWriter::passing();
        let body = Arc::clone(writer.body());
        let readers = (body.reader(), body.reader());
        let (mut slow, mut fast) = (readers.0.expect("start"), readers.1.expect("start"));
        sink.stage = StoringStage::Passing(writer);
        let put = |sink: &mut FetchSink| {
            let mut buffer = Buffer::take(&lease, PIECE).expect("room");
            buffer.put(&[0; PIECE]).expect("room");
            sink.put(Part::Chunk(buffer.into())).expect("room");
        };
        let mut cx = Context::from_waker(Waker::noop());
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().expect("a runtime");
        let _entered = runtime.enter();
        while sink.can_put() {
            put(&mut sink);
        }
        while fast.poll_chunk(&mut cx).is_ready() {}
        assert!(sink.poll_flush(&mut cx).is_pending());
        assert!(sink.lag.is_some(), "it has until then");
        // What it makes room for is not read by the other one yet.
        assert!(slow.poll_chunk(&mut cx).is_ready());
        assert!(sink.poll_flush(&mut cx).is_ready());
        put(&mut sink);
        assert!(sink.poll_flush(&mut cx).is_pending());
        assert!(fast.poll_chunk(&mut cx).is_ready());
        let lag = sink.lag.as_mut().expect("it has no longer");
        lag.patience.as_mut().reset(tokio::time::Instant::now());
        runtime
            .block_on(poll_fn(|cx| sink.poll_flush(cx)))
            .expect("room");
        assert!(matches!(slow.poll_chunk(&mut cx), Poll::Ready(Err(_))));
        assert!(fast.poll_chunk(&mut cx).is_pending());
    }
}
