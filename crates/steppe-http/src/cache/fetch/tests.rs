//! The ends of a fetch, and their interleavings with requests that join, wait and leave.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use proptest::prelude::*;

use super::*;
use crate::cache::store::Found;
use crate::cache::testing::Rig;
use crate::limits::CACHE_BACKGROUND_FETCHES_MAX;

/// Bytes of the stored response, and of the one that is fetched.
const STALE: usize = 10;
const NEW: usize = 20;

/// An answer, as far as tests compare it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Shared(ServedFrom),
    Private,
    Failed(u16),
    Pass,
    Retry,
}

impl From<FetchAnswer> for Seen {
    fn from(answer: FetchAnswer) -> Self {
        match answer {
            FetchAnswer::Shared(_, from) => Self::Shared(from),
            FetchAnswer::Private(_) => Self::Private,
            FetchAnswer::Failed(status) => Self::Failed(status),
            FetchAnswer::Pass => Self::Pass,
            FetchAnswer::Retry => Self::Retry,
        }
    }
}

/// A waiter, and the number of times that it was woken.
struct Client {
    waiter: FetchWaiter,
    wakes: Arc<Wakes>,
    has_waited: bool,
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Client {
    fn new(waiter: FetchWaiter) -> Self {
        Self {
            waiter,
            wakes: Arc::default(),
            has_waited: false,
        }
    }

    fn poll(&mut self) -> Option<Seen> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        match self.waiter.poll_answer(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => Some(answer.into()),
            Poll::Pending => {
                self.has_waited = true;
                None
            }
        }
    }

    /// The answer of a fetch that has ended, which must have woken the client.
    fn answered(&mut self) -> Seen {
        let woken = self.wakes.0.load(Ordering::Relaxed);
        assert!(woken > 0 || !self.has_waited, "it was not woken");
        self.poll().expect("an ended fetch has an answer")
    }
}

/// One fetch of `/x`, for which a response of [`STALE`] bytes is stored, and two requests that wait for it.
struct Scene {
    rig: Rig,
    fetch: Fetch,
    clients: [Client; 2],
    new: Arc<StoredResponse>,
    stale: Arc<StoredResponse>,
}

impl Scene {
    fn new(credentials: Credentials) -> Self {
        let rig = Rig::new(1 << 20, 16 << 20);
        rig.store("/x", STALE);
        let found = rig.find("/x");
        let Joined::Leader(fetch) = rig.join(&found.key, credentials) else {
            panic!("no fetch is in flight");
        };
        let Joined::Follower(follower) = rig.join(&found.key, credentials) else {
            panic!("a fetch is in flight");
        };
        let mut clients = [fetch.leader(), follower].map(Client::new);
        for client in &mut clients {
            assert_eq!(client.poll(), None);
        }
        Self {
            new: rig.made("/x", NEW, &[]).expect("room"),
            stale: found.stored.expect("it is stored"),
            rig,
            fetch,
            clients,
        }
    }

    /// The answer of both requests, the bytes of the response that is stored afterwards, and whether requests pass.
    fn end(self, outcome: Option<FetchOutcome>) -> (Seen, Option<usize>, bool) {
        let Self { rig, fetch, .. } = self;
        let credentials = fetch.shared.credentials;
        match outcome {
            Some(outcome) => fetch.finish(outcome),
            None => drop(fetch),
        }
        let [first, second] = self.clients.map(|mut client| client.answered());
        assert_eq!(first, second);
        let Found { key, stored } = rig.find("/x");
        let bytes = stored.and_then(|stored| stored.content_bytes());
        let is_marked = rig
            .store
            .hit_for_pass
            .is_marked(&key, credentials, Instant::now());
        let next = rig.join(&key, credentials);
        assert!(matches!(next, Joined::Leader(_)), "its place is free");
        let bytes = bytes.map(|bytes| usize::try_from(bytes).expect("it is short"));
        (first, bytes, is_marked)
    }
}

/// Every outcome; `None` for a fetch that is dropped.
fn outcomes(scene: &Scene) -> [Option<FetchOutcome>; 12] {
    let (new, stale) = (|| Arc::clone(&scene.new), || Arc::clone(&scene.stale));
    [
        Some(FetchOutcome::Complete(new())),
        Some(FetchOutcome::Revalidated(new())),
        Some(FetchOutcome::UsedOnce(stale())),
        Some(FetchOutcome::Mismatched(stale())),
        Some(FetchOutcome::StaleIfError(stale())),
        Some(FetchOutcome::Unstorable {
            response: new(),
            stale: Some(stale()),
        }),
        Some(FetchOutcome::NotStored(new())),
        Some(FetchOutcome::TooLarge(Instant::now())),
        Some(FetchOutcome::Failed(500)),
        Some(FetchOutcome::Unawaited),
        Some(FetchOutcome::Incomplete),
        None,
    ]
}

