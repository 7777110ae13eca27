//! A listener of the DNS forwarder.
//!
//! Invariant: as for all of `build`, `None` on the outside only where a mistake was reported.

use steppe_config::typed::Fields;
use steppe_dns::config::{Introduction, Listener, Protocol};
use steppe_net::ListenAddress;
use steppe_net::config::tls::listener as listener_tls;

use crate::config::keys::tls::DNS_CERTIFICATES;
use crate::config::typed::ByName;
use steppe_http::config::keys::tls;

/// DNS over TLS in ALPN (RFC 7858 §3.1, as IANA's registry names it).
const DOT: &[u8] = b"dot";

pub(super) fn listener(listener: &Fields) -> Option<Listener> {
    let ListenAddress::Tcp(address) = listener.take("listen")? else {
        return None;
    };
    let protocols: Vec<&str> = listener.take("protocols")?;
    let protocols = protocols.into_iter().map(Protocol::named);
    let protocols: Vec<Protocol> = protocols.collect::<Option<_>>()?;
    let tls = match listener.node("tls") {
        None => None,
        Some(tls) => Some(listener_tls(
            tls.fields()?,
            &DNS_CERTIFICATES,
            alpn(&protocols),
        )?),
    };
    Some(Listener {
        address,
        protocols,
        tls,
        introduction: match listener.take("proxy_protocol")? {
            true => Introduction::ByProxy,
            false => Introduction::None,
        },
    })
}

fn alpn(protocols: &[Protocol]) -> Vec<Vec<u8>> {
    let names: &[&[u8]] = match protocols.contains(&Protocol::Https) {
        true => &[tls::HTTP_2, tls::HTTP_1_1],
        false => &[DOT],
    };
    names.iter().map(|name| name.to_vec()).collect()
}
