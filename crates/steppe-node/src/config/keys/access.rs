//! The table of an access log.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use steppe_http::access::AccessField;

use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};

pub(super) static ACCESS: Table = Table {
    name: "log.access",
    doc: "An access log in a file.",
    keys: &[
        Key::new(
            "file",
            Kind::Text(Form::File),
            "Lines are appended to it; it is opened again after SIGHUP.",
        )
        .required(),
        Key::new(
            "format",
            Kind::Choice(&[Choice::served("combined"), Choice::served("json")]),
            "How a line is written.",
        )
        .absent(Absent::Text("combined")),
        Key::new(
            "fields",
            Kind::List(&FIELD, 1),
            "What a line in JSON has, in this order.",
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
