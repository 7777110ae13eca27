//! Tasks that wait for bytes: the order of grants, their cost, and that every task gets its turn.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use steppe_mem::alloc::{Counted, thread_allocations, thread_live_bytes};
use steppe_mem::pool::{self, Stock};
use steppe_mem::{Account, Budget, Buffer, Lease, LeavingRoom, Reservation, Waiter};

#[global_allocator]
static ALLOCATOR: Counted<std::alloc::System> = Counted(std::alloc::System);

const KIB: usize = 1 << 10;

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A task that waits for bytes of a lease.
struct Task {
    wakes: Arc<Wakes>,
    waker: Waker,
    waiter: Waiter,
    lease: Lease,
    /// Bytes that must stay free beyond the reserved ones.
    leaving: usize,
    /// Number of wakes at the last poll: after a further one, the bytes are drawn.
    wakes_polled: usize,
}

impl Task {
    fn new(lease: &Lease) -> Self {
        let wakes = Arc::new(Wakes::default());
        Self {
            waker: Waker::from(Arc::clone(&wakes)),
            wakes,
            waiter: Waiter::default(),
            lease: lease.clone(),
            leaving: 0,
            wakes_polled: 0,
        }
    }

    fn crowd(lease: &Lease, count: usize) -> Vec<Self> {
        (0..count).map(|_| Self::new(lease)).collect()
    }

    fn poll(&mut self, bytes: usize) -> Poll<Reservation> {
        self.wakes_polled = self.wakes();
        let mut cx = Context::from_waker(&self.waker);
        if self.leaving == 0 {
            return self.lease.poll_reserve(&mut cx, bytes, &mut self.waiter);
        }
        let wanted = LeavingRoom {
            bytes,
            leaving: self.leaving as u64,
        };
        self.lease
            .poll_reserve_leaving(&mut cx, wanted, &mut self.waiter)
    }

    fn must_wait(&mut self, bytes: usize) {
        assert!(self.poll(bytes).is_pending());
    }

    fn must_get(&mut self, bytes: usize) -> Reservation {
        let Poll::Ready(held) = self.poll(bytes) else {
            panic!("{bytes} bytes are there");
        };
        assert_eq!(held.bytes(), bytes);
        held
    }

    fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::SeqCst)
    }
}

fn wakes(tasks: &[Task]) -> usize {
    tasks.iter().map(Task::wakes).sum()
}

/// Takes all of a budget in pieces of 4 KiB.
fn fill(lease: &Lease) -> VecDeque<Reservation> {
    std::iter::from_fn(|| lease.try_reserve(4 * KIB).ok()).collect()
}

#[test]
fn a_release_wakes_who_came_first_as_far_as_it_reaches() {
    let budget = Budget::new(1 << 20);
    let lease = budget.root().child("bodies", None).lease();
    let mut held = fill(&lease);
    let mut tasks = Task::crowd(&lease, 300);
    for task in &mut tasks {
        task.must_wait(4 * KIB);
        task.must_wait(4 * KIB);
    }
    assert_eq!(budget.root().waiting(), 300, "each is queued once");
    held.truncate(held.len() - 3);
    let woken: Vec<usize> = tasks.iter().map(Task::wakes).collect();
    assert_eq!(woken[..3], [1; 3]);
    assert_eq!(woken[3..].iter().sum::<usize>(), 0);
    assert!(lease.try_reserve(1).is_err(), "nobody else takes it");
    let got = tasks[0].must_get(4 * KIB);
    assert_eq!(wakes(&tasks), 3);
    drop(got);
    assert_eq!(tasks[3].wakes(), 1);
}

#[test]
fn a_full_budget_wakes_nobody_until_bytes_come_back() {
    let budget = Budget::new(1 << 20);
    let idle = budget.root().child("pool", None);
    pool::install(&Stock {
        lease: idle.lease(),
        idle_bytes_max: 1 << 20,
    });
    let lease = budget.root().child("bodies", None).lease();
    let held = fill(&lease);
    let tasks: Vec<_> = (0..300).map(|_| Arc::new(Wakes::default())).collect();
    let mut waiters: Vec<Waiter> = tasks.iter().map(|_| Waiter::default()).collect();
    let polls = Cell::new(0);
    let poll = |task: &Arc<Wakes>, waiter: &mut Waiter| {
        polls.set(polls.get() + 1);
        let waker = Waker::from(Arc::clone(task));
        let mut cx = Context::from_waker(&waker);
        Buffer::poll_take(&mut cx, &lease, 4 * KIB, waiter).is_ready()
    };
    for (task, waiter) in tasks.iter().zip(&mut waiters) {
        assert!(!poll(task, waiter));
    }
    // The work of workers and other connections meanwhile.
    for _ in 0..1000 {
        pool::trim();
        pool::drain();
        drop(lease.try_reserve(0));
        assert!(Buffer::take(&lease, 4 * KIB).is_err());
        for (task, waiter) in tasks.iter().zip(&mut waiters) {
            if task.0.swap(0, Ordering::SeqCst) > 0 {
                poll(task, waiter);
            }
        }
    }
    assert_eq!(polls.get(), tasks.len(), "only the first poll of each");
    drop(held);
    assert!(poll(&tasks[255], &mut waiters[255]), "so many fit");
}

