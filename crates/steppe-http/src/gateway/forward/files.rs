//! Routes to a folder: the exchange is the same, its other side is a file.

use std::time::Instant;

use steppe_mem::Lease;

use super::{Connection, Gateway, OnHead, Outcome, patience, relay};
use crate::files::{FileResponder, Served};
use crate::head::{RequestHead, ResponseHead};

/// Serves the request of `head`, and takes it.
pub(super) async fn serve(
    connection: &mut Connection,
    gateway: &Gateway,
    head: &mut Option<RequestHead>,
    route: usize,
    served: &Served,
    lease: &Lease,
) -> Outcome {
    let head = head.take().expect("a request was read");
    match FileResponder::new(head, served, lease) {
        Ok(mut responder) => {
            let accept = |_: &mut ResponseHead| Ok(());
            let on_head = OnHead {
                patience: patience(gateway, &connection.server, route, None),
                now: Instant::now(),
                accept,
            };
            relay(connection, gateway, route, &mut responder, on_head).await
        }
        Err(error) => Outcome {
            result: Err(error),
            status: None,
        },
    }
}
