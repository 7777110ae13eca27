//! Calls over real sockets, and the budget after them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use steppe_mem::Budget;
use steppe_plane::frame::{Payment, Queueing};
use steppe_plane::{Ask, Caller, Failure, Memory, Processing, Status, Worker, WorkerServer};
use tokio::sync::Barrier;

const MIB: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// A budget, and its memory.
struct Side {
    budget: Budget,
    memory: Arc<Memory>,
}

impl Side {
    fn new(bytes: usize) -> Self {
        let budget = Budget::new(bytes as u64);
        let memory = Arc::new(Memory::new(budget.root()));
        Self { budget, memory }
    }

    fn reserved(&self) -> u64 {
        self.budget.root().reserved_bytes()
    }

    async fn comes_to(&self, bytes: u64) {
        until("the budget is back", || self.reserved() == bytes).await;
    }
}

/// Waits for a condition, for up to [`PATIENCE`].
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    assert!(waited.is_ok(), "never: {what}");
}

fn body(len: usize) -> Bytes {
    (0..len).map(|at| (at % 251).to_le_bytes()[0]).collect()
}

/// A worker of three services, which records the peak of its budget.
async fn worker(side: &Side, peak: &Arc<AtomicU64>) -> WorkerServer {
    let (root, peak) = (side.budget.root().clone(), Arc::clone(peak));
    let worker = Worker::builder(&side.memory)
        .unary("echo", 1000, move |body| {
            peak.fetch_max(root.reserved_bytes(), Ordering::Relaxed);
            async move { Ok(body) }
        })
        .unary("hold", 1000, |body: Bytes| async move {
            std::future::pending::<()>().await;
            Ok(body)
        })
        .unary("fail", 1000, |_| async {
            Err(Failure::new(Status::Invalid, "as asked"))
        })
        .stream("chunks", 1000, |mut request| async move {
            request.response.begin(Payment::Granted).await?;
            while let Some(part) = request.body.next().await? {
                request.response.send(part.bytes).await?;
            }
            request.response.end()
        })
        .build();
    worker.listen("127.0.0.1:0").await.expect("a port")
}

struct World {
    here: Side,
    there: Side,
    server: WorkerServer,
    caller: Caller,
    peak: Arc<AtomicU64>,
    /// Reserved bytes of each side's connection, without calls.
    idle: [u64; 2],
}

impl World {
    async fn new(here_bytes: usize, there_bytes: usize) -> Self {
        let (here, there) = (Side::new(here_bytes), Side::new(there_bytes));
        let peak = Arc::new(AtomicU64::new(0));
        let server = worker(&there, &peak).await;
        let caller = Caller::connect(server.address(), &here.memory).await;
        let caller = caller.expect("it listens");
        let first = Bytes::from_static(b"first");
        let answer = caller.unary(&Ask::new("echo"), first.clone()).await;
        assert_eq!(answer.expect("an answer"), first);
        let idle = here.reserved();
        let world = Self {
            idle: [idle, idle],
            here,
            there,
            server,
            caller,
            peak,
        };
        world.settle().await;
        world
    }

    /// Waits until only the connection is charged.
    async fn settle(&self) {
        self.here.comes_to(self.idle[0]).await;
        self.there.comes_to(self.idle[1]).await;
    }

    /// Drops both sides, and waits until nothing is charged.
    async fn end(self) {
        drop((self.caller, self.server));
        self.here.comes_to(0).await;
        self.there.comes_to(0).await;
    }
}

#[tokio::test]
async fn unary_calls_are_answered_whatever_their_size() {
    let world = World::new(16 * MIB, 16 * MIB).await;
    for len in [0, 1, 128, 65_536, 65_537, 1_000_000, MIB, 5 * MIB] {
        let body = body(len);
        let answer = world.caller.unary(&Ask::new("echo"), body.clone()).await;
        assert!(answer.expect("an answer") == body, "{len} bytes");
        world.settle().await;
    }
    world.end().await;
}

