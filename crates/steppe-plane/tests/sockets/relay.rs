//! Calls through a relay, over real sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use steppe_mem::Budget;
use steppe_plane::frame::{Payment, Queueing};
use steppe_plane::{
    Ask, Caller, DialedWorker, Failure, Memory, Registered, Relay, RelayConfig, Status, Worker,
    WorkerBuilder, WorkerStatus,
};
use steppe_testkit::Port;
use tokio::sync::{Barrier, Semaphore, watch};

use crate::listening::listen;

pub const MIB: u64 = 1 << 20;
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A relay that listens, and its budget.
pub struct Site {
    pub relay: Arc<Relay>,
    pub address: SocketAddr,
    pub budget: Budget,
}

pub fn config() -> RelayConfig {
    RelayConfig {
        queue_bytes: 16 * MIB,
        queue_wait: Duration::from_secs(5),
        payload_bytes_max: 256 * MIB,
    }
}

pub async fn site(budget: u64, config: RelayConfig) -> Site {
    let budget = Budget::new(budget);
    let memory = memory(&budget);
    let relay = Relay::new(&memory, config);
    let address = listen(&relay).await;
    Site {
        relay,
        address,
        budget,
    }
}

pub fn memory(budget: &Budget) -> Arc<Memory> {
    Arc::new(Memory::new(&budget.root().child("plane", None)))
}

impl Site {
    pub async fn worker(
        &self,
        budget: u64,
        build: impl Fn(WorkerBuilder) -> WorkerBuilder,
    ) -> (Registered, Budget) {
        let budget = Budget::new(budget);
        let worker = build(Worker::builder(&memory(&budget))).build();
        let registered = worker
            .register(self.address.to_string())
            .expect("services that can be named");
        registered.reaches(WorkerStatus::Serving).await;
        (registered, budget)
    }

    pub async fn caller(&self, budget: u64) -> (Caller, Budget) {
        let budget = Budget::new(budget);
        let caller = Caller::connect(self.address, &memory(&budget)).await;
        (caller.expect("a relay that listens"), budget)
    }

    /// Waits until the relay knows `count` workers of `service`.
    pub async fn has(&self, service: &str, count: usize) {
        until(|| {
            let report = self.relay.report();
            let found = report.services.iter().find(|it| it.name == service);
            found.map_or(0, |it| it.workers.len()) == count
        })
        .await;
    }
}

pub async fn until(mut condition: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never came");
}

/// Bytes of a budget that bodies hold.
pub fn bodies(budget: &Budget) -> u64 {
    let report = budget.report();
    let plane = report
        .children
        .iter()
        .find(|it| it.name == "plane")
        .expect("it is there");
    let bodies = plane.children.iter().filter(|it| it.name != "connections");
    bodies.map(|it| it.reserved_bytes).sum()
}

fn echo(builder: WorkerBuilder) -> WorkerBuilder {
    builder.unary("echo", 10_000, |body| async move { Ok(body) })
}

pub fn payload(len: usize) -> Bytes {
    (0..len)
        .map(|at| (at % 251).to_le_bytes()[0])
        .collect::<Vec<u8>>()
        .into()
}

#[tokio::test]
async fn bodies_of_all_sizes_come_back_as_they_went() {
    let site = site(64 * MIB, config()).await;
    let (_worker, _) = site.worker(64 * MIB, echo).await;
    site.has("echo", 1).await;
    let (caller, _) = site.caller(64 * MIB).await;
    for len in [0, 1, 1_000, 65_536, 65_537, 1_000_000, 9_000_000] {
        let body = payload(len);
        let answer = caller
            .unary(&Ask::new("echo"), body.clone())
            .await
            .expect("it ends");
        assert!(answer == body, "{len}");
    }
    until(|| bodies(&site.budget) == 0).await;
}

