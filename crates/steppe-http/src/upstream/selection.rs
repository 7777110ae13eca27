//! Server selection of one request: affinity, hash key, and the servers tried so far.
//!
//! Invariant: it allocates nothing until an attempt fails.

use std::sync::Arc;
use std::time::Instant;

use super::breaker::Trial;
use super::picker::Wanted;
use super::sticky::Secure;
use super::target::TargetState;
use crate::limits::RESENDS_MAX;

/// The path of one request through the servers of its upstream.
#[derive(Debug, Default)]
pub struct Selection {
    key: Option<u64>,
    pub(super) token: Option<u64>,
    /// `Secure` of the cookie that its client is given.
    pub(super) secure: Secure,
    pub(super) tried: Vec<Arc<TargetState>>,
    pub(super) retries: u32,
    /// Times that the request was sent again for its connection alone.
    resends: u32,
    /// The server that the next attempt goes to, and its index.
    pub(super) picked: Option<(Arc<TargetState>, usize)>,
    /// The server to which a connection is being established, and since when.
    pub(super) connecting: Option<(Arc<TargetState>, Instant)>,
    /// The request was let through a half-open circuit, and shows if servers are well again.
    pub(super) trial: Option<Trial>,
}

impl Selection {
    /// A selection by a hash key, and by the token of an affinity cookie.
    pub(super) fn by(key: Option<u64>, token: Option<u64>) -> Self {
        Self {
            key,
            token,
            ..Self::default()
        }
    }

    pub(super) fn wanted(&self) -> Wanted<'_> {
        Wanted {
            key: self.key,
            token: self.token,
            tried: &self.tried,
        }
    }

    /// Servers that were tried may be chosen again, except the one that just `failed`.
    pub(super) fn wanted_after<'a>(&'a self, failed: &'a Arc<TargetState>) -> Wanted<'a> {
        Wanted {
            tried: std::slice::from_ref(failed),
            ..self.wanted()
        }
    }

    /// Gives back the place of a request that was to tell whether servers are well again: another
    /// one may be let through.
    pub(crate) fn forget_trial(&mut self) {
        self.trial = None;
    }

    /// True when it tells if servers are well again.
    pub(crate) fn is_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// Counts that the request is sent again for its connection alone; `false` where that was often
    /// enough.
    pub fn count_resend(&mut self) -> bool {
        let may = self.resends < RESENDS_MAX;
        self.resends += u32::from(may);
        may
    }

    /// For another server than `first`, which is asked already. No `retry` counts for it.
    pub(crate) fn beside(&self, first: &Arc<TargetState>) -> Self {
        Self {
            key: self.key,
            tried: vec![Arc::clone(first)],
            retries: u32::MAX,
            ..Self::default()
        }
    }

    /// Attempts failed at the servers that `beside`, a selection beside this one, has tried.
    pub(crate) fn failed_as(&mut self, beside: &Self) {
        let known = |state| self.tried.iter().any(|tried| Arc::ptr_eq(tried, state));
        let new = beside.tried.iter().filter(|state| !known(state));
        let new: Vec<_> = new.map(Arc::clone).collect();
        self.tried.extend(new);
    }

    /// The client's scheme is `scheme`.
    pub(crate) fn set_scheme(&mut self, scheme: &str) {
        self.secure = match scheme {
            "https" => Secure::Yes,
            _ => Secure::No,
        };
    }

    /// The servers at which attempts failed, the last one at the end.
    pub(crate) fn tried(&self) -> &[Arc<TargetState>] {
        &self.tried
    }

    /// True when an attempt failed.
    pub(crate) fn has_tried(&self) -> bool {
        !self.tried.is_empty()
    }

    /// Times that the request was sent again, whatever for.
    pub fn sent_again(&self) -> u32 {
        self.retries + self.resends
    }

    /// True when the request was sent again for its connection alone before.
    pub fn was_resent(&self) -> bool {
        self.resends > 0
    }

    /// An attempt failed: another server comes next.
    pub fn failed_at(&mut self, state: &Arc<TargetState>) {
        self.tried.push(Arc::clone(state));
    }

    /// The server to which a connection was being established when waiting for it ended, and since when.
    pub(crate) fn take_connecting(&mut self) -> Option<(Arc<TargetState>, Instant)> {
        self.connecting.take()
    }

    /// The token of the client's cookie.
    pub(crate) fn token(&self) -> Option<u64> {
        self.token
    }
}
