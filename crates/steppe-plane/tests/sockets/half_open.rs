//! Peers that vanish without closing, and peers that read nothing: budgets hold, and return to their initial state.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use steppe_mem::Budget;
use steppe_plane::frame::Payment;
use steppe_plane::limits::{DATA_BYTES_MAX, PARTS_PER_STREAM_MAX, WINDOW_BYTES};
use steppe_plane::{Ask, Caller, Memory, Worker};
use steppe_testkit::Namespace;

const CALLS: usize = 20;
const BODY_BYTES: usize = 300_000;
/// Address of the worker that [`caller_process`] calls; set for the child process only.
const WORKER: &str = "STEPPE_TEST_WORKER";
const PATIENCE: Duration = Duration::from_secs(120);

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    assert!(waited.is_ok(), "never: {what}");
}

/// Not a test: the body of the child process.
#[test]
fn caller_process() {
    let Ok(worker) = std::env::var(WORKER) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let memory = Arc::new(Memory::new(Budget::new(64 << 20).root()));
        let caller = Caller::connect(worker, &memory).await.expect("it listens");
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..CALLS {
            let caller = caller.clone();
            let body = Bytes::from(vec![7; BODY_BYTES]);
            calls.spawn(async move { caller.unary(&Ask::new("hold"), body).await });
        }
        while calls.join_next().await.is_some() {}
        println!("\nover");
        std::future::pending::<()>().await;
    });
}

#[tokio::test]
async fn both_ends_of_a_line_that_is_cut_get_their_budgets_back() {
    let namespace = match Namespace::new() {
        Ok(namespace) => namespace,
        Err(reason) => {
            return println!(
                "SKIPPED both_ends_of_a_line_that_is_cut_get_their_budgets_back: {reason}"
            );
        }
    };
    let budget = Budget::new(64 << 20);
    let memory = Arc::new(Memory::new(budget.root()));
    let worker = Worker::builder(&memory)
        .unary("hold", 1000, |body| async move {
            std::future::pending::<()>().await;
            Ok(body)
        })
        .build();
    let server = worker.listen("0.0.0.0:0").await.expect("a port");
    let address = format!("{}:{}", namespace.gateway(), server.address().port());
    let [program, arguments @ ..] = namespace.prefix();
    let mut process = Command::new(program)
        .args(arguments)
        .arg(std::env::current_exe().expect("this test"))
        .args(["--exact", "half_open::caller_process", "--nocapture"])
        .env(WORKER, address)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    until("all bodies are held", || {
        budget.root().reserved_bytes() > (CALLS * BODY_BYTES) as u64
    })
    .await;
    namespace.cut();
    until("the worker has nothing reserved", || {
        budget.root().reserved_bytes() == 0
    })
    .await;
    let output = BufReader::new(process.stdout.take().expect("an output"));
    let told = tokio::task::spawn_blocking(move || {
        let mut lines = output.lines().map_while(Result::ok);
        lines.any(|line| line == "over")
    });
    let is_over = tokio::time::timeout(PATIENCE, told).await;
    assert!(
        is_over.expect("in time").expect("no panic"),
        "the caller's calls end"
    );
    process.kill().expect("it runs");
    process.wait().expect("it has ended");
}

/// The sender waits; the queue of unsent data does not grow.
#[tokio::test]
async fn callers_that_read_nothing_stop_whoever_sends() {
    let budget = Budget::new(64 << 20);
    let memory = Arc::new(Memory::new(budget.root()));
    let sent = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&sent);
    let worker = Worker::builder(&memory)
        .stream("endless", 1000, move |mut request| {
            let sent = Arc::clone(&counts);
            async move {
                let part = Bytes::from(vec![7; DATA_BYTES_MAX]);
                request.response.begin(Payment::Granted).await?;
                loop {
                    request.response.send(part.clone()).await?;
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            }
        })
        .build();
    let server = worker.listen("127.0.0.1:0").await.expect("a port");
    let here = Budget::new(64 << 20);
    let caller = Caller::connect(server.address(), &Arc::new(Memory::new(here.root()))).await;
    let caller = caller.expect("it listens");
    let mut calls = Vec::new();
    for _ in 0..CALLS {
        let call = caller.call(&Ask::new("endless"), Payment::Standing).await;
        let mut call = call.expect("it opens");
        let part = call.response.next().await.expect("it sends");
        assert_eq!(part.expect("endless").bytes.len(), DATA_BYTES_MAX);
        calls.push(call);
    }
    let each = PARTS_PER_STREAM_MAX + WINDOW_BYTES / DATA_BYTES_MAX + 2;
    until("each has sent what it may", || {
        sent.load(Ordering::Relaxed) >= CALLS * PARTS_PER_STREAM_MAX
    })
    .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let sent = sent.load(Ordering::Relaxed);
    assert!(sent <= CALLS * each, "{sent} parts of {CALLS} calls");
    drop((calls, caller, server));
    until("nothing is reserved", || {
        budget.root().reserved_bytes() == 0 && here.root().reserved_bytes() == 0
    })
    .await;
}
