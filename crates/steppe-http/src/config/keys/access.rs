//! Keys of an access log in a file.

use std::path::PathBuf;

use steppe_config::choice::Choices;
use steppe_config::form;
use steppe_config::key::{Key, PlaceKey, choice, key, place, text};
use steppe_config::keys;
use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Kind, Table};
use steppe_config::typed::{Fields, repeated};

use crate::access::{AccessField, AccessFormat};

/// `log.access`.
pub static TABLE: Table = Table::new(
    "log.access",
    "Access log in a file. A line is written when its exchange ends; exchanges that a drain drops \
     have none. Lines reach the file within about a second, from a thread of its own: if it can't \
     keep up, lines are dropped and counted, and no request waits.",
    keys! { FILE, FORMAT, FIELDS },
);

/// The file of the log.
pub static FILE: Key<PathBuf> = key(
    "file",
    text(&form::FILE),
    "File that lines are appended to; \"/dev/stdout\" is standard output. It is reopened on SIGHUP; \
     send it after rotation.",
)
.required();

static FORMAT: Key<Format> = key(
    "format",
    choice(&Choices::of(&[
        ("combined", Format::Combined),
        ("json", Format::Json),
    ])),
    "\"combined\" as nginx and Apache write it, or \"json\", an object a line. Bytes of peers are \
     escaped: `\\xHH` in combined lines, `\\u00HH` for control characters in JSON. Targets are cut \
     at 3 KiB, other values at 1 KiB.",
)
.or(Absent::Text("combined"));

#[derive(Clone, Copy, PartialEq)]
enum Format {
    Combined,
    Json,
}

static FIELDS: PlaceKey = place(
    "fields",
    Kind::List(&Kind::Choice(&NAMES), 1),
    "Fields of a JSON line, in this order; one that a request lacks is left out. `client` is the \
     address that trusted proxies vouch for, `peer` that of the connection, `bytes_*` count \
     content, `server` was asked last, `filter` answered, `request_id` is `X-Request-Id`. Only if \
     listed: `peer`, `target`, `forwarded_for`, `tls_*`, `client_subject`, `client_fingerprint` \
     and `cache`.",
)
.or(Absent::TextsWhere {
    key: "format",
    says: "json",
    texts: &AccessField::DEFAULT,
});

static NAMES: Choices<AccessField> = Choices::of(&AccessField::ALL);

/// The path and the format of the log that a table describes; `None`: a value of it is invalid, and its mistake was
/// reported.
#[must_use]
pub fn build(log: &Fields) -> Option<(PathBuf, AccessFormat)> {
    let format = match log.get(&FORMAT)? {
        Format::Combined => AccessFormat::Combined,
        Format::Json => {
            let fields = log.value(&FIELDS.spec)?;
            AccessFormat::Json(fields.each(|field| field.typed.value().copied())?)
        }
    };
    Some((log.get(&FILE)?, format))
}

/// Finds the mistakes of what several keys say together: the format "combined" has a fixed set of fields.
pub fn check(log: &Fields, mistakes: &mut Mistakes) {
    let is_combined = log.get(&FORMAT) == Some(Format::Combined);
    if let Some(fields) = log.value(&FIELDS.spec).filter(|_| is_combined) {
        let message = "`fields` has no effect in the format \"combined\"";
        let mistake = Mistake::new(fields.span, message).label("it has a fixed set of fields");
        mistakes.push(mistake.help("set `format = \"json\"`"));
    }
    for (field, again, first) in repeated::<AccessField>(log.items(&FIELDS)) {
        let message = format!("field \"{}\" is named twice", field.as_str());
        let mistake = Mistake::new(again, message).label("again here");
        mistakes.push(mistake.also(first, "first here"));
    }
}