#[tokio::test]
async fn a_stream_larger_than_every_budget_goes_through() {
    let site = site(8 * MIB, config()).await;
    let (_worker, worker_budget) = site
        .worker(8 * MIB, |builder| {
            builder.stream("pass", 10, |mut request| async move {
                request.response.begin(Payment::Granted).await?;
                while let Some(part) = request.body.next().await? {
                    request.response.send(part.bytes).await?;
                }
                request.response.end()
            })
        })
        .await;
    site.has("pass", 1).await;
    let (caller, caller_budget) = site.caller(8 * MIB).await;
    let call = caller
        .call(&Ask::new("pass"), Payment::Granted)
        .await
        .expect("it is there");
    let (mut request, mut response) = (call.request, call.response);
    let sends = tokio::spawn(async move {
        let part = payload(100_000);
        for _ in 0..400 {
            request.send(part.clone()).await?;
        }
        request.end()
    });
    let mut count = 0;
    while let Some(part) = response.next().await.expect("a part") {
        count += part.bytes.len();
        assert!(site.budget.root().reserved_bytes() <= 8 * MIB);
    }
    sends.await.expect("an answer").expect("an answer");
    assert_eq!(count, 40_000_000);
    drop(response);
    for budget in [&site.budget, &worker_budget, &caller_budget] {
        until(|| bodies(budget) == 0).await;
    }
}

#[tokio::test]
async fn a_thousand_bodies_at_once_pass_within_the_budget() {
    let site = site(64 * MIB, config()).await;
    let (_worker, _) = site
        .worker(64 * MIB, |builder| {
            builder.unary("hold", 10_000, |body: Bytes| async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok(body.slice(..10))
            })
        })
        .await;
    site.has("hold", 1).await;
    let (caller, _) = site.caller(512 * MIB).await;
    let body = payload(1_000_000);
    let calls: Vec<_> = (0..1_000)
        .map(|_| {
            let (caller, body) = (caller.clone(), body.clone());
            tokio::spawn(async move { caller.unary(&Ask::new("hold"), body).await })
        })
        .collect();
    let (mut answered, mut refused) = (0, 0);
    for call in calls {
        match call.await.expect("it ends") {
            Ok(answer) => {
                assert_eq!(answer.len(), 10);
                answered += 1;
            }
            Err(Failure {
                status: Status::Overloaded,
                ..
            }) => refused += 1,
            Err(failure) => panic!("{failure:?}"),
        }
    }
    assert_eq!(answered + refused, 1_000);
    assert!(answered > 100, "{answered} answered");
    until(|| bodies(&site.budget) == 0).await;
    let report = site.relay.report();
    assert_eq!(report.services[0].workers[0].calls, 0);
    assert_eq!((report.queue.calls, report.queue.bytes), (0, 0));
}

#[tokio::test]
async fn what_nobody_serves_is_unknown_and_what_nobody_serves_now_waits() {
    let short = RelayConfig {
        queue_wait: Duration::from_millis(50),
        ..config()
    };
    let site = site(64 * MIB, short).await;
    let (caller, _) = site.caller(64 * MIB).await;
    let status = |result: Result<Bytes, Failure>| result.expect_err("it is refused").status;
    let unknown = caller.unary(&Ask::new("echo"), Bytes::new()).await;
    assert_eq!(status(unknown), Status::UnknownService);
    let (worker, _) = site.worker(64 * MIB, echo).await;
    site.has("echo", 1).await;
    assert!(caller.unary(&Ask::new("echo"), Bytes::new()).await.is_ok());
    drop(worker);
    site.has("echo", 0).await;
    let gone = caller.unary(&Ask::new("echo"), Bytes::new()).await;
    assert_eq!(status(gone), Status::Unavailable);
    let impatient = Ask {
        queueing: Queueing::Never,
        ..Ask::new("echo")
    };
    let refused = caller.unary(&impatient, Bytes::new()).await;
    assert_eq!(status(refused), Status::Overloaded);
    // A waiting call is served by the worker that connects.
    site.relay.set_config(config());
    let waits = {
        let caller = caller.clone();
        tokio::spawn(async move { caller.unary(&Ask::new("echo"), payload(5)).await })
    };
    until(|| site.relay.report().queue.calls == 1).await;
    let _worker = site.worker(64 * MIB, echo).await;
    assert_eq!(
        waits.await.expect("an answer").expect("an answer"),
        payload(5)
    );
}

