//! Storms of calls that are dropped at any moment, or whose time is over: the budgets come back whole.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use steppe_mem::Budget;
use steppe_plane::{Ask, Caller, Memory, Status, Worker, WorkerServer};

const PATIENCE: Duration = Duration::from_secs(60);
const CALLS: usize = 3_000;

struct Side {
    budget: Budget,
    memory: Arc<Memory>,
}

impl Side {
    fn new() -> Self {
        let budget = Budget::new(16 << 20);
        let memory = Arc::new(Memory::new(budget.root()));
        Self { budget, memory }
    }

    async fn comes_to(&self, bytes: u64) {
        let wait = async {
            while self.budget.root().reserved_bytes() != bytes {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        let held = self.budget.root().reserved_bytes();
        assert!(
            waited.is_ok(),
            "{held} bytes are held, {bytes} with nothing open"
        );
    }
}

async fn worker(side: &Side) -> WorkerServer {
    let worker = Worker::builder(&side.memory)
        .unary("echo", 1000, |body| async move { Ok(body) })
        .unary("late", 1000, |body| async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(body)
        })
        .build();
    worker.listen("127.0.0.1:0").await.expect("a port")
}

/// Both sides, connected, and what each holds while nothing is open.
async fn connected() -> (Side, Side, WorkerServer, Caller, u64) {
    let (here, there) = (Side::new(), Side::new());
    let server = worker(&there).await;
    let caller = Caller::connect(server.address(), &here.memory).await;
    let caller = caller.expect("it listens");
    let answer = caller.unary(&Ask::new("echo"), Bytes::new()).await;
    assert!(answer.expect("an answer").is_empty());
    let wait = async {
        while here.budget.root().reserved_bytes() != there.budget.root().reserved_bytes() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    assert!(waited.is_ok(), "both hold a connection");
    let idle = here.budget.root().reserved_bytes();
    (here, there, server, caller, idle)
}

/// Lengths on standing credit, at its bounds, and announced.
fn body(number: usize) -> Bytes {
    let lens = [0, 1, 5_000, 65_536, 65_537, 300_000];
    Bytes::from(vec![7; lens[number % lens.len()]])
}

#[tokio::test]
async fn calls_that_are_dropped_at_any_moment_leave_nothing() {
    let (here, there, server, caller, idle) = connected().await;
    let mut done = 0;
    for round in 0..CALLS / 30 {
        let mut calls: Vec<_> = (0..30)
            .map(|number| {
                let (caller, body) = (caller.clone(), body(round + number));
                let service = ["echo", "late", "none"][number % 3];
                Some(Box::pin(async move {
                    caller.unary(&Ask::new(service), body).await
                }))
            })
            .collect();
        // Each goes on for as many turns as its place says, and is dropped.
        for turn in 0..calls.len() {
            let mut cx = Context::from_waker(Waker::noop());
            for slot in &mut calls {
                let Some(call) = slot else { continue };
                if let Poll::Ready(result) = call.as_mut().poll(&mut cx) {
                    done += usize::from(result.is_ok());
                    *slot = None;
                }
            }
            calls[turn] = None;
            tokio::task::yield_now().await;
        }
    }
    println!("{done} of {CALLS} answered before they were dropped");
    here.comes_to(idle).await;
    there.comes_to(idle).await;
    let answer = caller.unary(&Ask::new("echo"), body(5)).await;
    assert_eq!(answer.expect("it goes on"), body(5));
    drop((caller, server));
    here.comes_to(0).await;
    there.comes_to(0).await;
}

#[tokio::test]
async fn calls_whose_time_is_over_leave_nothing() {
    let (here, there, server, caller, idle) = connected().await;
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..CALLS {
        let caller = caller.clone();
        calls.spawn(async move {
            let millis = u64::try_from(number % 20).expect("small");
            let ask = Ask {
                deadline: Some(Duration::from_millis(millis)),
                ..Ask::new("late")
            };
            caller.unary(&ask, body(number)).await.map(|_| ())
        });
    }
    let mut late = 0;
    for result in calls.join_all().await {
        let Err(failure) = result else { continue };
        let is_typed = matches!(
            failure.status,
            Status::DeadlineExceeded | Status::Overloaded
        );
        assert!(is_typed, "{failure}");
        late += usize::from(failure.status == Status::DeadlineExceeded);
    }
    println!("{late} of {CALLS} were over");
    assert!(late > 0);
    here.comes_to(idle).await;
    there.comes_to(idle).await;
    drop((caller, server));
    here.comes_to(0).await;
    there.comes_to(0).await;
}
