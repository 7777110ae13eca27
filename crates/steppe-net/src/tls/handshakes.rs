//! Handshakes in progress on one worker: how many there may be, and whose turn it is.
//!
//! Invariants: of too many, one gives way whose source has the most, so that a crowd from one
//! address ends its own. Of these the oldest that waits for its client does, which is no client
//! that answers; where all wait for this worker, the youngest. A turn of the event loop has one
//! step of one handshake at most, so that connections which are established are served between
//! any two.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::sync::Semaphore;

/// The handshakes of one listener on one worker.
#[derive(Debug, Clone)]
pub struct Handshakes(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The oldest first; those that are over are dropped when they get to the front.
    queue: RefCell<VecDeque<Rc<Entry>>>,
    in_progress: Cell<usize>,
    /// The same, by source; none without any.
    by_source: RefCell<HashMap<IpAddr, Rc<Cell<usize>>>>,
    /// Of these, those that wait for their turn here.
    waiting_for_turn: Cell<usize>,
    turns: Rc<Turns>,
}

/// Whose turn it is among all handshakes of a worker.
#[derive(Debug)]
pub struct Turns(Semaphore);

#[derive(Debug)]
struct Entry {
    state: Cell<State>,
    source: IpAddr,
    /// How many its source has in progress.
    siblings: Rc<Cell<usize>>,
    waits_for_turn: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    InProgress,
    Evicted,
    Over,
}

/// A handshake in progress.
#[derive(Debug)]
pub struct InProgress {
    entry: Rc<Entry>,
    handshakes: Handshakes,
}

impl Default for Turns {
    fn default() -> Self {
        Self(Semaphore::new(1))
    }
}

impl Handshakes {
    /// None yet, of those that take `turns`.
    #[must_use]
    pub fn new(turns: Rc<Turns>) -> Self {
        Self(Rc::new(Inner {
            queue: RefCell::default(),
            in_progress: Cell::new(0),
            by_source: RefCell::default(),
            waiting_for_turn: Cell::new(0),
            turns,
        }))
    }

    /// How many are in progress.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.in_progress.get()
    }

    /// Begins one of `client`; where more than `count_max` are in progress then, one is evicted.
    #[must_use]
    pub fn begin(&self, count_max: usize, client: IpAddr) -> InProgress {
        let inner = &self.0;
        let source = source(client);
        let siblings = Rc::clone(inner.by_source.borrow_mut().entry(source).or_default());
        siblings.set(siblings.get() + 1);
        let entry = Rc::new(Entry {
            state: Cell::new(State::InProgress),
            source,
            siblings,
            waits_for_turn: Cell::new(false),
            waker: RefCell::default(),
        });
        let mut queue = inner.queue.borrow_mut();
        queue.push_back(Rc::clone(&entry));
        inner.in_progress.set(inner.in_progress.get() + 1);
        if inner.in_progress.get() > count_max.max(1) {
            inner.evict(inner.victim(&queue).unwrap_or(&entry));
        }
        inner.compact(&mut queue);
        drop(queue);
        InProgress {
            entry,
            handshakes: self.clone(),
        }
    }
}

/// As far as clients are told apart: whoever has an address of IPv6 has its network of 64 bits.
fn source(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address @ IpAddr::V4(_) => address,
    }
}

impl Inner {
    /// Who gives way, the youngest having just come.
    fn victim<'a>(&self, queue: &'a VecDeque<Rc<Entry>>) -> Option<&'a Rc<Entry>> {
        let by_source = self.by_source.borrow();
        let most = by_source.values().map(|count| count.get()).max()?;
        let is_of_crowd = |entry: &&Rc<Entry>| {
            entry.state.get() == State::InProgress && entry.siblings.get() == most
        };
        // Otherwise a crowd that all wait here would be searched for each that joins it.
        let any_waits_for_client = self.waiting_for_turn.get() + 1 < self.in_progress.get();
        let mut older = queue.iter().take(queue.len() - 1).filter(is_of_crowd);
        let oldest = match any_waits_for_client {
            true => older.find(|entry| !entry.waits_for_turn.get()),
            false => None,
        };
        oldest.or_else(|| queue.iter().rfind(is_of_crowd))
    }

    fn evict(&self, entry: &Entry) {
        if entry.state.get() == State::InProgress {
            self.end(entry, State::Evicted);
            if let Some(waker) = entry.waker.take() {
                waker.wake();
            }
        }
    }

    /// It is in progress no more.
    fn end(&self, entry: &Entry, state: State) {
        if entry.state.replace(state) != State::InProgress {
            return;
        }
        self.in_progress.set(self.in_progress.get() - 1);
        entry.siblings.set(entry.siblings.get() - 1);
        if entry.siblings.get() == 0 {
            self.by_source.borrow_mut().remove(&entry.source);
        }
    }

    /// Drops those that are over: at the front, and all of them once they are most of it.
    fn compact(&self, queue: &mut VecDeque<Rc<Entry>>) {
        let is_over = |entry: &Rc<Entry>| entry.state.get() != State::InProgress;
        while queue.front().is_some_and(is_over) {
            queue.pop_front();
        }
        if queue.len() > 2 * self.in_progress.get() + 64 {
            queue.retain(|entry| !is_over(entry));
        }
    }
}

