//! What keys of the DNS forwarder say together.

mod listener;
mod rules;
mod setting;
mod upstream;

use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::typed::{Fields, Node};
use steppe_net::ListenAddress;

use crate::config::typed::FromNode;

pub(super) fn check(dns: &Fields, mistakes: &mut Mistakes) {
    for listener in dns.list("listener").iter().filter_map(Node::fields) {
        no_unix_socket(listener, mistakes);
        listener::check(listener, mistakes);
    }
    for upstream in dns.map("upstream") {
        if let Some(fields) = upstream.value.fields() {
            upstream::check(fields, mistakes);
        }
    }
    let has_listener = !dns.list("listener").is_empty();
    rules::check(dns, mistakes);
    setting::check(dns, mistakes);
    if has_listener && dns.node("rule").is_some() && dns.list("rule").is_empty() {
        let mistake = Mistake::new(dns.span, "every query is refused: there is no `dns.rule`");
        let help = "add one that matches everything, with `forward` set to an upstream";
        mistakes.push(mistake.label("no rule").help(help));
    }
}

fn no_unix_socket(listener: &Fields, mistakes: &mut Mistakes) {
    let Some(node) = listener.node("listen") else {
        return;
    };
    if let Some(ListenAddress::Unix(_)) = ListenAddress::from_node(node) {
        let mistake = Mistake::new(node.span, "the DNS forwarder can't listen on a Unix socket");
        mistakes.push(
            mistake
                .label("not an address and a port")
                .help("write one such as \"127.0.0.1:53\""),
        );
    }
}
