//! The request plane out of a file that was read.
//!
//! Invariant: as for all of `build`, `None` on the outside only where a mistake was reported.

use steppe_net::ListenAddress;
use steppe_plane::config::{Plane, Queue};

use crate::config::typed::{Fields, Node};

/// `plane`, where the file has it. `discovery` names no workers, which `check` has seen to.
pub(super) fn plane(plane: Option<&Fields>, discovery: Option<&Fields>) -> Option<Plane> {
    if let Some(discovery) = discovery {
        let is_static = discovery.take::<&str>("kind")? == "static";
        if !is_static || !discovery.map("services").is_empty() {
            return None;
        }
    }
    let Some(plane) = plane else {
        return Some(Plane::default());
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
    })
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
