//! Routes of the gateway into the plane, some of whose workers refuse.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use steppe_plane::frame::Payment;
use steppe_plane::{Failure, Processing, Request, Status};
use steppe_testkit::{Scratch, Steppe, eventually};

use super::{MIB, Serving, body, node, post};

/// Refuses each call before it reads the body, as a worker without memory does.
fn refuse(
    asked: &Arc<AtomicUsize>,
) -> impl Fn(Request) -> std::future::Ready<Result<(), Failure>> + Send + Sync + 'static {
    let asked = Arc::clone(asked);
    move |_| {
        asked.fetch_add(1, Ordering::Relaxed);
        let mut failure = Failure::new(Status::Overloaded, "inner workings");
        failure.processing = Processing::None;
        std::future::ready(Err(failure))
    }
}

/// Calls with large content, or without any, wait for their worker's answer and are sent to another worker after a
/// refusal. Small content is sent at once and not kept: the client gets a `Retry-After`.
#[test]
fn a_call_that_one_worker_refuses_is_asked_of_another() {
    let (node, plane) = node(|config| config);
    let asked = Arc::new(AtomicUsize::new(0));
    let _full = Serving::start(plane, 16 * MIB, refuse(&asked));
    let scratch = Scratch::new("plane-refusals");
    let got = post(&node, &scratch, &body(300_000)).run();
    assert_eq!(got.head.status(), 429, "{got:?}");
    assert!(got.head.field("retry-after").is_some(), "{got:?}");
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    let _free = Serving::start(plane, 16 * MIB, async |mut request: Request| {
        request.response.begin(Payment::Granted).await?;
        while let Some(part) = request.body.next().await? {
            request.response.send(part.bytes).await?;
        }
        request.response.end()
    });
    eventually("both are registered", || {
        let plane = node.admin_json("/plane");
        let workers = plane["services"][0]["workers"].as_array();
        workers.is_some_and(|workers| workers.len() == 2)
    });
    for len in [300_000, 0, 70_000].repeat(4) {
        let got = post(&node, &scratch, &body(len)).run();
        assert_eq!((got.exit, got.head.status()), (0, 200), "{len}: {got:?}");
        assert_eq!(got.body.len(), len);
    }
}

/// A call that is still open at the end of the drain gets an error, rather than a cut connection.
#[test]
fn a_call_that_outlasts_the_drain_is_told_so() {
    let (mut node, plane) = node(|config| config.set("node.drain_timeout", "300ms"));
    let _worker = Serving::start(plane, 16 * MIB, |_| std::future::pending());
    let mut command = Steppe::command();
    command.args(["plane", "call", &plane.to_string(), "echo"]);
    let call = command.stderr(Stdio::piped()).spawn().expect("it runs");
    eventually("it is open", || {
        node.admin_json("/plane")["services"][0]["workers"][0]["calls"] == 1
    });
    node.terminate();
    let ended = call.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(21), "{said}");
    assert!(said.contains("time to drain"), "{said}");
    node.wait();
}
