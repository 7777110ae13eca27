//! Fields that filters write.

use steppe_config::mistake::{Mistake, Span};
use steppe_config::mistakes::Mistakes;
use steppe_config::typed::{Fields, Named, Node};
pub(super) use steppe_http::config::keys::forms::refuse_ours;

use crate::config::typed::FromNode;

/// What a `transform` filter does to fields.
pub(super) fn edits(filter: &Fields, mistakes: &mut Mistakes) {
    for side in ["request_headers", "response_headers"] {
        let Some(edits) = filter.table(side) else {
            continue;
        };
        let removed = edits.list("remove").iter().filter_map(named);
        let written = edits.map("set").iter().chain(edits.map("append"));
        let written = written.map(|entry: &Named| (entry.name.clone(), entry.span));
        let rewritten = edits.list("rewrite").iter().filter_map(Node::fields);
        let rewritten = rewritten.filter_map(|rewrite| rewrite.node("header"));
        let rewritten = rewritten.filter_map(named);
        for (name, span) in removed.chain(written).chain(rewritten) {
            refuse_ours(&name, span, mistakes);
        }
        if side == "request_headers" {
            one_host(edits, mistakes);
        }
    }
}

/// RFC 9112 §3.2: a request has one Host field.
fn one_host(edits: &Fields, mistakes: &mut Mistakes) {
    let removed = edits.list("remove").iter().filter_map(named);
    let appended = edits.map("append").iter();
    let appended = appended.map(|entry| (entry.name.clone(), entry.span));
    for (_, span) in removed.chain(appended).filter(|(name, _)| name == "host") {
        mistakes.push(
            Mistake::new(span, "a request must have exactly one `host` field")
                .label("of the request")
                .help("replace it with `set`"),
        );
    }
}

fn named(node: &Node) -> Option<(String, Span)> {
    Some((String::from_node(node)?, node.span))
}
