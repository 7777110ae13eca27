//! Time that a drain leaves to what a client has begun before a service knows what it asks for: a PROXY header, a TLS
//! handshake, a first request.

use crate::clock;
use crate::deadline::Deadline;
use crate::drain::Drain;
use crate::limits::DRAIN_GRACE;

/// Shortens a deadline once, when a drain begins.
#[derive(Debug, Default)]
pub struct DrainGrace {
    is_granted: bool,
}

impl DrainGrace {
    /// Sets `deadline` to [`DRAIN_GRACE`] from now at the first call that finds `drain` begun. Later calls change
    /// nothing.
    #[expect(
        clippy::disallowed_methods,
        reason = "a drain sets a deadline of its own"
    )]
    pub fn apply(&mut self, drain: &Drain, deadline: &Deadline) {
        if drain.is_draining() && !self.is_granted {
            self.is_granted = true;
            deadline.set(clock::now(), DRAIN_GRACE);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use steppe_testkit::virtual_time;

    use super::*;
    use crate::deadline::Deadlines;
    use crate::drain::Phase;

    #[test]
    fn a_drain_sets_the_deadline_once() {
        virtual_time::run(async {
            let (drain, deadline) = (Drain::default(), Deadlines::default().add());
            let mut grace = DrainGrace::default();
            grace.apply(&drain, &deadline);
            assert_eq!(deadline.at(), None, "there is no drain");
            drain.enter(Phase::Draining);
            let granted = clock::now() + DRAIN_GRACE;
            grace.apply(&drain, &deadline);
            assert_eq!(deadline.at(), Some(granted));
            virtual_time::pass(Duration::from_millis(1)).await;
            grace.apply(&drain, &deadline);
            assert_eq!(deadline.at(), Some(granted));
        });
    }
}
