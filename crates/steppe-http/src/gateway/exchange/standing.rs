//! The facts of one attempt that decide about blame and retries.

use super::env::Env;
use super::routed::Routed;

/// Facts of an attempt that decide about blame and retries.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Standing {
    /// The attempt began with half of the exchange's time left, and the client sends no content that takes some.
    pub(super) is_timely: bool,
    /// The response was turned down, for the request to be sent again.
    pub(super) is_turned_down: bool,
    /// A final head was accepted, to be sent to the client.
    pub(super) has_passed: bool,
    /// A second server is asked meanwhile: it goes on alone where this attempt fails.
    pub(super) is_hedged: bool,
    /// The response's head made a tunnel of the exchange.
    pub(super) is_tunnel: bool,
}

impl Standing {
    /// The standing of an attempt that begins now.
    pub(super) fn new<D: ?Sized>(routed: &Routed, env: &Env<'_, '_, D>) -> Self {
        let has_time = routed.has_fair_time(env.journal.began_at, env.now);
        Self {
            is_timely: has_time && routed.replay.has_no_content(),
            ..Self::default()
        }
    }
}
