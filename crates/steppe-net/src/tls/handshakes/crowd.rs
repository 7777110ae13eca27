//! Handshakes of one listener on one worker: those in progress, those that wait, and which of them gives way.
//!
//! At most `count_max` are in progress, and of one source at most half of these: the other half is for others. The
//! rest wait, in the order in which they came, a source after the other. While some wait, those in progress that
//! have made no progress for [`STALLED_AFTER`], or are older than they may be, are evicted, those of the source with
//! the most of them first. Slow ones stay where their source completes a tenth of what it has in progress in a
//! second: a storm of clients on a busy machine is no crowd that stalls, and its places come free of themselves. Where [`HANDSHAKES_WAITING_MAX`] wait, no more connections are accepted, unless a crowd
//! that stalls holds the places: then each that comes has the source with the most end one. Of a crowd that stalls
//! half do: of many clients that go on, a few are slow, and the others must not pay for them.
//!
//! Cost: logarithmic for each that comes and goes. One look of [`Crowd::give_way`] sorts those in progress.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::turnover::Turnover;
use crate::limits::HANDSHAKES_WAITING_MAX;

/// A handshake that took no step for so long may be evicted: its client answers slowly, or not.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// The time that clients wait for a handshake by default. A source whose places change hands in that time needs no eviction.
const MOVES_WITHIN_SECONDS: usize = 10;

/// Numbers of handshakes that there may be, and their age.
#[derive(Debug, Clone, Copy)]
pub struct HandshakeLimits {
    /// In progress at once, of one worker: at least 1.
    pub count_max: usize,
    /// Age from which one may be evicted while others wait.
    pub age_max: Duration,
}

/// A handshake, for as long as its connection has it.
#[derive(Debug)]
pub(super) struct HandshakeEntry {
    state: Cell<HandshakeState>,
    /// Smaller for one that came, or began, earlier.
    ticket: Cell<u64>,
    source: IpAddr,
    began_at: Cell<Instant>,
    /// Time of its last step.
    progress_at: Cell<Instant>,
    waits_for_turn: Cell<bool>,
    is_completed: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandshakeState {
    Waiting,
    InProgress,
    Evicted,
    Over,
}

#[derive(Debug)]
pub(super) struct Crowd {
    limits: HandshakeLimits,
    next_ticket: u64,
    /// By ticket: the oldest first.
    in_progress: BTreeMap<u64, Rc<HandshakeEntry>>,
    sources: HashMap<IpAddr, HandshakeSource>,
    /// Sources with handshakes that wait, and some that had: the one whose turn is next first.
    rotation: VecDeque<IpAddr>,
    waiting: usize,
    /// The last look found that half of those of one source had stalled.
    stalls: bool,
    /// Waker of the task that accepts connections.
    acceptor: Option<Waker>,
}

#[derive(Debug, Default)]
struct HandshakeSource {
    in_progress: usize,
    /// By ticket.
    waiting: BTreeMap<u64, Rc<HandshakeEntry>>,
    is_in_rotation: bool,
    turnover: Turnover,
}

impl HandshakeSource {
    /// True if it completes enough handshakes for all in progress to be done within [`MOVES_WITHIN_SECONDS`].
    fn is_moving(&self, now: Instant) -> bool {
        MOVES_WITHIN_SECONDS * self.turnover.within_second(now) >= self.in_progress.max(1)
    }
}

impl HandshakeEntry {
    /// Ready once it is evicted.
    pub(super) fn poll_evicted(&self, cx: &Context<'_>) -> Poll<()> {
        self.poll(cx, |state| state == HandshakeState::Evicted)
    }

    /// Ready once it is in progress, or evicted.
    pub(super) fn poll_begun(&self, cx: &Context<'_>) -> Poll<()> {
        self.poll(cx, |state| state != HandshakeState::Waiting)
    }

    fn poll(&self, cx: &Context<'_>, is_due: impl Fn(HandshakeState) -> bool) -> Poll<()> {
        if is_due(self.state.get()) {
            return Poll::Ready(());
        }
        let mut waker = self.waker.borrow_mut();
        if !(waker.as_ref()).is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// True once it is evicted.
    pub(super) fn is_evicted(&self) -> bool {
        self.state.get() == HandshakeState::Evicted
    }

    /// True while it waits for its turn to compute, which is no delay of its client's.
    pub(super) fn set_waits_for_turn(&self, waits: Turn) {
        self.waits_for_turn.set(waits == Turn::Awaited);
    }

    /// Notes a step of it.
    pub(super) fn note_progress(&self, now: Instant) {
        self.progress_at.set(now);
    }

    /// Notes that client and server agree: its end is no failure.
    pub(super) fn complete(&self) {
        self.is_completed.set(true);
    }

    fn is_slow(&self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.progress_at.get());
        !self.waits_for_turn.get() && since >= STALLED_AFTER
    }

