//! Shares, waiting and shedding, by a budget of which more than half is taken.

use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::*;
use crate::{Budget, Lease, Reservation, Waiter};

const MIB: usize = 1 << 20;

/// A budget of 64 MiB of which less than half is free, with a share of 16 MiB a client.
struct World {
    budget: Budget,
    clients: Clients,
    lease: Lease,
    _others: Reservation,
}

impl World {
    fn new() -> Self {
        let budget = Budget::new(64 * MIB as u64);
        let clients = budget.clients().clone();
        clients.set_share(Some(16 * MIB as u64));
        let node = budget.root().child("node's own", None).lease();
        Self {
            budget: budget.clone(),
            clients,
            lease: budget.root().child("route", None).client_lease(),
            _others: node.try_reserve(33 * MIB).expect("room"),
        }
    }

    /// The task of a connection, which reserves so many MiB at its first poll and never ends.
    fn task(&self, holding: &Holding, mib: usize) -> Pin<Box<dyn Future<Output = Option<()>>>> {
        let lease = self.lease.clone();
        let work = async move {
            let _held = lease.try_reserve(mib * MIB).expect("room");
            std::future::pending::<()>().await;
        };
        Box::pin(Arc::clone(holding.holder()).run(work))
    }

    fn open(&self, address: &str) -> Holding {
        self.clients.open(shared(address), "http")
    }

    fn reserve(&self, holding: &Holding, bytes: usize) -> Option<Reservation> {
        holding.holder().within(|| self.lease.try_admit(bytes).ok())
    }
}

fn shared(address: &str) -> ClientAddress {
    ClientAddress::Shared(address.parse().expect("an address"))
}

#[test]
fn scopes_count_what_others_within_them_do_not() {
    let world = World::new();
    let (outer, inner) = (world.open("192.0.2.1"), world.open("192.0.2.2"));
    let take = |mib| world.lease.try_reserve(mib * MIB).expect("room");
    let held = outer.holder().within(|| {
        let before = take(1);
        let within = inner.holder().within(|| take(2));
        (before, within, take(4))
    });
    let top = ClientReport::top(&world.clients, 2);
    let charged: Vec<_> = top.iter().map(|client| client.charged_bytes).collect();
    assert_eq!(charged, [5 * MIB as u64, 2 * MIB as u64]);
    let (before, within, after) = held;
    outer.holder().within(|| {
        inner.holder().within(|| drop(within));
        drop((before, after));
    });
    let top = ClientReport::top(&world.clients, 2);
    assert!(
        top.iter().all(|client| client.charged_bytes == 0),
        "{top:?}"
    );
}

#[test]
fn a_client_begins_nothing_beyond_three_quarters_of_its_share() {
    let world = World::new();
    let (first, second) = (world.open("192.0.2.1"), world.open("192.0.2.1"));
    let other = world.open("192.0.2.2");
    let held = world.reserve(&first, 9 * MIB).expect("within the share");
    // A mere look does not count as held back.
    let has_share_for = |bytes| second.holder().within(|| world.lease.has_share_for(bytes));
    assert_eq!([3 * MIB, 4 * MIB].map(has_share_for), [true, false]);
    assert_eq!(world.clients.held_back_total(), 0);
    assert!(world.reserve(&second, 4 * MIB).is_none());
    assert_eq!(world.clients.held_back_total(), 1);
    let address: IpAddr = "192.0.2.1".parse().expect("an address");
    assert_eq!(world.clients.newly_held_back(), [address]);
    assert!(world.clients.newly_held_back().is_empty());
    let others = world
        .reserve(&other, 4 * MIB)
        .expect("another client has its own");
    assert!(world.reserve(&second, 3 * MIB).is_some());
    first.holder().within(|| drop(held));
    assert!(world.reserve(&second, 4 * MIB).is_some());
    drop(others);
}

#[test]
fn what_a_client_has_begun_goes_on_to_the_end_of_its_share() {
    let world = World::new();
    let client = world.open("192.0.2.1");
    let mut cx = Context::from_waker(Waker::noop());
    let mut waiters = [Waiter::default(), Waiter::default()];
    let mut read = |index: usize| {
        let waiter = &mut waiters[index];
        client
            .holder()
            .within(|| crate::Buffer::poll_take(&mut cx, &world.lease, MIB, waiter))
    };
    let held = world.reserve(&client, 12 * MIB).expect("three quarters");
    assert!(world.reserve(&client, 1).is_none());
    let buffers: Vec<_> = (0..4).map(|_| read(0)).collect();
    assert!(buffers.iter().all(Poll::is_ready));
    assert!(read(1).is_pending(), "a buffer is of the share, too");
    client.holder().within(|| drop(held));
    let _still_waits = world.budget.wake_held_back();
    assert!(read(1).is_ready());
    client.holder().within(|| drop(buffers));
}

