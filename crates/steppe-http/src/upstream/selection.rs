//! Server selection of one request: affinity, hash key, and the servers tried so far.
//!
//! Invariant: it allocates nothing until an attempt fails.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use super::breaker::Probe;
use super::picker::Wanted;
use super::sticky::{self, Cookie, Secure};
use super::target::TargetState;
use super::{Admission, Pool};
use crate::config::Balance;
use crate::encoder::Encoder;
use crate::error::GatewayError;
use crate::field::FieldBlock;
use crate::head::RequestHead;
use crate::limits::RESENDS_MAX;

/// The path of one request through the servers of its upstream.
#[derive(Debug, Default)]
pub struct Selection {
    key: Option<u64>,
    token: Option<u64>,
    /// Of the cookie that its client is given.
    secure: Secure,
    pub(super) tried: Vec<Arc<TargetState>>,
    pub(super) retries: u32,
    /// Times that the request was sent again for its connection alone.
    resends: u32,
    /// The server that the next attempt goes to, and its index.
    pub(super) picked: Option<(Arc<TargetState>, usize)>,
    /// It was let through a half-open circuit, and tells whether servers are well again.
    pub(super) probe: Option<Probe>,
}

impl Selection {
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

    /// Forgets the request, for another to come.
    pub fn clear(&mut self) {
        self.key = None;
        self.token = None;
        self.secure = Secure::No;
        self.tried.clear();
        self.retries = 0;
        self.resends = 0;
        self.picked = None;
        self.probe = None;
    }

    /// Gives back the place of a request that was to tell whether servers are well again: another
    /// one may be let through.
    pub(crate) fn forget_probe(&mut self) {
        self.probe = None;
    }

    /// True when it tells if servers are well again.
    pub(crate) fn is_probe(&self) -> bool {
        self.probe.is_some()
    }

    /// Counts that the request is sent again for its connection alone; `false` where that was often
    /// enough.
    pub fn count_resend(&mut self) -> bool {
        let may = self.resends < RESENDS_MAX;
        self.resends += u32::from(may);
        may
    }

    /// For another server than `first`, which is asked already. Where it takes no connection, none is retried.
    pub(crate) fn beside(&self, first: &Arc<TargetState>) -> Self {
        Self {
            key: self.key,
            tried: vec![Arc::clone(first)],
            retries: u32::MAX,
            ..Self::default()
        }
    }

    /// Its client's scheme is `scheme`.
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

    /// Whether an attempt failed.
    pub(crate) fn has_tried(&self) -> bool {
        !self.tried.is_empty()
    }

    /// Times that the request was sent again, whatever for.
    pub fn sent_again(&self) -> u32 {
        self.retries + self.resends
    }

    /// Whether the request was sent again for its connection alone before.
    pub fn was_resent(&self) -> bool {
        self.resends > 0
    }

    /// An attempt failed: another server comes next.
    pub fn failed_at(&mut self, state: &Arc<TargetState>) {
        self.tried.push(Arc::clone(state));
    }
}

impl Pool {
    /// Asks if the circuit breaker lets an attempt of the request through, which each one asks, the
    /// first and those that follow. A half-open circuit lets one request through, whose attempts stop
    /// once one of them has failed.
    pub(crate) fn admits(&self, selection: &mut Selection, now: Instant) -> bool {
        let is_held = selection.probe.as_ref().is_some_and(|held| held.holds(now));
        if is_held {
            return true;
        }
        match self.upstream.admit(now) {
            Admission::Pass => true,
            Admission::Open => false,
            Admission::Probe(probe) => {
                selection.probe = Some(probe);
                true
            }
        }
    }

    /// A server has answered a request well: counts it, and closes the circuit where the request was to
    /// tell that.
    pub(crate) fn succeeded(&self, selection: &mut Selection, now: Instant) {
        self.upstream.succeeded(now);
        if let Some(probe) = selection.probe.take() {
            self.upstream.recovered(probe);
        }
    }

    /// Reads what the choice of a server goes by; `client` says who asks.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub fn select(
        &self,
        selection: &mut Selection,
        head: &RequestHead,
        client: IpAddr,
        now: Instant,
    ) {
        let settings = self.settings();
        if settings.retry.is_some() {
            self.upstream.retry_budget().count(now);
        }
        if settings.hedge.is_some() {
            self.upstream.hedge_budget().count(now);
        }
        selection.key = match &settings.balance {
            Balance::RingHash(on) => sticky::key(on, head, client),
            _ => None,
        };
        let sticky = settings.sticky.as_ref();
        selection.token = sticky.and_then(|sticky| sticky::read(&head.fields, &sticky.cookie));
    }

    /// Adds the affinity cookie of the server that responded, unless the client has sent it.
    ///
    /// # Errors
    /// Where the budget has no room for it.
    pub(crate) fn set_affinity(
        &self,
        selection: &Selection,
        state: &Arc<TargetState>,
        fields: &mut FieldBlock,
    ) -> Result<(), GatewayError> {
        const COOKIE_BYTES: usize = 256;
        let Some(sticky) = &self.settings().sticky else {
            return Ok(());
        };
        let Some(of_server) = self
            .token_of(state)
            .filter(|of_server| selection.token != Some(*of_server))
        else {
            return Ok(());
        };
        let mut room = [0; COOKIE_BYTES];
        let mut out = Encoder::new(&mut room);
        let cookie = Cookie {
            name: &sticky.cookie,
            secure: selection.secure,
            token: of_server,
            max_age_s: sticky.ttl.as_secs(),
        };
        sticky::write(&mut out, cookie);
        let written = out.finish().expect("names of cookies are bounded");
        Ok(fields.append(b"set-cookie", &room[..written])?)
    }

    /// `None` if the server is no candidate any more: clients get no affinity to it.
    fn token_of(&self, state: &Arc<TargetState>) -> Option<u64> {
        let picker = self.picker.borrow();
        let mut candidates = picker.candidates().iter();
        let known = candidates.find(|known| Arc::ptr_eq(&known.state, state))?;
        Some(known.token)
    }
}

impl Selection {
    /// The token of the client's cookie.
    pub(crate) fn token(&self) -> Option<u64> {
        self.token
    }
}
