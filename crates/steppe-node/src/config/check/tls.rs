//! TLS: what its keys say together, and beside those of listeners, upstreams and routes.

use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::typed::{Fields, Node, Typed};
use steppe_net::ServerAddress;
use steppe_net::config::tls::{CLIENT_AUTH, NAME, VERIFY, check_listener, check_servers};

use crate::config::keys::TLS_PROTOCOLS;
use crate::config::typed::{ByName, FromNode};

pub(super) fn check(http: &Fields, mistakes: &mut Mistakes) {
    for listener in listeners(http) {
        redirect(listener, mistakes);
        protocols(listener, mistakes);
        clients(listener, mistakes);
    }
    for entry in http.map("upstream") {
        if let Some(upstream) = entry.value.fields() {
            protocol(upstream, mistakes);
            if let Some(tls) = upstream.table("tls") {
                check_servers(tls, mistakes);
            }
            unnamed_servers(upstream, mistakes);
        }
    }
    client_cert(http, mistakes);
}

fn listeners(http: &Fields) -> impl Iterator<Item = &Fields> {
    http.list("listener").iter().filter_map(Node::fields)
}

/// What a listener's clients must show.
pub(super) fn clients(listener: &Fields, mistakes: &mut Mistakes) {
    if let Some(tls) = listener.table("tls") {
        check_listener(tls, mistakes);
    }
}

/// HTTP/2 has one name with TLS, and one without.
fn protocols(listener: &Fields, mistakes: &mut Mistakes) {
    let has_tls = listener.given("tls");
    for node in listener.list("protocols") {
        let mistake = match (<&str>::from_node(node), has_tls) {
            (Some("h2"), None) => Mistake::new(node.span, "\"h2\" needs TLS")
                .label("is negotiated only over TLS (ALPN)")
                .help("add `tls`, or set it to \"h2c\": HTTP/2 without TLS"),
            (Some("h2c"), Some(tls)) => Mistake::new(node.span, "\"h2c\" is HTTP/2 without TLS")
                .label("this listener has TLS")
                .also(tls, "here")
                .help("set it to \"h2\""),
            _ => continue,
        };
        mistakes.push(mistake);
    }
}

/// A listener with TLS serves https itself.
fn redirect(listener: &Fields, mistakes: &mut Mistakes) {
    let (Some(tls), Some(redirect)) = (listener.given("tls"), listener.node("redirect_https"))
    else {
        return;
    };
    let is_on = matches!(redirect.typed, Typed::Boolean(true) | Typed::Number(_));
    if is_on {
        mistakes.push(
            Mistake::new(
                redirect.span,
                "a listener with `tls` can't redirect to https",
            )
            .label("its requests arrive over https")
            .also(tls, "of this listener")
            .help("set it on a listener without `tls`"),
        );
    }
}

/// Whoever says how servers are verified does not mean them to be spoken to without TLS.
fn protocol(upstream: &Fields, mistakes: &mut Mistakes) {
    let Some(at) = upstream.given("tls") else {
        return;
    };
    // Beside `respond` there is no protocol, and `tls` was refused already.
    let Some((protocol, over_tls)) = (match upstream.take::<&str>("protocol") {
        Some("h1") => Some(("h1", "h1s")),
        Some("h2c") => Some(("h2c", "h2")),
        _ => None,
    }) else {
        return;
    };
    let message = format!("`tls` has no effect on servers that speak \"{protocol}\"");
    let mistake = Mistake::new(at, message).label("connections to them have no TLS");
    let mistake = match (upstream.given("protocol"), upstream.node("protocol")) {
        (Some(_), Some(protocol)) => mistake.also(protocol.span, "set here"),
        _ => mistake,
    };
    mistakes.push(mistake.help(format!(
        "set `protocol` to \"{over_tls}\", or take `tls` out"
    )));
}

/// The path of a socket is no name that a certificate could have.
fn unnamed_servers(upstream: &Fields, mistakes: &mut Mistakes) {
    let protocol = upstream.take::<&str>("protocol");
    let is_tls = protocol.is_some_and(|protocol| TLS_PROTOCOLS.contains(&protocol));
    let Some(tls) = upstream.table("tls").filter(|_| is_tls) else {
        return;
    };
    let is_verified = tls.get(&VERIFY) == Some(true);
    if !is_verified || tls.place_of(&NAME).is_some() {
        return;
    }
    for server in upstream.list("servers") {
        let address = match server.fields() {
            Some(table) => table.node("address"),
            None => Some(server),
        };
        let Some(node) = address else {
            continue;
        };
        if let Some(address @ ServerAddress::Unix(_)) = ServerAddress::from_node(node) {
            mistakes.push(
                Mistake::new(
                    node.span,
                    format!("`{address}` is not a name that certificates are verified for"),
                )
                .label("not a host name")
                .help("set `tls.server_name` to a name that its certificate has"),
            );
        }
    }
}

/// A route that asks for a certificate is taken only where clients are asked for one.
fn client_cert(http: &Fields, mistakes: &mut Mistakes) {
    let asks = |listener: &Fields| {
        let Some(tls) = listener.node("tls") else {
            return false;
        };
        // What is invalid was meant to ask, perhaps.
        let auth = tls.fields().and_then(|tls| tls.get(&CLIENT_AUTH));
        !matches!(auth, Some(None))
    };
    let is_unread = |node: &Node| node.fields().is_none();
    if listeners(http).any(asks) || http.list("listener").iter().any(is_unread) {
        return;
    }
    for route in http.list("route").iter().filter_map(Node::fields) {
        let Some(node) = route.node("client_cert") else {
            continue;
        };
        mistakes.push(
            Mistake::new(node.span, "no listener asks clients for a certificate")
                .label("this route is never taken")
                .help("set `client_auth` and `client_ca` in the `tls` of a listener"),
        );
    }
}