#[tokio::test]
async fn many_large_calls_share_a_small_budget() {
    let world = World::new(16 * MIB, 16 * MIB).await;
    let body = body(MIB);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..96 {
        let (caller, body) = (world.caller.clone(), body.clone());
        calls.spawn(async move {
            let answer = caller.unary(&Ask::new("echo"), body.clone()).await;
            assert!(answer.expect("an answer") == body);
        });
    }
    let answered = calls.join_all().await.len();
    let peak = world.peak.load(Ordering::Relaxed);
    println!("{answered} answered, at most {peak} bytes held");
    assert_eq!(answered, 96);
    assert!((2 * MIB as u64..=16 * MIB as u64).contains(&peak), "{peak}");
    world.settle().await;
    world.end().await;
}

/// Handlers that hold small messages do not block others of the same connection; only the budget does.
#[tokio::test]
async fn small_messages_are_held_beyond_the_credit_of_their_connection() {
    let world = World::new(64 * MIB, 64 * MIB).await;
    let idle = world.there.reserved();
    let len = 60_000;
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let caller = world.caller.clone();
            tokio::spawn(async move { caller.unary(&Ask::new("hold"), body(len)).await })
        })
        .collect();
    until("all of them are held", || {
        world.there.reserved() >= idle + 100 * len as u64
    })
    .await;
    for call in calls {
        call.abort();
    }
    world.settle().await;
    world.end().await;
}

#[tokio::test]
async fn failures_are_typed() {
    let world = World::new(16 * MIB, 8 * MIB).await;
    let call = |service, len| {
        let caller = &world.caller;
        async move {
            caller
                .unary(&Ask::new(service), body(len))
                .await
                .map(|_| ())
        }
    };
    let failure = call("fail", 1).await.expect_err("as asked");
    assert_eq!(
        (failure.status, &*failure.detail),
        (Status::Invalid, "as asked")
    );
    let failure = call("none", 1).await.expect_err("unknown");
    assert_eq!(failure.status, Status::UnknownService);
    let failure = call("echo", 7 * MIB).await.expect_err("too large");
    assert_eq!(failure.status, Status::TooLarge);
    // An eighth of 8 MiB is for connections and streams, and a quarter of the rest for responses.
    assert!(failure.detail.contains("5505024"), "{failure}");
    world.settle().await;
    world.end().await;
}

#[tokio::test]
async fn a_request_that_does_not_wait_is_refused_while_there_is_no_room() {
    let world = World::new(32 * MIB, 8 * MIB).await;
    let caller = world.caller.clone();
    let held = tokio::spawn(async move { caller.unary(&Ask::new("hold"), body(5 * MIB)).await });
    until("it is held", || world.there.reserved() > 5 * MIB as u64).await;
    let ask = Ask {
        queueing: Queueing::Never,
        ..Ask::new("echo")
    };
    let failure = world.caller.unary(&ask, body(2 * MIB)).await;
    assert_eq!(failure.expect_err("no room").status, Status::Overloaded);
    // A small body needs no room, and passes.
    let answer = world.caller.unary(&ask, body(128)).await;
    assert_eq!(answer.expect("an answer"), body(128));
    held.abort();
    world.settle().await;
    world.end().await;
}

#[tokio::test]
async fn the_budget_comes_back_when_a_deadline_comes() {
    let world = World::new(16 * MIB, 16 * MIB).await;
    let ask = Ask {
        deadline: Some(Duration::from_millis(50)),
        ..Ask::new("hold")
    };
    let failure = world.caller.unary(&ask, body(MIB)).await;
    assert_eq!(failure.expect_err("over").status, Status::DeadlineExceeded);
    world.settle().await;
    world.end().await;
}

#[tokio::test]
async fn the_budget_comes_back_when_a_caller_drops_its_call() {
    let world = World::new(16 * MIB, 16 * MIB).await;
    let caller = world.caller.clone();
    let call = tokio::spawn(async move { caller.unary(&Ask::new("hold"), body(MIB)).await });
    until("it is held", || world.there.reserved() > MIB as u64).await;
    call.abort();
    world.settle().await;
    // In the middle of a body: a message was sent, and no END.
    let ask = Ask::new("hold");
    let call = world.caller.call(&ask, Payment::Standing).await;
    let mut call = call.expect("a call");
    call.request.send(body(60_000)).await.expect("room");
    until("it came", || world.there.reserved() > world.idle[1]).await;
    drop(call);
    world.settle().await;
    world.end().await;
}

