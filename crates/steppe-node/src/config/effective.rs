//! The configuration as it is in force, defaults included, for `/config`.
//!
//! Invariant: it is printed from what was read, by the table of keys: every key that has a value,
//! in the table's order, secrets masked. Apart from masked values, reading it as JSON gives the
//! same configuration. Non-goals: the contents of files that are named, which are never read here.

use serde_json::{Map, Value, json};
use steppe_http::config::HostPattern;
use steppe_net::tls::x509;

use super::Config;
use super::grammar::{duration_text, percent_text, pin_text, size_text};
use super::table::{Form, Kind, Support};
use super::typed::{Fields, Named, Node, Typed};

/// Stands for a value that must not be shown.
const MASK: &str = "***";
/// The same where the value is JSON.
const JSON_MASK: &str = "\"***\"";

/// Which strings are masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Masking {
    None,
    /// All of them; in a map, those whose name is one of a secret. What stands for them.
    Secret(&'static str),
}

impl Config {
    /// Every setting in force, as JSON with the keys of the file.
    pub fn effective(&self) -> Value {
        Value::Object(table(&self.file))
    }
}

fn table(fields: &Fields) -> Map<String, Value> {
    let shown = fields.table.keys.iter().filter_map(|key| {
        let masking = match &key.support {
            _ if !key.is_secret => Masking::None,
            Support::Served {
                kind: Kind::Map(_, Kind::Text(Form::Json)),
                ..
            } => Masking::Secret(JSON_MASK),
            _ => Masking::Secret(MASK),
        };
        let node = fields.value(key)?;
        Some((key.name.to_owned(), value(node, masking)))
    });
    shown.collect()
}

fn value(node: &Node, masking: Masking) -> Value {
    match &node.typed {
        Typed::Table(fields) => Value::Object(table(fields)),
        Typed::Variant { tag, name, fields } => {
            let mut object = Map::new();
            object.insert((*tag).to_owned(), json!(name));
            object.extend(table(fields));
            Value::Object(object)
        }
        Typed::List(items) => items.iter().map(|item| value(item, masking)).collect(),
        Typed::Map(entries) => {
            let shown = entries
                .iter()
                .map(|entry| (entry.name.clone(), named(entry, masking)));
            Value::Object(shown.collect())
        }
        typed => match masking {
            Masking::Secret(mask) => masked(typed, mask),
            Masking::None => scalar(typed),
        },
    }
}

/// What stands for a secret. Of a URL the password alone is one, and the rest tells where it leads.
fn masked(typed: &Typed, mask: &str) -> Value {
    let Typed::Text(text) = typed else {
        return json!(mask);
    };
    let url = text.strip_prefix("redis://").map(|rest| {
        let Some((user, host)) = rest.rsplit_once('@') else {
            return text.clone();
        };
        let name = user.split(':').next().unwrap_or_default();
        format!("redis://{name}:{MASK}@{host}")
    });
    json!(url.as_deref().unwrap_or(mask))
}

fn named(entry: &Named, masking: Masking) -> Value {
    let masking = match masking {
        Masking::Secret(_) if is_secret(&entry.name) => masking,
        _ => Masking::None,
    };
    value(&entry.value, masking)
}

fn scalar(typed: &Typed) -> Value {
    match typed {
        Typed::Text(text) => json!(text),
        Typed::Choice(name) => json!(name),
        Typed::Boolean(flag) => json!(flag),
        Typed::Number(number) => json!(number),
        Typed::Size(bytes) => json!(size_text(*bytes)),
        // A share is read by dividing by 100, which this undoes to the last digit but one.
        Typed::Share(share) => json!(percent_text(*share)),
        Typed::Duration(duration) => json!(duration_text(*duration)),
        Typed::Listen(address) => json!(address.to_string()),
        Typed::Server(address) => json!(address.to_string()),
        Typed::Network(network) => json!(network.to_string()),
        Typed::DnsServer(server) => json!(server.to_string()),
        Typed::EtcdEndpoint(endpoint) => json!(endpoint.to_string()),
        Typed::DnsName(name) => json!(name.to_string()),
        Typed::DnsType(rtype) => json!(rtype.to_string()),
        Typed::HashOn(on) => json!(on.to_string()),
        Typed::Statuses(statuses) => json!(statuses.to_string()),
        Typed::Pin(digest) => json!(pin_text(digest)),
        Typed::Fingerprint(digest) => json!(x509::fingerprint_text(digest)),
        Typed::File(path) => json!(path.to_string_lossy()),
        Typed::Host(HostPattern::Exact(name)) => json!(name),
        Typed::Host(HostPattern::Wildcard(suffix)) => json!(format!("*{suffix}")),
        Typed::Path(pattern) => json!(pattern.to_string()),
        Typed::Invalid
        | Typed::List(_)
        | Typed::Map(_)
        | Typed::Table(_)
        | Typed::Variant { .. } => Value::Null,
    }
}

/// Whether a name's value is better not shown: credentials, and whatever calls itself a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words = [
        "authorization",
        "cookie",
        "token",
        "secret",
        "password",
        "passwd",
        "api-key",
        "apikey",
        "api_key",
        "credential",
        "signature",
        "session",
    ];
    words.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys::ROOT;
    use crate::config::mistake::Span;
    use crate::config::table::{Key, Needs, Table};
    use crate::config::typed::Field;

    static TABLE: Table = Table {
        name: "secrets",
        doc: "",
        keys: &[
            Key::new("token", Kind::Text(Form::Any), "").secret(),
            Key::new("keys", Kind::List(&Kind::Text(Form::Any), 0), "").secret(),
            Key::new("token_file", Kind::Text(Form::Any), ""),
        ],
        needs: Needs::Nothing,
    };

    fn node(typed: Typed) -> Node {
        let span = Span::at(0);
        Node { span, typed }
    }

    #[test]
    fn the_table_says_which_keys_are_secret() {
        let text = || node(Typed::Text("s3cret".to_owned()));
        let values = [text(), node(Typed::List(vec![text(), text()])), text()];
        let given = TABLE.keys.iter().zip(values).map(|(key, value)| Field {
            key,
            span: Span::at(0),
            value,
        });
        let fields = Fields {
            table: &TABLE,
            span: Span::at(0),
            given: given.collect(),
        };
        assert_eq!(
            Value::Object(table(&fields)),
            json!({ "token": MASK, "keys": [MASK, MASK], "token_file": "s3cret" })
        );
    }

    /// A map's names are the file's own: any of them may be one of a secret.
    fn open_maps(table: &'static Table, found: &mut Vec<String>) {
        for key in table.keys {
            let Support::Served { kind, .. } = &key.support else {
                continue;
            };
            let holds_strings = matches!(kind, Kind::Map(..)) && kind.tables().is_empty();
            if holds_strings && !key.is_secret {
                found.push(format!("{}.{}", table.name, key.name));
            }
            for inner in kind.tables() {
                open_maps(inner, found);
            }
        }
    }

    #[test]
    fn every_map_of_strings_is_masked_by_name() {
        let mut found = Vec::new();
        open_maps(&ROOT, &mut found);
        // Names of members are no values, and records are what every client may ask for.
        let open = [
            "http.filter.request_json.rename",
            "http.filter.response_json.rename",
            "dns.hosts.records",
            "discovery.services",
        ];
        assert_eq!(found, open);
    }
}
