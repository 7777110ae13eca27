//! Every bound of the admin server, with its reason. Content of requests has no
//! bound of its own: none is taken at all.

use std::time::Duration;

/// Connections open at once, a listener. Scrapers, probes and a few people.
pub const CONNECTIONS_MAX: usize = 64;

/// For a request's head, and between two requests. Below the usual scrape
/// interval, so that a scraper that pauses does not keep its place.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// For a whole connection, whatever it does: nobody who stops reading keeps its
/// place. A scraper that is cut connects again.
pub const CONNECTION_TIME_MAX: Duration = Duration::from_secs(300);

/// Request line and fields together; hyper's smallest.
pub const HEADER_BYTES_MAX: usize = 8 << 10;

/// Field lines.
pub const HEADER_COUNT_MAX: usize = 64;

/// A token file. Larger ones are something else.
pub const TOKEN_BYTES_MAX: u64 = 4 << 10;
