//! The gateway in virtual time: what is to happen after seconds or an hour happens when the test moves the
//! clock, and not before, however busy the machine is.
//!
//! Clients, gateway and servers are tasks of one runtime, and their connections pipes in memory.

#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

mod circuits;
mod deadlines;
mod failing;
mod memory;
mod policies;
mod probes;
mod site;

use std::time::Duration;

/// Upper bound of the delay with which a deadline is found: a tick of its sweep, and a step of the clock.
const LATE: Duration = Duration::from_millis(70);

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}
