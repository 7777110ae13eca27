//! Keys of the filter that gives each request an ID.

use steppe_config::key::{Key, boolean, key, text};
use steppe_config::keys;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Table};
use steppe_config::typed::Fields;

use super::forms::{FIELD_NAME, refuse_ours};
use crate::config::RequestId;

/// `[http.filter.NAME]` of the kind `request-id`.
pub(super) static TABLE: Table = Table::new(
    "http.filter",
    "Gives each request a random ID (128 bits) for server and client.",
    keys! { HEADER, KEEP },
);

static HEADER: Key<String> = key(
    "header",
    text(&FIELD_NAME),
    "Field that carries the ID, in hexadecimal.",
)
.or(Absent::Text("x-request-id"));

static KEEP: Key<bool> = key(
    "keep",
    boolean(),
    "Keeps the ID that a client sends, if it is a token of at most 128 bytes.",
)
.or(Absent::No);

/// The filter that a table describes; `None`: a value of it is invalid, and its mistake was reported.
pub(super) fn build(filter: &Fields) -> Option<RequestId> {
    Some(RequestId {
        header: filter.get(&HEADER)?,
        keep: filter.get(&KEEP)?,
    })
}

/// Refuses a field that only the gateway writes.
pub(super) fn check(filter: &Fields, mistakes: &mut Mistakes) {
    if let Some((header, at)) = filter.located(&HEADER) {
        refuse_ours(&header, at, mistakes);
    }
}
