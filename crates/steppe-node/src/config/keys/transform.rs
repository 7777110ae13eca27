//! Keys of edits that the filter `transform` makes by patterns, and within JSON.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use crate::config::limits::{JSON_BYTES_MAX, JSON_BYTES_MIN};
use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};

pub(super) static REWRITE: Table = Table {
    name: "http.filter.rewrite",
    doc: "A field that is made of what a pattern finds.",
    keys: &[
        Key::new("header", Kind::Text(Form::FieldName), "The field.").required(),
        Key::new(
            "from",
            Kind::Text(Form::TextSource),
            "Where it is looked for, in \"path\" or \"header:NAME\"; without it in the field itself, of which \
             what matches is replaced.",
        ),
        Key::new(
            "pattern",
            Kind::Text(Form::Pattern),
            "A regular expression; where it matches nothing, the field stays as it is.",
        )
        .required(),
        Key::new(
            "to",
            Kind::Text(Form::FieldValue),
            "What the field, or what matched of it, becomes: ${NAME} stands for what that group matched.",
        )
        .required(),
    ],
    needs: Needs::Nothing,
};

pub(super) static REQUEST_JSON: Table = Table {
    name: "http.filter.request_json",
    doc: "Edits of the request's content, where it is JSON.",
    keys: JSON_KEYS,
    needs: Needs::Any(&["remove", "rename", "set"]),
};

pub(super) static RESPONSE_JSON: Table = Table {
    name: "http.filter.response_json",
    doc: "Edits of the response's content, where it is JSON.",
    keys: JSON_KEYS,
    needs: Needs::Any(&["remove", "rename", "set"]),
};

static JSON_KEYS: &[Key] = &[
    Key::new(
        "remove",
        Kind::List(&Kind::Text(Form::MemberPath), 1),
        "Members that are taken out; \"a.b\" is the member b of a, or of each item of a.",
    ),
    Key::new(
        "rename",
        Kind::Map(Form::MemberPath, &Kind::Text(Form::Any)),
        "Members, and the names that they have in their object from then on.",
    ),
    Key::new(
        "set",
        Kind::Map(Form::MemberPath, &Kind::Text(Form::Json)),
        "Members, and what they are, as JSON in a string.",
    )
    .secret(),
    Key::new(
        "max_bytes",
        Kind::Size(JSON_BYTES_MIN, JSON_BYTES_MAX),
        "Longer content is refused: 413, or 502 of a server's.",
    )
    .absent(Absent::Text("1MiB")),
    Key::new(
        "unreadable",
        Kind::Choice(&[Choice::served("refuse"), Choice::served("pass")]),
        "What becomes of content that is no JSON though it says so: 400, or 502 of a server's; or it passes.",
    )
    .absent(Absent::Text("refuse")),
];