    fn is_old(&self, now: Instant, age_max: Duration) -> bool {
        let age = now.saturating_duration_since(self.began_at.get());
        !self.waits_for_turn.get() && age >= age_max
    }

    fn enter(&self, state: HandshakeState) {
        self.state.set(state);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// A handshake's turn to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Awaited,
    Over,
}

impl Crowd {
    pub(super) fn new() -> Self {
        Self {
            limits: HandshakeLimits {
                count_max: 1,
                age_max: Duration::MAX,
            },
            next_ticket: 0,
            in_progress: BTreeMap::new(),
            sources: HashMap::new(),
            rotation: VecDeque::new(),
            waiting: 0,
            stalls: false,
            acceptor: None,
        }
    }

    /// Handshakes in progress.
    pub(super) fn in_progress(&self) -> usize {
        self.in_progress.len()
    }

    /// Handshakes that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Adds one of `source`, which begins or waits.
    pub(super) fn add(
        &mut self,
        source: IpAddr,
        limits: HandshakeLimits,
        now: Instant,
    ) -> Rc<HandshakeEntry> {
        self.limits = limits;
        let entry = Rc::new(HandshakeEntry {
            state: Cell::new(HandshakeState::Waiting),
            ticket: Cell::new(self.ticket()),
            source,
            began_at: Cell::new(now),
            progress_at: Cell::new(now),
            waits_for_turn: Cell::new(false),
            is_completed: Cell::new(false),
            waker: RefCell::default(),
        });
        let of = self.sources.entry(source).or_default();
        of.waiting.insert(entry.ticket.get(), Rc::clone(&entry));
        if !of.is_in_rotation {
            of.is_in_rotation = true;
            self.rotation.push_back(source);
        }
        self.waiting += 1;
        self.begin_waiting(now);
        // A few more come at once than there is room for: they were accepted before the first of them was added.
        if self.waiting > HANDSHAKES_WAITING_MAX && self.stalls {
            self.evict_of_largest(now);
        }
        entry
    }

    /// Forgets one whose connection has it no more.
    pub(super) fn remove(&mut self, entry: &HandshakeEntry, now: Instant) {
        if entry.is_completed.get()
            && let Some(of) = self.sources.get_mut(&entry.source)
        {
            of.turnover.count(now);
        }
        self.end(entry, HandshakeState::Over);
        self.begin_waiting(now);
    }

