//! Tables of the request plane, and of where it finds its workers.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use std::time::Duration;

use super::tls::{DISCOVERY_TLS, PLANE_LISTENER_TLS};
use crate::config::limits::{
    MEMORY_BUDGET_MAX, PLANE_BUDGET_MIN, PLANE_PAYLOAD, PLANE_QUEUE_BYTES_MAX, TIMEOUT_MAX,
};
use crate::config::table::{Absent, Form, Key, Kind, Needs, Table, Tagged, Variant};

pub(super) static PLANE: Table = Table {
    name: "plane",
    doc: "The request plane: its relay between callers and workers.",
    keys: &[
        Key::new(
            "listener",
            Kind::List(&Kind::Table(&LISTENER), 0),
            LISTENER.doc,
        )
        .absent(Absent::Texts(&[])),
        Key::new(
            "budget",
            Kind::Size(PLANE_BUDGET_MIN, MEMORY_BUDGET_MAX),
            "What it may hold of the node's memory budget, requests and responses together; \
             without it the whole of it.",
        ),
        Key::new(
            "response_share",
            Kind::Share,
            "The share of its budget that requests leave to responses.",
        )
        .absent(Absent::Text("25%")),
        Key::new(
            "max_payload",
            Kind::Size(PLANE_PAYLOAD.0, PLANE_PAYLOAD.1),
            "Bytes of a body; one that is larger than the budget is streamed.",
        )
        .absent(Absent::Text("256MiB")),
        Key::new("queue", Kind::Table(&QUEUE), QUEUE.doc).absent(Absent::Table),
    ],
    needs: Needs::Nothing,
};

static LISTENER: Table = Table {
    name: "plane.listener",
    doc: "Where callers and workers connect.",
    keys: &[
        Key::new(
            "listen",
            Kind::Text(Form::Listen),
            "IPv4 or IPv6 (\"[::]:7700\" is dual stack).",
        )
        .required(),
        Key::new(
            "tls",
            Kind::Table(&PLANE_LISTENER_TLS),
            PLANE_LISTENER_TLS.doc,
        ),
    ],
    needs: Needs::Nothing,
};

static QUEUE: Table = Table {
    name: "plane.queue",
    doc: "Requests that wait for a worker.",
    keys: &[
        Key::new(
            "bytes",
            Kind::Size(0, PLANE_QUEUE_BYTES_MAX),
            "Bytes of theirs that were received; those beyond are refused as overload.",
        )
        .absent(Absent::Text("16MiB")),
        Key::new(
            "wait",
            Kind::Duration(Duration::ZERO, TIMEOUT_MAX),
            "How long one waits before it is refused; \"0s\": none waits.",
        )
        .absent(Absent::Text("5s")),
    ],
    needs: Needs::Nothing,
};

pub(super) static DISCOVERY: Tagged = Tagged {
    name: "discovery",
    doc: "Workers of the request plane that are dialed instead of connecting.",
    tag: "kind",
    tag_doc: "Who says where they are.",
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

const TO_WORKERS: Key = Key::new("tls", Kind::Table(&DISCOVERY_TLS), DISCOVERY_TLS.doc);

static STATIC: Table = Table {
    name: "discovery",
    doc: "This file says where workers are.",
    keys: &[
        Key::new(
            "services",
            Kind::Map(Form::Service, &Kind::List(&Kind::Text(Form::Server), 1)),
            "By service, where its workers listen.",
        )
        .absent(Absent::Table),
        TO_WORKERS,
    ],
    needs: Needs::Nothing,
};

static ETCD: Table = Table {
    name: "discovery",
    doc: "Workers write where they are into etcd.",
    keys: &[
        Key::new(
            "endpoints",
            Kind::List(&Kind::Text(Form::EtcdEndpoint), 1),
            "URLs of the cluster's members; another is asked where one does not answer.",
        )
        .absent(Absent::Texts(&["http://127.0.0.1:2379"])),
        Key::new(
            "prefix",
            Kind::Text(Form::EtcdPrefix),
            "What keys begin with: those of workers are PREFIX/workers/SERVICE/HOST:PORT.",
        )
        .absent(Absent::Text("/steppe")),
        Key::new(
            "lease",
            Kind::Duration(steppe_etcd::limits::LEASE.0, steppe_etcd::limits::LEASE.1),
            "How long workers stay in etcd without a sign of life; for as long, one that is missing from \
             the list after an outage of etcd is kept.",
        )
        .absent(Absent::Text("10s")),
        TO_WORKERS,
    ],
    needs: Needs::Nothing,
};
