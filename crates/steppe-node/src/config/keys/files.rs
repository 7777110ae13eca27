//! A folder that a route serves.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use steppe_config::table::{Absent, Kind, Needs, Spec, Table};

use crate::config::forms;

pub(super) static FILES: Table = Table {
    name: "http.route.files",
    doc: "Folder whose files are served, instead of an upstream. The part of the path that \
     `{rest*}` matches is looked up in it.",
    keys: &[
        &Spec::new(
            "root",
            Kind::Text(&forms::FOLDER),
            "Path of the folder. It must exist when the configuration is read.",
        )
        .required(),
        &Spec::new(
            "index",
            Kind::Text(&forms::FILE_NAME),
            "File that is served for its folder.",
        )
        .absent(Absent::Text("index.html")),
        &Spec::new(
            "precompressed",
            Kind::List(&Kind::Choice(&["br", "zstd", "gzip"]), 0),
            "Encoded files beside the plain ones, the first preferred: \"br\" (`NAME.br`), \
             \"zstd\" (`NAME.zst`), \"gzip\" (`NAME.gz`).",
        )
        .absent(Absent::Texts(&[])),
    ],
    needs: Needs::Nothing,
};