    /// Ready when a connection may be accepted.
    pub(super) fn poll_room(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.waiting < HANDSHAKES_WAITING_MAX || self.stalls {
            return Poll::Ready(());
        }
        self.acceptor = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Evicts those that have stalled, as many as others wait for, and has these begin.
    pub(super) fn give_way(&mut self, now: Instant) {
        let age_max = self.limits.age_max;
        let of = |entry: &Rc<HandshakeEntry>| &self.sources[&entry.source];
        let has_stalled = |entry: &&Rc<HandshakeEntry>| {
            entry.is_old(now, age_max) || (entry.is_slow(now) && !of(entry).is_moving(now))
        };
        let stalled = self.in_progress.values().filter(has_stalled);
        let mut stalled: Vec<_> = stalled
            .map(|entry| (of(entry).in_progress, Rc::clone(entry)))
            .collect();
        // Stable: of one source the oldest come first.
        stalled.sort_by_key(|(siblings, _)| std::cmp::Reverse(*siblings));
        self.stalls = stalled.first().is_some_and(|(siblings, first)| {
            let is_sibling =
                |(_, entry): &&(usize, Rc<HandshakeEntry>)| entry.source == first.source;
            2 * stalled.iter().filter(is_sibling).count() >= *siblings
        });
        for (_, entry) in stalled.iter().take(self.waiting) {
            self.end(entry, HandshakeState::Evicted);
        }
        self.begin_waiting(now);
        if self.stalls {
            self.wake_acceptor();
        }
    }

    /// Begins as many of those that wait as there is room for, and has connections accepted in their place.
    fn begin_waiting(&mut self, now: Instant) {
        self.begin_those_with_room(now);
        if self.waiting < HANDSHAKES_WAITING_MAX {
            self.wake_acceptor();
        }
    }

    fn begin_those_with_room(&mut self, now: Instant) {
        let mut passed_over = 0;
        while self.in_progress.len() < self.limits.count_max.max(1) {
            if passed_over >= self.rotation.len() {
                return;
            }
            let Some(source) = self.rotation.pop_front() else {
                return;
            };
            let ticket = self.ticket();
            let of = self.sources.get_mut(&source).expect("it is in rotation");
            let has_room = of.in_progress < self.limits.count_max.div_ceil(2);
            if of.waiting.is_empty() {
                // All of them have left.
                of.is_in_rotation = false;
                self.forget_empty(source);
                continue;
            }
            if has_room && let Some((_, entry)) = of.waiting.pop_first() {
                of.in_progress += 1;
                self.waiting -= 1;
                entry.ticket.set(ticket);
                entry.began_at.set(now);
                entry.progress_at.set(now);
                self.in_progress.insert(ticket, Rc::clone(&entry));
                entry.enter(HandshakeState::InProgress);
                passed_over = 0;
            } else {
                passed_over += 1;
            }
            of.is_in_rotation = !of.waiting.is_empty();
            match of.is_in_rotation {
                true => self.rotation.push_back(source),
                false => self.forget_empty(source),
            }
        }
    }

    /// Ends one in progress of the source that has the most: the oldest that waits for its client.
    fn evict_of_largest(&mut self, now: Instant) {
        let largest = self.sources.iter().max_by_key(|(_, of)| of.in_progress);
        let Some((&largest, _)) = largest else {
            return;
        };
        let mut of = (self.in_progress.values()).filter(|entry| entry.source == largest);
        let victim = of.find(|entry| !entry.waits_for_turn.get()).cloned();
        if let Some(victim) = victim {
            self.end(&victim, HandshakeState::Evicted);
            self.begin_waiting(now);
        }
    }

    /// Takes it off the crowd: it waits no more, and is not in progress.
    fn end(&mut self, entry: &HandshakeEntry, state: HandshakeState) {
        let Some(of) = self.sources.get_mut(&entry.source) else {
            return;
        };
        match entry.state.get() {
            HandshakeState::Waiting => {
                of.waiting.remove(&entry.ticket.get());
                self.waiting -= 1;
            }
            HandshakeState::InProgress => {
                of.in_progress -= 1;
                self.in_progress.remove(&entry.ticket.get());
            }
            HandshakeState::Evicted | HandshakeState::Over => return,
        }
        entry.enter(state);
        self.forget_empty(entry.source);
        self.compact();
    }

    /// Takes sources of which none waits out of the rotation, once they are most of it: many sources may come and
    /// leave while all places are held.
    fn compact(&mut self) {
        if self.rotation.len() <= 2 * self.waiting + 64 {
            return;
        }
        let sources = &mut self.sources;
        self.rotation.retain(|source| {
            let Some(of) = sources.get_mut(source) else {
                return false;
            };
            of.is_in_rotation = !of.waiting.is_empty();
            if !of.is_in_rotation && of.in_progress == 0 {
                sources.remove(source);
                return false;
            }
            of.is_in_rotation
        });
    }

    fn forget_empty(&mut self, source: IpAddr) {
        let of = self.sources.get(&source);
        if of.is_some_and(|of| of.in_progress == 0 && !of.is_in_rotation) {
            self.sources.remove(&source);
        }
    }

    fn wake_acceptor(&mut self) {
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.wake();
        }
    }

    fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;

    use super::*;

    /// A crowd, and the time there.
    struct World {
        crowd: Crowd,
        now: Instant,
    }

    impl World {
        #[expect(clippy::disallowed_methods, reason = "the first instant of a test")]
        fn new() -> Self {
            Self {
                crowd: Crowd::new(),
                now: Instant::now(),
            }
        }

        /// So many of `source`, of eight that there may be, none older than 10 s.
        fn add(&mut self, source: &str, count: usize) -> Vec<Rc<HandshakeEntry>> {
            let source = source.parse().expect("an address");
            let limits = HandshakeLimits {
                count_max: 8,
                age_max: Duration::from_secs(10),
            };
            let add = |_| self.crowd.add(source, limits, self.now);
            (0..count).map(add).collect()
        }

        fn remove(&mut self, entry: &Rc<HandshakeEntry>) {
            self.crowd.remove(entry, self.now);
        }

        fn after(&mut self, millis: u64) {
            self.now += Duration::from_millis(millis);
            self.crowd.give_way(self.now);
        }

        fn counts(&self) -> (usize, usize) {
            (self.crowd.in_progress(), self.crowd.waiting())
        }
    }

