//! Every bound of this crate, with its reason.

use std::time::Duration;

/// Bytes of a Unix socket's path: `sockaddr_un` has 108, one of them a NUL.
pub const UNIX_PATH_BYTES_MAX: usize = 107;

/// Bytes of a host name (RFC 1035 §2.3.4).
pub const HOST_NAME_BYTES_MAX: usize = 253;
/// Bytes of one label of a host name (RFC 1035 §2.3.4).
pub const HOST_LABEL_BYTES_MAX: usize = 63;

/// Bytes of a subject and of an alternative name that a certificate must have. A SPIFFE ID has up to 2,048,
/// and is the longest name that is in use.
pub const CERTIFICATE_NAME_BYTES_MAX: usize = 2048;

/// Bytes of the name of a service of the request plane, as processes call each other by.
pub const SERVICE_BYTES_MAX: usize = 128;

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

/// Time in which a connection that was accepted before a drain may complete its PROXY header or TLS handshake, and
/// bring its first request.
pub const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// Lower bound of a name's TTL.
pub const NAME_TTL_MIN: Duration = Duration::from_secs(1);

/// Upper bound of a name's TTL.
pub const NAME_TTL_MAX: Duration = Duration::from_secs(300);

/// Delay before a failed lookup is retried; the last addresses stay in use.
pub const NAME_RETRY: Duration = Duration::from_secs(2);

/// Interval of warnings for a name whose lookups go on to fail for one reason.
pub const NAME_WARNING_PAUSE: Duration = Duration::from_secs(60);

/// Addresses used of one name; further ones are ignored with a warning.
pub const NAME_ADDRESSES_MAX: usize = 64;

/// Descriptors reserved for everything but connections: listeners, logs, admin, epoll.
pub const DESCRIPTORS_KEPT: u64 = 128;

/// Time for which a folder's descriptor is cached before the folder is opened again:
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

/// Time after which a worker that changes its configuration is stuck, and is named in the log.
/// A change closes listeners, which accept what is queued first: no wait for peers.
pub const CHANGE_TIME_MAX: Duration = Duration::from_secs(10);

/// Length of a certificate that is read. Those in use have 1 to 8 KiB, and one with
/// the most names below some 40.
pub const CERT_BYTES_MAX: usize = 64 << 10;

/// Subject alternative names of a certificate that is read. Public authorities put
/// at most some 100 to 250 into one; each costs a string.
pub const CERT_NAMES_MAX: usize = 2000;
/// A file of certificates, keys or revocation lists. Lists of large authorities have
/// some MiB.
pub const TLS_FILE_BYTES_MAX: u64 = 16 << 20;

/// A ClientHello, without headers of records. Post-quantum shares make them some 2 KiB.
pub const CLIENT_HELLO_BYTES_MAX: usize = 16 << 10;

/// Connections of a listener on one worker that wait for others' handshakes to end: as many as wait in its accept
/// queue. More stay there.
pub const HANDSHAKES_WAITING_MAX: usize = 4096;

/// A ClientHello with the headers of its records: as much again, for small records.
pub const HELLO_RECORDS_BYTES_MAX: usize = 2 * CLIENT_HELLO_BYTES_MAX;

/// The first read of a handshake: most flights fit.
pub const HELLO_READ_BYTES: usize = 4 << 10;

/// Bytes of a client from its ClientHello until it is established: 32 KiB of
/// certificates, a second ClientHello after a HelloRetryRequest, and the rest.
pub const CLIENT_FLIGHT_BYTES_MAX: usize = 40 << 10;

/// Bytes of a server until the session is established, as rustls bounds its messages.
pub const SERVER_FLIGHT_BYTES_MAX: usize = 128 << 10;

/// Memory of rustls for an established session: keys, states, names, and the 4 KiB that
/// it reads into and keeps.
pub const TLS_SESSION_BYTES: usize = 8 << 10;

/// Memory of rustls beyond that while a handshake waits for its peer: key schedules,
/// the transcript's digest. Larger allocations live within one step, of which a worker
/// does one at a time.
pub const TLS_HANDSHAKE_BYTES: usize = 16 << 10;

/// Memory of rustls for an incomplete message within the charge of a session and a handshake. Memory beyond it is
/// charged as it grows.
pub const TLS_MESSAGE_BYTES: usize = 1 << 10;

/// Room of an account above which reads from peers use large buffers.
pub const ROOMY_BYTES: u64 = 16 << 20;

/// The first read of ciphertext where little came last: requests are small.
pub const RECORD_READ_BYTES_MIN: usize = 4 << 10;

/// A read of ciphertext where much comes: close to four records.
pub const RECORD_READ_BYTES_MAX: usize = 64 << 10;

/// Content that is sealed at once: four records go out with one system call.
pub const SEALED_BYTES_MAX: usize = 64 << 10;

/// Interval of looks at a listener's files. A look costs a system call a file; a replaced certificate is shown to
/// new connections after this time at most.
pub const TLS_REREAD_EVERY: Duration = Duration::from_secs(2);

/// Time for which a session can be resumed. Its secret opens tickets for as long.
pub const TICKET_LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// A ticket. A client's chain is in it; larger ones are not made, and the session is
/// not resumed.
pub const TICKET_BYTES_MAX: usize = 16 << 10;

/// Secrets in a file of ticket keys: the present one, and those before it.
pub const TICKET_SECRETS_MAX: usize = 16;

/// Bytes of a header of the PROXY protocol, version 1: "a 108-byte buffer is always enough"
/// (§2.1), its terminating zero included.
pub const PROXY_V1_BYTES_MAX: usize = 107;

/// Bytes of a header of the PROXY protocol, version 2. §2.2 asks for 536 at least; the rest is for
/// extensions, such as a certificate's subject, which are skipped.
pub const PROXY_V2_BYTES_MAX: usize = 2 << 10;
