//! What keys of a listener of the DNS forwarder say together.

use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::typed::{Fields, Node};
use steppe_net::config::tls::check_listener;

use crate::config::typed::{ByName, FromNode};

/// Of these a TCP socket speaks one.
const ON_STREAMS: [&str; 3] = ["tcp", "tls", "https"];

/// Of these each needs TLS.
const OVER_TLS: [&str; 2] = ["tls", "https"];

pub(super) fn check(listener: &Fields, mistakes: &mut Mistakes) {
    let of = |names: &'static [&str]| {
        let protocols = listener.list("protocols").iter();
        let is_of =
            move |node: &&Node| <&str>::from_node(node).is_some_and(|name| names.contains(&name));
        protocols.filter(is_of)
    };
    let mut on_streams = of(&ON_STREAMS);
    if let (Some(first), Some(second)) = (on_streams.next(), on_streams.next()) {
        mistakes.push(
            Mistake::new(
                second.span,
                "a TCP socket serves only one of \"tcp\", \"tls\" and \"https\"",
            )
            .label("a second one")
            .also(first.span, "the first one")
            .help("add a `dns.listener` with another port for it"),
        );
    }
    match (of(&OVER_TLS).next(), listener.node("tls")) {
        (Some(protocol), None) => mistakes.push(
            Mistake::new(protocol.span, "this protocol needs TLS")
                .label("no certificate for clients")
                .help("add `tls.certificates`, with the files of a certificate and its key"),
        ),
        (None, Some(tls)) => mistakes.push(
            Mistake::new(
                tls.span,
                "`tls` has no effect: no protocol of this listener uses TLS",
            )
            .label("without effect")
            .help("set `protocols` to \"tls\" or \"https\", or take it out"),
        ),
        _ => {}
    }
    let is_proxied = listener.take::<bool>("proxy_protocol") == Some(true);
    if let (true, Some(node), Some(udp)) = (
        is_proxied,
        listener.node("proxy_protocol"),
        of(&["udp"]).next(),
    ) {
        mistakes.push(
            Mistake::new(node.span, "the PROXY protocol works on connections only")
                .label("datagrams carry no PROXY header")
                .also(udp.span, "of this listener")
                .help("add a `dns.listener` for \"udp\" without it"),
        );
    }
    if let Some(tls) = listener.table("tls") {
        check_listener(tls, mistakes);
    }
}