#[tokio::test]
async fn the_budget_comes_back_when_a_worker_is_killed() {
    let World {
        here,
        there,
        server,
        caller,
        ..
    } = World::new(16 * MIB, 16 * MIB).await;
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let caller = caller.clone();
            tokio::spawn(async move { caller.unary(&Ask::new("hold"), body(MIB)).await })
        })
        .collect();
    until("some are held", || there.reserved() > 8 * MIB as u64).await;
    drop(server);
    for call in calls {
        let failure = call.await.expect("no panic").expect_err("it was killed");
        assert_eq!(failure.status, Status::Unavailable);
        assert_eq!(failure.processing, Processing::Begun, "it was sent");
    }
    let late = caller.unary(&Ask::new("hold"), body(1)).await;
    let late = late.expect_err("the connection is gone");
    assert_eq!(late.status, Status::Unavailable);
    assert_eq!(late.processing, Processing::None, "it was not sent");
    there.comes_to(0).await;
    drop(caller);
    here.comes_to(0).await;
}

#[tokio::test]
async fn a_worker_that_drains_finishes_what_is_open() {
    let world = World::new(16 * MIB, 16 * MIB).await;
    let caller = world.caller.clone();
    let held = tokio::spawn(async move { caller.unary(&Ask::new("hold"), body(1)).await });
    until("it came", || world.there.reserved() > world.idle[1]).await;
    let World { server, caller, .. } = world;
    let drained = tokio::spawn(server.drain(Duration::from_secs(30)));
    let refused = || async { caller.unary(&Ask::new("echo"), body(1)).await };
    let failure = loop {
        match refused().await {
            Ok(_) => tokio::task::yield_now().await,
            Err(failure) => break failure,
        }
    };
    assert_eq!(failure.processing, steppe_plane::Processing::None);
    held.abort();
    assert!(drained.await.expect("no panic"), "nothing was open");
}

#[tokio::test]
async fn a_body_larger_than_the_budgets_streams_through_them() {
    let world = World::new(8 * MIB, 8 * MIB).await;
    let ask = Ask::new("chunks");
    let call = world.caller.call(&ask, Payment::Granted).await;
    let mut call = call.expect("a call");
    let message = body(3 * MIB);
    let (sent, mut request) = (message.clone(), call.request);
    let sending = tokio::spawn(async move {
        for _ in 0..10 {
            request.send(sent.clone()).await?;
        }
        request.end()
    });
    let mut at = 0;
    while let Some(part) = call.response.next().await.expect("no failure") {
        for &byte in &part.bytes {
            assert_eq!(byte, message[at % message.len()], "at {at}");
            at += 1;
        }
    }
    assert_eq!(at, 30 * MIB);
    sending.await.expect("no panic").expect("it was sent");
    drop(call.response);
    world.settle().await;
    world.end().await;
}

#[tokio::test]
async fn messages_go_both_ways_while_a_call_is_open() {
    let world = World::new(8 * MIB, 8 * MIB).await;
    let ask = Ask::new("chunks");
    let call = world.caller.call(&ask, Payment::Standing).await;
    let mut call = call.expect("a call");
    for len in [0, 1, 100, 5000, 65_536].into_iter().cycle().take(100) {
        call.request.send(body(len)).await.expect("open");
        let part = call.response.next().await.expect("no failure");
        assert_eq!(part.expect("an answer").bytes, body(len));
    }
    call.request.end().expect("open");
    assert!(call.response.next().await.expect("ended").is_none());
    drop(call.response);
    world.settle().await;
    world.end().await;
}

