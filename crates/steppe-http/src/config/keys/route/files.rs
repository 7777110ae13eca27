//! Keys of a folder that a route serves.

use std::path::{Path, PathBuf};

use steppe_config::choice::Choices;
use steppe_config::form::{FOLDER, Form, Read, Refusal};
use steppe_config::key::{Key, OptionalKey, choice, key, list, text};
use steppe_config::keys;
use steppe_config::mistake::{Mistake, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Table};
use steppe_config::typed::Fields;

use crate::config::{Coding, FallbackFor, Files};
use crate::limits::{FALLBACK_BYTES_MAX, FILE_NAME_BYTES_MAX};

pub(super) static TABLE: Table = Table::new(
    "http.route.files",
    "Folder whose files are served, instead of an upstream. The part of the path that `{rest*}` \
     matches is looked up in it.",
    keys! { ROOT, INDEX, FALLBACK, FALLBACK_FOR, PRECOMPRESSED },
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

/// The file for paths without one.
pub static FALLBACK: OptionalKey<String> = key(
    "fallback",
    text(&FILE_PATH),
    "File that is served, with status 200, for paths that lead to no file, as pages with routes of \
     their own (single-page applications) need it: its path below `root`, such as \"/index.html\".",
);

/// The paths that it stands for.
pub static FALLBACK_FOR: Key<FallbackFor> = key(
    "fallback_for",
    choice(&Choices::of(&[
        ("pages", FallbackFor::Pages),
        ("all", FallbackFor::All),
    ])),
    "Paths that `fallback` is served for: \"pages\", those whose last segment has no dot, so that a \
     missing `app.js` or picture is 404, or \"all\". Paths with a name that begins with a dot, \
     `/.well-known` included, are always 404.",
)
.or(Absent::Text("pages"));

/// Path of a file below a folder.
static FILE_PATH: Form<String> =
    Form::new("the path of a file such as \"/index.html\"", file_path).pattern("^(/[^/.][^/]*)+$");

/// The path of a file that can be asked for.
fn file_path(text: &str, base: &Path) -> Read<String> {
    let refusal = |what: &str| {
        let message = format!("`{}` is not the path of a file: {what}", shown(text));
        Err(Refusal::new(message).help("write a path below `root` such as \"/index.html\""))
    };
    let Some(path) = text.strip_prefix('/') else {
        return refusal("it does not begin with `/`");
    };
    if text.len() > FALLBACK_BYTES_MAX {
        let bytes = text.len();
        return refusal(&format!("{bytes} bytes, at most {FALLBACK_BYTES_MAX}"));
    }
    let mut names = path.split('/');
    names.try_for_each(|name| file_name(name, base).map(drop))?;
    Ok(text.to_owned())
}

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
        fallback: files
            .get(&FALLBACK)?
            .map(|path| path.trim_start_matches('/').to_owned()),
        fallback_for: files.get(&FALLBACK_FOR)?,
        precompressed: files.get(&PRECOMPRESSED)?,
    })
}

/// Finds the mistakes of what keys of a folder say together.
pub(super) fn check(files: &Fields, mistakes: &mut Mistakes) {
    let paths = files.place_of(&FALLBACK_FOR);
    if let (Some(span), None) = (paths, files.place_of(&FALLBACK)) {
        let message = "`fallback_for` has no effect without `fallback`";
        let mistake = Mistake::new(span, message).label("no file is served for them");
        mistakes.push(mistake.help("add `fallback`, or take it out"));
    }
}
