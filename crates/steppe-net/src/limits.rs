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

/// How long the descriptor of a folder is used before it is opened again: a
/// folder that was replaced by another of its name is served this much later.
pub const FOLDER_KEPT: Duration = Duration::from_secs(1);

/// Lookups of one path that folders moved meanwhile made void, before there is
/// nothing at it.
pub const FOLDER_TRIES_MAX: usize = 8;

/// Threads of a worker that may wait for a disk. One of them keeps a disk busy;
/// a few keep small reads from queueing behind large ones.
pub const BLOCKING_THREADS_MAX: usize = 4;

/// Lookups and reads that wait for a disk, of the whole node: more than that and
/// a disk is stuck, or asked for what it can't give. Each holds a buffer, which is
/// charged, and a place in a queue, which is not.
pub const DISK_TASKS_MAX: usize = 4096;

/// Changes that may wait for one worker: a reload waits for the one before, so
/// more than this queues only for a worker that is stuck.
pub const CHANGES_MAX: usize = 4;

/// A worker that takes longer to change its configuration is stuck, and is named.
/// A change closes listeners, which accept what is queued first: no wait for peers.
pub const CHANGE_TIME_MAX: Duration = Duration::from_secs(10);
