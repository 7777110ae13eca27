//! Every bound of this crate, with its reason.

use std::time::Duration;

/// Interval of the deadline sweep: a deadline fires at most this much late.
///
/// A sweep over 10,000 deadlines takes some 20 µs, so this costs a worker less
/// than a thousandth of its CPU time.
pub const DEADLINE_TICK: Duration = Duration::from_millis(50);

/// Length of a listener's accept queue. The kernel caps it at
/// `net.core.somaxconn`.
pub const BACKLOG: i32 = 4096;

/// Connections accepted in a row before the worker runs its other tasks.
pub const ACCEPT_BATCH: usize = 64;

/// Pause after `accept` failed with `EMFILE`, `ENFILE` or `ENOMEM`: an immediate
/// retry would spin, since the connection stays in the queue.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Lower bound of a name's TTL.
pub const NAME_TTL_MIN: Duration = Duration::from_secs(1);

/// Upper bound of a name's TTL.
pub const NAME_TTL_MAX: Duration = Duration::from_secs(300);

/// Delay before a failed lookup is retried; the last addresses stay in use.
pub const NAME_RETRY: Duration = Duration::from_secs(2);

/// Addresses used of one name; further ones are ignored with a warning.
pub const NAME_ADDRESSES_MAX: usize = 64;

/// Descriptors reserved for everything but connections: listeners, logs, admin, epoll.
pub const DESCRIPTORS_KEPT: u64 = 128;

/// How long a folder's descriptor is cached before the folder is opened again:
/// after a folder was replaced, the old one is served for at most this long.
pub const FOLDER_KEPT: Duration = Duration::from_secs(1);

/// Attempts to open a path while concurrent renames make `openat2` fail with
/// `EAGAIN`; after that the path counts as not found.
pub const FOLDER_TRIES_MAX: usize = 8;

/// Blocking threads of a worker, for disk I/O. One keeps a disk busy; a few more
/// keep small reads from queueing behind large ones.
pub const BLOCKING_THREADS_MAX: usize = 4;

/// Disk tasks queued or running, of the whole node: beyond that a disk is stuck
/// or overloaded. Each holds a buffer, which is charged to the budget, and a queue
/// entry, which is not.
pub const DISK_TASKS_MAX: usize = 4096;

/// Changes that may wait for one worker: a reload waits for the one before, so
/// more than this queues only for a worker that is stuck.
pub const CHANGES_MAX: usize = 4;

/// A worker that takes longer to change its configuration is stuck, and is named.
/// A change closes listeners, which accept what is queued first: no wait for peers.
pub const CHANGE_TIME_MAX: Duration = Duration::from_secs(10);

/// Length of a certificate that is read. Those in use have 1 to 8 KiB, and one with
/// the most names below some 40.
pub const CERT_BYTES_MAX: usize = 64 << 10;

/// Subject alternative names of a certificate that is read. Public authorities put
/// at most some 100 to 250 into one; each costs a string.
pub const CERT_NAMES_MAX: usize = 2000;
