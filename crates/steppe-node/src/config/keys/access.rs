//! The table of an access log.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use steppe_config::table::{Absent, Kind, Needs, Spec, Table};
use steppe_http::access::AccessField;

use crate::config::forms;

pub(super) static ACCESS: Table = Table {
    name: "log.access",
    doc: "Access log in a file. A line is written when its exchange ends; exchanges that a drain \
     drops have none. Lines reach the file within about a second, from a thread of its own: if \
     it can't keep up, lines are dropped and counted, and no request waits.",
    keys: &[
        &Spec::new(
            "file",
            Kind::Text(&forms::FILE),
            "File that lines are appended to; \"/dev/stdout\" is standard output. It is reopened \
             on SIGHUP; send it after rotation.",
        )
        .required(),
        &Spec::new(
            "format",
            Kind::Choice(&["combined", "json"]),
            "\"combined\" as nginx and Apache write it, or \"json\", an object a line. Bytes of \
             peers are escaped: `\\xHH` in combined lines, `\\u00HH` for control characters in \
             JSON. Targets are cut at 3 KiB, other values at 1 KiB.",
        )
        .absent(Absent::Text("combined")),
        &Spec::new(
            "fields",
            Kind::List(&FIELD, 1),
            "Fields of a JSON line, in this order; one that a request lacks is left out. \
             `client` is the address that trusted proxies vouch for, `peer` that of the \
             connection, `bytes_*` count content, `server` was asked last, `filter` answered, \
             `request_id` is `X-Request-Id`. Only if listed: `peer`, `target`, `forwarded_for`, \
             `tls_*`, `client_subject`, `client_fingerprint` and `cache`.",
        )
        .absent(Absent::TextsWhere {
            key: "format",
            says: "json",
            texts: &DEFAULT_FIELDS,
        }),
    ],
    needs: Needs::Nothing,
};

/// [`AccessField::DEFAULT`] by name.
const DEFAULT_FIELDS: [&str; AccessField::DEFAULT.len()] = {
    let mut names = [""; AccessField::DEFAULT.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = AccessField::DEFAULT[index].as_str();
        index += 1;
    }
    names
};

const FIELD: Kind = Kind::Choice(&[
    "time",
    "client",
    "peer",
    "method",
    "target",
    "path",
    "query",
    "protocol",
    "host",
    "status",
    "bytes_sent",
    "bytes_received",
    "duration_ms",
    "route",
    "upstream",
    "server",
    "user_agent",
    "referer",
    "request_id",
    "forwarded_for",
    "close_reason",
    "tls_version",
    "tls_cipher",
    "tls_group",
    "tls_sni",
    "tls_alpn",
    "tls_resumed",
    "client_subject",
    "client_fingerprint",
    "cache",
    "filter",
]);
