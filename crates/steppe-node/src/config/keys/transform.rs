//! Keys of the filter `transform`.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use steppe_config::table::{Absent, Kind, Needs, Spec, Table};

use crate::config::forms;
use crate::config::limits::{JSON_BYTES_MAX, JSON_BYTES_MIN};

pub static TRANSFORM: Table = Table {
    name: "http.filter",
    doc: "Rewrites paths and queries, edits fields, and edits JSON content.",
    keys: &[
        &Spec::new(
            "request_headers",
            Kind::Table(&REQUEST_EDITS),
            REQUEST_EDITS.doc,
        )
        .absent(Absent::Table),
        &Spec::new(
            "response_headers",
            Kind::Table(&RESPONSE_EDITS),
            RESPONSE_EDITS.doc,
        )
        .absent(Absent::Table),
        &Spec::new(
            "path",
            Kind::List(&Kind::Table(&PATH_EDIT), 0),
            "Path rewrites, of which the first that matches the path in normal form is applied. \
             Routes are chosen before it, by the path that the client sent.",
        )
        .absent(Absent::Texts(&[])),
        &Spec::new("query", Kind::Table(&QUERY_EDITS), QUERY_EDITS.doc).absent(Absent::Table),
        &Spec::new("request_json", Kind::Table(&REQUEST_JSON), REQUEST_JSON.doc),
        &Spec::new(
            "response_json",
            Kind::Table(&RESPONSE_JSON),
            RESPONSE_JSON.doc,
        ),
    ],
    needs: Needs::Nothing,
};

static REQUEST_EDITS: Table = Table {
    name: "http.filter.request_headers",
    doc: "Edits of request fields before the request is forwarded: `rewrite`, `remove`, `set`, \
     `append`, in this order. Fields that frame a message or end at the next hop can't be \
     edited.",
    keys: EDIT_KEYS,
    needs: Needs::Nothing,
};

static RESPONSE_EDITS: Table = Table {
    name: "http.filter.response_headers",
    doc: "Edits of response fields before the response is sent, in the same order.",
    keys: EDIT_KEYS,
    needs: Needs::Nothing,
};

static EDIT_KEYS: &[&Spec] = &[
    &Spec::new(
        "rewrite",
        Kind::List(&Kind::Table(&REWRITE), 0),
        "Fields that are written from what a pattern finds.",
    )
    .absent(Absent::Texts(&[])),
    &Spec::new(
        "remove",
        Kind::List(&Kind::Text(&forms::FIELD_NAME), 0),
        "Fields that are removed.",
    )
    .absent(Absent::Texts(&[])),
    &Spec::new(
        "set",
        Kind::Map(&forms::FIELD_NAME, &Kind::Text(&forms::FIELD_VALUE)),
        "Fields that are set; all lines of that name are replaced.",
    )
    .absent(Absent::Table)
    .secret(),
    &Spec::new(
        "append",
        Kind::Map(
            &forms::FIELD_NAME,
            &Kind::OneOrMany(&Kind::Text(&forms::FIELD_VALUE)),
        ),
        "Field lines that are added: a value, or a list of values.",
    )
    .absent(Absent::Table)
    .secret(),
];

static PATH_EDIT: Table = Table {
    name: "http.filter.path",
    doc: "Replacement of a part of the path.",
    keys: &[
        &Spec::new(
            "pattern",
            Kind::Text(&forms::PATTERN),
            "Regular expression. The part of the path in normal form that it matches is replaced.",
        )
        .required(),
        &Spec::new(
            "to",
            Kind::Text(&forms::ANY),
            "Replacement; `${NAME}` inserts what that group matched.",
        )
        .required(),
    ],
    needs: Needs::Nothing,
};

static QUERY_EDITS: Table = Table {
    name: "http.filter.query",
    doc: "Edits of the query: `remove`, then `set`.",
    keys: &[
        &Spec::new(
            "remove",
            Kind::List(&Kind::Text(&forms::ANY), 0),
            "Parameters that are removed.",
        )
        .absent(Absent::Texts(&[])),
        &Spec::new(
            "set",
            Kind::Map(&forms::ANY, &Kind::Text(&forms::ANY)),
            "Parameters that are set; all of that name are replaced. Bytes that a query can't \
             have are escaped.",
        )
        .absent(Absent::Table)
        .secret(),
    ],
    needs: Needs::Nothing,
};

static REWRITE: Table = Table {
    name: "http.filter.rewrite",
    doc: "A field that is written from what a pattern finds.",
    keys: &[
        &Spec::new(
            "header",
            Kind::Text(&forms::FIELD_NAME),
            "Field that is written.",
        )
        .required(),
        &Spec::new(
            "from",
            Kind::Text(&forms::TEXT_SOURCE),
            "Text that the pattern is applied to: \"path\", as the client sent it (requests \
             only), or \"header:NAME\". Without it, each line of the field itself, of which the \
             matched part is replaced.",
        ),
        &Spec::new(
            "pattern",
            Kind::Text(&forms::PATTERN),
            "Regular expression. If it does not match, the field stays unchanged.",
        )
        .required(),
        &Spec::new(
            "to",
            Kind::Text(&forms::FIELD_VALUE),
            "New value of the field, or of the matched part; `${NAME}` inserts what that group \
             matched.",
        )
        .required(),
    ],
    needs: Needs::Nothing,
};

static REQUEST_JSON: Table = Table {
    name: "http.filter.request_json",
    doc: "Edits of a request's JSON content (`application/json` or a type that ends in `+json`, \
     not gRPC). It is read whole before the request is forwarded; gzip, br and zstd are decoded.",
    keys: JSON_KEYS,
    needs: Needs::Any(&["remove", "rename", "set"]),
};

static RESPONSE_JSON: Table = Table {
    name: "http.filter.response_json",
    doc: "Edits of a response's JSON content, with the same keys. It is read whole before the \
     response's head is sent; servers are asked for content without a coding, and without \
     `Range`.",
    keys: JSON_KEYS,
    needs: Needs::Any(&["remove", "rename", "set"]),
};

static JSON_KEYS: &[&Spec] = &[
    &Spec::new(
        "remove",
        Kind::List(&Kind::Text(&forms::MEMBER_PATH), 1),
        "Members that are removed. \"a.b\" is the member `b` of `a`; if `a` is an array, of each \
         of its items, also if these are arrays, up to four levels deep.",
    ),
    &Spec::new(
        "rename",
        Kind::Map(&forms::MEMBER_PATH, &Kind::Text(&forms::ANY)),
        "Members that are renamed, with their new name in the same object.",
    ),
    &Spec::new(
        "set",
        Kind::Map(&forms::MEMBER_PATH, &Kind::Text(&forms::JSON)),
        "Members that are set, with their value as JSON in a string. Missing objects are created.",
    )
    .secret(),
    &Spec::new(
        "max_bytes",
        Kind::Size(JSON_BYTES_MIN, JSON_BYTES_MAX),
        "Largest content that is edited. Longer content, after decoding too, is refused with \
         413, or 502 for a response.",
    )
    .absent(Absent::Text("1MiB")),
    &Spec::new(
        "unreadable",
        Kind::Choice(&["refuse", "pass"]),
        "Treatment of content that claims to be JSON and is not: \"refuse\" responds with 400, \
         or 502 for a response; \"pass\" forwards it unchanged.",
    )
    .absent(Absent::Text("refuse")),
];
