//! Blocking of responses whose aliases lead to names on lists.
//!
//! A tracker hides behind a name of the site that uses it, by a CNAME record, or as the target of an HTTPS or SVCB
//! record (RFC 9460 §2.4). So each target in a response is matched like a qname, and the rules above the one that
//! decided about the qname apply to it. Sources: AdGuard Home and Pi-hole do the same ("CNAME cloaking").

use super::Snapshot;
use crate::client::Client;
use crate::config::{Action, Block};
use crate::limits::ALIASES_PER_RESPONSE_MAX;
use crate::rules::{Asked, ListSet, Rewriting, Why};
use crate::wire::{Message, Name, Record, Rtype, Section, Steps, read_name};

/// The block of a response by the target of an alias.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockedAlias {
    /// Response to the client instead.
    pub(crate) block: Block,
    /// Lists that block the target.
    pub(crate) lists: ListSet,
}

impl Snapshot {
    /// The block of the response that begins with `body`, if a target in it is blocked for the client.
    /// `rewriting`: state of the rewriting rules for the qname.
    pub(crate) fn blocked_alias(
        &self,
        client: &Client,
        rewriting: Rewriting,
        body: &[u8],
    ) -> Option<BlockedAlias> {
        // Many configurations have no such list, and most responses no alias.
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

    /// The number of the rule that decides about the qname of a response.
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

    /// The block of a target, if a rule above number `before` blocks it by a list.
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

/// Offset of a record's target. The target `.` of an HTTPS or SVCB record is its owner, and on no list.
fn target_at(record: Record<'_>) -> Option<usize> {
    match record.rtype {
        Rtype::CNAME => Some(record.rdata_at),
        // After the priority: RFC 9460 §2.2.
        Rtype::SVCB | Rtype::HTTPS => Some(record.rdata_at + 2),
        _ => None,
    }
}
