//! Tokens that come back with time.

use std::time::Instant;

/// A bucket of tokens, which fills again with time.
#[derive(Debug)]
pub struct TokenBucket {
    left: u32,
    burst: u32,
    per_second: u32,
    at: Instant,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens, of which `per_second` come back.
    #[must_use]
    pub fn new(burst: u32, per_second: u32, now: Instant) -> Self {
        Self {
            left: burst,
            burst,
            per_second,
            at: now,
        }
    }

    /// Tokens that are left, without those that came back since they ran out.
    #[must_use]
    pub fn left(&self) -> u32 {
        self.left
    }

    /// Takes a token, if there is one: true then.
    pub fn take(&mut self, now: Instant) -> bool {
        if self.left == 0 {
            let since = now.saturating_duration_since(self.at).as_millis();
            let back = since * u128::from(self.per_second) / 1000;
            if back == 0 {
                return false;
            }
            self.put_back(u32::try_from(back).unwrap_or(u32::MAX));
            self.at = now;
        }
        if self.left == self.burst {
            self.at = now;
        }
        self.left -= 1;
        true
    }

    /// Puts tokens back, up to a full bucket.
    pub fn put_back(&mut self, tokens: u32) {
        self.left = self.left.saturating_add(tokens).min(self.burst);
    }
}
