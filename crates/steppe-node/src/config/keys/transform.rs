//! Keys of the filter `transform`.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use crate::config::limits::{JSON_BYTES_MAX, JSON_BYTES_MIN};
use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};

pub static TRANSFORM: Table = Table {
    name: "http.filter",
    doc: "Rewrites paths and queries; rewrites, removes, sets and appends fields, in this order; edits JSON.",
    keys: &[
        Key::new(
            "request_headers",
            Kind::Table(&REQUEST_EDITS),
            REQUEST_EDITS.doc,
        )
        .absent(Absent::Table),
        Key::new(
            "response_headers",
            Kind::Table(&RESPONSE_EDITS),
            RESPONSE_EDITS.doc,
        )
        .absent(Absent::Table),
        Key::new(
            "path",
            Kind::List(&Kind::Table(&PATH_EDIT), 0),
            "Other paths: of these, the first whose pattern matches.",
        )
        .absent(Absent::Texts(&[])),
        Key::new("query", Kind::Table(&QUERY_EDITS), QUERY_EDITS.doc).absent(Absent::Table),
        Key::new("request_json", Kind::Table(&REQUEST_JSON), REQUEST_JSON.doc),
        Key::new(
            "response_json",
            Kind::Table(&RESPONSE_JSON),
            RESPONSE_JSON.doc,
        ),
    ],
    needs: Needs::Nothing,
};

static REQUEST_EDITS: Table = Table {
    name: "http.filter.request_headers",
    doc: "Edits of the request, before it is forwarded.",
    keys: EDIT_KEYS,
    needs: Needs::Nothing,
};

static RESPONSE_EDITS: Table = Table {
    name: "http.filter.response_headers",
    doc: "Edits of the response, before it is sent.",
    keys: EDIT_KEYS,
    needs: Needs::Nothing,
};

static EDIT_KEYS: &[Key] = &[
    Key::new(
        "rewrite",
        Kind::List(&Kind::Table(&REWRITE), 0),
        "Fields that are made of what patterns find, in this order.",
    )
    .absent(Absent::Texts(&[])),
    Key::new(
        "remove",
        Kind::List(&Kind::Text(Form::FieldName), 0),
        "Fields that are taken out.",
    )
    .absent(Absent::Texts(&[])),
    Key::new(
        "set",
        Kind::Map(Form::FieldName, &Kind::Text(Form::FieldValue)),
        "Fields that replace whatever had their name.",
    )
    .absent(Absent::Table)
    .secret(),
    Key::new(
        "append",
        Kind::Map(
            Form::FieldName,
            &Kind::OneOrMany(&Kind::Text(Form::FieldValue)),
        ),
        "Field lines that are added.",
    )
    .absent(Absent::Table)
    .secret(),
];

static PATH_EDIT: Table = Table {
    name: "http.filter.path",
    doc: "Another path for those that match.",
    keys: &[
        Key::new(
            "pattern",
            Kind::Text(Form::Pattern),
            "A regular expression; what it matches of the path in normal form is replaced.",
        )
        .required(),
        Key::new(
            "to",
            Kind::Text(Form::Any),
            "By what: ${NAME} stands for what that group matched.",
        )
        .required(),
    ],
    needs: Needs::Nothing,
};

static QUERY_EDITS: Table = Table {
    name: "http.filter.query",
    doc: "Edits of the query, in this order.",
    keys: &[
        Key::new(
            "remove",
            Kind::List(&Kind::Text(Form::Any), 0),
            "Parameters that are taken out.",
        )
        .absent(Absent::Texts(&[])),
        Key::new(
            "set",
            Kind::Map(Form::Any, &Kind::Text(Form::Any)),
            "Parameters that replace whatever had their name.",
        )
        .absent(Absent::Table)
        .secret(),
    ],
    needs: Needs::Nothing,
};

static REWRITE: Table = Table {
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

static REQUEST_JSON: Table = Table {
    name: "http.filter.request_json",
    doc: "Edits of the request's content, where it is JSON.",
    keys: JSON_KEYS,
    needs: Needs::Any(&["remove", "rename", "set"]),
};

static RESPONSE_JSON: Table = Table {
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
