//! Tables of the DNS forwarder's cache.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use std::time::Duration;

use super::upstream::TTL;
use crate::config::limits::{DNS_CACHE_BYTES, MEMORY_BUDGET_MAX, STALE_TIME_MAX, TIMEOUT_MAX};
use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};

pub(super) static CACHE: Table = Table {
    name: "dns.cache",
    doc: "How responses are kept.",
    keys: &[
        Key::new(
            "bytes",
            Kind::Size(DNS_CACHE_BYTES, MEMORY_BUDGET_MAX),
            "Bytes that it takes, of the node's budget.",
        )
        .absent(Absent::Text("16MiB")),
        Key::new("min_ttl", TTL, "Responses are kept for at least this long.")
            .absent(Absent::Text("0s")),
        Key::new("max_ttl", TTL, "Responses are kept for at most this long.")
            .absent(Absent::Text("1d")),
        Key::new(
            "negative_ttl_max",
            TTL,
            "Responses that there is no such name or type are kept for at most this long.",
        )
        .absent(Absent::Text("1h")),
        Key::new("serve_stale", Kind::Table(&SERVE_STALE), SERVE_STALE.doc),
        Key::new(
            "prefetch",
            Kind::Either(&[Kind::Share, Kind::Choice(&[Choice::served("off")])]),
            "An answer in use is refreshed in this last part of its time.",
        )
        .absent(Absent::Text("10%")),
        Key::new(
            "snapshot",
            Kind::Text(Form::File),
            "The file that keeps responses over a restart.",
        ),
    ],
    needs: Needs::Nothing,
};

pub(super) static SERVE_STALE: Table = Table {
    name: "dns.cache.serve_stale",
    doc: "Answers are served past their time where servers do not answer. RFC 8767.",
    keys: &[
        Key::new(
            "up_to",
            Kind::Duration(Duration::from_secs(1), STALE_TIME_MAX),
            "How long past it.",
        )
        .absent(Absent::Text("1d")),
        Key::new(
            "after",
            Kind::Duration(Duration::ZERO, TIMEOUT_MAX),
            "How long servers are waited for before.",
        )
        .absent(Absent::Text("1.8s")),
        Key::new(
            "only",
            Kind::Choice(&[Choice::served("positive"), Choice::served("all")]),
            "Which: those with records, or negative ones too.",
        )
        .absent(Absent::Text("positive")),
    ],
    needs: Needs::Nothing,
};
