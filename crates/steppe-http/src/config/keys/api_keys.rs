//! Keys of the filter that asks for an API key.

use std::path::{Path, PathBuf};

use steppe_config::form::{FILE, Form, Read, Refusal};
use steppe_config::key::{Key, boolean, key, list, text};
use steppe_config::keys;
use steppe_config::mistake::{Mistake, shown};
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Table};
use steppe_config::typed::Fields;

use super::forms::{FIELD_NAME, refuse_ours};
use crate::config::{ApiKeys, TokenSource};

/// `[http.filter.NAME]` of the kind `api-keys`.
pub(super) static TABLE: Table = Table::new(
    "http.filter",
    "Requires an API key of a file; else 401.",
    keys! { KEYS_FILE, FROM, FORWARD_NAME, FORWARD_KEY },
);

static KEYS_FILE: Key<PathBuf> = key(
    "keys_file",
    text(&FILE),
    "File with lines `NAME SHA256`, as `steppe key new` prints them: the name of a client and the \
     SHA-256 of its key in hexadecimal. Empty lines and lines that begin with `#` are skipped. \
     Several keys may have one name. It is read again when it changes.",
)
.required();

static FROM: Key<Vec<TokenSource>> = key(
    "from",
    list(&text(&KEY_SOURCE), 1),
    "Places where the key is looked for, in this order: \"header:NAME\" (in `authorization` after \
     `Bearer`), \"cookie:NAME\".",
)
.or(Absent::Texts(&["header:x-api-key"]));

static FORWARD_NAME: Key<String> = key(
    "forward_name",
    text(&FIELD_NAME),
    "Field that forwards the name of the key to servers. A client's own copies are removed.",
)
.or(Absent::Text("x-api-key-name"));

static FORWARD_KEY: Key<bool> = key(
    "forward_key",
    boolean(),
    "Servers receive the key itself, too. Without it, it is removed from the places of `from`.",
)
.or(Absent::No);

/// Source of a key.
static KEY_SOURCE: Form<TokenSource> =
    Form::new("\"header:NAME\" or \"cookie:NAME\"", key_source).pattern("^(header|cookie):.+$");

/// `header:NAME`, `cookie:NAME`.
fn key_source(text: &str, _: &Path) -> Read<TokenSource> {
    let problem = match TokenSource::parse(text) {
        Some(TokenSource::Query(_)) => "logs and browsers keep URLs, and keys with them".to_owned(),
        Some(source) => return Ok(source),
        None => format!("`{}` is not a source of keys", shown(text)),
    };
    Err(Refusal::new(problem).help("write \"header:NAME\" or \"cookie:NAME\""))
}

/// The filter that a table describes; `None`: a value of it is invalid, and its mistake was reported.
pub(super) fn build(filter: &Fields) -> Option<ApiKeys> {
    Some(ApiKeys {
        keys: filter.get(&KEYS_FILE)?,
        from: filter.get(&FROM)?,
        forward_name: filter.get(&FORWARD_NAME)?,
        forward_key: filter.get(&FORWARD_KEY)?,
    })
}

/// The name has a field of its own, which the gateway does not write itself.
pub(super) fn check(filter: &Fields, mistakes: &mut Mistakes) {
    let Some((field, at)) = filter.located(&FORWARD_NAME) else {
        return;
    };
    refuse_ours(&field, at, mistakes);
    let sources = filter.get(&FROM).unwrap_or_default();
    if sources.contains(&TokenSource::Header(field.clone())) {
        let message = format!("`{field}` has the key: the name needs another field");
        mistakes.push(Mistake::new(at, message).help("write one such as \"x-api-key-name\""));
    }
}