#[test]
fn many_connections_that_hold_little_are_seen() {
    const CONNECTIONS: usize = 4096;
    let world = World::new();
    let holdings: Vec<_> = (0..CONNECTIONS).map(|_| world.open("192.0.2.1")).collect();
    let held: Vec<_> = holdings
        .iter()
        .map_while(|holding| Some((holding, world.reserve(holding, 8 << 10)?)))
        .collect();
    let bytes = held.len() * (8 << 10);
    assert!(bytes <= 13 * MIB, "{bytes} of 12 MiB");
    for (holding, held) in held {
        holding.holder().within(|| drop(held));
    }
}

#[test]
fn while_half_is_free_there_is_no_share() {
    let budget = Budget::new(64 * MIB as u64);
    let clients = budget.clients().clone();
    clients.set_share(Some(MIB as u64));
    let lease = budget.root().client_lease();
    let client = clients.open(shared("192.0.2.1"), "http");
    let take = |bytes| client.holder().within(|| lease.try_admit(bytes));
    let first = take(33 * MIB).expect("more than half was free");
    assert!(take(MIB).is_err());
    client.holder().within(|| drop(first));
    assert!(take(MIB).is_ok());
}

#[test]
fn addresses_of_one_network_are_one_client() {
    let world = World::new();
    let (first, second) = (world.open("2001:db8::1"), world.open("2001:db8::ffff:2"));
    let mapped = world.open("::ffff:192.0.2.1");
    let _held = world.reserve(&first, 12 * MIB).expect("within the share");
    assert!(world.reserve(&second, MIB).is_none());
    assert!(world.reserve(&mapped, 5 * MIB).is_some());
    let top = ClientReport::top(&world.clients, 1);
    assert_eq!(
        top[0].client,
        Some("2001:db8::".parse().expect("an address"))
    );
    assert_eq!(
        (top[0].connections, top[0].charged_bytes),
        (2, 12 * MIB as u64)
    );
}

#[test]
fn local_and_exempt_clients_have_no_share() {
    let world = World::new();
    let exempt = ClientAddress::Exempt("192.0.2.1".parse().expect("an address"));
    for client in [ClientAddress::Local, exempt] {
        let holding = world.clients.open(client, "http");
        assert!(world.reserve(&holding, 20 * MIB).is_some(), "{client:?}");
    }
}

#[test]
fn a_connection_speaks_for_other_clients() {
    let world = World::new();
    let proxy = ClientAddress::Exempt("192.0.2.1".parse().expect("an address"));
    let proxy = world.clients.open(proxy, "http");
    let (first, second) = (
        proxy.visit(shared("198.51.100.1")),
        proxy.visit(shared("198.51.100.2")),
    );
    let held = world.reserve(&first, 12 * MIB).expect("within the share");
    assert!(world.reserve(&first, 5 * MIB).is_none());
    assert!(world.reserve(&second, 5 * MIB).is_some());
    assert!(proxy.holder().held_bytes() >= 12 * MIB as u64);
    first.holder().within(|| drop(held));
}

#[test]
fn what_the_node_keeps_counts_for_no_client() {
    let world = World::new();
    let client = world.open("192.0.2.1");
    let cache = world.lease.account().lease();
    let _kept = client.holder().within(|| cache.try_reserve(20 * MIB));
    assert_eq!(client.holder().charged_bytes(), 0);
    assert!(world.reserve(&client, 4 * MIB).is_some());
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_task_waits_until_its_client_holds_less() {
    let world = World::new();
    let client = world.open("192.0.2.1");
    let held = world.reserve(&client, 12 * MIB).expect("within the share");
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut waiter = Waiter::default();
    let mut poll = || {
        client.holder().within(|| {
            let mut cx = Context::from_waker(&waker);
            world.lease.poll_reserve(&mut cx, 5 * MIB, &mut waiter)
        })
    };
    assert!(poll().is_pending());
    assert!(poll().is_pending());
    assert_eq!(world.clients.held_back(), 1, "a task waits once");
    assert!(world.budget.wake_held_back());
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "it may ask for less");
    assert!(poll().is_pending());
    client.holder().within(|| drop(held));
    assert_eq!(
        wakes.0.load(Ordering::Relaxed),
        2,
        "what was given back wakes it"
    );
    assert_eq!(world.clients.held_back(), 0);
    let Poll::Ready(reserved) = poll() else {
        panic!("there is room for it");
    };
    client.holder().within(|| drop(reserved));
}

