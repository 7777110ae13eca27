//! Every bound of this crate, each with its reason.

use std::time::Duration;

/// Bytes of a response, or of one message of a stream. A list of thousands of keys fits. A message
/// that was read stays in memory until the next one.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Endpoints: etcd's own clusters have seven members at most.
pub const ENDPOINTS_MAX: usize = 16;

/// Time limit of one exchange: connection, TLS handshake and response together.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// Time without a message after which a watch is opened again: a dead connection shows in no other way.
pub const WATCH_SILENCE: Duration = Duration::from_secs(30);

/// The shortest and the longest lease. A shorter one expires whenever a leader is elected (etcd's
/// election timeout is a second by default); a longer one lists dead workers for too long.
pub const LEASE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(3_600));

/// Keep-alives within the time of a lease: two may be lost.
pub const BEATS_PER_LEASE: u32 = 3;

/// Characters of an error's text that are shown.
pub(crate) const TEXT_BYTES_MAX: usize = 200;
