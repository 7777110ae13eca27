//! The maximum age of a connection.

use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

use crate::limits::CONNECTION_AGE_MAX;

/// The time after which a connection that begins at `now` takes no further requests: those that
/// begin
/// together do not end together.
pub(crate) fn ages_at(now: Instant) -> Instant {
    const PARTS: u16 = 1024;
    let parts = RandomState::new().hash_one(0_u8) % u64::from(PARTS);
    let parts = u32::try_from(parts).expect("it is small");
    now + CONNECTION_AGE_MAX + CONNECTION_AGE_MAX / 10 / u32::from(PARTS) * parts
}
