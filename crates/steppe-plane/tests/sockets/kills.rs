//! Workers that are killed while they serve: calls that may run again succeed at another worker; the others fail
//! with a status that tells it, and run once at most.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use steppe_mem::Budget;
use steppe_plane::{
    Ask, Balancer, Choice, Failure, Memory, Relay, RelayConfig, Status, Target, Worker,
    WorkerStatus,
};

use crate::listening::listen;

const CALLS: u32 = 10_000;
/// Concurrent callers.
const CALLERS: u32 = 64;
/// File to which [`worker_process`] appends each call that it begins, and the relay that it dials; set for child
/// processes only.
const LOG: &str = "STEPPE_TEST_LOG";
const RELAY: &str = "STEPPE_TEST_RELAY";
/// Set for the process that is killed: it stops answering after so many calls, so that some are open at its end.
const HOLDS: &str = "STEPPE_TEST_HOLDS";
const HELD_AFTER: u32 = 100;

fn memory() -> Arc<Memory> {
    Arc::new(Memory::new(Budget::new(64 << 20).root()))
}

/// Not a test: the body of the child processes.
#[test]
fn worker_process() {
    let Some(log) = std::env::var_os(LOG) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let options = OpenOptions::new().append(true).create(true).open(log);
    let log = Arc::new(options.expect("a file"));
    let (holds, begun) = (
        std::env::var_os(HOLDS).is_some(),
        Arc::new(AtomicU32::new(0)),
    );
    let worker = Worker::builder(&memory())
        .unary("count", 1000, move |body| {
            let (log, begun) = (Arc::clone(&log), Arc::clone(&begun));
            async move {
                // A single write, so that a killed process leaves no part of it.
                (&*log).write_all(&body).expect("room on the disk");
                tokio::time::sleep(Duration::from_millis(2)).await;
                if holds && begun.fetch_add(1, Ordering::Relaxed) >= HELD_AFTER {
                    std::future::pending::<()>().await;
                }
                Ok(body)
            }
        })
        .build();
    runtime.block_on(async {
        let relay = std::env::var(RELAY).unwrap_or_default();
        if relay.is_empty() {
            let server = worker.listen("127.0.0.1:0").await.expect("a port");
            println!("\nserves {}", server.address());
            std::future::pending().await
        }
        let registered = worker.register(relay).expect("a name");
        registered.reaches(WorkerStatus::Serving).await;
        println!("\nserves 127.0.0.1:0");
        std::future::pending::<()>().await;
    });
}

/// Starts a worker process; returns it with its address. Number 0 is the one to be killed.
fn start(log: &Path, relay: &str, number: usize) -> (Child, SocketAddr) {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    if number == 0 {
        command.env(HOLDS, "1");
    }
    let mut child = command
        .args(["--exact", "kills::worker_process", "--nocapture"])
        .env(LOG, log)
        .env(RELAY, relay)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let output = BufReader::new(child.stdout.take().expect("an output"));
    let mut lines = output.lines().map_while(Result::ok);
    let address = lines.find_map(|line| line.strip_prefix("serves ")?.parse().ok());
    // Leaked: the process continues to write to its output.
    std::mem::forget(lines);
    (child, address.expect("it says where"))
}

/// Kills a worker during calls at `targets`, and checks the results of the calls.
async fn kill_one(mut workers: Vec<Child>, targets: Vec<Target>, log: &Path) {
    let count = targets.len();
    let balancer = Balancer::new(&memory(), targets);
    for _ in 0..6_000 {
        if balancer.connected() == count {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(balancer.connected(), count);
    let answered = Arc::new(AtomicU32::new(0));
    let mut callers = tokio::task::JoinSet::new();
    for first in 0..CALLERS {
        let (balancer, answered) = (balancer.clone(), Arc::clone(&answered));
        callers.spawn(async move {
            let mut failures: Vec<(u32, Failure)> = Vec::new();
            for call in (first..CALLS).filter(|call| call % CALLERS == first) {
                let id = call.to_be_bytes();
                // Every second call may run again.
                let ask = Ask {
                    idempotency_key: (call % 2 == 0).then_some(&id[..]),
                    ..Ask::new("count")
                };
                let body = Bytes::copy_from_slice(&id);
                match balancer.unary(&ask, Choice::Least, body.clone()).await {
                    Ok(answer) => assert_eq!(answer, body),
                    Err(failure) => failures.push((call, failure)),
                }
                answered.fetch_add(1, Ordering::Relaxed);
            }
            failures
        });
    }
    while answered.load(Ordering::Relaxed) < CALLS / 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // SIGKILL.
    workers[0].kill().expect("it runs");
    workers[0].wait().expect("it has ended");
    let failures: Vec<_> = callers.join_all().await.into_iter().flatten().collect();
    for worker in &mut workers[1..] {
        worker.kill().expect("it runs");
        worker.wait().expect("it has ended");
    }
    let mut runs: HashMap<u32, u32> = HashMap::new();
    let written = std::fs::read(log).expect("the log");
    for id in written.chunks(4) {
        let id = u32::from_be_bytes(id.try_into().expect("whole"));
        *runs.entry(id).or_default() += 1;
    }
    let again = runs.values().filter(|&&runs| runs > 1).count();
    println!("{} failed, {again} ran again", failures.len());
    for (call, failure) in &failures {
        assert_eq!(call % 2, 1, "it may run again: {failure}");
        assert_eq!(failure.status, Status::Unavailable, "{failure}");
    }
    for call in 0..CALLS {
        let runs = runs.get(&call).copied().unwrap_or(0);
        let has_failed = failures.iter().any(|(failed, _)| *failed == call);
        assert!(runs > 0 || has_failed, "{call} was answered and never ran");
        assert!(runs <= 1 || call % 2 == 0, "{call} ran {runs} times");
    }
    assert!(
        !failures.is_empty() && again > 0,
        "nothing was open at the worker that was killed"
    );
}

fn log(name: &str) -> std::path::PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("{name}-{}.log", std::process::id()));
    File::create(&path).expect("a file");
    path
}

#[tokio::test]
async fn a_worker_of_a_relay_is_killed() {
    let config = RelayConfig {
        queue_bytes: 16 << 20,
        queue_wait: Duration::from_secs(5),
        payload_bytes_max: 1 << 20,
    };
    let relay = Relay::new(&memory(), config);
    let address = listen(&relay).await.to_string();
    let log = log("relay");
    let (at, path) = (address.clone(), log.clone());
    let started =
        tokio::task::spawn_blocking(move || [0, 1, 2].map(|number| start(&path, &at, number).0));
    let workers = started.await.expect("no panic").into();
    kill_one(workers, vec![Target::new(address)], &log).await;
    std::fs::remove_file(log).expect("it is there");
}

#[tokio::test]
async fn a_worker_of_callers_is_killed() {
    let log = log("direct");
    let path = log.clone();
    let started =
        tokio::task::spawn_blocking(move || [0, 1, 2].map(|number| start(&path, "", number)));
    let (workers, addresses): (Vec<_>, Vec<_>) =
        started.await.expect("no panic").into_iter().unzip();
    let targets = addresses.into_iter().map(Target::from).collect();
    kill_one(workers, targets, &log).await;
    std::fs::remove_file(log).expect("it is there");
}
