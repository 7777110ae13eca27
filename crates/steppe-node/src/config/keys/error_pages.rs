//! Keys of the `error-pages` filter.

use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};

pub(super) static ERROR_PAGES: Table = Table {
    name: "http.filter",
    doc: "Says errors in other words: of a file, or of its own.",
    keys: &[
        Key::new(
            "pages",
            Kind::List(&Kind::Table(&PAGE), 1),
            "Contents of errors: of these, the first that is for the status.",
        )
        .required(),
        Key::new(
            "of",
            Kind::Choice(&[Choice::served("gateway"), Choice::served("all")]),
            "Whose errors: the node's own, or those of upstreams too.",
        )
        .absent(Absent::Text("gateway")),
    ],
    needs: Needs::Nothing,
};

static PAGE: Table = Table {
    name: "http.filter.pages",
    doc: "The content of some errors.",
    keys: &[
        Key::new(
            "status",
            Kind::Text(Form::Statuses),
            "Of which: \"5xx\", \"404\", \"500-504\", or several with commas between.",
        )
        .required(),
        Key::new(
            "file",
            Kind::Text(Form::File),
            "File with the content, of 64 KiB at most.",
        ),
        Key::new(
            "body",
            Kind::Text(Form::Any),
            "The content itself, as long as a file at most.",
        ),
        Key::new(
            "content_type",
            Kind::Text(Form::FieldValue),
            "Its media type; without it by the file's name, or plain text.",
        ),
    ],
    needs: Needs::One(&["file", "body"]),
};
