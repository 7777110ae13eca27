//! Workers that refuse calls as overloaded, beside others that have room.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use steppe_mem::Budget;
use steppe_plane::frame::Queueing;
use steppe_plane::{
    Ask, Balancer, Choice, Failure, Processing, RelayConfig, Request, Status, Target, Worker,
    WorkerBuilder, WorkerServer,
};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::relay::{MIB, bodies, config, memory, payload, site, until};

/// Counter of the calls that have begun at a worker, and the signal for all of them to end.
#[derive(Clone)]
struct Holding {
    begun: Arc<AtomicUsize>,
    is_done: watch::Receiver<bool>,
}

impl Holding {
    fn new(is_done: &watch::Receiver<bool>) -> Self {
        Self {
            begun: Arc::default(),
            is_done: is_done.clone(),
        }
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }

    /// Adds the service `hold`, which receives a request completely and holds it.
    fn serve(&self, builder: WorkerBuilder) -> WorkerBuilder {
        let held = self.clone();
        builder.stream("hold", 10_000, move |request| held.clone().hold(request))
    }

    async fn hold(mut self, mut request: Request) -> Result<(), Failure> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let body = request.body.whole().await?;
        self.is_done
            .wait_for(|done| *done)
            .await
            .expect("it is told");
        request.response.send_whole(body.slice(..10)).await
    }
}

/// Workers take no calls that wait: one with a budget of 8 MiB has room for five bodies, the other for all.
#[tokio::test]
async fn a_worker_that_refuses_does_not_draw_the_calls() {
    let now = RelayConfig {
        queue_wait: Duration::ZERO,
        ..config()
    };
    let site = site(512 * MIB, now).await;
    let (done, is_done) = watch::channel(false);
    let (small, large) = (Holding::new(&is_done), Holding::new(&is_done));
    let (_small, _) = site.worker(8 * MIB, |builder| small.serve(builder)).await;
    let (_large, _) = site.worker(512 * MIB, |builder| large.serve(builder)).await;
    site.has("hold", 2).await;
    let (caller, _) = site.caller(512 * MIB).await;
    let mut calls = JoinSet::new();
    let mut add = |count: usize| {
        for _ in 0..count {
            let caller = caller.clone();
            calls.spawn(async move { caller.unary(&Ask::new("hold"), payload(1_000_000)).await });
        }
    };
    add(100);
    until(|| small.begun() + large.begun() >= 100 && large.begun() >= 95).await;
    // Single calls: the small worker has fewer bytes in flight, and still does not get every call.
    let before = small.begun();
    for count in 1..=100 {
        add(1);
        until(|| large.begun() >= 95 + count).await;
    }
    let asked = small.begun() - before;
    assert!(
        asked < 50,
        "{asked} of 100 calls went to the one that refuses"
    );
    done.send_replace(true);
    let answers = calls.join_all().await;
    let refused: Vec<_> = answers.iter().filter(|answer| answer.is_err()).collect();
    assert!(
        refused.is_empty(),
        "{} refused: {:?}",
        refused.len(),
        refused[0]
    );
    until(|| bodies(&site.budget) == 0).await;
}

/// A body that exceeds the budget of one worker goes to the other. If no worker takes it, the caller gets the reason.
#[tokio::test]
async fn a_body_that_one_worker_never_takes_goes_to_another() {
    let site = site(64 * MIB, config()).await;
    let (_done, is_done) = watch::channel(true);
    let held = Holding::new(&is_done);
    let (small, _) = site.worker(8 * MIB, |builder| held.serve(builder)).await;
    site.has("hold", 1).await;
    let (caller, _) = site.caller(64 * MIB).await;
    let call = async || caller.unary(&Ask::new("hold"), payload(7_000_000)).await;
    let refused = call().await.expect_err("nobody takes it");
    assert_eq!(refused.status, Status::TooLarge, "{refused}");
    let (_large, _) = site.worker(64 * MIB, |builder| held.serve(builder)).await;
    site.has("hold", 2).await;
    for _ in 0..4 {
        let answer = call().await;
        assert_eq!(answer.map(|answer| answer.len()), Ok(10));
    }
    drop(small);
}