impl InProgress {
    /// Ready when it has to give way.
    pub fn poll_evicted(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.entry.state.get() == State::Evicted {
            return Poll::Ready(());
        }
        let mut waker = self.entry.waker.borrow_mut();
        if !waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Does a step that takes long, when it is this handshake's turn.
    ///
    /// # Errors
    /// It was evicted meanwhile, and the step was not done.
    ///
    /// # Cancel safety
    /// The turn passes on.
    pub async fn step<T>(&self, step: impl FnOnce() -> T) -> Result<T, Evicted> {
        let waiting = WaitingForTurn::new(self);
        let mut turn = pin!(self.handshakes.0.turns.0.acquire());
        let turn = self.unless_evicted(|cx| turn.as_mut().poll(cx)).await?;
        drop(waiting);
        if self.entry.state.get() == State::Evicted {
            return Err(Evicted);
        }
        let done = step();
        // Everybody who is ready runs before the next one's turn.
        tokio::task::yield_now().await;
        drop(turn);
        Ok(done)
    }

    /// Waits for `ready`, unless it has to give way before.
    ///
    /// # Errors
    /// It was evicted.
    pub async fn unless_evicted<T>(
        &self,
        mut ready: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Result<T, Evicted> {
        poll_fn(|cx| match ready(cx) {
            Poll::Ready(value) => Poll::Ready(Ok(value)),
            Poll::Pending => self.poll_evicted(cx).map(|()| Err(Evicted)),
        })
        .await
    }
}

/// Counts a handshake among those that wait for their turn.
struct WaitingForTurn<'a>(&'a InProgress);

impl<'a> WaitingForTurn<'a> {
    fn new(handshake: &'a InProgress) -> Self {
        let waiting = &handshake.handshakes.0.waiting_for_turn;
        waiting.set(waiting.get() + 1);
        handshake.entry.waits_for_turn.set(true);
        Self(handshake)
    }
}

impl Drop for WaitingForTurn<'_> {
    fn drop(&mut self) {
        let waiting = &self.0.handshakes.0.waiting_for_turn;
        waiting.set(waiting.get() - 1);
        self.0.entry.waits_for_turn.set(false);
    }
}

/// A handshake gave way to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evicted;