/// Without a queue, the worker decides at once: calls with room pass, the others are refused.
#[tokio::test]
async fn who_may_not_wait_is_answered_or_refused_at_once() {
    let now = RelayConfig {
        queue_wait: Duration::ZERO,
        ..config()
    };
    let site = site(64 * MIB, now).await;
    let (done, is_done) = watch::channel(false);
    let (_worker, _) = site
        .worker(16 * MIB, |builder| {
            let is_done = is_done.clone();
            builder.unary("hold", 10_000, move |body: Bytes| {
                let mut is_done = is_done.clone();
                async move {
                    is_done.wait_for(|done| *done).await.expect("it is told");
                    Ok(body)
                }
            })
        })
        .await;
    site.has("hold", 1).await;
    let (caller, _) = site.caller(64 * MIB).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..30 {
        let caller = caller.clone();
        calls.spawn(async move { caller.unary(&Ask::new("hold"), payload(1_000_000)).await });
    }
    // Requests may hold 10.5 MiB at the worker.
    for _ in 0..20 {
        let refused = calls.join_next().await.expect("open").expect("no panic");
        assert_eq!(refused.expect_err("no room").status, Status::Overloaded);
    }
    done.send_replace(true);
    let answers = calls.join_all().await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 10);
    until(|| bodies(&site.budget) == 0).await;
}

#[tokio::test]
async fn a_body_larger_than_is_passed_on_is_refused_with_the_limit() {
    let small = RelayConfig {
        payload_bytes_max: 1_000,
        ..config()
    };
    let site = site(64 * MIB, small).await;
    let (_worker, _) = site.worker(64 * MIB, echo).await;
    site.has("echo", 1).await;
    let (caller, _) = site.caller(64 * MIB).await;
    assert!(
        caller
            .unary(&Ask::new("echo"), payload(1_000))
            .await
            .is_ok()
    );
    let failure = caller
        .unary(&Ask::new("echo"), payload(1_001))
        .await
        .expect_err("it is refused");
    assert_eq!(failure.status, Status::TooLarge);
    assert!(failure.detail.contains("1000"), "{failure:?}");
    let call = caller
        .call(&Ask::new("echo"), Payment::Standing)
        .await
        .expect("it is there");
    let (mut request, mut response) = (call.request, call.response);
    for _ in 0..2 {
        let _ = request.send(payload(600)).await;
    }
    assert_eq!(
        response.whole().await.expect_err("it is refused").status,
        Status::TooLarge
    );
}

