//! A runtime whose clock a test moves.
//!
//! The clock stands still, also while the runtime has nothing to do and while sockets are slow: a test waits
//! for events, and time passes by [`pass`] alone. So a minute of timeouts takes milliseconds, and no
//! timer fires because the machine is busy.
//!
//! Time passes in steps of 10 ms: timers fire in their order, and the tasks that they wake run before the next
//! step. Peers belong into the same runtime, as tasks: a step waits for no other thread. A minute of steps takes
//! some 20 ms, so an hour is too long for a test: choose timeouts of seconds.
//!
//! Left out: `std::time::Instant`, which goes on. Code under test reads `steppe_net::clock`.

use std::future::Future;
use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions};
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::{Instant, advance};

/// A step of the clock. Deadlines are swept every 50 ms.
const STEP: Duration = Duration::from_millis(10);

/// A test that takes longer, by the real time, hangs. Long: none takes a tenth of a second of a processor, of which
/// a busy machine may give it a hundredth.
const HUNG_AFTER: Duration = Duration::from_secs(180);

/// Turns of the loop after a step. In each, every task goes as far as it gets, and sockets are polled once.
const TURNS: usize = 3;

/// Turns after which nothing goes on without time: to connect, ask and be answered over sockets takes eight.
const TURNS_TO_SETTLE: usize = 16;

/// Runs `test` on a runtime that spawns local tasks, and whose clock stands still until [`pass`] moves it.
///
/// # Panics
/// Where the system has no runtime to give, where `test` panics, and where it hangs: the real time tells.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = Builder::new_current_thread();
    runtime.enable_all().start_paused(true);
    let runtime = runtime.build_local(LocalOptions::default());
    let runtime = runtime.expect("epoll");
    let (until, over) = mpsc::sync_channel::<()>(0);
    runtime.block_on(async {
        // A paused clock jumps to the next timer whenever the runtime is idle, but for as long as a
        // blocking task runs.
        let holding = spawn_blocking(move || over.recv_timeout(HUNG_AFTER));
        tokio::select! {
            biased;
            result = test => {
                drop(until);
                result
            }
            _ = holding => panic!("it hangs"),
        }
    })
}

/// Lets `duration` pass. Timers that fall into it have fired when it returns.
///
/// # Panics
/// Outside of [`run`].
pub async fn pass(duration: Duration) {
    let end = Instant::now() + duration;
    settle().await;
    while let Some(left) = end.checked_duration_since(Instant::now())
        && !left.is_zero()
    {
        advance(left.min(STEP)).await;
        turns(TURNS).await;
    }
    settle().await;
}

/// Lets tasks run until all of them wait for time.
pub async fn settle() {
    turns(TURNS_TO_SETTLE).await;
}

async fn turns(count: usize) {
    for _ in 0..count {
        yield_now().await;
    }
}
