//! Every bound of this crate, with its reason.

/// Bytes that a worker draws from an account at once.
///
/// Large enough that a request touches shared cache lines seldom, small enough that the free bytes of a hundred idle
/// leases stay far below any useful budget.
pub const DRAW_BYTES: u64 = 64 << 10;

/// Free bytes of a lease above which it gives back all but [`DRAW_BYTES`].
pub const LEASE_FREE_BYTES_MAX: u64 = 4 * DRAW_BYTES;

/// Bytes that a thread's pool may be charged beyond its idle buffers.
pub const CHARGE_SLACK_BYTES: usize = 256 << 10;

/// Bytes that a thread requests between two wakes of the thread that measures resident memory: the growth of each
/// thread that goes unnoticed.
pub const NOTICE_BYTES: u64 = 1 << 20;

/// The period at which [`tend`](crate::pool::tend) trims a pool: buffers idle for so long are
/// freed.
pub const TEND_EVERY: std::time::Duration = std::time::Duration::from_millis(500);

/// Tasks woken with one lock of the queues: their wakers are held on the stack.
pub const WAKES_MAX: usize = 16;

/// Memory of a task in the queue for bytes, at most; charged together with the task.
pub const WAITER_BYTES: usize = 128;

/// Bytes that a client may hold however small its share is: a connection, and an exchange with the smallest chunks.
pub const CLIENT_SHARE_BYTES_MIN: u64 = 256 << 10;

/// Reserved bytes of a connection that its client is told of late: a short request touches no cache line that workers
/// share.
pub const FLUSH_BYTES: u64 = 16 << 10;

/// The divisor of a client's share: this part may be held unseen, in charges below [`FLUSH_BYTES`] of all its
/// connections. With a small share, a thousand idle connections would be more than all of it.
pub const UNSEEN_PART: u64 = 16;

/// Bytes of a connection in the table of clients, with an address of its own; charged together with the connection.
pub const HOLDER_BYTES: usize = 512;

/// The smallest budget that a node can work under.
pub const BUDGET_BYTES_MIN: u64 = 8 << 20;

/// The largest budget; more is taken for a typing mistake.
pub const BUDGET_BYTES_MAX: u64 = 1 << 44;

/// The smallest pooled buffer: the head of most messages. Buffers of a page would lie at the same places of their pages,
/// and share few sets of the processor's caches.
pub const BUFFER_BYTES_MIN: usize = 1 << 10;

/// Tasks that wait for so many bytes or fewer stand in one queue, in order.
pub const WAITED_BYTES_MIN: usize = 4 << 10;

/// The largest pooled buffer.
pub const BUFFER_BYTES_MAX: usize = 64 << 20;

/// Largest class from the heap: up to here classes double; above there are four steps a doubling (at most 25 % waste)
/// and each buffer is its own mapping.
pub const HEAP_CLASS_BYTES_MAX: usize = 256 << 10;

// A shift on the path of each allocation.
const _: () = assert!(NOTICE_BYTES.is_power_of_two());
const _: () = assert!(LEASE_FREE_BYTES_MAX > DRAW_BYTES);
const _: () = assert!(BUFFER_BYTES_MIN.is_power_of_two() && HEAP_CLASS_BYTES_MAX.is_power_of_two());
const _: () = assert!(BUFFER_BYTES_MIN < HEAP_CLASS_BYTES_MAX);
const _: () = assert!(HEAP_CLASS_BYTES_MAX < BUFFER_BYTES_MAX);