#[test]
fn waiting_and_refusing_allocate_nothing() {
    let budget = Budget::new(1 << 20);
    let lease = budget.root().child("bodies", None).lease();
    let others: Vec<Lease> = (0..50)
        .map(|_| budget.root().child("other", None).lease())
        .collect();
    let mut held = fill(&lease);
    let before = thread_allocations();
    assert!(others[0].try_reserve(1).is_err());
    assert_eq!(thread_allocations(), before, "a refusal reclaims in place");
    let mut tasks = Task::crowd(&lease, 100);
    tasks.iter_mut().for_each(|task| task.must_wait(4 * KIB));
    let before = thread_allocations();
    for round in 0..1000 {
        assert!(lease.try_reserve(1).is_err());
        held.pop_front();
        let task = &mut tasks[round % 100];
        held.push_back(task.must_get(4 * KIB));
        task.must_wait(4 * KIB);
    }
    assert_eq!(thread_allocations(), before);
}

#[test]
fn who_leaves_passes_on_what_was_meant_for_it() {
    let budget = Budget::new(64 * KIB as u64);
    let lease = budget.root().child("bodies", None).lease();
    let mut held = fill(&lease);
    let mut tasks = Task::crowd(&lease, 3);
    tasks.iter_mut().for_each(|task| task.must_wait(4 * KIB));
    held.pop_front();
    assert_eq!(tasks[0].wakes(), 1);
    tasks.remove(0);
    assert_eq!(tasks[0].wakes(), 1, "its bytes went to the next");
    tasks.remove(0);
    drop(tasks[0].must_get(4 * KIB));
    tasks[0].must_get(4 * KIB);
    assert_eq!(budget.root().waiting(), 0);
    drop((held, tasks));
    assert_eq!(budget.root().reserved_bytes(), 0);
}

#[test]
fn small_requests_pass_one_that_does_not_fit() {
    let budget = Budget::new(64 * KIB as u64);
    let lease = budget.root().child("bodies", None).lease();
    let mut held = fill(&lease);
    let mut tasks = Task::crowd(&lease, 3);
    tasks[0].must_wait(16 * KIB);
    tasks[1].must_wait(4 * KIB);
    tasks[2].must_wait(16 * KIB);
    held.pop_front();
    assert_eq!(tasks[1].wakes(), 1);
    held.drain(..4);
    assert_eq!([0, 2].map(|index| tasks[index].wakes()), [1, 0]);
}

#[test]
fn who_leaves_some_free_waits_for_that_and_does_not_take_it() {
    let budget = Budget::new(64 * KIB as u64);
    let lease = budget.root().child("bodies", None).lease();
    let mut held = fill(&lease);
    let mut tasks = Task::crowd(&lease, 2);
    tasks[0].leaving = 16 * KIB;
    tasks[0].must_wait(4 * KIB);
    held.drain(..4);
    assert_eq!(tasks[0].wakes(), 0, "16 KiB are free, 20 are not");
    let passed = tasks[1].must_get(4 * KIB);
    held.pop_front();
    assert_eq!(tasks[0].wakes(), 0);
    drop(passed);
    assert_eq!(tasks[0].wakes(), 1);
    let _got = tasks[0].must_get(4 * KIB);
    let _rest = tasks[1].must_get(16 * KIB);
}

#[test]
fn who_asks_for_another_amount_keeps_its_age() {
    let budget = Budget::new(64 * KIB as u64);
    let lease = budget.root().child("bodies", None).lease();
    let mut held = fill(&lease);
    let mut tasks = Task::crowd(&lease, 2);
    tasks[0].must_wait(4 * KIB);
    tasks[1].must_wait(8 * KIB);
    tasks[0].must_wait(8 * KIB);
    held.drain(..2);
    assert_eq!([0, 1].map(|index| tasks[index].wakes()), [1, 0]);
    let _less = tasks[0].must_get(4 * KIB);
    held.pop_front();
    assert_eq!(tasks[1].wakes(), 1, "the rest was given back");
}

