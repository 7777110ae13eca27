//! Keys that decide which server is next: the key of a hash, and the cookie of a client.

use std::path::Path;
use std::time::Duration;

use steppe_config::form::{Form, Read, Refusal};
use steppe_config::key::{Key, key, text, timeout};
use steppe_config::keys;
use steppe_config::mistake::shown;
use steppe_config::table::{Absent, Table};
use steppe_config::typed::Fields;

use crate::config::keys::forms::{cookie_name, field_name};
use crate::config::{HashOn, Sticky};

/// Key by which requests are told apart.
pub(super) static HASH_ON: Form<HashOn> = Form::new(
    "\"header:NAME\", \"cookie:NAME\", \"ip\" or \"path\"",
    hash_on,
)
.pattern("^(ip|path|(header|cookie):.+)$")
.shown_by(ToString::to_string);

/// `header:NAME`, `cookie:NAME`, `ip`, `path`.
fn hash_on(text: &str, _: &Path) -> Read<HashOn> {
    match text.split_once(':') {
        Some(("header", name)) => field_name(name).map(HashOn::Header),
        Some(("cookie", name)) => cookie_name(name).map(HashOn::Cookie),
        None if text == "ip" => Ok(HashOn::Ip),
        None if text == "path" => Ok(HashOn::Path),
        _ => Err(Refusal::new(format!("`{}` is not a hash key", shown(text)))
            .help("write \"header:NAME\", \"cookie:NAME\", \"ip\" or \"path\"")),
    }
}

pub(super) static STICKY: Table = Table::new(
    "http.upstream.sticky",
    "Cookie that keeps a client on its server. It wins over `balance` while that server takes \
     requests; else another server is chosen, and the cookie set anew.",
    keys! { COOKIE, TTL },
);

static COOKIE: Key<String> = key(
    "cookie",
    text(&COOKIE_NAME),
    "Name of the cookie. Its value does not reveal the server. Each process makes values of its \
     own, so a restart or another node sets it anew.",
)
.required();

static COOKIE_NAME: Form<String> = Form::new("a cookie's name", |text, _| cookie_name(text))
    .pattern("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$");

static TTL: Key<Duration> =
    key("ttl", timeout(), "`Max-Age` of the cookie.").or(Absent::Text("1h"));

pub(super) fn sticky(sticky: &Fields) -> Option<Sticky> {
    Some(Sticky {
        cookie: sticky.get(&COOKIE)?,
        ttl: sticky.get(&TTL)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hashed_on_reads_back() {
        for text in ["header:x-user", "cookie:Session", "ip", "path"] {
            assert_eq!(
                hash_on(text, Path::new("")).map(|on| on.to_string()),
                Ok(text.to_owned())
            );
        }
        for wrong in ["", "header:", "header:a b", "cookie:a=b", "ip:x", "query"] {
            assert!(hash_on(wrong, Path::new("")).is_err(), "{wrong}");
        }
    }
}
