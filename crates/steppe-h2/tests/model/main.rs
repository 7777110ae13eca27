//! The state machine in either role against the `h2` crate's other one: any split, delay, reset, window, table size and
//! section. Content is exact, windows are given back whole, and accounts are at zero at the end.

#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

mod asker;
mod client;
mod driver;
mod echo;
mod lines;
mod messages;
mod server;
mod transport;
mod wire;

use std::time::Duration;

use steppe_mem::Budget;
use tokio::io::DuplexStream;

/// Longer than any case takes on a machine under load.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs both sides on one thread, with a transport between them.
fn run_local<F: Future<Output = ()>>(sides: impl FnOnce(Budget, DuplexStream, DuplexStream) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let tasks = tokio::task::LocalSet::new();
    let budget = Budget::new(64 << 20);
    let (ours, theirs) = tokio::io::duplex(3000);
    let ends = tasks.run_until(sides(budget.clone(), ours, theirs));
    let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, ends).await });
    ended.expect("neither side waits for the other");
    drop(tasks);
    drop(runtime);
    assert_eq!(
        budget.root().reserved_bytes(),
        0,
        "everything is given back"
    );
}
