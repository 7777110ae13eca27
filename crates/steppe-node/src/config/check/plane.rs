//! What keys of the request plane say together, and beside those of the node and of upstreams.

use steppe_config::mistake::{Mistake, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::typed::{Fields, Node, Typed};
use steppe_config::units::size_text;
use steppe_etcd::limits::ENDPOINTS_MAX;
use steppe_http::config::keys::upstream;
use steppe_net::config::tls::{check_listener, check_servers};
use steppe_net::{ListenAddress, ServerAddress};
use steppe_plane::limits::RESPONSE_SHARE_PERMILLE_MAX;

use super::plane_rules;
use crate::config::typed::{ByName, FromNode};

/// The most of `plane.response_share`.
const RESPONSE_SHARE_MAX: f64 = RESPONSE_SHARE_PERMILLE_MAX as f64 / 1000.0;

pub(super) fn check(file: &Fields, mistakes: &mut Mistakes) {
    if let Some(plane) = file.table("plane") {
        for listener in plane.list("listener").iter().filter_map(Node::fields) {
            no_unix_socket(listener, mistakes);
            if let Some(tls) = listener.table("tls") {
                check_listener(tls, mistakes);
            }
        }
        budget(file, plane, mistakes);
        response_share(plane, mistakes);
        plane_rules::check(plane, mistakes);
    }
    let discovery = file.table("discovery");
    if let Some(tls) = discovery.and_then(|discovery| discovery.table("tls")) {
        check_servers(tls, mistakes);
    }
    match file.node("discovery").map(|node| &node.typed) {
        Some(Typed::Variant {
            name: "static",
            fields,
            ..
        }) => {
            for entry in fields.map("services") {
                no_unix_worker(&entry.value, mistakes);
            }
        }
        Some(Typed::Variant { fields, .. }) => few_endpoints(fields, mistakes),
        _ => {}
    }
    unreachable(file, mistakes);
}

/// Whether the file says anything that is served by a plane.
pub(super) fn is_served(file: &Fields) -> bool {
    let are_dialed = match file.node("discovery").map(|node| &node.typed) {
        Some(Typed::Variant {
            name: "static",
            fields,
            ..
        }) => !fields.map("services").is_empty(),
        // What is invalid was meant to be there.
        Some(_) => true,
        None => false,
    };
    if are_dialed {
        return true;
    }
    let plane = file.table("plane");
    // What is invalid was meant to be there.
    let listeners = plane.and_then(|plane| plane.node("listener"));
    listeners.is_some_and(|node| match &node.typed {
        Typed::List(items) => !items.is_empty(),
        _ => true,
    })
}

fn no_unix_socket(listener: &Fields, mistakes: &mut Mistakes) {
    let Some(node) = listener.node("listen") else {
        return;
    };
    if let Some(ListenAddress::Unix(_)) = ListenAddress::from_node(node) {
        let mistake = Mistake::new(node.span, "the request plane can't listen on a Unix socket");
        mistakes.push(
            mistake
                .label("not an address and a port")
                .help("write one such as \"127.0.0.1:7700\""),
        );
    }
}

fn few_endpoints(etcd: &Fields, mistakes: &mut Mistakes) {
    let endpoints = etcd.list("endpoints");
    if let Some(extra) = endpoints.get(ENDPOINTS_MAX) {
        let message = format!("more than {ENDPOINTS_MAX} endpoints of etcd");
        let mistake = Mistake::new(extra.span, message).label("one too many");
        mistakes.push(mistake.help("a cluster has seven members at most"));
    }
}

fn no_unix_worker(addresses: &Node, mistakes: &mut Mistakes) {
    let Typed::List(addresses) = &addresses.typed else {
        return;
    };
    for node in addresses {
        if let Some(ServerAddress::Unix(_)) = ServerAddress::from_node(node) {
            let mistake = Mistake::new(node.span, "workers can't be dialed over a Unix socket");
            mistakes.push(
                mistake
                    .label("not an address and a port")
                    .help("write one such as \"10.0.0.7:7701\""),
            );
        }
    }
}

fn budget(file: &Fields, plane: &Fields, mistakes: &mut Mistakes) {
    let node = file.table("node");
    let whole = node.and_then(|node| node.take::<u64>("memory_budget"));
    let (Some(whole), Some(part), Some(at)) =
        (whole, plane.take::<u64>("budget"), plane.node("budget"))
    else {
        return;
    };
    if part <= whole {
        return;
    }
    let (part, whole) = (size_text(part), size_text(whole));
    let message = format!("the plane's budget of {part} is more than the node's {whole}");
    mistakes.push(
        Mistake::new(at.span, message)
            .label("a part of the node's budget")
            .help("give the node more, or the plane less"),
    );
}

fn response_share(plane: &Fields, mistakes: &mut Mistakes) {
    let Some(node) = plane.node("response_share") else {
        return;
    };
    if matches!(node.typed, Typed::Share(share) if share > RESPONSE_SHARE_MAX) {
        mistakes.push(
            Mistake::new(node.span, "`response_share` leaves requests no room")
                .label("more than 90%")
                .help("write a share such as \"25%\""),
        );
    }
}

/// An upstream of a plane that nobody can serve.
fn unreachable(file: &Fields, mistakes: &mut Mistakes) {
    if is_served(file) {
        return;
    }
    let upstreams = file
        .table("http")
        .map_or(&[][..], |http| http.map("upstream"));
    for upstream in upstreams.iter().filter_map(|entry| entry.value.fields()) {
        let Some((service, at)) = upstream.located(&upstream::PLANE) else {
            continue;
        };
        let message = format!("no worker can serve `{}`", shown(&service));
        mistakes.push(
            Mistake::new(at, message)
                .label("there is no request plane")
                .help("add a `plane.listener` that workers connect to, or list workers in `discovery`"),
        );
    }
}

/// Where callers and workers connect.
pub(super) fn addresses(file: &Fields) -> impl Iterator<Item = &Node> {
    let listeners = file
        .table("plane")
        .map_or(&[][..], |plane| plane.list("listener"));
    listeners
        .iter()
        .filter_map(|node| node.fields()?.node("listen"))
}
