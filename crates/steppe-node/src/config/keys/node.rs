//! Keys of `[node]`.

use std::num::NonZeroUsize;
use std::time::Duration;

use ipnet::IpNet;
use steppe_config::key::{Key, boolean, duration, key, list, of, text};
use steppe_config::keys;
use steppe_config::table::{Absent, Kind, Table};
use steppe_config::typed::{Fields, Node as Read, Typed};
use steppe_net::config::forms::NETWORK;

use crate::config::limits::{DRAIN_TIMEOUT_MAX, MEMORY_BUDGET_MAX, MEMORY_BUDGET_MIN, WORKERS_MAX};
use crate::config::memory_budget::MemoryBudget;

/// `[node]`: threads and memory of the process.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Worker threads.
    pub workers: Workers,
    /// The memory budget.
    pub memory_budget: MemoryBudget,
    /// The share of the budget that a client may hold while less than half is free, above 0 and at most 1; `None`: all.
    pub client_share: Option<f64>,
    /// Clients without a share.
    pub share_exempt: Vec<IpNet>,
    /// Time after a stop signal for which the node still serves, but is not ready.
    pub drain_delay: Duration,
    /// Time after that for exchanges to end.
    pub drain_timeout: Duration,
    /// True if a configuration file is read again when it changes.
    pub watch: bool,
}

/// Worker threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// One for each CPU that the CPU quota allows.
    Auto,
    /// Exactly this number.
    Count(NonZeroUsize),
}

pub static TABLE: Table = Table::new(
    "node",
    "The process: worker threads, memory and shutdown.",
    keys! {
        WORKERS, MEMORY_BUDGET, CLIENT_SHARE, SHARE_EXEMPT, DRAIN_DELAY, DRAIN_TIMEOUT, WATCH,
    },
);

static WORKERS: Key<Workers> = key(
    "workers",
    of(
        Kind::Either(&[Kind::Choice(&["auto"]), Kind::Integer(1, WORKERS_MAX)]),
        workers,
    ),
    "Worker threads. \"auto\" starts one thread for each CPU that the CPU affinity and the CPU \
     quota allow, but no more than `memory_budget` carries.",
)
.or(Absent::Text("auto"));

pub static MEMORY_BUDGET: Key<MemoryBudget> = key(
    "memory_budget",
    of(
        Kind::Either(&[
            Kind::Share,
            Kind::Size(MEMORY_BUDGET_MIN, MEMORY_BUDGET_MAX),
        ]),
        memory_budget,
    ),
    "Memory that serving may take: a size, or a share of the container's limit (control groups, \
     versions 1 and 2), else of the machine's memory. A size above that limit is an error, which \
     `steppe check` reports on the machine where it runs.",
)
.or(Absent::Text("75%"));

static CLIENT_SHARE: Key<Option<f64>> = key(
    "client_share",
    of(
        Kind::Either(&[Kind::Share, Kind::Choice(&["off"])]),
        client_share,
    ),
    "Share of `memory_budget` that one client may hold while less than half of the budget is free. \
     A client with more waits, or is refused, and others are served. A client is an IPv4 address \
     or the first 64 bits of an IPv6 address, over all its connections by HTTP, DNS and the \
     request plane; behind a trusted proxy it is the address that the proxy names. Every client \
     may hold 256 KiB. Peers on Unix sockets have no share.",
)
.or(Absent::Text("25%"));

static SHARE_EXEMPT: Key<Vec<IpNet>> = key(
    "share_exempt",
    list(&text(&NETWORK), 0),
    "Networks of clients without a share, since they stand for many: load balancers without the \
     PROXY protocol, gateways that call a relay of the request plane. A warning names an address \
     when it is held back for the first time.",
)
.or(Absent::Texts(&[]));

static DRAIN_DELAY: Key<Duration> = key(
    "drain_delay",
    duration(Duration::ZERO, DRAIN_TIMEOUT_MAX),
    "Time between SIGTERM or Ctrl-C and the drain. `/readyz` answers 503 meanwhile, and the node \
     still accepts connections, so that load balancers notice before listeners close. A second \
     signal starts the drain.",
)
.or(Absent::Text("0s"));

static DRAIN_TIMEOUT: Key<Duration> = key(
    "drain_timeout",
    duration(Duration::ZERO, DRAIN_TIMEOUT_MAX),
    "Time that open exchanges have to finish in a drain, which SIGTERM or Ctrl-C begins after \
     `drain_delay`. A further signal ends the wait.",
)
.or(Absent::Text("30s"));

static WATCH: Key<bool> = key(
    "watch",
    boolean(),
    "Reloads the configuration when its file changes. With `false`, SIGHUP and `POST /reload` do. \
     Certificates, private keys and lists are read again in either case.",
)
.or(Absent::Yes);

/// Builds `[node]`; `None`: a value is invalid, and its mistake was reported.
pub fn build(node: &Fields) -> Option<Node> {
    Some(Node {
        workers: node.get(&WORKERS)?,
        memory_budget: node.get(&MEMORY_BUDGET)?,
        client_share: node.get(&CLIENT_SHARE)?,
        share_exempt: node.get(&SHARE_EXEMPT)?,
        drain_delay: node.get(&DRAIN_DELAY)?,
        drain_timeout: node.get(&DRAIN_TIMEOUT)?,
        watch: node.get(&WATCH)?,
    })
}

fn workers(workers: &Read) -> Option<Workers> {
    match &workers.typed {
        Typed::Choice(_) => Some(Workers::Auto),
        Typed::Number(count) => usize::try_from(*count)
            .ok()
            .and_then(NonZeroUsize::new)
            .map(Workers::Count),
        _ => None,
    }
}

fn memory_budget(budget: &Read) -> Option<MemoryBudget> {
    match &budget.typed {
        Typed::Share(share) => Some(MemoryBudget::Share(*share)),
        Typed::Size(bytes) => Some(MemoryBudget::Bytes(*bytes)),
        _ => None,
    }
}

#[expect(clippy::option_option, reason = "invalid and off are two things")]
fn client_share(share: &Read) -> Option<Option<f64>> {
    match &share.typed {
        Typed::Share(share) => Some(Some(*share)),
        Typed::Choice(_) => Some(None),
        _ => None,
    }
}
