//! Keys of the `error-pages` filter.

use steppe_config::table::{Absent, Kind, Needs, Spec, Table};

use crate::config::forms;

pub(super) static ERROR_PAGES: Table = Table {
    name: "http.filter",
    doc: "Replaces the content of error responses with your own pages.",
    keys: &[
        &Spec::new(
            "pages",
            Kind::List(&Kind::Table(&PAGE), 1),
            "Pages, at most 32. The first one for the status is used.",
        )
        .required(),
        &Spec::new(
            "of",
            Kind::Choice(&["gateway", "all"]),
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
        &Spec::new(
            "status",
            Kind::Text(&forms::STATUSES),
            "Statuses from 400 to 599: \"404\", \"5xx\", \"500-504\", or several separated by \
             commas.",
        )
        .required(),
        &Spec::new(
            "file",
            Kind::Text(&forms::FILE),
            "File with the content, at most 64 KiB. It is read with the configuration, and again \
             by each reload.",
        ),
        &Spec::new(
            "body",
            Kind::Text(&forms::ANY),
            "The content itself, at most 64 KiB.",
        ),
        &Spec::new(
            "content_type",
            Kind::Text(&forms::FIELD_VALUE),
            "`Content-Type` of the page. Without it, by the file's name, or plain text.",
        ),
    ],
    needs: Needs::One(&["file", "body"]),
};