impl Drop for InProgress {
    fn drop(&mut self) {
        let inner = &self.handshakes.0;
        inner.end(&self.entry, State::Over);
        inner.compact(&mut inner.queue.borrow_mut());
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn the_oldest_gives_way_and_what_is_over_is_forgotten() {
        let handshakes = Handshakes::new(Rc::default());
        let mut cx = Context::from_waker(Waker::noop());
        let first = handshakes.begin(2, CLIENT);
        let second = handshakes.begin(2, CLIENT);
        assert!(first.poll_evicted(&mut cx).is_pending());
        let third = handshakes.begin(2, CLIENT);
        assert!(first.poll_evicted(&mut cx).is_ready());
        assert!(second.poll_evicted(&mut cx).is_pending());
        drop(second);
        let fourth = handshakes.begin(2, CLIENT);
        assert!(third.poll_evicted(&mut cx).is_pending());
        assert_eq!(handshakes.count(), 2);
        drop((first, third, fourth));
        assert_eq!(handshakes.count(), 0);
        for _ in 0..1000 {
            let _short = handshakes.begin(2, CLIENT);
        }
        assert!(handshakes.0.queue.borrow().len() < 70);
    }

    #[test]
    fn who_waits_here_does_not_give_way_to_whoever_comes() {
        let handshakes = Handshakes::new(Rc::default());
        let mut cx = Context::from_waker(Waker::noop());
        let _turn = handshakes.0.turns.0.try_acquire().expect("it is free");
        let (first, second) = (handshakes.begin(2, CLIENT), handshakes.begin(2, CLIENT));
        {
            let mut step = std::pin::pin!(first.step(|| ()));
            assert!(step.as_mut().poll(&mut cx).is_pending());
            let _third = handshakes.begin(2, CLIENT);
            assert!(first.poll_evicted(&mut cx).is_pending());
            assert!(second.poll_evicted(&mut cx).is_ready());
        }
        let fourth = handshakes.begin(2, CLIENT);
        let mut steps = [&first, &fourth].map(|one| Box::pin(one.step(|| ())));
        assert!(
            steps
                .iter_mut()
                .all(|step| step.as_mut().poll(&mut cx).is_pending())
        );
        let fifth = handshakes.begin(2, CLIENT);
        assert!(fifth.poll_evicted(&mut cx).is_ready());
        assert!(first.poll_evicted(&mut cx).is_pending());
    }

    #[test]
    fn a_crowd_from_one_address_ends_its_own() {
        let handshakes = Handshakes::new(Rc::default());
        let mut cx = Context::from_waker(Waker::noop());
        let mut is_evicted = |one: &InProgress| one.poll_evicted(&mut cx).is_ready();
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        let begin = |client: &str| handshakes.begin(4, address(client));
        let lonely = begin("192.0.2.1");
        // One network.
        let crowd = ["2001:db8::1", "2001:db8::2", "2001:db8::3"].map(begin);
        let other = begin("2001:db8:0:1::1");
        assert!(is_evicted(&crowd[0]) && !is_evicted(&other));
        let fourth = begin("2001:db8::4");
        assert!(is_evicted(&crowd[1]) && !is_evicted(&fourth) && !is_evicted(&lonely));
        // Who has as many as the others gives way by age.
        drop((crowd, fourth));
        let others = ["192.0.2.2", "192.0.2.3", "192.0.2.4"].map(begin);
        assert!(is_evicted(&lonely) && !is_evicted(&others[2]));
        // Where all of a crowd wait for their turn, its youngest does, and waits no longer.
        drop((lonely, other, others));
        assert!(handshakes.0.by_source.borrow().is_empty());
        let _turn = handshakes.0.turns.0.try_acquire().expect("it is free");
        let crowd = [(); 4].map(|()| begin("192.0.2.1"));
        let mut steps = crowd
            .iter()
            .map(|one| Box::pin(one.step(|| ())))
            .collect::<Vec<_>>();
        let mut noop = Context::from_waker(Waker::noop());
        let mut waiting = steps.iter_mut().map(|step| step.as_mut().poll(&mut noop));
        assert!(waiting.all(|step| step.is_pending()));
        let lonely = begin("192.0.2.2");
        assert!(is_evicted(&crowd[3]) && !is_evicted(&lonely));
        assert_eq!(steps[3].as_mut().poll(&mut noop), Poll::Ready(Err(Evicted)));
    }

    #[test]
    fn between_two_steps_everybody_else_runs() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let local = tokio::task::LocalSet::new();
        let log = Rc::new(RefCell::new(Vec::new()));
        local.block_on(&runtime.expect("a runtime"), async {
            let handshakes = Handshakes::new(Rc::default());
            let mut tasks = Vec::new();
            for _ in 0..8 {
                let (log, slot) = (Rc::clone(&log), handshakes.begin(100, CLIENT));
                tasks.push(tokio::task::spawn_local(async move {
                    let done = slot.step(|| log.borrow_mut().push('h')).await;
                    done.expect("there is room");
                }));
            }
            let log = Rc::clone(&log);
            tasks.push(tokio::task::spawn_local(async move {
                for _ in 0..8 {
                    log.borrow_mut().push('e');
                    tokio::task::yield_now().await;
                }
            }));
            for task in tasks {
                task.await.expect("it ends");
            }
        });
        let log: String = log.borrow().iter().collect();
        assert!(!log.contains("hh"), "{log}");
    }
}
