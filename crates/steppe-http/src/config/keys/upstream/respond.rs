//! Keys of a response that stands in for servers.

use steppe_config::form::ANY;
use steppe_config::key::{Key, integer, key, multimap, one_or_many, text};
use steppe_config::keys;
use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Table};
use steppe_config::typed::Fields;

use crate::config::Respond;
use crate::config::keys::forms::{FIELD_NAME, FIELD_VALUE, refuse_ours};
use crate::limits::RESPOND_BYTES_MAX;

pub(super) static TABLE: Table = Table::new(
    "http.upstream.respond",
    "Response of the gateway itself, instead of servers. No other key may be set.",
    keys! { STATUS, BODY, HEADERS },
);

static STATUS: Key<u16> = key("status", integer(200, 599), "Status code.").or(Absent::Number(200));

static BODY: Key<String> = key("body", text(&ANY), "Content, at most 16 KiB.").or(Absent::Text(""));

static HEADERS: Key<Vec<(String, String)>> = key(
    "headers",
    multimap(&FIELD_NAME, &one_or_many(&text(&FIELD_VALUE))),
    "Further response fields: a value, or a list of values.",
)
.secret()
.or(Absent::Table);

pub(super) fn build(respond: &Fields) -> Option<Respond> {
    Some(Respond {
        status: respond.get(&STATUS)?,
        body: respond.get(&BODY)?.into_bytes(),
        fields: respond.get(&HEADERS)?,
    })
}

/// Finds fields that only the gateway writes, and content that is too long or of a status that has none.
pub(super) fn check(respond: &Fields, mistakes: &mut Mistakes) {
    for entry in respond.entries(&HEADERS) {
        refuse_ours(&entry.name, entry.span, mistakes);
    }
    let (Some(status), Some((body, at))) = (respond.get(&STATUS), respond.located(&BODY)) else {
        return;
    };
    let length = body.len();
    // RFC 9110 §15.3.5, §15.3.6, §15.4.5.
    let has_no_content = matches!(status, 204 | 205 | 304);
    if has_no_content && length > 0 {
        let message = format!("a response with status {status} has no content");
        mistakes.push(
            Mistake::new(at, message)
                .label("content")
                .help("leave `body` out, or choose another status"),
        );
    }
    if length > RESPOND_BYTES_MAX {
        let message = format!("`body` has {length} bytes: at most {RESPOND_BYTES_MAX}");
        mistakes.push(Mistake::new(at, message).label("too long"));
    }
}
