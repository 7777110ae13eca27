//! The timer of a worker: it sleeps while nothing is in flight, no socket is open and no server is down.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::log::WorkerLog;
use super::state::{Handle, WorkerState, turn};
use crate::limits::{DEADLINE_TICK_MS, SWEEP_EVERY};

/// The next thing that the timer waits for.
enum Pending {
    /// Deadlines of exchanges.
    Deadlines,
    /// Sockets that are to be closed, and lines of the log that are to be flushed.
    Sockets,
    /// A probe, which is due after this time.
    After(Duration),
    Nothing,
}

/// Runs the timer, for ever: handles deadlines, closes sockets, sends probes.
pub(super) async fn run(state: Handle) {
    let timer = Rc::clone(&state.borrow().timer);
    let mut swept_at = state.borrow().start;
    loop {
        let pending = turn(&state, |state, now| {
            state.expire(now);
            if now.saturating_duration_since(swept_at) >= SWEEP_EVERY {
                swept_at = now;
                state.sweep(now);
                state.log.iter_mut().for_each(WorkerLog::flush);
            }
            let probe_at = state.probe(now);
            state.pending(probe_at, now)
        });
        let wait = match pending {
            Pending::Deadlines => {
                tokio::time::sleep(Duration::from_millis(DEADLINE_TICK_MS)).await;
                continue;
            }
            Pending::Sockets => Some(SWEEP_EVERY),
            Pending::After(time) => Some(time.min(SWEEP_EVERY)),
            Pending::Nothing => None,
        };
        timer.sleeps.set(true);
        let needed = timer.needed.notified();
        match wait {
            Some(time) => drop(tokio::time::timeout(time, needed).await),
            None => needed.await,
        }
        timer.sleeps.set(false);
    }
}

impl WorkerState {
    fn pending(&self, probe_at: Option<Instant>, now: Instant) -> Pending {
        if self.exchanges.len() > 0 {
            Pending::Deadlines
        } else if let Some(at) = probe_at {
            Pending::After(at.saturating_duration_since(now))
        } else if self.carriers.is_empty() && !self.log.as_ref().is_some_and(WorkerLog::has_lines) {
            Pending::Nothing
        } else {
            Pending::Sockets
        }
    }
}
