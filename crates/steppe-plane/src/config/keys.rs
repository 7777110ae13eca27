//! Keys of `[plane]`: their tables, the checks of their combinations, and the settings that are built from them.
//!
//! Invariant: every key of a table here is read by its builder here. Non-goals: combinations with keys of other
//! sections, which `steppe-node` checks.

pub mod discovery;
mod forms;
pub mod listener;
mod rule;

use std::time::Duration;

use steppe_config::key::{Key, OptionalKey, duration, key, section, share, size};
use steppe_config::keys;
use steppe_config::limits::TIMEOUT_MAX;
use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Table};
use steppe_config::typed::{Fields, Node};
use steppe_mem::limits::BUDGET_BYTES_MAX;

use crate::config::{Plane, Queue, Workers};
use crate::limits::{
    CONNECTION_BYTES, CONNECTION_CREDIT, EAGER_BYTES_MAX, RESPONSE_SHARE_PERMILLE_MAX, WINDOW_BYTES,
};
use rule::RULE;

pub use listener::LISTENER;

/// `[plane]`.
pub static TABLE: Table = Table::new(
    "plane",
    "The request plane: the relay between callers and workers.",
    keys! { LISTENER, RULE, BUDGET, RESPONSE_SHARE, MAX_PAYLOAD, QUEUE },
);

/// Part of the node's memory budget.
pub static BUDGET: OptionalKey<u64> = key(
    "budget",
    size(BUDGET_MIN, BUDGET_BYTES_MAX),
    "Memory that connections, requests and responses may hold together, of `node.memory_budget`; a \
     connection takes 368 KiB. Without it, all of it. A change needs a restart.",
);

/// A dozen connections, each with its standing credit, and a window of a body beside them.
const BUDGET_MIN: u64 = 8 << 20;

const _: () = assert!(
    (12 * (CONNECTION_CREDIT as usize + CONNECTION_BYTES) + 4 * WINDOW_BYTES) as u64 <= BUDGET_MIN
);

static RESPONSE_SHARE: Key<f64> = key(
    "response_share",
    share(),
    "Share of the memory for bodies that requests leave to responses, at most 90%. An eighth of the \
     budget is for connections and calls alone. A change needs a restart.",
)
.or(Absent::Text("25%"));

/// Maximum of `response_share`.
const RESPONSE_SHARE_MAX: f64 = RESPONSE_SHARE_PERMILLE_MAX as f64 / 1000.0;

/// The minimum fits the largest body that is sent eagerly. Bodies are streamed, so the maximum only catches typing
/// mistakes.
static MAX_PAYLOAD: Key<u64> = key(
    "max_payload",
    size(EAGER_BYTES_MAX as u64, BUDGET_BYTES_MAX),
    "Largest body of a request. A body that is larger than the budget is streamed.",
)
.or(Absent::Text("256MiB"));

static QUEUE: Key<Queue> = section("queue", &QUEUE_TABLE, queue).or(Absent::Table);

static QUEUE_TABLE: Table = Table::new(
    "plane.queue",
    "Calls that wait for a worker.",
    keys! { QUEUE_BYTES, QUEUE_WAIT },
);

static QUEUE_BYTES: Key<u64> = key(
    "bytes",
    size(0, BUDGET_BYTES_MAX),
    "Bytes that waiting calls may have sent, in all. Calls beyond it are refused as overload.",
)
.or(Absent::Text("16MiB"));

static QUEUE_WAIT: Key<Duration> = key(
    "wait",
    duration(Duration::ZERO, TIMEOUT_MAX),
    "Time that a call waits for a worker, or for room at one, before it is refused. \"0s\": calls do not \
     wait, and workers are asked to report at once if they have room.",
)
.or(Absent::Text("5s"));

/// Builds the settings of `[plane]`, without dialed workers. `None` if a value is invalid; its mistake was
/// reported.
#[must_use]
pub fn build(plane: &Fields) -> Option<Plane> {
    Some(Plane {
        listeners: plane.get(&LISTENER)?,
        rules: plane.get(&RULE)?,
        budget: plane.get(&BUDGET)?,
        response_permille: permille(plane.get(&RESPONSE_SHARE)?),
        max_payload: plane.get(&MAX_PAYLOAD)?,
        queue: plane.get(&QUEUE)?,
        workers: Workers::default(),
        worker_tls: None,
    })
}

impl Default for Plane {
    fn default() -> Self {
        build(&TABLE.defaults()).expect("every key has a default")
    }
}

impl Default for Queue {
    fn default() -> Self {
        queue(&QUEUE_TABLE.defaults()).expect("every key has a default")
    }
}

fn queue(queue: &Fields) -> Option<Queue> {
    Some(Queue {
        bytes: queue.get(&QUEUE_BYTES)?,
        wait: queue.get(&QUEUE_WAIT)?,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share is above 0 and at most 1"
)]
fn permille(share: f64) -> u16 {
    (share * 1000.0).round() as u16
}

/// True if these sections have listeners or workers, invalid ones included.
#[must_use]
pub fn is_used(plane: Option<&Fields>, discovery: Option<&Node>) -> bool {
    let listeners = plane.map(|plane| plane.get(&LISTENER));
    let workers = discovery.map(discovery::workers);
    listeners.is_some_and(|listeners| listeners != Some(Vec::new()))
        || workers.is_some_and(|workers| workers != Some(Workers::default()))
}

/// Reports mistakes in combinations of keys of `[plane]`.
pub fn check(plane: &Fields, mistakes: &mut Mistakes) {
    let listeners = plane.items(&LISTENER).iter();
    for listener in listeners.filter_map(Node::fields) {
        listener::check(listener, mistakes);
    }
    let share = plane.located(&RESPONSE_SHARE);
    if let Some((_, span)) = share.filter(|(share, _)| *share > RESPONSE_SHARE_MAX) {
        mistakes.push(
            Mistake::new(span, "`response_share` leaves requests no room")
                .label("more than 90%")
                .help("write a share such as \"25%\""),
        );
    }
    rule::check(plane, mistakes);
}
