//! Back-off between attempts to dial a peer.

use std::time::Duration;

use crate::limits::{BACKOFF_FIRST, BACKOFF_MAX};
use crate::random::Random;

/// Back-off between attempts to dial a peer: doubles each time, with jitter, so that the peers
/// that lost the same connection do not dial at the same time.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    random: Random,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self {
            next: BACKOFF_FIRST,
            random: Random::new(),
        }
    }

    /// The next wait: between half and all of [`BACKOFF_FIRST`] at first; twice as long each time, up to
    /// [`BACKOFF_MAX`].
    pub(crate) fn next(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(BACKOFF_MAX);
        let half = whole / 2;
        let micros = u64::try_from(half.as_micros()).unwrap_or(u64::MAX);
        half + Duration::from_micros(self.random.below(micros))
    }

    /// Notes the duration of a connection: only one of [`BACKOFF_MAX`] or longer resets the wait. A peer that
    /// accepts and dismisses would otherwise be dialed without a pause.
    pub(crate) fn lasted(&mut self, time: Duration) {
        if time >= BACKOFF_MAX {
            self.next = BACKOFF_FIRST;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_within_its_bounds() {
        let mut backoff = Backoff::new();
        let mut whole = BACKOFF_FIRST;
        for _ in 0..20 {
            let wait = backoff.next();
            assert!((whole / 2..=whole).contains(&wait), "{wait:?} of {whole:?}");
            whole = (whole * 2).min(BACKOFF_MAX);
        }
        assert_eq!(whole, BACKOFF_MAX);
        backoff.lasted(BACKOFF_MAX / 2);
        assert!(backoff.next() > BACKOFF_FIRST, "it was lost too soon");
        backoff.lasted(BACKOFF_MAX);
        assert!(backoff.next() <= BACKOFF_FIRST);
    }

    #[test]
    fn two_that_lost_the_same_peer_come_back_apart() {
        let waits = [(); 2].map(|()| {
            let mut backoff = Backoff::new();
            [(); 8].map(|()| backoff.next())
        });
        assert_ne!(waits[0], waits[1]);
    }
}