#[tokio::test]
async fn workers_take_no_more_calls_than_they_said() {
    let site = site(64 * MIB, config()).await;
    let now = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    // Of 50 calls, pairs continue together.
    let together = Arc::new(Barrier::new(2));
    let (_worker, _) = site
        .worker(64 * MIB, |builder| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            let together = Arc::clone(&together);
            builder.unary("two", 2, move |body| {
                let (now, most) = (Arc::clone(&now), Arc::clone(&most));
                let together = Arc::clone(&together);
                async move {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    together.wait().await;
                    now.fetch_sub(1, Ordering::SeqCst);
                    Ok(body)
                }
            })
        })
        .await;
    site.has("two", 1).await;
    let (caller, _) = site.caller(64 * MIB).await;
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let caller = caller.clone();
            tokio::spawn(async move { caller.unary(&Ask::new("two"), payload(9)).await })
        })
        .collect();
    let all = async {
        for call in calls {
            call.await.expect("an answer").expect("an answer");
        }
    };
    let all = tokio::time::timeout(PATIENCE, all).await;
    assert!(all.is_ok(), "two calls never go on together");
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_worker_that_dies_ends_its_calls_and_the_next_go_elsewhere() {
    let site = site(64 * MIB, config()).await;
    let (first, _) = site
        .worker(64 * MIB, |builder| {
            builder.unary("echo", 10, |_| async move {
                std::future::pending::<()>().await;
                Ok(Bytes::new())
            })
        })
        .await;
    site.has("echo", 1).await;
    let (caller, _) = site.caller(64 * MIB).await;
    let hangs = {
        let caller = caller.clone();
        tokio::spawn(async move { caller.unary(&Ask::new("echo"), payload(100_000)).await })
    };
    until(|| {
        let report = site.relay.report();
        report.services[0]
            .workers
            .first()
            .is_some_and(|it| it.calls == 1)
    })
    .await;
    let (_second, _) = site.worker(64 * MIB, echo).await;
    site.has("echo", 2).await;
    // The handler has its body by then, or not: in both cases the call ends with a status.
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(first);
    let failure = hangs.await.expect("it ends");
    assert!(
        failure
            .as_ref()
            .is_err_and(|it| it.status == Status::Unavailable)
            || failure.is_ok(),
        "{failure:?}"
    );
    site.has("echo", 1).await;
    for _ in 0..20 {
        assert!(caller.unary(&Ask::new("echo"), payload(3)).await.is_ok());
    }
    until(|| bodies(&site.budget) == 0).await;
}

#[tokio::test]
async fn a_caller_that_leaves_cancels_the_handler() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let site = site(64 * MIB, config()).await;
    let began = Arc::new(AtomicUsize::new(0));
    let dropped = Arc::new(AtomicUsize::new(0));
    let (_worker, _) = site
        .worker(64 * MIB, |builder| {
            let (began, dropped) = (Arc::clone(&began), Arc::clone(&dropped));
            builder.unary("hang", 100, move |_| {
                let guard = Dropped(Arc::clone(&dropped));
                began.fetch_add(1, Ordering::SeqCst);
                async move {
                    let _guard = guard;
                    std::future::pending::<()>().await;
                    Ok(Bytes::new())
                }
            })
        })
        .await;
    site.has("hang", 1).await;
    let (caller, _) = site.caller(64 * MIB).await;
    let calls: Vec<_> = (0..20)
        .map(|at| {
            let caller = caller.clone();
            tokio::spawn(async move { caller.unary(&Ask::new("hang"), payload(at * 10_000)).await })
        })
        .collect();
    until(|| began.load(Ordering::SeqCst) == 20).await;
    calls.iter().for_each(|call| call.abort());
    until(|| dropped.load(Ordering::SeqCst) == 20).await;
    let late = Ask {
        deadline: Some(Duration::from_millis(30)),
        ..Ask::new("hang")
    };
    let failure = caller
        .unary(&late, payload(70_000))
        .await
        .expect_err("it is refused");
    assert_eq!(failure.status, Status::DeadlineExceeded);
    until(|| dropped.load(Ordering::SeqCst) == 21).await;
    until(|| bodies(&site.budget) == 0).await;
}

