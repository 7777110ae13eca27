//! The addresses that a node listens on, by what it receives there.

use steppe_config::typed::{Fields, Node};

use steppe_http::config::keys::listener;

use super::plane;
use crate::config::typed::FromNode;

/// Where connections are accepted: by admin, gateway, forwarder and request plane.
pub(in crate::config) fn streams(file: &Fields) -> Vec<&Node> {
    let admin = file.table("admin");
    let of_admin = admin.into_iter().flat_map(|admin| {
        let nodes = [admin.node("listen"), admin.node("probes")];
        nodes.into_iter().flatten()
    });
    let listeners = file
        .table("http")
        .map_or(&[][..], |http| http.list("listener"));
    let of_gateway = listeners
        .iter()
        .filter_map(|node| node.fields()?.value(&listener::LISTEN.spec));
    let of_forwarder = of_forwarder(file, &["tcp", "tls", "https"]);
    of_admin
        .chain(of_gateway)
        .chain(plane::addresses(file))
        .chain(of_forwarder)
        .collect()
}

/// Where datagrams are received: by the forwarder.
pub(in crate::config) fn datagrams(file: &Fields) -> Vec<&Node> {
    of_forwarder(file, &["udp"]).collect()
}

/// Addresses of the DNS forwarder's listeners that speak one of these.
fn of_forwarder<'a>(file: &'a Fields, spoken: &'static [&str]) -> impl Iterator<Item = &'a Node> {
    let listeners = file
        .table("dns")
        .map_or(&[][..], |dns| dns.list("listener"));
    listeners.iter().filter_map(move |node| {
        let listener = node.fields()?;
        let mut protocols = listener.list("protocols").iter();
        let speaks = protocols
            .any(|node| <&str>::from_node(node).is_some_and(|name| spoken.contains(&name)));
        listener.node("listen").filter(|_| speaks)
    })
}
