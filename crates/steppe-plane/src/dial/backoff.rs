//! How long to wait before a peer is dialed again.

use std::time::Duration;

use crate::limits::{BACKOFF_FIRST, BACKOFF_MAX};
use crate::random::Random;

/// How long to wait before a peer is dialed again: twice as long each time, with jitter, so that those
/// who lost the same peer do not come back together.
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

    /// The next time to wait, between half and all of [`BACKOFF_FIRST`] at first, of [`BACKOFF_MAX`] at
    /// most.
    pub(crate) fn next(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(BACKOFF_MAX);
        let half = whole / 2;
        let micros = u64::try_from(half.as_micros()).unwrap_or(u64::MAX);
        half + Duration::from_micros(self.random.below(micros))
    }

    /// Notes how long a connection lasted. One that was lost at once is no reason to begin again: a peer
    /// that accepts and dismisses would be dialed without a pause.
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