/// Ends a fetch in every way, after `before`.
fn ends(credentials: Credentials, before: impl Fn(&Scene)) -> [(Seen, Option<usize>, bool); 12] {
    std::array::from_fn(|at| {
        let scene = Scene::new(credentials);
        before(&scene);
        let outcome = outcomes(&scene).into_iter().nth(at).expect("as many");
        scene.end(outcome)
    })
}

#[test]
fn every_end_answers_all_and_changes_the_store_as_it_must() {
    use ServedFrom::{Miss, Revalidated, Stale};
    let expected = [
        (Seen::Shared(Miss), Some(NEW), false),
        (Seen::Shared(Revalidated), Some(NEW), false),
        (Seen::Shared(Revalidated), Some(STALE), false),
        (Seen::Retry, None, false),
        (Seen::Shared(Stale), Some(STALE), false),
        (Seen::Private, None, true),
        (Seen::Private, Some(STALE), false),
        (Seen::Pass, Some(STALE), true),
        (Seen::Failed(500), Some(STALE), false),
        (Seen::Pass, Some(STALE), false),
        (Seen::Failed(502), Some(STALE), false),
        (Seen::Failed(502), Some(STALE), false),
    ];
    assert_eq!(ends(Credentials::None, |_| ()), expected);
    // A response to one visitor says nothing of the stored one.
    let mut of_a_visitor = expected;
    of_a_visitor[3] = (Seen::Pass, Some(STALE), false);
    of_a_visitor[5] = (Seen::Private, Some(STALE), true);
    assert_eq!(ends(Credentials::Cookie, |_| ()), of_a_visitor);
}

#[test]
fn a_shared_response_stays_the_answer_whatever_the_end() {
    let shared = ends(Credentials::None, |scene| scene.fetch.share(&scene.new));
    for (answer, ..) in shared {
        assert_eq!(answer, Seen::Shared(ServedFrom::Miss));
    }
    let alone = ends(Credentials::None, |_| ());
    let changes =
        |ends: [(Seen, Option<usize>, bool); 12]| ends.map(|(_, bytes, mark)| (bytes, mark));
    assert_eq!(changes(shared), changes(alone));
}

#[test]
fn an_invalidated_fetch_answers_and_publishes_nothing() {
    let alone = ends(Credentials::None, |_| ());
    let invalidated = ends(Credentials::None, |scene| {
        scene.rig.store.invalidate(&scene.rig.find("/x").key, &[]);
        assert!(scene.fetch.shared.is_invalidated());
    });
    for ((answer, bytes, _), (expected, ..)) in invalidated.into_iter().zip(alone) {
        assert_eq!((answer, bytes), (expected, None));
    }
}

#[test]
fn background_fetches_are_bounded_and_end_with_their_fetch() {
    let rig = Rig::new(1 << 20, 16 << 20);
    let mut cx = Context::from_waker(Waker::noop());
    let fetch = |at: usize| {
        let key = rig.find(&format!("/{at}")).key;
        match rig.join(&key, Credentials::None) {
            Joined::Leader(fetch) => fetch,
            Joined::Follower(_) => panic!("no fetch is in flight"),
        }
    };
    let mut fetches: Vec<_> = (0..)
        .map(fetch)
        .take(CACHE_BACKGROUND_FETCHES_MAX)
        .collect();
    for fetch in &mut fetches {
        assert!(
            fetch.poll_unawaited(&mut cx, None).is_pending(),
            "it goes on"
        );
    }
    let mut further = fetch(fetches.len());
    assert!(further.poll_unawaited(&mut cx, None).is_ready());
    let waiter = further.leader();
    assert!(
        further.poll_unawaited(&mut cx, None).is_pending(),
        "one waits"
    );
    drop(waiter);
    fetches
        .pop()
        .expect("one")
        .finish(FetchOutcome::Failed(500));
    assert!(
        further.poll_unawaited(&mut cx, None).is_pending(),
        "there is room"
    );
    // Readers hold a fetch up as waiters do, and give its place in the background back.
    let writer = BodyWriter::stored();
    let reader = writer.body().reader();
    assert!(further.poll_unawaited(&mut cx, Some(&writer)).is_pending());
    assert!(fetch(1000).poll_unawaited(&mut cx, None).is_pending());
    drop(reader);
}

/// A step of an interleaving; numbers choose among the requests or fetches that there are.
#[derive(Debug, Clone)]
enum Action {
    Join,
    Poll(usize),
    Leave(usize),
    Share(usize),
    Finish(usize, usize),
    Drop(usize),
    Invalidate,
}

fn action() -> impl Strategy<Value = Action> {
    let any = || 0..8_usize;
    prop_oneof![
        4 => Just(Action::Join),
        3 => any().prop_map(Action::Poll),
        2 => any().prop_map(Action::Leave),
        1 => any().prop_map(Action::Share),
        2 => (any(), 0..5_usize).prop_map(|(at, outcome)| Action::Finish(at, outcome)),
        1 => any().prop_map(Action::Drop),
        1 => Just(Action::Invalidate),
    ]
}

