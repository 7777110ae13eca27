//! Keys of a folder that a route serves.

use std::path::{Path, PathBuf};

use steppe_config::choice::Choices;
use steppe_config::form::{FOLDER, Form, Read, Refusal};
use steppe_config::key::{Key, OptionalKey, boolean, choice, key, list, of, text};
use steppe_config::keys;
use steppe_config::mistake::{Mistake, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Kind, Table};
use steppe_config::typed::{Fields, Node};

use super::super::forms::field_value;
use crate::config::{CacheControl, Coding, FallbackFor, Files};
use crate::limits::{
    CACHE_CONTROL_BYTES_MAX, CACHE_CONTROLS_MAX, FALLBACK_BYTES_MAX, FILE_NAME_BYTES_MAX,
};
use crate::path::FilePattern;

pub(super) static TABLE: Table = Table::new(
    "http.route.files",
    "Folder whose files are served, instead of an upstream. The part of the path that `{rest*}` \
     matches is looked up in it.",
    keys! { ROOT, INDEX, FALLBACK, FALLBACK_FOR, PRECOMPRESSED, CACHE_CONTROL, LISTING },
);

/// The folder's path.
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
pub(in crate::config::keys) static FILE_PATH: Form<String> =
    Form::new("the path of a file such as \"/index.html\"", file_path).pattern("^(/[^/.][^/]*)+$");

/// The path of a file that can be asked for.
fn file_path(text: &str, base: &Path) -> Read<String> {
    let refusal = |what: &str| {
        let message = format!("`{}` is not the path of a file: {what}", shown(text));
        Err(Refusal::new(message).help("write a path below the folder such as \"/index.html\""))
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

static CACHE_CONTROL: Key<Vec<CacheControl>> = key(
    "cache_control",
    of(
        Kind::Either(&[
            Kind::Text(&LIFETIME),
            Kind::List(&Kind::Table(&CACHE_CONTROL_TABLE), 0),
        ]),
        cache_control,
    ),
    "`Cache-Control` of responses with a file (200, 206) and of 304: a value for all files, or a list \
     of tables with `path` and `value`, of which the first whose `path` matches counts. Others have \
     none.",
)
.or(Absent::Texts(&[]));

static LISTING: Key<bool> = key(
    "listing",
    boolean(),
    "Lists folders without an index: names, sizes and times of files and folders whose names do not \
     begin with a dot. With it, everybody who may request the route sees all names.",
)
.or(Absent::No);

static CACHE_CONTROL_TABLE: Table = Table::new(
    "http.route.files.cache_control",
    "`Cache-Control` of some files.",
    keys! { PATH, VALUE },
);

static PATH: Key<FilePattern> = key(
    "path",
    text(&FILE_PATTERN),
    "Files, by their path below `root`: `*` stands for any characters, `/` included. \
     \"/assets/*\" is all below that folder, \"*.html\" every page, an index or a fallback included.",
)
.required();

static VALUE: Key<String> = key(
    "value",
    text(&LIFETIME),
    "Value of the field, such as \"public, max-age=86400\".",
)
.required();

/// Pattern of files.
static FILE_PATTERN: Form<FilePattern> = Form::new(
    "a pattern such as \"/assets/*\" or \"*.html\"",
    file_pattern,
)
.pattern("^[/*]([^\\x00]*[^/\\x00])?$")
.shown_by(ToString::to_string);

fn file_pattern(text: &str, _: &Path) -> Read<FilePattern> {
    FilePattern::parse(text).map_err(|error| {
        Refusal::new(format!(
            "`{}` is not a pattern of files: {error}",
            shown(text)
        ))
        .help("write one such as \"/assets/*\", \"*.html\" or \"*\"")
    })
}

/// Value of `Cache-Control`.
static LIFETIME: Form<String> = Form::new("a value such as \"max-age=3600\"", lifetime)
    .pattern("^[^\\x00-\\x20\\x7f]([^\\x00-\\x08\\x0a-\\x1f\\x7f]*[^\\x00-\\x20\\x7f])?$");

fn lifetime(text: &str, _: &Path) -> Read<String> {
    let bytes = text.len();
    if matches!(bytes, 1..=CACHE_CONTROL_BYTES_MAX) {
        return field_value(text);
    }
    let message =
        format!("a `Cache-Control` takes 1 to {CACHE_CONTROL_BYTES_MAX} bytes, not {bytes}");
    Err(Refusal::new(message).help("write one such as \"max-age=3600\""))
}

fn cache_control(node: &Node) -> Option<Vec<CacheControl>> {
    let Some(value) = node.typed.value::<String>() else {
        return node.each(|rule| of_some(rule.fields()?));
    };
    Some(vec![CacheControl {
        files: FilePattern::parse("*").expect("it is one"),
        value: value.clone(),
    }])
}

fn of_some(rule: &Fields) -> Option<CacheControl> {
    Some(CacheControl {
        files: rule.get(&PATH)?,
        value: rule.get(&VALUE)?,
    })
}

pub(super) fn build(files: &Fields) -> Option<Files> {
    Some(Files {
        root: files.get(&ROOT)?,
        index: files.get(&INDEX)?,
        fallback: files
            .get(&FALLBACK)?
            .map(|path| path.trim_start_matches('/').to_owned()),
        fallback_for: files.get(&FALLBACK_FOR)?,
        precompressed: files.get(&PRECOMPRESSED)?,
        listing: files.get(&LISTING)?,
        cache_control: files.get(&CACHE_CONTROL)?,
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
    lifetimes(files, mistakes);
}

/// A rule behind one for all files counts for none.
fn lifetimes(files: &Fields, mistakes: &mut Mistakes) {
    let rules = files.items(&CACHE_CONTROL);
    if let Some(beyond) = rules.get(CACHE_CONTROLS_MAX) {
        let message =
            format!("a folder has at most {CACHE_CONTROLS_MAX} values of `cache_control`");
        mistakes.push(Mistake::new(beyond.span, message).help("give several files one pattern"));
    }
    let mut paths = rules
        .iter()
        .filter_map(|rule| rule.fields()?.located(&PATH));
    let Some((_, all)) = paths.find(|(path, _)| path.is_for_all()) else {
        return;
    };
    for (path, at) in paths {
        mistakes.push(
            Mistake::new(
                at,
                format!("`{path}` is never compared: the first match counts"),
            )
            .label("behind a pattern of all files")
            .also(all, "all files")
            .help("move it before the other one"),
        );
    }
}
