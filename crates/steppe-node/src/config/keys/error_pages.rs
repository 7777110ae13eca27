//! Keys of the `error-pages` filter.

use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};

pub(super) static ERROR_PAGES: Table = Table {
    name: "http.filter",
    doc: "Replaces the content of error responses with your own pages.",
    keys: &[
        Key::new(
            "pages",
            Kind::List(&Kind::Table(&PAGE), 1),
            "Pages, at most 32. The first one for the status is used.",
        )
        .required(),
        Key::new(
            "of",
            Kind::Choice(&[Choice::served("gateway"), Choice::served("all")]),
            "Errors that are replaced: \"gateway\" for the node's own, \"all\" for those of \
             upstreams too.",
        )
        .absent(Absent::Text("gateway")),
    ],
    needs: Needs::Nothing,
};

static PAGE: Table = Table {
    name: "http.filter.pages",
    doc: "Content of some error responses.",
    keys: &[
        Key::new(
            "status",
            Kind::Text(Form::Statuses),
            "Statuses from 400 to 599: \"404\", \"5xx\", \"500-504\", or several separated by \
             commas.",
        )
        .required(),
        Key::new(
            "file",
            Kind::Text(Form::File),
            "File with the content, at most 64 KiB. It is read with the configuration, and again \
             by each reload.",
        ),
        Key::new(
            "body",
            Kind::Text(Form::Any),
            "The content itself, at most 64 KiB.",
        ),
        Key::new(
            "content_type",
            Kind::Text(Form::FieldValue),
            "`Content-Type` of the page. Without it, by the file's name, or plain text.",
        ),
    ],
    needs: Needs::One(&["file", "body"]),
};
