//! The DNS forwarder over HTTPS: its listeners are the gateway's, and routes of the gateway may lead to it.

use steppe_dns::config::{Forwarder, InProcess, Introduction, Protocol};
use steppe_dns::limits::{DOH_PATH, DOH_QUERY_BYTES_MAX};
use steppe_http::config::{
    Gateway, GuestAddress, H1, H2, Listener, ListenerKeys, ListenerLimits, ListenerRoutes,
    ListenerTls, Route, Target, Upstream, UpstreamKind,
};
use steppe_net::ListenAddress;

use crate::doh::FORWARDER;

/// Passes the trusted proxies to the forwarder, adds its listeners to the gateway, and the forwarder to the upstreams
/// if a route leads there: behind all defined ones.
pub(super) fn join(http: &mut Gateway, dns: &mut Forwarder) {
    dns.trusted_proxies.clone_from(&http.trusted_proxies);
    let forwarder = Target::Upstream(http.upstreams.len());
    for listener in &dns.listeners {
        let Some(tls) = listener.tls.clone() else {
            continue;
        };
        if !listener.protocols.contains(&Protocol::Https) {
            continue;
        }
        let address = ListenAddress::Tcp(listener.address);
        http.listeners.push(Listener {
            tls: Some(ListenerTls {
                session: tls,
                strict_transport_security: None,
            }),
            proxy_protocol: listener.introduction == Introduction::ByProxy,
            routes: ListenerRoutes::Own,
            keys: ListenerKeys {
                listen: "dns.listener.listen",
                tls: "dns.listener.tls",
            },
            limits: ListenerLimits {
                body_bytes: DOH_QUERY_BYTES_MAX as u64,
                ..ListenerLimits::default()
            },
            ..Listener::of(address.clone(), vec![H1, H2])
        });
        let by_id = format!("{DOH_PATH}/{{id}}");
        for (name, path) in [("dns", DOH_PATH), ("dns by id", by_id.as_str())] {
            let path = path.parse().expect("a literal path, and a name behind it");
            http.routes.push(Route {
                listeners: vec![address.clone()],
                ..Route::of(&format!("{name} {address}"), path, forwarder.clone())
            });
        }
    }
    if http.routes.iter().any(|route| route.target == forwarder) {
        dns.in_process = InProcess::Asks;
        http.upstreams.push(Upstream {
            name: FORWARDER.to_owned(),
            kind: UpstreamKind::Guest(GuestAddress::whole(FORWARDER)),
        });
    }
}
