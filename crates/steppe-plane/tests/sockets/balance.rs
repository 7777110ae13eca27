//! Calls over several workers: the choice of a worker.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use steppe_mem::Budget;
use steppe_plane::{
    Ask, Balancer, Choice, Failure, Memory, Processing, Status, Target, Worker, WorkerServer,
};

fn memory(budget: &Budget) -> Arc<Memory> {
    Arc::new(Memory::new(budget.root()))
}

/// A worker that answers with its name.
async fn worker(name: &'static str) -> WorkerServer {
    let worker = Worker::builder(&memory(&Budget::new(64 << 20)))
        .unary("name", 1000, move |_| async move {
            Ok(Bytes::from_static(name.as_bytes()))
        })
        .unary("hold", 1000, |body| async move {
            std::future::pending::<()>().await;
            Ok(body)
        })
        .build();
    worker.listen("127.0.0.1:0").await.expect("a port")
}

async fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never came");
}

async fn asked(balancer: &Balancer, choice: Choice<'_>, times: usize) -> HashMap<Bytes, usize> {
    let mut counts = HashMap::new();
    for _ in 0..times {
        let name = balancer
            .unary(&Ask::new("name"), choice, Bytes::new())
            .await;
        *counts.entry(name.expect("an answer")).or_default() += 1;
    }
    counts
}

fn of(servers: &[WorkerServer]) -> Vec<Target> {
    servers
        .iter()
        .map(|it| Target::from(it.address()))
        .collect()
}

#[tokio::test]
async fn calls_go_to_all_or_to_the_one_of_their_key() {
    let servers = [worker("a").await, worker("b").await, worker("c").await];
    let budget = Budget::new(64 << 20);
    let balancer = Balancer::new(&memory(&budget), of(&servers));
    until(|| balancer.connected() == 3).await;
    let counts = asked(&balancer, Choice::Least, 300).await;
    assert_eq!(counts.len(), 3, "{counts:?}");
    let mut chosen = HashMap::new();
    for key in 0..100_u8 {
        let counts = asked(&balancer, Choice::Key(&[key]), 5).await;
        assert_eq!(counts.len(), 1, "{counts:?}");
        chosen.insert(key, counts.into_keys().next().expect("one"));
    }
    assert!(
        ["a", "b", "c"]
            .iter()
            .all(|name| chosen.values().any(|it| it == name))
    );
    // A worker that leaves moves its own keys only.
    balancer.set_targets(of(&servers[1..]));
    assert_eq!(balancer.connected(), 2);
    for (key, before) in chosen {
        let counts = asked(&balancer, Choice::Key(&[key]), 1).await;
        assert!(!counts.contains_key(&b"a"[..]));
        assert!(before == "a" || counts.contains_key(&before), "{key}");
    }
}

/// The body of an open call counts as bytes in flight at its worker.
#[tokio::test]
async fn the_one_with_fewer_bytes_in_flight_is_asked() {
    let servers = [worker("a").await, worker("b").await];
    let budget = Budget::new(64 << 20);
    let balancer = Balancer::new(&memory(&budget), of(&servers[..1]));
    until(|| balancer.connected() == 1).await;
    let idle = budget.root().reserved_bytes();
    let held = {
        let balancer = balancer.clone();
        let body = Bytes::from(vec![7; 500_000]);
        tokio::spawn(async move { balancer.unary(&Ask::new("hold"), Choice::Least, body).await })
    };
    // The body is charged on this side too, while it may be sent again.
    until(|| budget.root().reserved_bytes() >= idle + 500_000).await;
    balancer.set_targets(of(&servers));
    until(|| balancer.connected() == 2).await;
    let counts = asked(&balancer, Choice::Least, 50).await;
    assert_eq!(counts, HashMap::from([(Bytes::from_static(b"b"), 50)]));
    held.abort();
}

#[tokio::test]
async fn what_began_is_asked_again_only_by_its_key() {
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let failing = Worker::builder(&memory(&Budget::new(64 << 20)))
        .unary("late", 1000, move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            async { Err(Failure::new(Status::Unavailable, "it broke")) }
        })
        .build();
    let server = failing.listen("127.0.0.1:0").await.expect("a port");
    let budget = Budget::new(64 << 20);
    let balancer = Balancer::new(&memory(&budget), [Target::from(server.address())]);
    until(|| balancer.connected() == 1).await;
    let failure = balancer
        .unary(&Ask::new("late"), Choice::Least, Bytes::new())
        .await;
    let failure = failure.expect_err("it fails");
    assert_eq!(
        (failure.status, failure.processing),
        (Status::Unavailable, Processing::Begun)
    );
    assert_eq!(runs.swap(0, Ordering::Relaxed), 1);
    let ask = Ask {
        idempotency_key: Some(b"key"),
        ..Ask::new("late")
    };
    let failure = balancer.unary(&ask, Choice::Least, Bytes::new()).await;
    assert_eq!(failure.expect_err("it fails").status, Status::Unavailable);
    assert_eq!(
        runs.load(Ordering::Relaxed),
        steppe_plane::limits::CALL_TRIES_MAX
    );
}

#[tokio::test]
async fn whoever_is_not_there_is_waited_for_until_the_deadline() {
    let budget = Budget::new(64 << 20);
    // Port 1, of TCP's multiplexer (RFC 1078): no process listens there.
    let balancer = Balancer::new(&memory(&budget), [Target::from("127.0.0.1:1")]);
    let ask = Ask {
        deadline: Some(Duration::from_millis(50)),
        ..Ask::new("name")
    };
    let failure = balancer.unary(&ask, Choice::Least, Bytes::new()).await;
    let failure = failure.expect_err("nobody is there");
    assert!(matches!(
        failure.status,
        Status::DeadlineExceeded | Status::Unavailable
    ));
    assert_eq!(failure.processing, Processing::None);
    let server = worker("a").await;
    let late = {
        let balancer = balancer.clone();
        tokio::spawn(async move {
            balancer
                .unary(&Ask::new("name"), Choice::Least, Bytes::new())
                .await
        })
    };
    balancer.set_targets([Target::from(server.address())]);
    assert_eq!(late.await.expect("no panic").expect("an answer"), "a");
}
