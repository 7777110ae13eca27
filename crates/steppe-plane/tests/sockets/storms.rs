//! Storms of calls that are dropped at any moment, or whose deadline passes: budgets return to their initial state.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use steppe_mem::Budget;
use steppe_plane::limits::{ACCESS_BYTES, CONNECTION_BYTES, CONNECTION_CREDIT, seat_bytes};
use steppe_plane::{Ask, Caller, Memory, Relay, RelayConfig, Status, Worker, WorkerStatus};
use tokio::net::TcpListener;

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

fn worker(side: &Side) -> Worker {
    Worker::builder(&side.memory)
        .unary("echo", 1000, |body| async move { Ok(body) })
        .unary("late", 1000, |body| async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(body)
        })
        .build()
}

/// A caller and a worker, connected, with the bytes that each side holds without calls.
struct World {
    sides: Vec<(Side, u64)>,
    caller: Caller,
    /// Keeps the worker serving until it is dropped.
    serving: Box<dyn Any>,
}

impl World {
    async fn direct() -> Self {
        let (here, there) = (Side::new(), Side::new());
        let server = worker(&there).listen("127.0.0.1:0").await.expect("a port");
        let caller = Caller::connect(server.address(), &here.memory).await;
        let caller = caller.expect("it listens");
        let idle = first(&caller, &here).await;
        Self {
            sides: vec![(here, idle), (there, idle)],
            caller,
            serving: Box::new(server),
        }
    }

    async fn by_relay() -> Self {
        let [here, between, there] = [(); 3].map(|()| Side::new());
        let config = RelayConfig {
            queue_bytes: 1 << 20,
            queue_wait: Duration::from_secs(5),
            payload_bytes_max: 1 << 20,
        };
        let relay = Relay::new(&between.memory, config);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("a port").to_string();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(relay.serve(socket).expect("room for a connection"));
            }
        });
        let registered = worker(&there).register(address.as_str()).expect("names");
        registered.reaches(WorkerStatus::Serving).await;
        let caller = Caller::connect(address, &here.memory).await;
        let caller = caller.expect("it listens");
        let idle = first(&caller, &here).await;
        // Two connections, and the worker's two services.
        let of_relay = 2 * (idle + ACCESS_BYTES as u64) + 2 * seat_bytes(4) as u64;
        Self {
            sides: vec![(here, idle), (between, of_relay), (there, idle)],
            caller,
            serving: Box::new(registered),
        }
    }

    async fn settles(&self) {
        for (side, idle) in &self.sides {
            side.comes_to(*idle).await;
        }
    }

    async fn end(self) {
        drop((self.caller, self.serving));
        for (side, _) in &self.sides {
            side.comes_to(0).await;
        }
    }
}

/// Bytes of a side's connection, after a first call.
async fn first(caller: &Caller, side: &Side) -> u64 {
    let answer = caller.unary(&Ask::new("echo"), Bytes::new()).await;
    assert!(answer.expect("an answer").is_empty());
    let connection = (CONNECTION_CREDIT as usize + CONNECTION_BYTES) as u64;
    side.comes_to(connection).await;
    connection
}

/// Bodies with lengths on standing credit, at its bounds, and announced.
fn body(number: usize) -> Bytes {
    let lens = [0, 1, 5_000, 65_536, 65_537, 300_000];
    Bytes::from(vec![7; lens[number % lens.len()]])
}

#[tokio::test]
async fn calls_that_are_dropped_at_any_moment_leave_nothing() {
    drop_all(World::direct().await).await;
}

#[tokio::test]
async fn calls_by_a_relay_that_are_dropped_at_any_moment_leave_nothing() {
    drop_all(World::by_relay().await).await;
}

#[tokio::test]
async fn calls_whose_time_is_over_leave_nothing() {
    let_all_be_late(World::direct().await).await;
}

#[tokio::test]
async fn calls_by_a_relay_whose_time_is_over_leave_nothing() {
    let_all_be_late(World::by_relay().await).await;
}

async fn drop_all(world: World) {
    let mut done = 0;
    for round in 0..CALLS / 30 {
        let mut calls: Vec<_> = (0..30)
            .map(|number| {
                let (caller, body) = (world.caller.clone(), body(round + number));
                let service = ["echo", "late", "none"][number % 3];
                Some(Box::pin(async move {
                    caller.unary(&Ask::new(service), body).await
                }))
            })
            .collect();
        // Each call is polled for as many turns as its index, and then dropped.
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
    world.settles().await;
    let answer = world.caller.unary(&Ask::new("echo"), body(5)).await;
    assert_eq!(answer.expect("it goes on"), body(5));
    world.end().await;
}

async fn let_all_be_late(world: World) {
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..CALLS {
        let caller = world.caller.clone();
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
    world.settles().await;
    world.end().await;
}