    fn states(entries: &[Rc<HandshakeEntry>]) -> Vec<HandshakeState> {
        entries.iter().map(|entry| entry.state.get()).collect()
    }

    const ONE: &str = "192.0.2.1";
    const OTHER: &str = "192.0.2.2";

    #[test]
    fn one_source_has_half_and_its_others_begin_as_these_end() {
        let mut world = World::new();
        let crowd = world.add(ONE, 10);
        assert_eq!(world.counts(), (4, 6));
        let other = world.add(OTHER, 1);
        assert_eq!(states(&other), [HandshakeState::InProgress]);
        for (ended, begun) in (0..6).map(|index| (index, index + 4)) {
            assert_eq!(crowd[begun].state.get(), HandshakeState::Waiting);
            world.remove(&crowd[ended]);
            assert_eq!(
                crowd[begun].state.get(),
                HandshakeState::InProgress,
                "{begun}"
            );
        }
        assert_eq!(world.counts(), (5, 0));
        crowd
            .iter()
            .chain(&other)
            .for_each(|entry| world.remove(entry));
        assert_eq!(world.counts(), (0, 0));
        assert!(world.crowd.sources.is_empty() && world.crowd.rotation.is_empty());
    }

    #[test]
    fn sources_that_wait_take_turns() {
        let mut world = World::new();
        let held = [world.add("192.0.2.8", 4), world.add("192.0.2.9", 4)].concat();
        let (one, other) = (world.add(ONE, 4), world.add(OTHER, 2));
        held[..2].iter().for_each(|entry| world.remove(entry));
        assert_eq!(
            (states(&one)[0], states(&other)[0]),
            (HandshakeState::InProgress, HandshakeState::InProgress)
        );
        assert_eq!(states(&one)[1], HandshakeState::Waiting);
    }

    #[test]
    fn sources_that_have_left_are_forgotten_and_hold_up_nobody() {
        let mut world = World::new();
        let held = [world.add("192.0.2.8", 4), world.add("192.0.2.9", 4)].concat();
        for number in 0..1000_u32 {
            let source = std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).to_string();
            let left = world.add(&source, 1);
            world.remove(&left[0]);
        }
        assert!(world.crowd.sources.len() < 70 && world.crowd.rotation.len() < 70);
        let waits = world.add(ONE, 1);
        world.remove(&held[0]);
        assert_eq!(states(&waits), [HandshakeState::InProgress]);
    }

    #[test]
    fn those_that_stall_give_way_to_those_that_wait() {
        let mut world = World::new();
        let crowd = world.add(ONE, 6);
        world.after(999);
        assert_eq!(world.counts(), (4, 2), "none has stalled");
        crowd[0].note_progress(world.now);
        crowd[1].set_waits_for_turn(Turn::Awaited);
        world.after(1);
        use HandshakeState::{Evicted, InProgress};
        assert_eq!(
            states(&crowd),
            [
                InProgress, InProgress, Evicted, Evicted, InProgress, InProgress
            ]
        );
        world.after(5000);
        assert_eq!(world.counts(), (4, 0), "there is nobody to give way to");
    }

    #[test]
    fn age_counts_however_fast_a_client_answers() {
        let mut world = World::new();
        let crowd = world.add(ONE, 5);
        for _ in 0..10 {
            assert_eq!(world.counts(), (4, 1));
            world.now += Duration::from_millis(900);
            crowd[..4]
                .iter()
                .for_each(|entry| entry.note_progress(world.now));
            world.crowd.give_way(world.now);
        }
        world.now += Duration::from_secs(1);
        crowd[..4]
            .iter()
            .for_each(|entry| entry.note_progress(world.now));
        world.crowd.give_way(world.now);
        assert_eq!(crowd[0].state.get(), HandshakeState::Evicted);
        assert_eq!(world.counts(), (4, 0));
    }

    #[test]
    fn the_source_with_the_most_gives_way_first() {
        let mut world = World::new();
        let (few, many) = (world.add(OTHER, 2), world.add(ONE, 4));
        let others = world.add("192.0.2.3", 3);
        assert_eq!(world.counts(), (8, 1));
        world.after(1000);
        assert_eq!(states(&many)[0], HandshakeState::Evicted);
        assert!(
            states(&few)
                .iter()
                .all(|state| *state == HandshakeState::InProgress)
        );
        assert_eq!(states(&others)[2], HandshakeState::InProgress);
    }

