//! A folder that a route serves.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};

pub(super) static FILES: Table = Table {
    name: "http.route.files",
    doc: "Folder whose files are served, instead of an upstream. The part of the path that \
     `{rest*}` matches is looked up in it.",
    keys: &[
        Key::new(
            "root",
            Kind::Text(Form::Folder),
            "Path of the folder. It must exist when the configuration is read.",
        )
        .required(),
        Key::new(
            "index",
            Kind::Text(Form::FileName),
            "File that is served for its folder.",
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
            "Encoded files beside the plain ones, the first preferred: \"br\" (`NAME.br`), \
             \"zstd\" (`NAME.zst`), \"gzip\" (`NAME.gz`).",
        )
        .absent(Absent::Texts(&[])),
    ],
    needs: Needs::Nothing,
};
