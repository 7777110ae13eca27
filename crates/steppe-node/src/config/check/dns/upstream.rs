//! What keys of one upstream say together.

use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::typed::{Fields, Node};
use steppe_dns::config::Server;
use steppe_dns::limits::SERVERS_PER_EXCHANGE_MAX;

use crate::config::typed::FromNode;

pub(super) fn check(upstream: &Fields, mistakes: &mut Mistakes) {
    let Some(node) = upstream.node("servers") else {
        return;
    };
    let servers = upstream.list("servers");
    let most = usize::from(SERVERS_PER_EXCHANGE_MAX);
    if servers.len() > most {
        let message = format!(
            "an upstream has at most {most} servers, not {}",
            servers.len()
        );
        let mistake = Mistake::new(node.span, message).label("too many");
        mistakes.push(mistake.help("give the others an upstream of their own"));
    }
    without_effect(upstream, mistakes);
    unknown_address(upstream, mistakes);
}

/// Keys of servers that there are none of.
fn without_effect(upstream: &Fields, mistakes: &mut Mistakes) {
    let has = |is_wanted: fn(&Server) -> bool| read(upstream).any(|(_, server)| is_wanted(&server));
    let is_known = upstream.list("servers").len() == read(upstream).count();
    if let (Some(span), true, false) = (upstream.given("tls"), is_known, has(Server::is_secure)) {
        let mistake = Mistake::new(
            span,
            "`tls` has no effect: no server uses \"tls://\" or \"https://\"",
        );
        mistakes.push(mistake.label("without effect").help("take it out"));
    }
    let is_named = |server: &Server| server.socket_address().is_none();
    if let (Some(span), true, false) = (upstream.given("bootstrap"), is_known, has(is_named)) {
        let mistake = Mistake::new(
            span,
            "`bootstrap` has no effect: no server is known by name",
        );
        mistakes.push(mistake.label("each has an address").help("take it out"));
    }
}

/// Nobody is asked for an address who is known by name alone.
fn unknown_address(upstream: &Fields, mistakes: &mut Mistakes) {
    let has_bootstrap = !upstream.list("bootstrap").is_empty();
    let is_asked = upstream.given("resolv_conf").is_some()
        || read(upstream).any(|(_, server)| !server.is_secure());
    let named = read(upstream).find(|(_, server)| server.socket_address().is_none());
    if let (Some((node, _)), false, false) = (named, has_bootstrap, is_asked) {
        let mistake = Mistake::new(node.span, "this host name needs `bootstrap`");
        let help =
            "write \"tls://NAME@ADDRESS\", or set `bootstrap` to resolvers, such as [\"9.9.9.9\"]";
        mistakes.push(mistake.label("no resolver for its address").help(help));
    }
}

/// Servers that could be read.
fn read(upstream: &Fields) -> impl Iterator<Item = (&Node, Server)> {
    let servers = upstream.list("servers").iter();
    servers.filter_map(|node| Some((node, Server::from_node(node)?)))
}
