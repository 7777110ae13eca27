//! Tables of the DNS forwarder's cache.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use std::time::Duration;

use steppe_config::table::{Absent, Kind, Needs, Spec, Table};

use super::upstream::TTL;
use crate::config::forms;
use crate::config::limits::{DNS_CACHE_BYTES, MEMORY_BUDGET_MAX, STALE_TIME_MAX, TIMEOUT_MAX};

pub(super) static CACHE: Table = Table {
    name: "dns.cache",
    doc: "Cache of responses.",
    keys: &[
        &Spec::new(
            "bytes",
            Kind::Size(DNS_CACHE_BYTES, MEMORY_BUDGET_MAX),
            "Memory of the cache, of the node's budget.",
        )
        .absent(Absent::Text("16MiB")),
        &Spec::new("min_ttl", TTL, "Least time that responses are kept.")
            .absent(Absent::Text("0s")),
        &Spec::new("max_ttl", TTL, "Longest time that responses are kept.")
            .absent(Absent::Text("1d")),
        &Spec::new(
            "negative_ttl_max",
            TTL,
            "Longest time that negative responses (no such name or type) are kept.",
        )
        .absent(Absent::Text("1h")),
        &Spec::new("serve_stale", Kind::Table(&SERVE_STALE), SERVE_STALE.doc),
        &Spec::new(
            "prefetch",
            Kind::Either(&[Kind::Share, Kind::Choice(&["off"])]),
            "Last part of a response's lifetime in which it is refreshed if it is in use; \
             \"off\" turns this off.",
        )
        .absent(Absent::Text("10%")),
        &Spec::new(
            "snapshot",
            Kind::Text(&forms::FILE),
            "File that keeps responses over a restart. It is read at start, while clients are \
             answered already, and written every ten minutes and when the node ends.",
        ),
    ],
    needs: Needs::Nothing,
};

pub(super) static SERVE_STALE: Table = Table {
    name: "dns.cache.serve_stale",
    doc: "Serves expired responses if servers do not answer (RFC 8767).",
    keys: &[
        &Spec::new(
            "up_to",
            Kind::Duration(Duration::from_secs(1), STALE_TIME_MAX),
            "Longest time after the expiry.",
        )
        .absent(Absent::Text("1d")),
        &Spec::new(
            "after",
            Kind::Duration(Duration::ZERO, TIMEOUT_MAX),
            "Time to wait for servers first.",
        )
        .absent(Absent::Text("1.8s")),
        &Spec::new(
            "only",
            Kind::Choice(&["positive", "all"]),
            "Responses that are served: \"positive\" for those with records, \"all\" for \
             negative ones too.",
        )
        .absent(Absent::Text("positive")),
    ],
    needs: Needs::Nothing,
};
