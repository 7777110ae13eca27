//! The table of an access log.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use steppe_http::access::AccessField;

use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};

pub(super) static ACCESS: Table = Table {
    name: "log.access",
    doc: "Access log in a file. A line is written when its exchange ends; exchanges that a drain \
     drops have none. Lines reach the file within about a second, from a thread of its own: if \
     it can't keep up, lines are dropped and counted, and no request waits.",
    keys: &[
        Key::new(
            "file",
            Kind::Text(Form::File),
            "File that lines are appended to; \"/dev/stdout\" is standard output. It is reopened \
             on SIGHUP; send it after rotation.",
        )
        .required(),
        Key::new(
            "format",
            Kind::Choice(&[Choice::served("combined"), Choice::served("json")]),
            "\"combined\" as nginx and Apache write it, or \"json\", an object a line. Bytes of \
             peers are escaped: `\\xHH` in combined lines, `\\u00HH` for control characters in \
             JSON. Targets are cut at 3 KiB, other values at 1 KiB.",
        )
        .absent(Absent::Text("combined")),
        Key::new(
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
    Choice::served("time"),
    Choice::served("client"),
    Choice::served("peer"),
    Choice::served("method"),
    Choice::served("target"),
    Choice::served("path"),
    Choice::served("query"),
    Choice::served("protocol"),
    Choice::served("host"),
    Choice::served("status"),
    Choice::served("bytes_sent"),
    Choice::served("bytes_received"),
    Choice::served("duration_ms"),
    Choice::served("route"),
    Choice::served("upstream"),
    Choice::served("server"),
    Choice::served("user_agent"),
    Choice::served("referer"),
    Choice::served("request_id"),
    Choice::served("forwarded_for"),
    Choice::served("close_reason"),
    Choice::served("tls_version"),
    Choice::served("tls_cipher"),
    Choice::served("tls_group"),
    Choice::served("tls_sni"),
    Choice::served("tls_alpn"),
    Choice::served("tls_resumed"),
    Choice::served("client_subject"),
    Choice::served("client_fingerprint"),
    Choice::served("cache"),
    Choice::served("filter"),
]);
