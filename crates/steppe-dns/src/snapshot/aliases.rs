//! Aliases of responses that lead to names of lists.
//!
//! A tracker hides behind a name of the site that uses it, by a CNAME record, or as the target of an HTTPS or SVCB
//! record (RFC 9460 §2.4). So each name that a response leads
//! to is looked for as if it were asked for, and the rules above the one that decides about the client's name
//! have their say. Sources: AdGuard Home and Pi-hole do the same ("CNAME cloaking").

use super::Snapshot;
use crate::client::Client;
use crate::config::{Action, Block};
use crate::limits::ALIASES_PER_RESPONSE_MAX;
use crate::rules::{Asked, ListSet, Rewriting, Why};
use crate::wire::{Message, Name, Record, Rtype, Section, Steps, read_name};

/// A response that is not passed on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockedAlias {
    /// The answer that its client gets.
    pub(crate) block: Block,
    /// The lists by which it is blocked.
    pub(crate) lists: ListSet,
}

impl Snapshot {
    /// The reason why a response, which begins with `body`, is not for a client. `rewriting`: whether rules that rewrite
    /// count for the name of its question.
    pub(crate) fn blocked_alias(
        &self,
        client: &Client,
        rewriting: Rewriting,
        body: &[u8],
    ) -> Option<BlockedAlias> {
        // Most responses have no alias, and many configurations no list.
        if self.alias_lists == ListSet::default() {
            return None;
        }
        let message = Message::parse(body).ok()?;
        let targets = message.records(Section::Answer).filter_map(target_at);
        let mut decides = None;
        targets
            .take(ALIASES_PER_RESPONSE_MAX)
            .find_map(|target_at| {
                let mut steps = Steps::of_message(body.len());
                let (target, _) = read_name(body, target_at, &mut steps).ok()?;
                let before = match decides {
                    Some(number) => number,
                    None => *decides.insert(self.deciding_rule(client, rewriting, &message)?),
                };
                let asked = Asked {
                    client,
                    qname: &target,
                    qtype: message.question().qtype,
                    rewriting: Rewriting::Done,
                };
                self.blocks_target(asked, before)
            })
    }

    /// The number of the rule that decides about the name of a response's question.
    fn deciding_rule(
        &self,
        client: &Client,
        rewriting: Rewriting,
        message: &Message<'_>,
    ) -> Option<usize> {
        let question = message.question();
        let asked = Asked {
            client,
            qname: &Name::from_wire(question.qname).ok()?,
            qtype: question.qtype,
            rewriting,
        };
        self.rule(asked).decision.map(|decision| decision.number)
    }

    /// The decision about the target of an alias, by a rule above the one of this number.
    fn blocks_target(&self, asked: Asked<'_>, before: usize) -> Option<BlockedAlias> {
        let decision = self.rule(asked).decision?;
        let (&Action::Block(block), Why::Lists(lists)) = (decision.action, decision.why) else {
            return None;
        };
        let lists = ListSet(lists.0 & self.alias_lists.0);
        let is_blocked = decision.number < before && lists != ListSet::default();
        is_blocked.then_some(BlockedAlias { block, lists })
    }
}

/// The place of the name that a record leads to. The target `.` of an HTTPS or SVCB record is its owner, and on no list.
fn target_at(record: Record<'_>) -> Option<usize> {
    match record.rtype {
        Rtype::CNAME => Some(record.rdata_at),
        // Behind the priority: RFC 9460 §2.2.
        Rtype::SVCB | Rtype::HTTPS => Some(record.rdata_at + 2),
        _ => None,
    }
}
