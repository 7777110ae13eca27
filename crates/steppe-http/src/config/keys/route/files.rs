//! Keys of a folder that a route serves.

use std::path::{Path, PathBuf};

use steppe_config::choice::Choices;
use steppe_config::form::{FOLDER, Form, Read, Refusal};
use steppe_config::key::{Key, choice, key, list, text};
use steppe_config::keys;
use steppe_config::mistake::shown;
use steppe_config::table::{Absent, Table};
use steppe_config::typed::Fields;

use crate::config::{Coding, Files};
use crate::limits::FILE_NAME_BYTES_MAX;

pub(super) static TABLE: Table = Table::new(
    "http.route.files",
    "Folder whose files are served, instead of an upstream. The part of the path that `{rest*}` \
     matches is looked up in it.",
    keys! { ROOT, INDEX, PRECOMPRESSED },
);

/// Its path.
pub static ROOT: Key<PathBuf> = key(
    "root",
    text(&FOLDER),
    "Path of the folder. It must exist when the configuration is read.",
)
.required();

static INDEX: Key<String> = key(
    "index",
    text(&FILE_NAME),
    "File that is served for its folder.",
)
.or(Absent::Text("index.html"));

/// Name of a file, without a folder.
static FILE_NAME: Form<String> = Form::new("a file's name", file_name).pattern("^[^/.][^/]*$");

/// The name of a file that can be asked for.
fn file_name(text: &str, _: &Path) -> Read<String> {
    let refusal = |what: &str| {
        let message = format!("`{}` is not the name of a file: {what}", shown(text));
        Err(Refusal::new(message).help("write a name such as \"index.html\""))
    };
    match text {
        "" => refusal("it is empty"),
        _ if text.contains(['/', '\0']) => refusal("a name has no `/` and no NUL"),
        _ if text.starts_with('.') => refusal("names that begin with a dot are not served"),
        _ if text.len() > FILE_NAME_BYTES_MAX => refusal("it is too long"),
        _ => Ok(text.to_owned()),
    }
}

static PRECOMPRESSED: Key<Vec<Coding>> = key(
    "precompressed",
    list(
        &choice(&Choices::of(&[
            ("br", Coding::Br),
            ("zstd", Coding::Zstd),
            ("gzip", Coding::Gzip),
        ])),
        0,
    ),
    "Encoded files beside the plain ones, the first preferred: \"br\" (`NAME.br`), \"zstd\" \
     (`NAME.zst`), \"gzip\" (`NAME.gz`).",
)
.or(Absent::Texts(&[]));

pub(super) fn build(files: &Fields) -> Option<Files> {
    Some(Files {
        root: files.get(&ROOT)?,
        index: files.get(&INDEX)?,
        precompressed: files.get(&PRECOMPRESSED)?,
    })
}