#[test]
fn a_full_account_keeps_no_wake_up_from_another() {
    let budget = Budget::new(4 << 20);
    let full = budget.root().child("full", Some(1 << 20)).lease();
    let other = budget.root().child("other", None).lease();
    let (_kept, given_back) = (fill(&full), fill(&other));
    let mut tasks = Task::crowd(&full, 4);
    tasks.iter_mut().for_each(|task| task.must_wait(KIB));
    let mut served = Task::new(&other);
    served.must_wait(KIB);
    drop(given_back);
    assert_eq!(served.wakes(), 1);
    assert_eq!(wakes(&tasks), 0, "those of the full account stay asleep");
}

#[test]
fn of_those_that_fit_the_oldest_is_first() {
    let budget = Budget::new(64 * KIB as u64);
    let lease = budget.root().lease();
    let _held = fill(&lease).split_off(2);
    let mut held = lease.try_reserve(8 * KIB).expect("the first two went");
    let mut tasks = Task::crowd(&lease, 3);
    tasks[0].must_wait(8 * KIB);
    tasks[1].must_wait(4 * KIB);
    tasks[2].must_wait(4 * KIB);
    held.shrink(8 * KIB);
    let woken: Vec<usize> = tasks.iter().map(Task::wakes).collect();
    assert_eq!(woken, [1, 0, 0]);
}

#[test]
fn free_bytes_of_another_lease_are_found_before_waiting() {
    let budget = Budget::new(64 * KIB as u64);
    let (first, second) = (budget.root().lease(), budget.root().lease());
    let _kept = first.try_reserve(KIB);
    let mut task = Task::new(&second);
    task.must_get(32 * KIB);
    task.must_wait(64 * KIB);
}

#[test]
fn pools_keep_nothing_while_somebody_waits() {
    let budget = Budget::new(64 * KIB as u64);
    let idle = budget.root().child("pool", None);
    pool::install(&Stock {
        lease: idle.lease(),
        idle_bytes_max: 1 << 20,
    });
    let lease = budget.root().child("bodies", None).lease();
    let take = || Buffer::take(&lease, 4 * KIB).ok();
    let buffers: Vec<Buffer> = std::iter::from_fn(take).collect();
    let mut task = Task::new(&lease);
    task.must_wait(64 * KIB);
    drop(buffers);
    assert_eq!((idle.reserved_bytes(), task.wakes()), (0, 1));
}

#[test]
fn who_waited_behind_one_that_leaves_is_tried() {
    let budget = Budget::new(64 * KIB as u64);
    let lease = budget.root().lease();
    let mut held = fill(&lease);
    let mut tasks = Task::crowd(&lease, 2);
    tasks[0].must_wait(16 * KIB);
    tasks[1].must_wait(12 * KIB);
    held.truncate(held.len() - 3);
    assert_eq!(wakes(&tasks), 0, "they are of one queue");
    tasks.remove(0);
    assert_eq!(wakes(&tasks), 1);
}

/// Two tasks that wait at a route: it was full, and has room again, but now the budget has none.
struct Squeezed {
    /// A reservation of all of the budget but the route's.
    other: Reservation,
    _route: Reservation,
    /// The tasks; the first has an account of its own below the route, of 16 KiB.
    tasks: Vec<Task>,
}

/// The tasks wait for `wanted`; the route gives `given_back` in two steps, the first of which
/// another account takes.
fn squeeze(wanted: [usize; 2], given_back: [usize; 2]) -> Squeezed {
    let budget = Budget::new(64 * KIB as u64);
    let route = budget.root().child("route", Some(32 * KIB as u64));
    let leases = [Some(16 * KIB as u64), None].map(|limit| route.child("part", limit).lease());
    let mut held = leases[1].try_reserve(32 * KIB).expect("room");
    let mut other = budget.root().lease().try_reserve(32 * KIB).expect("room");
    let mut tasks: Vec<Task> = leases.iter().map(Task::new).collect();
    for (task, wanted) in tasks.iter_mut().zip(wanted) {
        task.must_wait(wanted);
    }
    held.shrink(given_back[0]);
    other.try_grow(given_back[0]).expect("it came back");
    held.shrink(given_back[1]);
    assert_eq!(wakes(&tasks), 0);
    Squeezed {
        other,
        _route: held,
        tasks,
    }
}

#[test]
fn who_waits_behind_one_that_gets_its_bytes_elsewhere_is_tried() {
    // The first task waits for the budget by now, the second behind it at the route.
    let Squeezed {
        other,
        _route,
        tasks,
    } = squeeze([13 * KIB, 9 * KIB], [12 * KIB, 10 * KIB]);
    drop(other);
    assert_eq!([0, 1].map(|index| tasks[index].wakes()), [1, 1]);
}