    #[test]
    fn slow_ones_of_a_source_that_goes_on_stay_until_they_are_old() {
        let mut world = World::new();
        let crowd = world.add(ONE, 14);
        let slow = &crowd[..3];
        // Of four places one is used by many, one after the other.
        let mut others: VecDeque<_> = crowd[3..].iter().cloned().collect();
        let mut ten_go_on = |world: &mut World| {
            for _ in 0..10 {
                world.after(100);
                let done = others.pop_front().expect("they are as many as before");
                done.complete();
                world.remove(&done);
                others.extend(world.add(ONE, 1));
            }
        };
        for _ in 0..9 {
            ten_go_on(&mut world);
            assert_eq!(states(slow), [HandshakeState::InProgress; 3]);
        }
        ten_go_on(&mut world);
        world.after(100);
        assert_eq!(states(slow), [HandshakeState::Evicted; 3]);
        // Once nothing goes on, those that follow give way to others that wait.
        let others: Vec<_> = others.into_iter().take(4).collect();
        assert_eq!(states(&others), [HandshakeState::InProgress; 4]);
        world.after(2_000);
        assert_eq!(states(&others), [HandshakeState::Evicted; 4]);
    }

    #[test]
    fn a_few_that_stall_cost_no_other_its_place() {
        let mut world = World::new();
        let cx = Context::from_waker(Waker::noop());
        let crowd = world.add(ONE, HANDSHAKES_WAITING_MAX + 4);
        world.now += Duration::from_secs(1);
        (crowd[1..4].iter()).for_each(|entry| entry.note_progress(world.now));
        world.after(0);
        assert_eq!(states(&crowd[..5])[0], HandshakeState::Evicted);
        let _next = world.add(ONE, 1);
        assert_eq!(world.counts(), (4, HANDSHAKES_WAITING_MAX));
        assert!(world.crowd.poll_room(&cx).is_pending());
        // Accepted together with the last one.
        let _batch = world.add(ONE, 60);
        assert_eq!(world.counts(), (4, HANDSHAKES_WAITING_MAX + 60));
        assert_eq!(states(&crowd[1..5]), [HandshakeState::InProgress; 4]);
    }

    /// Handshakes of one source or of several, of which those that wait begin or leave.
    #[test]
    fn connections_are_accepted_again_once_fewer_wait() {
        for sources in [&[ONE][..], &[ONE, OTHER], &[ONE, OTHER, "192.0.2.3"]] {
            for leaves in [HandshakeState::InProgress, HandshakeState::Waiting] {
                let mut world = World::new();
                let mut crowd = world.add(ONE, 4);
                while world.counts().1 < HANDSHAKES_WAITING_MAX {
                    let source = sources[crowd.len() % sources.len()];
                    crowd.extend(world.add(source, 1));
                }
                let woken = Arc::new(Woken::default());
                let waker = Waker::from(Arc::clone(&woken));
                let is_ready = |world: &mut World| {
                    let cx = Context::from_waker(&waker);
                    world.crowd.poll_room(&cx).is_ready()
                };
                assert!(!is_ready(&mut world));
                let leaver = crowd.iter().find(|entry| entry.state.get() == leaves);
                world.remove(leaver.expect("there are some"));
                assert!(woken.0.load(Ordering::Relaxed), "{sources:?}, {leaves:?}");
                assert!(is_ready(&mut world));
            }
        }
    }

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn connections_stay_in_the_accept_queue_unless_a_crowd_stalls() {
        let mut world = World::new();
        let cx = Context::from_waker(Waker::noop());
        let crowd = world.add(ONE, HANDSHAKES_WAITING_MAX + 3);
        assert!(world.crowd.poll_room(&cx).is_ready());
        let last = world.add(ONE, 1);
        assert_eq!(world.counts(), (4, HANDSHAKES_WAITING_MAX));
        assert!(world.crowd.poll_room(&cx).is_pending());
        world.remove(&last[0]);
        assert!(world.crowd.poll_room(&cx).is_ready());
        let _last = world.add(ONE, 1);
        crowd[0].set_waits_for_turn(Turn::Awaited);
        world.after(1000);
        // Three gave way, and the crowd is one that stalls.
        let _more = world.add(ONE, 3);
        assert_eq!(world.counts(), (4, HANDSHAKES_WAITING_MAX));
        assert!(world.crowd.poll_room(&cx).is_ready());
        let _one_more = world.add(ONE, 1);
        assert_eq!(world.counts(), (4, HANDSHAKES_WAITING_MAX));
        assert_eq!(crowd[4].state.get(), HandshakeState::Evicted);
        // They answer again.
        world.after(1);
        assert!(world.crowd.poll_room(&cx).is_pending());
    }
}
