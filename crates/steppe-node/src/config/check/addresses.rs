//! The addresses that a node listens on, for connections and for datagrams.

use steppe_config::typed::{Fields, Node};
use steppe_dns::config::{Protocol, keys as dns};
use steppe_http::config::keys::{gateway, listener};

use super::plane;
use crate::config::keys::{ADMIN, DNS, HTTP, admin};

/// Addresses of listeners for connections: of admin, gateway, forwarder and request plane.
pub(in crate::config) fn streams(file: &Fields) -> Vec<&Node> {
    let admin = file.within(&ADMIN);
    let of_admin = admin.into_iter().flat_map(|admin| {
        let nodes = [&admin::LISTEN.spec, &admin::PROBES.spec].map(|key| admin.value(key));
        nodes.into_iter().flatten()
    });
    let listeners = file
        .within(&HTTP)
        .map_or(&[][..], |http| http.items(&gateway::LISTENER));
    let of_gateway = listeners
        .iter()
        .filter_map(|node| node.fields()?.value(&listener::LISTEN.spec));
    let of_forwarder = of_forwarder(file, |protocol| *protocol != Protocol::Udp);
    of_admin
        .chain(of_gateway)
        .chain(plane::addresses(file))
        .chain(of_forwarder)
        .collect()
}

/// Addresses of listeners for datagrams: of the forwarder.
pub(in crate::config) fn datagrams(file: &Fields) -> Vec<&Node> {
    of_forwarder(file, |protocol| *protocol == Protocol::Udp).collect()
}

/// Addresses of the forwarder's listeners with such a protocol.
fn of_forwarder(file: &Fields, is_spoken: fn(&Protocol) -> bool) -> impl Iterator<Item = &Node> {
    let dns = file.within(&DNS);
    let listeners = dns.map_or(&[][..], |dns| dns.items(&dns::LISTENER));
    listeners.iter().filter_map(move |node| {
        let listener = node.fields()?;
        let protocols = listener.items(&dns::listener::PROTOCOLS).iter();
        let mut protocols = protocols.filter_map(|node| node.typed.value());
        let speaks = protocols.any(is_spoken);
        let address = listener.value(&dns::listener::LISTEN.spec);
        address.filter(|_| speaks)
    })
}
