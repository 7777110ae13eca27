//! Calls that hold granted credit without using it: they are reset for calls that wait, and only then.

#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use steppe_mem::Budget;
use steppe_plane::frame::Payment;
use steppe_plane::{
    Ask, Call, Caller, Memory, Registered, Relay, RelayConfig, Status, Worker, WorkerStatus,
};

use crate::listening::listen;

const WAIT: Duration = Duration::from_secs(2);
static BODY: [u8; 300_000] = [7; 300_000];

fn memory() -> Arc<Memory> {
    Arc::new(Memory::new(Budget::new(16 << 20).root()))
}

/// A relay with a worker, each with 16 MiB.
async fn site() -> (SocketAddr, Arc<Relay>, Registered) {
    let config = RelayConfig {
        queue_bytes: 16 << 20,
        queue_wait: WAIT,
        payload_bytes_max: 1 << 30,
    };
    let relay = Relay::new(&memory(), config);
    let address = listen(&relay).await;
    let worker = Worker::builder(&memory())
        .unary("echo", 1_000, |body| async move { Ok(body) })
        .stream("sink", 1_000, |mut request| async move {
            while request.body.next().await?.is_some() {}
            request.response.end()
        });
    let registered = worker.build().register(address.to_string());
    let registered = registered.expect("a name");
    registered.reaches(WorkerStatus::Serving).await;
    (address, relay, registered)
}

async fn caller(address: SocketAddr) -> Caller {
    let caller = Caller::connect(address, &memory()).await;
    caller.expect("a relay that listens")
}

/// Opens calls whose bodies are announced and never sent.
async fn announce(caller: &Caller) -> Vec<Call> {
    let mut calls = Vec::new();
    for _ in 0..300 {
        let call = caller.call(&Ask::new("sink"), Payment::Granted).await;
        calls.push(call.expect("it opens"));
    }
    calls
}

#[tokio::test]
async fn bodies_that_never_come_give_way_to_those_that_wait() {
    let (address, _relay, _worker) = site().await;
    let (idle, busy) = (caller(address).await, caller(address).await);
    let mut announced = announce(&idle).await;
    let ask = Ask::new("echo");
    // Until the first of them have held credit for as long as others may wait.
    // On a busy machine a call may wait for as long as the idle one before it: a few are refused in all.
    let mut refused = 0;
    let begun = Instant::now();
    for _ in 0..51 {
        let answer = loop {
            match busy.unary(&ask, Bytes::from_static(&BODY)).await {
                Ok(answer) => break answer,
                Err(failure) => {
                    assert_eq!(failure.status, Status::Overloaded, "{failure}");
                    refused += 1;
                    assert!(refused < 3, "nothing gives way");
                }
            }
        };
        assert!(answer == BODY[..]);
    }
    println!(
        "{refused} were refused, and 51 of 51 were served in {:?}",
        begun.elapsed()
    );
    let last = announced.pop().expect("300");
    drop(announced);
    let mut last = last.response;
    let end = last.next().await;
    assert_eq!(
        end.err().map(|failure| failure.status),
        Some(Status::Overloaded)
    );
}

/// Small calls are served meanwhile: they need no wait.
#[tokio::test]
async fn bodies_that_nobody_waits_for_may_take_their_time() {
    let (address, relay, _worker) = site().await;
    let (idle, busy) = (caller(address).await, caller(address).await);
    let mut call = idle.call(&Ask::new("sink"), Payment::Granted).await;
    let call = call.as_mut().expect("it opens");
    call.request.granted().await.expect("there is room");
    let begun = Instant::now();
    while begun.elapsed() < 3 * WAIT {
        for len in [10, BODY.len()] {
            let body = Bytes::from_static(&BODY).slice(..len);
            let answer = busy.unary(&Ask::new("echo"), body.clone()).await;
            assert!(answer.expect("an answer") == body);
        }
        tokio::time::sleep(WAIT / 50).await;
    }
    let sent = call
        .request
        .send_part(&Bytes::from_static(b"late"), 0)
        .await;
    sent.expect("it goes on");
    let open = relay
        .report()
        .services
        .iter()
        .flat_map(|it| &it.workers)
        .map(|it| it.calls)
        .sum::<u32>();
    assert_eq!(open, 1);
}
