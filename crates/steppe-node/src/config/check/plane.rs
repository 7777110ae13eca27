//! Rules between keys of the request plane and those of the node and of upstreams.

use steppe_config::mistake::{Mistake, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::typed::{Fields, Node};
use steppe_config::units::size_text;
use steppe_http::config::keys::{gateway, upstream};
use steppe_plane::config::keys;

use crate::config::keys::node::MEMORY_BUDGET;
use crate::config::keys::{DISCOVERY, HTTP, NODE, PLANE};
use crate::config::memory_budget::MemoryBudget;

pub(super) fn check(file: &Fields, mistakes: &mut Mistakes) {
    if let Some(plane) = file.within(&PLANE) {
        keys::check(plane, mistakes);
        budget(file, plane, mistakes);
    }
    if let Some(discovery) = file.value(&DISCOVERY.spec) {
        keys::discovery::check(discovery, mistakes);
    }
    unreachable(file, mistakes);
}

/// True if the file has a section that makes the node serve a plane.
pub(super) fn is_served(file: &Fields) -> bool {
    keys::is_used(file.within(&PLANE), file.value(&DISCOVERY.spec))
}

fn budget(file: &Fields, plane: &Fields, mistakes: &mut Mistakes) {
    let node = file.within(&NODE);
    let whole = node.and_then(|node| node.get(&MEMORY_BUDGET));
    let (Some(MemoryBudget::Bytes(whole)), Some((part, span))) =
        (whole, plane.located(&keys::BUDGET))
    else {
        return;
    };
    if part <= whole {
        return;
    }
    let (part, whole) = (size_text(part), size_text(whole));
    let message = format!("the plane's budget of {part} is more than the node's {whole}");
    mistakes.push(
        Mistake::new(span, message)
            .label("a part of the node's budget")
            .help("give the node more, or the plane less"),
    );
}

/// Reports upstreams of a plane if the node serves none.
fn unreachable(file: &Fields, mistakes: &mut Mistakes) {
    if is_served(file) {
        return;
    }
    let upstreams = file
        .within(&HTTP)
        .map_or(&[][..], |http| http.entries(&gateway::UPSTREAM));
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

/// Addresses of the plane's listeners, for callers and workers.
pub(super) fn addresses(file: &Fields) -> impl Iterator<Item = &Node> {
    let plane = file.within(&PLANE);
    let listeners = plane.map_or(&[][..], |plane| plane.items(&keys::LISTENER));
    let listeners = listeners.iter().filter_map(Node::fields);
    listeners.filter_map(|listener| listener.value(&keys::listener::LISTEN.spec))
}