#[test]
fn connections_that_hold_most_are_shed() {
    let world = World::new();
    let holdings = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(|address| world.open(address));
    let mut tasks = Vec::new();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    for (holding, mib) in holdings.iter().zip([3, 9, 6]) {
        let mut task = world.task(holding, mib);
        assert!(task.as_mut().poll(&mut cx).is_pending());
        tasks.push(task);
    }
    let shed = world.clients.shed(10 * MIB as u64);
    let clients: Vec<_> = shed.iter().filter_map(|shed| shed.client).collect();
    let expected = ["192.0.2.2", "192.0.2.3"].map(|at| at.parse::<IpAddr>().expect("an address"));
    assert_eq!(clients, expected);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 2);
    assert_eq!(world.clients.shed_total(), 2);
    let ended: Vec<_> = tasks
        .iter_mut()
        .map(|task| matches!(task.as_mut().poll(&mut cx), Poll::Ready(None)))
        .collect();
    assert_eq!(ended, [false, true, true]);
    assert_eq!(holdings[1].holder().held_bytes(), 0, "all was given back");
    assert!(
        world.clients.shed(64 * MIB as u64).len() == 1,
        "none is told twice"
    );
}

#[test]
fn tasks_stand_still_while_paused() {
    let world = World::new();
    let client = world.open("192.0.2.1");
    let _held = world.reserve(&client, MIB);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    let polls = AtomicUsize::new(0);
    let count = || {
        std::future::poll_fn(|_| {
            polls.fetch_add(1, Ordering::Relaxed);
            Poll::<()>::Pending
        })
    };
    let mut task = pin!(Arc::clone(client.holder()).run(count()));
    let mut part = pin!(Arc::clone(client.holder()).run_part(count()));
    let mut turn = || {
        assert!(task.as_mut().poll(&mut cx).is_pending());
        assert!(part.as_mut().poll(&mut cx).is_pending());
        polls.load(Ordering::Relaxed)
    };
    assert_eq!(turn(), 2);
    world.clients.pause();
    assert_eq!([turn(), turn()], [2, 2]);
    world.clients.resume();
    assert_eq!(wakes.0.load(Ordering::Relaxed), 2, "a wait, a place");
    assert_eq!(turn(), 4);
    world.clients.pause();
    assert_eq!(turn(), 4);
    // The order to close comes before the pause, for each task of the connection.
    assert_eq!(world.clients.shed(1).len(), 1);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 5);
    assert!(task.as_mut().poll(&mut cx).is_ready());
    assert!(part.as_mut().poll(&mut cx).is_ready());
}

/// A task for the TLS handshake, and a second one for HTTP.
#[test]
fn the_last_task_of_a_connection_is_woken() {
    let world = World::new();
    let client = world.open("192.0.2.1");
    let _held = world.reserve(&client, MIB);
    let wakes = [(); 3].map(|()| Arc::new(Wakes::default()));
    let mut tasks = Vec::new();
    let holder = || Arc::clone(client.holder());
    let never = std::future::pending::<()>;
    let futures: [Pin<Box<dyn Future<Output = Option<()>>>>; 3] = [
        Box::pin(holder().run(async {})),
        Box::pin(holder().run(never())),
        Box::pin(holder().run_part(never())),
    ];
    for (wakes, mut task) in wakes.iter().zip(futures) {
        let waker = Waker::from(Arc::clone(wakes));
        let _ = task.as_mut().poll(&mut Context::from_waker(&waker));
        tasks.push(task);
    }
    assert_eq!(world.clients.shed(1).len(), 1);
    let woken = wakes.map(|wakes| wakes.0.load(Ordering::Relaxed));
    assert_eq!(woken, [0, 1, 0]);
}

