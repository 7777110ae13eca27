//! Servers that know no EDNS, and servers that change the case of names, as home routers do: these are asked
//! without.
//!
//! The question whose answer shows it goes on at once, without EDNS or in lower case. After
//! [`FALLBACK_AFTER`](crate::limits::FALLBACK_AFTER) such answers in a row its server is asked so from the start,
//! for [`FALLBACK_TIME`](crate::limits::FALLBACK_TIME). This is for servers over UDP and TCP alone: those over TLS
//! and HTTPS have neither fault, and are verified.

use std::time::Instant;

use super::exchanges::Exchange;
use super::fallback::Seen;
use super::server::Server;
use crate::config::Transport;
use crate::in_flight::Attempts;
use crate::servers::Told;
use crate::wire::{Message, Rcode};

/// The step that follows when a server has not understood a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterRefusal {
    /// It is asked again, without EDNS.
    AskAgain,
    /// None: the answer of the query without EDNS is waited for.
    Wait,
    /// It was asked without already, or is expected to know EDNS: it has failed.
    Fail,
}

impl Exchange {
    /// Has a server asked without EDNS that did not understand a query: RFC 6891 §7.
    pub(super) fn drop_edns(&mut self, server: usize, attempts: &Attempts) -> AfterRefusal {
        let bit = 1 << server;
        if self.upstream.servers[server].config.is_secure() {
            return AfterRefusal::Fail;
        }
        if self.plain & bit != 0 {
            // A query that was sent before, with EDNS, may be what is answered.
            return match self.pending(attempts) & bit {
                0 => AfterRefusal::Fail,
                _ => AfterRefusal::Wait,
            };
        }
        self.plain |= bit;
        self.ask_anew(server);
        AfterRefusal::AskAgain
    }

    /// Notes that a response has EDNS. Its server knows it: the refusal before was of something else, or forged.
    pub(super) fn has_seen_edns(&mut self, server: usize) {
        self.plain &= !(1 << server);
    }

    /// Notes that a response has not repeated the case of its query's name: its server changes it, or somebody
    /// guesses. True: that is known of the server by now.
    pub(super) fn lose_case(&mut self, server: usize, now: Instant) -> bool {
        self.lost_case |= 1 << server;
        let known = &self.upstream.servers[server];
        if known.in_lower_case.see(now) == Seen::TooOften && known.cells.tell(Told::Case) {
            let name = self.upstream.config.name.as_str();
            tracing::warn!(upstream = name, server = %known.config, "DNS server does not keep the case of names: further queries are in lower case");
        }
        known.in_lower_case.is_in_force(now)
    }

    /// Has a server asked in lower case that has lost the case of the name. False: it has not, or was asked so
    /// already.
    pub(super) fn drop_case(&mut self, server: usize) -> bool {
        let bit = 1 << server;
        let is_due = self.lost_case & !self.lower & bit != 0;
        if is_due {
            self.lower |= bit;
            self.by_stream &= !bit;
            self.ask_anew(server);
        }
        is_due
    }

    /// Sets what a server is to be asked without, before it is asked.
    pub(super) fn apply_fallbacks(&mut self, server: usize, attempts: &Attempts, now: Instant) {
        let bit = 1 << server;
        let known = &self.upstream.servers[server];
        if known.without_edns.is_in_force(now) {
            self.plain |= bit;
        }
        if known.in_lower_case.is_in_force(now) {
            self.lower |= bit;
        }
        // No answer has come by TCP for a while: the server may have none.
        let is_udp = known.config.transport == Transport::Udp;
        let by_stream = self.lost_case & self.by_stream & bit;
        if is_udp && by_stream & self.pending(attempts) != 0 {
            self.lower |= bit;
            self.by_stream &= !bit;
        }
    }

    /// Servers that are asked now.
    pub(super) fn pending(&self, attempts: &Attempts) -> u64 {
        attempts.exchange(self.id).map_or(0, |known| known.pending)
    }

    /// Another query is next for a server, which has not been asked that.
    fn ask_anew(&mut self, server: usize) {
        self.asked.begin_anew(server);
        self.exhausted &= !(1 << server);
        self.failed &= !(1 << server);
    }
}

impl Server {
    /// It has answered a query of an exchange. An answer without EDNS, after a refusal, shows that EDNS was what it
    /// did not understand: a refusal alone may be of the question, and clients choose these.
    pub(super) fn settle_fallbacks(&self, exchange: &Exchange, server: usize, now: Instant) {
        let bit = 1 << server;
        let edns = &self.without_edns;
        if exchange.plain & bit == 0 {
            edns.break_row();
        } else if !edns.is_in_force(now)
            && edns.see(now) == Seen::TooOften
            && self.cells.tell(Told::Edns)
        {
            let name = exchange.upstream.config.name.as_str();
            tracing::warn!(upstream = name, server = %self.config, "DNS server does not understand EDNS: further queries are without it");
        }
        if (exchange.lower | exchange.lost_case) & bit == 0 {
            self.in_lower_case.break_row();
        }
    }
}

/// True of a response that says that its server does not understand EDNS: one that does has an OPT record. RFC
/// 6891 §7.
pub(super) fn has_no_edns(message: &Message<'_>) -> bool {
    let rcode = message.header().flags.rcode();
    matches!(rcode, Rcode::FORMERR | Rcode::NOTIMP) && message.opt().is_none()
}