#[tokio::test]
async fn as_many_calls_of_a_handler_run_as_it_takes() {
    let (here, there) = (Side::new(16 * MIB), Side::new(16 * MIB));
    let (running, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let seen = Arc::clone(&most);
    // Of 30 calls, groups of three continue together.
    let together = Arc::new(Barrier::new(3));
    let worker = Worker::builder(&there.memory).unary("few", 3, move |body| {
        let (running, most) = (Arc::clone(&running), Arc::clone(&most));
        let together = Arc::clone(&together);
        async move {
            let now = running.fetch_add(1, Ordering::Relaxed) + 1;
            most.fetch_max(now, Ordering::Relaxed);
            together.wait().await;
            running.fetch_sub(1, Ordering::Relaxed);
            Ok(body)
        }
    });
    let server = worker.build().listen("127.0.0.1:0").await.expect("a port");
    let caller = Caller::connect(server.address(), &here.memory).await;
    let caller = caller.expect("it listens");
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..30 {
        let caller = caller.clone();
        calls.spawn(async move { caller.unary(&Ask::new("few"), body(1)).await });
    }
    let answers = tokio::time::timeout(PATIENCE, calls.join_all()).await;
    let answers = answers.expect("three calls go on together");
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(seen.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn what_a_handler_makes_of_a_payload_is_reserved_or_refused() {
    let side = Side::new(8 * MIB);
    let held = side.memory.reserve(6 * MIB).await.expect("there is room");
    assert_eq!(side.reserved(), 6 * MIB as u64);
    let memory = Arc::clone(&side.memory);
    let waiting = tokio::spawn(async move { memory.reserve(4 * MIB).await });
    until("it waits", || side.memory.waiting() == 1).await;
    drop(held);
    let next = waiting.await.expect("no panic").expect("there is room");
    assert_eq!(side.reserved(), 4 * MIB as u64);
    let never = side.memory.reserve(9 * MIB).await.expect_err("never");
    assert_eq!(never.status, Status::TooLarge);
    drop(next);
    side.comes_to(0).await;
}

/// Memory for a handler's work on a body is reserved together with the body: handlers that wait for memory with
/// a body in hand would wait for each other.
#[tokio::test]
async fn room_for_what_is_made_of_a_body_comes_with_it() {
    // Requests may hold 10.5 MiB: two bodies, each with four times its length beside it.
    let (here, there) = (Side::new(64 * MIB), Side::new(16 * MIB));
    let (held, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    // Of 40 calls, pairs continue together.
    let together = Arc::new(Barrier::new(2));
    let worker = Worker::builder(&there.memory).stream("expand", 1000, move |mut request| {
        let (held, most) = (Arc::clone(&held), Arc::clone(&most));
        let together = Arc::clone(&together);
        async move {
            let room = |len| 4 * usize::try_from(len).expect("small");
            let (body, mut room) = request.body.whole_with(room).await?;
            most.fetch_max(held.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            // More than was reserved is available too, from the share of responses.
            room.fit(4 * body.len() + MIB).await?;
            assert_eq!(room.bytes(), 4 * body.len() + MIB);
            together.wait().await;
            room.fit(10).await?;
            assert_eq!(room.bytes(), 10);
            held.fetch_sub(1, Ordering::Relaxed);
            request.response.send_whole(body).await
        }
    });
    let server = worker.build().listen("127.0.0.1:0").await.expect("a port");
    let caller = Caller::connect(server.address(), &here.memory).await;
    let caller = caller.expect("it listens");
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let (caller, body) = (caller.clone(), body(MIB));
        calls.spawn(async move { caller.unary(&Ask::new("expand"), body).await });
    }
    let answers = tokio::time::timeout(PATIENCE, calls.join_all()).await;
    let answers = answers.expect("two calls go on together");
    assert!(answers.iter().all(Result::is_ok), "{:?}", answers[0]);
    assert_eq!(seen.load(Ordering::Relaxed), 2);
    drop((caller, server));
    there.comes_to(0).await;
}

/// A small body is received before its memory is reserved: the handler does not wait for memory that other bodies hold.
#[tokio::test]
async fn room_beside_a_small_body_is_of_what_requests_leave() {
    let (here, there) = (Side::new(16 * MIB), Side::new(16 * MIB));
    let worker = Worker::builder(&there.memory).stream("expand", 1000, |mut request| async move {
        let (body, mut room) = request.body.whole_with(|_| MIB).await?;
        assert_eq!(room.bytes(), MIB);
        match room.fit(8 * MIB).await {
            Err(failure) => {
                request.response.fail(&failure);
                Ok(())
            }
            Ok(()) => request.response.send_whole(body).await,
        }
    });
    let server = worker.build().listen("127.0.0.1:0").await.expect("a port");
    let caller = Caller::connect(server.address(), &here.memory).await;
    let caller = caller.expect("it listens");
    let refused = caller.unary(&Ask::new("expand"), body(100)).await;
    let refused = refused.expect_err("bodies never leave so much");
    assert_eq!(refused.status, Status::TooLarge);
    assert!(
        refused.to_string().contains("at most 3670016 are allowed"),
        "{refused}"
    );
    drop((caller, server));
    there.comes_to(0).await;
}