#[test]
fn connections_that_were_told_to_close_pay_before_others_are() {
    let world = World::new();
    let holdings = ["192.0.2.1", "192.0.2.2"].map(|address| world.open(address));
    let mut cx = Context::from_waker(Waker::noop());
    let mut tasks = Vec::new();
    for (holding, mib) in holdings.iter().zip([9, 3]) {
        let mut task = world.task(holding, mib);
        assert!(task.as_mut().poll(&mut cx).is_pending());
        tasks.push(task);
    }
    assert_eq!(world.clients.shed(8 * MIB as u64).len(), 1);
    assert_eq!(
        world.clients.shed(8 * MIB as u64),
        [],
        "9 MiB are on their way"
    );
    assert!(tasks[0].as_mut().poll(&mut cx).is_ready());
    assert_eq!(world.clients.shed(8 * MIB as u64).len(), 1);
    assert!(world.clients.can_pay(), "it has not ended yet");
    assert!(tasks[1].as_mut().poll(&mut cx).is_ready());
    assert!(!world.clients.can_pay());
}

#[test]
fn the_table_ends_empty() {
    let world = World::new();
    let holdings: Vec<_> = (0..3).map(|_| world.open("192.0.2.1")).collect();
    let held = world.reserve(&holdings[0], MIB);
    drop(holdings);
    assert!(ClientReport::top(&world.clients, 10).is_empty());
    let next = world.open("192.0.2.1");
    assert_eq!(
        next.holder().client().charged_bytes.load(Ordering::Relaxed),
        0
    );
    drop(held);
}

#[test]
fn a_future_that_ends_gives_its_output() {
    let world = World::new();
    let client = world.open("192.0.2.1");
    let mut task = pin!(Arc::clone(client.holder()).run(async { 7 }));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(task.as_mut().poll(&mut cx), Poll::Ready(Some(7))));
}

#[test]
fn a_lease_of_a_holder_counts_outside_of_its_scope() {
    let world = World::new();
    let client = world.open("192.0.2.1");
    let lease = world.lease.account().lease().of_holder(client.holder());
    let held = lease.try_reserve(12 * MIB).expect("within the share");
    assert!(lease.try_admit(5 * MIB).is_err());
    assert!(
        world.reserve(&client, 5 * MIB).is_none(),
        "one sum for both"
    );
    drop(held);
    assert!(lease.try_admit(12 * MIB).is_ok());
    assert_eq!(client.holder().charged_bytes(), 0);
}

#[test]
fn what_another_task_frees_counts_for_its_client() {
    let world = World::new();
    let (client, other) = (world.open("192.0.2.1"), world.open("192.0.2.1"));
    let held = || -> Vec<_> {
        let take = |_| {
            let buffer = crate::Buffer::take(&world.lease, MIB).expect("room");
            let mut chunk = crate::Chunk::from(buffer);
            chunk.bind();
            chunk
        };
        client.holder().within(|| (0..4).map(take).collect())
    };
    let sum = || client.holder().client().charged_bytes();
    let first = held();
    assert_eq!(sum(), 4 * MIB as u64);
    drop(first);
    assert_eq!((sum(), client.holder().charged_bytes()), (0, 0));
    // The connection may end before its memory is given back.
    let last = held();
    drop(client);
    assert_eq!(other.holder().client().charged_bytes(), 0);
    drop(last);
    assert_eq!(other.holder().client().charged_bytes(), 0);
}

#[derive(Debug)]
struct Kept;

impl crate::Evict for Kept {
    fn evict(&self, _bytes: u64) -> u64 {
        0
    }
}

#[test]
fn what_is_kept_for_later_counts_as_free() {
    let budget = Budget::new(64 * MIB as u64);
    let clients = budget.clients().clone();
    clients.set_share(Some(MIB as u64));
    let cache = budget.root().child("filters", None).child("cache", None);
    let kept: Arc<dyn crate::Evict> = Arc::new(Kept);
    cache.set_evicting(Arc::downgrade(&kept));
    let _stored = cache.lease().try_reserve(40 * MIB).expect("room");
    let lease = budget.root().client_lease();
    let client = clients.open(shared("192.0.2.1"), "http");
    let take = |bytes| client.holder().within(|| lease.try_admit(bytes));
    let first = take(512 << 10).expect("within the share");
    assert!(take(2 * MIB).is_err());
    budget.measure_evictable();
    assert!(take(2 * MIB).is_ok());
    client.holder().within(|| drop(first));
}