/// A fetch of the model.
struct Flight {
    number: usize,
    fetch: Fetch,
    response: Arc<StoredResponse>,
    is_current: bool,
}

/// The store, and the state that it is expected to have.
struct Model {
    rig: Rig,
    flights: Vec<Flight>,
    /// Requests, each with the number of the fetch that it has joined.
    clients: Vec<(usize, Client)>,
    /// The answers of fetches, as far as a request has seen them.
    answers: Vec<Option<Seen>>,
    stored: Option<Arc<StoredResponse>>,
}

impl Model {
    fn new() -> Self {
        Self {
            rig: Rig::new(1 << 20, 16 << 20),
            flights: Vec::new(),
            clients: Vec::new(),
            answers: Vec::new(),
            stored: None,
        }
    }

    fn join(&mut self) {
        let key = self.rig.find("/x").key;
        let current = self.flights.iter().find(|flight| flight.is_current);
        match (self.rig.join(&key, Credentials::None), current) {
            (Joined::Follower(waiter), Some(flight)) => {
                self.clients.push((flight.number, Client::new(waiter)));
            }
            (Joined::Leader(fetch), None) => {
                let number = self.answers.len();
                self.answers.push(None);
                self.clients.push((number, Client::new(fetch.leader())));
                self.flights.push(Flight {
                    number,
                    fetch,
                    response: self.rig.made("/x", NEW, &[]).expect("room"),
                    is_current: true,
                });
            }
            (joined, current) => {
                panic!("{joined:?} where {:?}", current.map(|flight| flight.number))
            }
        }
    }

    fn poll(&mut self, at: usize) {
        let Some((number, client)) = self.clients.get_mut(at) else {
            return;
        };
        if let Some(seen) = client.poll() {
            let known = self.answers[*number].get_or_insert(seen);
            assert_eq!(*known, seen, "a fetch has one answer");
        }
    }

    fn end(&mut self, at: usize, outcome: Option<usize>) {
        if at >= self.flights.len() {
            return;
        }
        let flight = self.flights.remove(at);
        let response = Arc::clone(&flight.response);
        let published = matches!(outcome, Some(0 | 1)) && flight.is_current;
        let outcome = outcome.map(|outcome| match outcome {
            0 => FetchOutcome::Complete(response),
            1 => FetchOutcome::Revalidated(response),
            2 => FetchOutcome::NotStored(response),
            3 => FetchOutcome::Failed(500),
            _ => FetchOutcome::Unawaited,
        });
        match outcome {
            Some(outcome) => flight.fetch.finish(outcome),
            None => drop(flight.fetch),
        }
        if published {
            self.stored = Some(flight.response);
        }
        let number = flight.number;
        for (_, client) in self.clients.iter_mut().filter(|(own, _)| *own == number) {
            let seen = client.answered();
            let known = self.answers[number].get_or_insert(seen);
            assert_eq!(*known, seen, "a fetch has one answer");
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Join => self.join(),
            Action::Poll(at) => self.poll(at),
            Action::Leave(at) if at < self.clients.len() => drop(self.clients.swap_remove(at)),
            Action::Share(at) => {
                if let Some(flight) = self.flights.get(at) {
                    flight.fetch.share(&flight.response);
                }
            }
            Action::Finish(at, outcome) => self.end(at, Some(outcome)),
            Action::Drop(at) => self.end(at, None),
            Action::Invalidate => {
                let key = self.rig.find("/x").key;
                self.rig.store.invalidate(&key, &[]);
                self.stored = None;
                self.flights
                    .iter_mut()
                    .for_each(|flight| flight.is_current = false);
            }
            Action::Leave(_) => {}
        }
    }

    fn check(&self) {
        let stored = self.rig.find("/x").stored;
        let pointer = |stored: &Option<Arc<StoredResponse>>| stored.as_ref().map(Arc::as_ptr);
        assert_eq!(pointer(&stored), pointer(&self.stored));
        for flight in &self.flights {
            assert_eq!(flight.fetch.shared.is_invalidated(), !flight.is_current);
        }
    }
}

proptest! {
    #[test]
    fn no_interleaving_loses_a_waiter_or_publishes_what_was_invalidated(
        actions in proptest::collection::vec(action(), 0..40),
    ) {
        let mut model = Model::new();
        for action in actions {
            model.act(action);
            model.check();
        }
        while !model.flights.is_empty() {
            model.end(0, None);
            model.check();
        }
        let Model { rig, clients, stored, .. } = model;
        drop(clients);
        rig.store.invalidate(&rig.find("/x").key, &[]);
        drop(stored);
        prop_assert_eq!(rig.store.len(), 0);
        let fixed = Rig::new(1 << 20, 16 << 20).store.account.reserved_bytes();
        prop_assert_eq!(rig.store.account.reserved_bytes(), fixed, "a fetch leaves nothing behind");
    }
}
