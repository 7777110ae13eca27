//! Every bound of this crate, each with its reason.

use std::time::Duration;

/// Bytes of an answer, or of one message of a stream: a list of thousands of keys fits. The one that is read
/// stays in memory until the next.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Endpoints: etcd's own clusters have seven members at most.
pub const ENDPOINTS_MAX: usize = 16;

/// How long a connection, a session of TLS and an answer may take, each.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// Without a message for as long, a watch is opened again: on a line that was cut, nothing else would tell.
pub const WATCH_SILENCE: Duration = Duration::from_secs(30);

/// The shortest and the longest lease. Shorter ones lapse whenever a leader is elected (etcd's election
/// timeout is a second by default); longer ones name who has died for too long.
pub const LEASE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(3_600));

/// How often a lease is kept alive within its time: two beats may be lost.
pub const BEATS_PER_LEASE: u32 = 3;

/// Bytes of an error's text that are shown.
pub(crate) const TEXT_BYTES_MAX: usize = 200;
