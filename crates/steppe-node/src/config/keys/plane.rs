//! Tables of the request plane, and of where it finds its workers.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use std::time::Duration;

use steppe_config::table::{Absent, Kind, Needs, Spec, Table, Tagged, Variant};

use super::tls::{DISCOVERY_TLS, PLANE_LISTENER_TLS};
use crate::config::forms;
use crate::config::limits::{
    MEMORY_BUDGET_MAX, PLANE_BUDGET_MIN, PLANE_PAYLOAD, PLANE_QUEUE_BYTES_MAX, TIMEOUT_MAX,
};

pub(super) static PLANE: Table = Table {
    name: "plane",
    doc: "The request plane: the relay between callers and workers.",
    keys: &[
        &Spec::new(
            "listener",
            Kind::List(&Kind::Table(&LISTENER), 0),
            LISTENER.doc,
        )
        .absent(Absent::Texts(&[])),
        &Spec::new("rule", Kind::List(&Kind::Table(&RULE), 0), RULE.doc).absent(Absent::Texts(&[])),
        &Spec::new(
            "budget",
            Kind::Size(PLANE_BUDGET_MIN, MEMORY_BUDGET_MAX),
            "Memory that connections, requests and responses may hold together, of \
             `node.memory_budget`; a connection takes 368 KiB. Without it, all of it. A change \
             needs a restart.",
        ),
        &Spec::new(
            "response_share",
            Kind::Share,
            "Share of the memory for bodies that requests leave to responses, at most 90%. An \
             eighth of the budget is for connections and calls alone. A change needs a restart.",
        )
        .absent(Absent::Text("25%")),
        &Spec::new(
            "max_payload",
            Kind::Size(PLANE_PAYLOAD.0, PLANE_PAYLOAD.1),
            "Largest body of a request. A body that is larger than the budget is streamed.",
        )
        .absent(Absent::Text("256MiB")),
        &Spec::new("queue", Kind::Table(&QUEUE), QUEUE.doc).absent(Absent::Table),
    ],
    needs: Needs::Nothing,
};

static LISTENER: Table = Table {
    name: "plane.listener",
    doc: "Addresses that callers and workers connect to.",
    keys: &[
        &Spec::new(
            "listen",
            Kind::Text(&forms::LISTEN),
            "Address to listen on. \"[::]:7700\" is dual stack: IPv4 too.",
        )
        .required(),
        &Spec::new(
            "tls",
            Kind::Table(&PLANE_LISTENER_TLS),
            PLANE_LISTENER_TLS.doc,
        ),
    ],
    needs: Needs::Nothing,
};

/// Items of both lists of a rule.
const SERVICES: Kind = Kind::List(&Kind::Text(&forms::SERVICES), 0);

static RULE: Table = Table {
    name: "plane.rule",
    doc: "Rights of the peers that connect. The first rule that matches a peer decides: what it does \
          not list is denied. With rules, peers that none matches may do nothing; without any, \
          every peer may offer and call every service. Workers of `discovery` offer what is listed \
          there; routes of the gateway follow no rule. A reload resets calls that are no longer \
          allowed, and closes connections of workers that offer what they no longer may.",
    keys: &[
        &Spec::new(
            "client_cert",
            Kind::Text(&forms::ALT_NAME),
            "Name in the peer's certificate: a subject alternative name, the common name that the \
             subject begins with, or the whole subject such as \"CN=api,O=Example\". A listener \
             must ask for client certificates.",
        ),
        &Spec::new(
            "network",
            Kind::Text(&forms::NETWORK),
            "Network of the peer's address, such as \"10.0.0.0/8\".",
        ),
        &Spec::new(
            "offer",
            SERVICES,
            "Services that the peer may register as a worker. A `*` at the end stands for any rest \
             of the name. A worker that names another service is disconnected as denied.",
        )
        .absent(Absent::Texts(&[])),
        &Spec::new(
            "call",
            SERVICES,
            "Services that the peer may call. A `*` at the end stands for any rest of the name. \
             Other calls are refused as denied.",
        )
        .absent(Absent::Texts(&[])),
    ],
    needs: Needs::One(&["client_cert", "network"]),
};

static QUEUE: Table = Table {
    name: "plane.queue",
    doc: "Calls that wait for a worker.",
    keys: &[
        &Spec::new(
            "bytes",
            Kind::Size(0, PLANE_QUEUE_BYTES_MAX),
            "Bytes that waiting calls may have sent, in all. Calls beyond it are refused as \
             overload.",
        )
        .absent(Absent::Text("16MiB")),
        &Spec::new(
            "wait",
            Kind::Duration(Duration::ZERO, TIMEOUT_MAX),
            "Time that a call waits for a worker, or for room at one, before it is refused. \
             \"0s\": calls do not wait, and workers are asked to report at once if they have \
             room.",
        )
        .absent(Absent::Text("5s")),
    ],
    needs: Needs::Nothing,
};

pub(super) static DISCOVERY: Tagged = Tagged {
    name: "discovery",
    doc: "Workers that the relay dials, instead of workers that connect. Lost ones are dialed \
     again with a back-off. A worker gets the services that it both names and is listed for.",
    tag: "kind",
    tag_doc: "Source of the workers' addresses.",
    variants: &[
        Variant {
            name: "static",
            doc: STATIC.doc,
            table: Some(&STATIC),
        },
        Variant {
            name: "etcd",
            doc: ETCD.doc,
            table: Some(&ETCD),
        },
    ],
};

static TO_WORKERS: Spec = Spec::new("tls", Kind::Table(&DISCOVERY_TLS), DISCOVERY_TLS.doc);

static STATIC: Table = Table {
    name: "discovery",
    doc: "Workers that are listed in this file.",
    keys: &[
        &Spec::new(
            "services",
            Kind::Map(&forms::SERVICE, &Kind::List(&Kind::Text(&forms::SERVER), 1)),
            "Addresses of workers, by service: `{ embed = [\"10.0.0.7:7701\"] }`. A reload dials \
             new ones; open calls at removed ones are finished.",
        )
        .absent(Absent::Table),
        &TO_WORKERS,
    ],
    needs: Needs::Nothing,
};

static ETCD: Table = Table {
    name: "discovery",
    doc: "Workers that register themselves in etcd.",
    keys: &[
        &Spec::new(
            "endpoints",
            Kind::List(&Kind::Text(&forms::ETCD_ENDPOINT), 1),
            "URLs (http or https) of the cluster's members, at most 16; the next is asked if one \
             does not answer. Certificates are verified by the system's authorities. Users of \
             etcd are not supported.",
        )
        .absent(Absent::Texts(&["http://127.0.0.1:2379"])),
        &Spec::new(
            "prefix",
            Kind::Text(&forms::ETCD_PREFIX),
            "Prefix of the keys. `PREFIX/workers/SERVICE/HOST:PORT` names a worker; at most \
             1,024 such keys are read.",
        )
        .absent(Absent::Text("/steppe")),
        &Spec::new(
            "lease",
            Kind::Duration(steppe_etcd::limits::LEASE.0, steppe_etcd::limits::LEASE.1),
            "Time that workers stay in etcd without a sign of life. During an outage of etcd, \
             the last list stays in use; a worker that is missing from the first list after it \
             is kept for this time.",
        )
        .absent(Absent::Text("10s")),
        &TO_WORKERS,
    ],
    needs: Needs::Nothing,
};
