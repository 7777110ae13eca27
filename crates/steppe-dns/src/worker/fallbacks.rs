//! Servers without EDNS, and servers that change the case of names, as home routers do: they are asked without EDNS,
//! or in lower case.
//!
//! A question whose answer shows the fault is asked again at once, without EDNS or in lower case. After
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
    /// The server is asked again, without EDNS.
    AskAgain,
    /// No step: the answer to the query without EDNS is waited for.
    Wait,
    /// The server has failed: it was asked without EDNS already, or is expected to support EDNS.
    Fail,
}

impl Exchange {
    /// Turns EDNS off for a server that did not understand a query, if that may help: RFC 6891 §7.
    pub(super) fn drop_edns(&mut self, server: usize, attempts: &Attempts) -> AfterRefusal {
        let bit = 1 << server;
        if self.upstream.servers[server].config.is_secure() {
            return AfterRefusal::Fail;
        }
        if self.plain & bit != 0 {
            // The answer may be to a query that was sent before, with EDNS.
            return match self.pending(attempts) & bit {
                0 => AfterRefusal::Fail,
                _ => AfterRefusal::Wait,
            };
        }
        self.plain |= bit;
        self.ask_anew(server);
        AfterRefusal::AskAgain
    }

    /// Notes that a response has EDNS. Its server supports it: an earlier refusal had another reason, or was forged.
    pub(super) fn has_seen_edns(&mut self, server: usize) {
        self.plain &= !(1 << server);
    }

    /// Notes that a response has not repeated the case of its query's name: its server changes it, or the response is
    /// forged. True if the server is known to change it by now.
    pub(super) fn lose_case(&mut self, server: usize, now: Instant) -> bool {
        self.lost_case |= 1 << server;
        let known = &self.upstream.servers[server];
        if known.in_lower_case.see(now) == Seen::TooOften && known.cells.tell(Told::Case) {
            let name = self.upstream.config.name.as_str();
            tracing::warn!(upstream = name, server = %known.config, "DNS server does not keep the case of names: further queries are in lower case");
        }
        known.in_lower_case.is_in_force(now)
    }

    /// Turns to lower case for a server that has changed the case of the name. False: it has not changed it, or was
    /// asked so already.
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

    /// Applies the fallbacks in force for a server, before it is asked.
    pub(super) fn apply_fallbacks(&mut self, server: usize, attempts: &Attempts, now: Instant) {
        let bit = 1 << server;
        let known = &self.upstream.servers[server];
        if known.without_edns.is_in_force(now) {
            self.plain |= bit;
        }
        if known.in_lower_case.is_in_force(now) {
            self.lower |= bit;
        }
        // No answer has come by TCP for a while: the server may not support TCP.
        let is_udp = known.config.transport == Transport::Udp;
        let by_stream = self.lost_case & self.by_stream & bit;
        if is_udp && by_stream & self.pending(attempts) != 0 {
            self.lower |= bit;
            self.by_stream &= !bit;
        }
    }

    /// Servers with a query that is out: a bit each.
    pub(super) fn pending(&self, attempts: &Attempts) -> u64 {
        attempts.exchange(self.id).map_or(0, |known| known.pending)
    }

    /// Forgets the earlier queries to a server, since the next one is different.
    fn ask_anew(&mut self, server: usize) {
        self.asked.begin_anew(server);
        self.exhausted &= !(1 << server);
        self.failed &= !(1 << server);
    }
}

impl Server {
    /// Notes that the server has answered an exchange. An answer to a query without EDNS, after a refusal, shows that
    /// it lacks EDNS: a refusal alone may be due to the question, and clients choose these.
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

/// True if a response says that its server does not understand EDNS: the response of one that does has an OPT
/// record. RFC 6891 §7.
pub(super) fn has_no_edns(message: &Message<'_>) -> bool {
    let rcode = message.header().flags.rcode();
    matches!(rcode, Rcode::FORMERR | Rcode::NOTIMP) && message.opt().is_none()
}
