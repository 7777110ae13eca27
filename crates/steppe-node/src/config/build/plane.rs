//! The request plane out of a file that was read.
//!
//! Invariant: as for all of `build`, `None` on the outside only where a mistake was reported.

use steppe_config::typed::{Fields, Node, Typed};
use steppe_net::ServerAddress;
use steppe_net::config::tls;
use steppe_net::tls::config::ServerTrust;
use steppe_plane::config::{Listener, Peers, Plane, Queue, Rule, Services, Workers};
use steppe_plane::{ALPN, DialedWorker, Directory};

use crate::config::keys::tls::PLANE_CERTIFICATES;
use crate::config::typed::{ByName, FromNode};

/// `plane`, where the file has it, and the workers of `discovery`.
pub(super) fn plane(plane: Option<&Fields>, discovery: Option<&Node>) -> Option<Plane> {
    let (workers, worker_tls) = match discovery {
        Some(discovery) => (workers(discovery)?, to_workers(discovery)?),
        None => (Workers::default(), None),
    };
    let Some(plane) = plane else {
        return Some(Plane {
            workers,
            worker_tls,
            ..Plane::default()
        });
    };
    let queue = plane.table("queue")?;
    let listeners = plane.list("listener").iter();
    Some(Plane {
        listeners: listeners.map(listener).collect::<Option<_>>()?,
        rules: plane.list("rule").iter().map(rule).collect::<Option<_>>()?,
        budget: plane.optional("budget")?,
        response_permille: permille(plane.take("response_share")?),
        max_payload: plane.take("max_payload")?,
        queue: Queue {
            bytes: queue.take("bytes")?,
            wait: queue.take("wait")?,
        },
        workers,
        worker_tls,
    })
}

/// TLS to workers that are dialed.
#[expect(clippy::option_option, reason = "invalid and absent are two things")]
fn to_workers(discovery: &Node) -> Option<Option<ServerTrust>> {
    match discovery.fields()?.node("tls") {
        None => Some(None),
        Some(tls) => tls::servers(tls.fields()?, ALPN).map(Some),
    }
}

/// Who says which workers are dialed.
fn workers(discovery: &Node) -> Option<Workers> {
    match &discovery.typed {
        Typed::Variant {
            name: "static",
            fields,
            ..
        } => named(fields).map(Workers::Static),
        Typed::Variant {
            name: "etcd",
            fields,
            ..
        } => directory(fields).map(Workers::Found),
        _ => None,
    }
}

fn directory(etcd: &Fields) -> Option<Directory> {
    Some(Directory {
        endpoints: etcd.take("endpoints")?,
        prefix: etcd.take("prefix")?,
        lease: etcd.take("lease")?,
    })
}

/// Those that the file names: each once, with all that it is to serve.
fn named(discovery: &Fields) -> Option<Vec<DialedWorker>> {
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

fn listener(node: &Node) -> Option<Listener> {
    let listener = node.fields()?;
    let tls = match listener.node("tls") {
        None => None,
        Some(tls) => Some(tls::listener(
            tls.fields()?,
            &PLANE_CERTIFICATES,
            vec![ALPN.to_vec()],
        )?),
    };
    Some(Listener {
        address: listener.take("listen")?,
        tls,
    })
}

fn rule(node: &Node) -> Option<Rule> {
    let rule = node.fields()?;
    let peers = match rule.optional("client_cert")? {
        Some(name) => Peers::ClientCert(name),
        None => Peers::Network(rule.take("network")?),
    };
    let services = |key: &str| {
        let texts: Vec<String> = rule.take(key)?;
        Some(texts.iter().map(|text| Services::new(text)).collect())
    };
    Some(Rule {
        peers,
        offer: services("offer")?,
        call: services("call")?,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share is above 0 and at most 1"
)]
fn permille(share: f64) -> u16 {
    (share * 1000.0).round() as u16
}
