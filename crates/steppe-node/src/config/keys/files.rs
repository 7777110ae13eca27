//! A folder that a route serves.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};

pub(super) static FILES: Table = Table {
    name: "http.route.files",
    doc: "A folder whose files answer: what {rest*} matches is looked up in it.",
    keys: &[
        Key::new("root", Kind::Text(Form::Folder), "Where the folder is.").required(),
        Key::new(
            "index",
            Kind::Text(Form::FileName),
            "The name of the file that stands for its folder.",
        )
        .absent(Absent::Text("index.html")),
        Key::new(
            "precompressed",
            Kind::List(
                &Kind::Choice(&[
                    Choice::served("br"),
                    Choice::served("zstd"),
                    Choice::served("gzip"),
                ]),
                0,
            ),
            "Encoded forms that lie beside files, as NAME.br, NAME.zst and NAME.gz; the first is \
             preferred.",
        )
        .absent(Absent::Texts(&[])),
    ],
    needs: Needs::Nothing,
};
