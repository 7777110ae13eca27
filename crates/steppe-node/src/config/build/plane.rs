//! The request plane out of a file that was read.
//!
//! Invariant: as for all of `build`, `None` on the outside only where a mistake was reported.

use steppe_net::{ListenAddress, ServerAddress};
use steppe_plane::config::{Plane, Queue};

use steppe_plane::DialedWorker;

use crate::config::typed::{Fields, FromNode, Node, Typed};

/// `plane`, where the file has it, and the workers of `discovery`.
pub(super) fn plane(plane: Option<&Fields>, discovery: Option<&Fields>) -> Option<Plane> {
    let workers = match discovery {
        Some(discovery) => workers(discovery)?,
        None => Vec::new(),
    };
    let Some(plane) = plane else {
        return Some(Plane {
            workers,
            ..Plane::default()
        });
    };
    let queue = plane.table("queue")?;
    let listeners = plane.list("listener").iter();
    Some(Plane {
        listeners: listeners.map(listener).collect::<Option<_>>()?,
        budget: plane.optional("budget")?,
        response_permille: permille(plane.take("response_share")?),
        max_payload: plane.take("max_payload")?,
        queue: Queue {
            bytes: queue.take("bytes")?,
            wait: queue.take("wait")?,
        },
        workers,
    })
}

/// Those that are dialed: each once, with all that it is to serve.
fn workers(discovery: &Fields) -> Option<Vec<DialedWorker>> {
    // The one kind that is served: `check` has seen to that.
    if discovery.take::<&str>("kind")? != "static" {
        return None;
    }
    let mut workers: Vec<DialedWorker> = Vec::new();
    for entry in discovery.map("services") {
        let Typed::List(addresses) = &entry.value.typed else {
            return None;
        };
        for address in addresses {
            let address: ServerAddress = FromNode::from_node(address)?;
            let address = address.to_string();
            let known = workers.iter_mut().find(|worker| worker.address == address);
            match known {
                Some(worker) => worker.services.push(entry.name.clone()),
                None => workers.push(DialedWorker {
                    address,
                    services: vec![entry.name.clone()],
                }),
            }
        }
    }
    Some(workers)
}

fn listener(node: &Node) -> Option<ListenAddress> {
    node.fields()?.take("listen")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share is above 0 and at most 1"
)]
fn permille(share: f64) -> u16 {
    (share * 1000.0).round() as u16
}
