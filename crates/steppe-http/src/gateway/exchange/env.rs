//! Everything that one poll of an exchange has at hand.

use std::task::Context;
use std::time::Instant;

use super::journal::Journal;
use super::subrequest::StartSubrequest;
use crate::filter::Identity;
use crate::filter::attached::AttachedFilters;
use crate::gateway::client::ClientContext;

/// Everything that one poll of an exchange has at hand.
pub(super) struct Env<'a, 'cx, D: ?Sized> {
    pub(super) cx: &'a mut Context<'cx>,
    pub(super) now: Instant,
    pub(super) client: &'a ClientContext,
    pub(super) down: &'a mut D,
    pub(super) journal: &'a mut Journal,
    pub(super) reused: &'a Reused,
    pub(super) start_subrequest: StartSubrequest,
}

/// Memory that the exchanges of a worker use one after the other.
#[derive(Debug, Default)]
pub(super) struct Reused {
    /// The states of filters that see this exchange.
    pub(super) filters: AttachedFilters,
    /// The client's identity, as far as filters found it out.
    pub(super) identity: Identity,
}

impl Reused {
    /// Frees everything of an exchange, and keeps the memory.
    pub(super) fn empty(&mut self) {
        let Self { filters, identity } = self;
        filters.get_mut().clear();
        identity.clear();
    }
}
