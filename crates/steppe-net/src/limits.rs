//! Every bound of this crate, with its reason.

use std::time::Duration;

/// How often deadlines are looked at: a deadline fires at most this much late.
///
/// Looking at 10,000 deadlines takes some 20 µs, so this costs a worker less
/// than a thousandth of its time.
pub const DEADLINE_TICK: Duration = Duration::from_millis(50);

/// Connections that the kernel may hold before they are accepted. The kernel
/// caps it at `net.core.somaxconn`.
pub const BACKLOG: i32 = 4096;

/// Connections accepted before other tasks of the worker get their turn.
pub const ACCEPT_BATCH: usize = 64;

/// Pause after `accept` failed for want of descriptors or memory: retrying at
/// once would spin, since the connection stays in the queue.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A name is asked again no sooner, whatever its TTL says.
pub const NAME_TTL_MIN: Duration = Duration::from_secs(1);

/// A name is asked again no later, whatever its TTL says.
pub const NAME_TTL_MAX: Duration = Duration::from_secs(300);

/// A name that failed is asked again after this long; its last addresses are kept.
pub const NAME_RETRY: Duration = Duration::from_secs(2);

/// Addresses of one name that are used; the rest is ignored, and it is said.
pub const NAME_ADDRESSES_MAX: usize = 64;

/// Descriptors kept for everything but connections: listeners, logs, admin, epoll.
pub const DESCRIPTORS_KEPT: u64 = 128;