/// Workers that listen; the relay has a list of the services that they may offer.
#[tokio::test]
async fn workers_are_dialed_and_left() {
    let site = site(64 * MIB, config()).await;
    let gate = Arc::new(Semaphore::new(0));
    let opens = Arc::clone(&gate);
    let worker = echo(Worker::builder(&memory(&Budget::new(64 * MIB))))
        .unary("gated", 10, move |body| {
            let gate = Arc::clone(&opens);
            async move {
                gate.acquire().await.expect("never closed").forget();
                Ok(body)
            }
        })
        .unary("other", 10, |body| async move { Ok(body) })
        .build();
    let port = Port::free();
    let server = worker.listen(port.address()).await.expect("it is free");
    let dialed = DialedWorker {
        address: server.address().to_string(),
        services: vec!["echo".to_owned(), "gated".to_owned()],
    };
    site.relay.set_workers(std::slice::from_ref(&dialed), None);
    site.has("gated", 1).await;
    let (caller, _) = site.caller(64 * MIB).await;
    let answer = caller.unary(&Ask::new("echo"), payload(100_000)).await;
    assert!(answer.expect("an answer") == payload(100_000));
    let failure = caller.unary(&Ask::new("other"), payload(1)).await;
    let failure = failure.expect_err("it is not for this relay");
    assert_eq!(failure.status, Status::UnknownService);
    // The open call is finished; no further call is sent.
    let open = {
        let caller = caller.clone();
        tokio::spawn(async move { caller.unary(&Ask::new("gated"), payload(9)).await })
    };
    until(|| {
        let report = site.relay.report();
        let mut workers = report.services.iter().flat_map(|it| &it.workers);
        workers.any(|it| it.calls == 1)
    })
    .await;
    site.relay.set_workers(&[], None);
    site.has("gated", 0).await;
    gate.add_permits(1);
    assert!(open.await.expect("it ends").is_ok());
    // The worker is dialed again, also after a loss.
    site.relay.set_workers(std::slice::from_ref(&dialed), None);
    site.has("echo", 1).await;
    server.drain(Duration::from_secs(5)).await;
    site.has("echo", 0).await;
    let server = worker
        .listen(port.address())
        .await
        .expect("its port is free again");
    site.has("echo", 1).await;
    drop(server);
}

#[tokio::test]
async fn a_drain_finishes_what_waits() {
    let site = site(64 * MIB, config()).await;
    let gate = Arc::new(Semaphore::new(0));
    let (_worker, _) = site
        .worker(64 * MIB, |builder| {
            let gate = Arc::clone(&gate);
            builder.unary("one", 1, move |body| {
                let gate = Arc::clone(&gate);
                async move {
                    gate.acquire().await.expect("never closed").forget();
                    Ok(body)
                }
            })
        })
        .await;
    site.has("one", 1).await;
    let (caller, _) = site.caller(64 * MIB).await;
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let caller = caller.clone();
            tokio::spawn(async move { caller.unary(&Ask::new("one"), payload(100_000)).await })
        })
        .collect();
    until(|| site.relay.report().queue.calls == 2).await;
    site.relay.drain();
    gate.add_permits(3);
    for call in calls {
        assert!(call.await.expect("it ends").is_ok());
    }
    site.relay.drained().await;
}

#[tokio::test]
async fn a_drain_finishes_what_is_open() {
    let site = site(64 * MIB, config()).await;
    let gate = Arc::new(Semaphore::new(0));
    let (_worker, _) = site
        .worker(64 * MIB, |builder| {
            let gate = Arc::clone(&gate);
            builder.unary("slow", 10, move |body| {
                let gate = Arc::clone(&gate);
                async move {
                    let _passes = gate.acquire().await;
                    Ok(body)
                }
            })
        })
        .await;
    site.has("slow", 1).await;
    let (caller, _) = site.caller(64 * MIB).await;
    let open = {
        let caller = caller.clone();
        tokio::spawn(async move { caller.unary(&Ask::new("slow"), payload(100_000)).await })
    };
    until(|| {
        site.relay.report().services[0]
            .workers
            .first()
            .is_some_and(|it| it.calls == 1)
    })
    .await;
    site.relay.drain();
    gate.add_permits(1);
    assert!(open.await.expect("it ends").is_ok());
    site.relay.drained().await;
    let failure = caller
        .unary(&Ask::new("slow"), payload(1))
        .await
        .expect_err("it is refused");
    assert_eq!(failure.status, Status::Unavailable);
}
