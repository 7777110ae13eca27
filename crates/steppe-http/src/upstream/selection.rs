//! Server selection of one request: affinity, hash key, and the servers tried so far.
//!
//! Invariant: it allocates nothing until an attempt fails.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use super::picker::Wanted;
use super::target::TargetState;
use super::{Connected, Pool, sticky};
use crate::config::Balance;
use crate::error::GatewayError;
use crate::field::FieldBlock;
use crate::h1::encode::Encoder;
use crate::head::RequestHead;

/// The input and the attempts of one request's server selection.
#[derive(Debug, Default)]
pub struct Selection {
    key: Option<u64>,
    token: Option<u64>,
    pub(super) tried: Vec<Arc<TargetState>>,
    pub(super) retries: u32,
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

    /// Records a failed attempt: the next one goes to another server.
    pub fn failed_at(&mut self, connected: &Connected) {
        self.tried.push(Arc::clone(&connected.state));
    }
}

impl Pool {
    /// Reads the sticky cookie and the hash key of a request; `client` returns its address.
    pub fn select(&self, head: &RequestHead, client: impl FnOnce() -> IpAddr) -> Selection {
        let settings = self.settings();
        if settings.retry.is_some() {
            self.upstream.retry_budget().count(Instant::now());
        }
        let key = match &settings.balance {
            Balance::RingHash(on) => sticky::key(on, head, client()),
            _ => None,
        };
        let sticky = settings.sticky.as_ref();
        let token = sticky.and_then(|sticky| sticky::read(&head.fields, &sticky.cookie));
        Selection {
            key,
            token,
            ..Selection::default()
        }
    }

    /// Adds the affinity cookie of the server that responded, unless the client has sent it.
    ///
    /// # Errors
    /// When the budget refuses memory for it.
    pub(crate) fn stick(
        &self,
        token: Option<u64>,
        state: &Arc<TargetState>,
        fields: &mut FieldBlock,
    ) -> Result<(), GatewayError> {
        const COOKIE_BYTES: usize = 256;
        let Some(sticky) = &self.settings().sticky else {
            return Ok(());
        };
        let Some(of_server) = self
            .token_of(state)
            .filter(|of_server| token != Some(*of_server))
        else {
            return Ok(());
        };
        let mut room = [0; COOKIE_BYTES];
        let mut out = Encoder::new(&mut room);
        sticky::write(&mut out, &sticky.cookie, of_server, sticky.ttl.as_secs());
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
