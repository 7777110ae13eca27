//! The numbers of times that servers were asked one question.
//!
//! RFC 9520 §3.1: a server is asked three times over a transport at most; then it counts as silent there.

use crate::limits::QUERIES_PER_SERVER_MAX;

/// For each number of times, a bit for each server that was asked so often.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TimesAsked([u64; QUERIES_PER_SERVER_MAX]);

impl TimesAsked {
    /// Counts a query to a server.
    pub(super) fn count(&mut self, server: usize) {
        let bit = 1 << server;
        if let Some(times) = self.0.iter_mut().find(|times| **times & bit == 0) {
            *times |= bit;
        }
    }

    /// True if a server was asked as often as it may be.
    pub(super) fn is_enough(&self, server: usize) -> bool {
        self.0[QUERIES_PER_SERVER_MAX - 1] & (1 << server) != 0
    }

    /// Resets the count of a server, which is asked over another transport or in another way next.
    pub(super) fn begin_anew(&mut self, server: usize) {
        self.0.iter_mut().for_each(|times| *times &= !(1 << server));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_a_count_of_its_own() {
        let mut asked = TimesAsked::default();
        for _ in 0..QUERIES_PER_SERVER_MAX {
            assert!(!asked.is_enough(3));
            asked.count(3);
        }
        assert!(asked.is_enough(3) && !asked.is_enough(63));
        asked.begin_anew(3);
        asked.count(3);
        assert!(!asked.is_enough(3));
    }
}