#[test]
fn who_waits_behind_one_whose_own_account_is_full_is_tried() {
    let Squeezed {
        other,
        _route,
        tasks,
    } = squeeze([16 * KIB, 12 * KIB], [8 * KIB, 8 * KIB]);
    let _full = tasks[0].lease.try_reserve(4 * KIB).expect("room");
    drop(other);
    assert_eq!([0, 1].map(|index| tasks[index].wakes()), [0, 1]);
}

#[test]
fn a_large_waiting_crowd_is_forgotten_once_it_has_gone() {
    let budget = Budget::new(64 * KIB as u64);
    let lease = budget.root().lease();
    let held = fill(&lease);
    let mut tasks = Task::crowd(&lease, 1000);
    let before = thread_live_bytes();
    tasks.iter_mut().for_each(|task| task.must_wait(4 * KIB));
    tasks
        .iter_mut()
        .for_each(|task| task.waiter = Waiter::default());
    drop(held);
    let after = thread_live_bytes();
    assert!(after < before + 40_000, "{before} {after}");
}

/// A small generator, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % end
    }
}

/// A tree of which different accounts refuse at different times.
fn tree(budget: &Budget) -> Vec<Account> {
    let (first, second) = (
        budget.root().child("first", Some(192 * KIB as u64)),
        budget.root().child("second", None),
    );
    vec![
        first.child("a", Some(96 * KIB as u64)),
        first.child("b", Some(128 * KIB as u64)),
        second.child("c", Some(64 * KIB as u64)),
        second.child("d", None),
        budget.root().clone(),
    ]
}

#[test]
fn nobody_waits_for_what_is_there() {
    for seed in 1..40 {
        let budget = Budget::new(256 * KIB as u64);
        let accounts = tree(&budget);
        let leases: Vec<Lease> = accounts.iter().map(Account::lease).collect();
        let mut random = Random(seed * 0x9E37_79B9);
        let mut tasks: Vec<(Task, usize)> = (0..40)
            .map(|_| (Task::new(&leases[random.below(5)]), 0))
            .collect();
        let mut held = Vec::new();
        for _ in 0..3000 {
            let index = random.below(tasks.len());
            match random.below(5) {
                0 => tasks[index].0.waiter = Waiter::default(),
                1 if !held.is_empty() => drop(held.swap_remove(random.below(held.len()))),
                _ => {
                    let (task, bytes) = &mut tasks[index];
                    if !task.waiter.is_waiting() || random.below(8) == 0 {
                        *bytes = (4 * KIB) << random.below(4);
                        task.leaving = *bytes * random.below(2);
                    }
                    if let Poll::Ready(got) = task.poll(*bytes) {
                        held.push(got);
                    }
                }
            }
            check_that_nobody_fits(&tasks);
        }
        while budget.root().waiting() > 0 {
            assert!(held.pop().is_some(), "{} wait", budget.root().waiting());
            for (task, bytes) in &mut tasks {
                if task.waiter.is_waiting() && task.wakes() > 0 {
                    held.extend(match task.poll(*bytes) {
                        Poll::Ready(got) => Some(got),
                        Poll::Pending => None,
                    });
                }
            }
        }
        drop((held, tasks));
        assert_eq!(budget.root().reserved_bytes(), 0);
    }
}

/// Checks that no other reservation could have the bytes that a task waits for.
fn check_that_nobody_fits(tasks: &[(Task, usize)]) {
    let wakes = || tasks.iter().map(|(task, _)| task.wakes()).sum::<usize>();
    let before = wakes();
    for (task, bytes) in tasks {
        let waits = task.waiter.is_waiting() && task.wakes() == task.wakes_polled;
        assert!(!waits || task.lease.try_reserve(*bytes + task.leaving).is_err());
    }
    assert_eq!(wakes(), before, "a refusal wakes nobody");
}

#[test]
fn threads_that_wait_all_get_their_turn() {
    const ROUNDS: usize = 5000;
    let budget = Budget::new(96 * KIB as u64);
    let accounts = tree(&budget);
    thread::scope(|scope| {
        for worker in 0..8 {
            let lease = accounts[worker % accounts.len()].lease();
            scope.spawn(move || {
                let mut random = Random(worker as u64 + 1);
                let mut waiter = Waiter::default();
                for round in 0..ROUNDS {
                    let bytes = (4 * KIB) << random.below(4);
                    let held = wait_for(&lease, bytes, &mut waiter);
                    if round % 3 == 0 {
                        thread::yield_now();
                    }
                    drop(held);
                }
            });
        }
    });
    assert_eq!(budget.root().waiting(), 0);
    assert_eq!(budget.root().reserved_bytes(), 0);
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait_for(lease: &Lease, bytes: usize, waiter: &mut Waiter) -> Reservation {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match lease.poll_reserve(&mut cx, bytes, waiter) {
            Poll::Ready(held) => return held,
            Poll::Pending => thread::park(),
        }
    }
}
