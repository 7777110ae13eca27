//! Keys of the filter that asks for a user name and a password.

use std::path::PathBuf;

use steppe_config::form::FILE;
use steppe_config::key::{Key, OptionalKey, integer, key, text};
use steppe_config::keys;
use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Table};
use steppe_config::typed::Fields;

use super::forms::{FIELD_NAME, FIELD_VALUE, refuse_ours};
use crate::config::BasicAuth;
use crate::limits::VERIFIED_TOKENS_MAX;

/// `[http.filter.NAME]` of the kind `basic-auth`.
pub(super) static TABLE: Table = Table::new(
    "http.filter",
    "Requires a user name and a password (HTTP Basic); else 401.",
    keys! { USERS_FILE, REALM, FORWARD_USER, CACHE_ENTRIES },
);

static USERS_FILE: Key<PathBuf> = key(
    "users_file",
    text(&FILE),
    "File with lines `NAME:HASH`; empty lines and lines that begin with `#` are skipped. Hashes \
     are bcrypt (`htpasswd -B`), argon2 (PHC strings) or SHA-crypt (`openssl passwd -6`, \
     `mkpasswd`).",
)
.required();

static REALM: Key<String> = key(
    "realm",
    text(&FIELD_VALUE),
    "Name of the protected area, shown by browsers.",
)
.or(Absent::Text("steppe"));

static FORWARD_USER: OptionalKey<String> = key(
    "forward_user",
    text(&FIELD_NAME),
    "Field that forwards the user name to servers. A client's own copies are removed.",
);

static CACHE_ENTRIES: Key<usize> = key(
    "cache_entries",
    integer(0, VERIFIED_TOKENS_MAX),
    "Verified passwords that are remembered, as digests.",
)
.or(Absent::Number(1024));

/// The filter that a table describes; `None`: a value of it is invalid, and its mistake was reported.
pub(super) fn build(filter: &Fields) -> Option<BasicAuth> {
    Some(BasicAuth {
        users: filter.get(&USERS_FILE)?,
        realm: filter.get(&REALM)?,
        forward_user: filter.get(&FORWARD_USER)?,
        cache_entries: filter.get(&CACHE_ENTRIES)?,
    })
}

/// RFC 7617 §2: a realm stands in quotes. A user name is in a field that the gateway does not write itself.
pub(super) fn check(filter: &Fields, mistakes: &mut Mistakes) {
    if let Some((realm, at)) = filter.located(&REALM)
        && (realm.contains(['"', '\\']) || !realm.is_ascii())
    {
        let mistake = Mistake::new(at, "a realm is ASCII, without quotes and backslashes");
        mistakes.push(mistake.help("write another one, such as \"staff\""));
    }
    if let Some((field, at)) = filter.located(&FORWARD_USER) {
        refuse_ours(&field, at, mistakes);
    }
}