/// A call that a worker has begun to process is not sent to another, for any status.
#[tokio::test]
async fn a_call_that_was_begun_is_not_asked_elsewhere() {
    let site = site(64 * MIB, config()).await;
    let begun = Arc::new(AtomicUsize::new(0));
    let full = |builder: WorkerBuilder| {
        let begun = Arc::clone(&begun);
        builder.stream("full", 10, move |_| {
            begun.fetch_add(1, Ordering::Relaxed);
            async { Err(Failure::new(Status::Overloaded, "after some work")) }
        })
    };
    let _one = site.worker(64 * MIB, full).await;
    let _other = site.worker(64 * MIB, full).await;
    site.has("full", 2).await;
    let (caller, _) = site.caller(64 * MIB).await;
    for count in 1..=4 {
        let refused = caller.unary(&Ask::new("full"), payload(1_000_000)).await;
        let refused = refused.expect_err("it is full");
        assert_eq!(refused.status, Status::Overloaded, "{refused}");
        assert_eq!(begun.load(Ordering::Relaxed), count);
    }
}

async fn listening(budget: u64, held: &Holding) -> WorkerServer {
    let worker = held
        .serve(Worker::builder(&memory(&Budget::new(budget))))
        .build();
    worker.listen("127.0.0.1:0").await.expect("a free port")
}

/// Like the relay, a balancer with a connection to both workers.
#[tokio::test]
async fn a_balancer_does_not_prefer_the_worker_that_refuses() {
    let (done, is_done) = watch::channel(false);
    let (small, large) = (Holding::new(&is_done), Holding::new(&is_done));
    let servers = [
        listening(8 * MIB, &small).await,
        listening(512 * MIB, &large).await,
    ];
    let targets = servers.iter().map(|server| Target::from(server.address()));
    let balancer = Balancer::new(&memory(&Budget::new(512 * MIB)), targets);
    until(|| balancer.connected() == 2).await;
    let mut calls = JoinSet::new();
    for count in 1..=100 {
        let balancer = balancer.clone();
        calls.spawn(async move {
            let ask = Ask {
                queueing: Queueing::Never,
                ..Ask::new("hold")
            };
            balancer
                .unary(&ask, Choice::Least, payload(1_000_000))
                .await
        });
        until(|| large.begun() + 5 >= count).await;
    }
    assert!(small.begun() < 50, "{} of 100 calls", small.begun());
    done.send_replace(true);
    let answers = calls.join_all().await;
    let refused = answers.iter().filter(|answer| answer.is_err()).count();
    assert_eq!(refused, 0);
}

/// A response without room at its caller was processed: its request is not sent again without a key.
#[tokio::test]
async fn a_response_without_room_is_no_refusal() {
    let answers = Arc::new(AtomicUsize::new(0));
    let large = |builder: WorkerBuilder| {
        let answers = Arc::clone(&answers);
        builder.unary("large", 10, move |_| {
            answers.fetch_add(1, Ordering::Relaxed);
            async { Ok(payload(8_000_000)) }
        })
    };
    let mut servers = Vec::new();
    for _ in 0..2 {
        let worker = large(Worker::builder(&memory(&Budget::new(64 * MIB)))).build();
        servers.push(worker.listen("127.0.0.1:0").await.expect("a free port"));
    }
    let targets = servers.iter().map(|server| Target::from(server.address()));
    let balancer = Balancer::new(&memory(&Budget::new(8 * MIB)), targets);
    until(|| balancer.connected() == 2).await;
    let failed = balancer
        .unary(&Ask::new("large"), Choice::Least, Bytes::new())
        .await;
    let failed = failed
        .map(|answer| answer.len())
        .expect_err("larger than it holds");
    assert_eq!(failed.status, Status::TooLarge, "{failed}");
    assert_eq!(answers.load(Ordering::Relaxed), 1);
}

/// A worker that fails a call as unprocessed, and stays connected, stays registered: it may front other workers.
#[tokio::test]
async fn a_worker_that_passes_a_call_by_stays() {
    let site = site(64 * MIB, config()).await;
    let away = |builder: WorkerBuilder| {
        builder.stream("front", 10, |_| async {
            let mut failure = Failure::new(Status::Unavailable, "nobody behind it");
            failure.processing = Processing::None;
            Err(failure)
        })
    };
    let (_away, _) = site.worker(64 * MIB, away).await;
    site.has("front", 1).await;
    let (caller, _) = site.caller(64 * MIB).await;
    let call = async || caller.unary(&Ask::new("front"), payload(1_000_000)).await;
    let refused = call().await.expect_err("nobody does it");
    assert_eq!(refused.status, Status::Unavailable, "{refused}");
    let here = |builder: WorkerBuilder| builder.unary("front", 10, |_| async { Ok(Bytes::new()) });
    let (_here, _) = site.worker(64 * MIB, here).await;
    site.has("front", 2).await;
    for _ in 0..4 {
        assert!(call().await.is_ok());
    }
    site.has("front", 2).await;
}
