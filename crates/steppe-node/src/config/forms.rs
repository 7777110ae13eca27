//! Forms of strings: what each is parsed into, how it is shown, described, and matched in the schema.
//!
//! Invariant: a pattern accepts whatever its form parses. Non-goals: the grammars, which `grammar` has.

use std::net::SocketAddr;
use std::path::Path;

use ipnet::IpNet;
use regex::bytes::Regex;
pub(super) use steppe_config::form::{ANY, FILE, FOLDER, NAME};
use steppe_config::form::{Form, MASK, Read};
use steppe_config::table::Kind;
use steppe_dns::client::ClientId;
use steppe_dns::config::Server as DnsServer;
use steppe_dns::hosts::RecordData;
use steppe_dns::schedule::{Hours, Zone};
use steppe_dns::wire::{Name, Rtype};
use steppe_etcd::Endpoint;
use steppe_http::config::keys::forms::method;
pub(super) use steppe_http::config::keys::forms::{
    FIELD_NAME, FIELD_VALUE, METHOD, PATH, STATUSES, TARGET,
};
use steppe_http::config::{RateKey, TextSource, TokenSource};
pub(super) use steppe_net::config::forms::{ALT_NAME, LISTEN, NETWORK, PIN, SERVER, SERVICE};

use super::grammar;
use super::limits::{TIMEOUT_MAX, TIMEOUT_MIN};

/// A timeout that can't be off.
pub(super) const TIMEOUT: Kind = Kind::Duration(TIMEOUT_MIN, TIMEOUT_MAX);

/// Method, or `*`.
pub(super) static RULE_METHOD: Form<String> =
    Form::new("a method such as \"GET\", or \"*\"", rule_method).pattern("^[^ ]+$");

/// Serialized origin (RFC 6454 §6), or a pattern of one.
pub(super) static ORIGIN: Form<String> = Form::new(
    "an origin such as \"https://app.example.com\"",
    |text, _| grammar::origin(text),
)
.pattern("^(\\*|[a-z][a-z0-9+.-]*://[^/?#@]+)$");

/// Key by which a rate limit tells requests apart.
pub(super) static RATE_KEY: Form<RateKey> = Form::new(
    "\"ip\", \"header:NAME\", \"jwt:CLAIM\" or \"route\"",
    |text, _| grammar::rate_key(text),
)
.pattern("^(ip|route|(header|jwt):.+)$");

/// Database of Valkey or Redis.
pub(super) static RATE_STORE: Form<String> =
    Form::new("a URL such as \"redis://127.0.0.1:6379/0\"", |text, _| {
        grammar::rate_store(text)
    })
    .masked_by(store_without_password);

/// Source of a token.
pub(super) static TOKEN_SOURCE: Form<TokenSource> = Form::new(
    "\"header:NAME\", \"cookie:NAME\" or \"query:NAME\"",
    |text, _| grammar::token_source(text),
)
.pattern("^(header|cookie|query):.+$");

/// Regular expression.
pub(super) static PATTERN: Form<Regex> =
    Form::new("a regular expression", |text, _| grammar::pattern(text));

/// Source of a text.
pub(super) static TEXT_SOURCE: Form<TextSource> =
    Form::new("\"path\" or \"header:NAME\"", |text, _| {
        grammar::text_source(text)
    })
    .pattern("^(path|header:.+)$");

/// Name of a member of a JSON object, or of one within.
pub(super) static MEMBER_PATH: Form<String> =
    Form::new("a member such as \"token\" or \"user.token\"", |text, _| {
        grammar::member_path(text)
    })
    .pattern("^[^.]+(\\.[^.]+)*$");

/// JSON text.
pub(super) static JSON: Form<String> = Form::new(
    "JSON in a string, such as \"true\" or '\"text\"'",
    |text, _| grammar::json(text),
)
.masked_by(|_| format!("\"{MASK}\""));

/// Server of DNS.
pub(super) static DNS_SERVER: Form<DnsServer> =
    Form::new("a server such as \"udp://127.0.0.1:53\"", |text, _| {
        grammar::dns_server(text)
    })
    .pattern("^(udp|tcp|tls|https)://.+$")
    .shown_by(ToString::to_string);

/// Server that is asked for the addresses of servers.
pub(super) static DNS_BOOTSTRAP: Form<SocketAddr> =
    Form::new("an IP address such as \"9.9.9.9\"", |text, _| {
        grammar::dns_bootstrap(text)
    })
    .pattern("^[0-9a-fA-F.:\\[\\]]+$");

/// Bits of addresses of IPv4 and IPv6.
pub(super) static SUBNET_PREFIXES: Form<(u8, u8)> =
    Form::new("two prefix lengths such as \"24/56\"", |text, _| {
        grammar::subnet_prefixes(text)
    })
    .pattern("^[0-9]+/[0-9]+$");

/// Networks of clients.
pub(super) static CLIENTS: Form<Vec<IpNet>> = Form::new(
    "a network such as \"10.0.0.0/8\", \"loopback\" or \"private\"",
    |text, _| grammar::clients(text),
)
.pattern("^(loopback|private|[0-9a-fA-F.:]+(/[0-9]{1,3})?)$");

/// Domain name.
pub(super) static DNS_NAME: Form<Name> =
    Form::new("a domain name such as \"example.org\"", |text, _| {
        grammar::dns_name(text)
    })
    .pattern("^[!-~]+$")
    .shown_by(ToString::to_string);

/// Type of DNS records.
pub(super) static DNS_TYPE: Form<Rtype> =
    Form::new("a type such as \"AAAA\"", |text, _| grammar::dns_type(text))
        .pattern("^[A-Z][0-9A-Z]*$")
        .shown_by(ToString::to_string);

/// DNS record without its owner.
pub(super) static DNS_RECORD: Form<RecordData> = Form::new(
    "an address, or a record such as \"MX 10 mail.example.org\"",
    |text, _| grammar::dns_record(text),
)
.pattern("^([0-9a-fA-F.:]+|[A-Z][0-9A-Z]* .+)$");

/// ID that a DNS client gives.
pub(super) static DNS_CLIENT_ID: Form<ClientId> =
    Form::new("a client ID such as \"kids-tablet\"", |text, _| {
        grammar::dns_client_id(text)
    })
    .pattern("^[0-9A-Za-z-]{1,63}$");

/// Hours of a day.
pub(super) static HOURS: Form<Hours> = Form::new("hours such as \"08:00-17:30\"", |text, _| {
    grammar::hours(text)
})
.pattern("^[0-2][0-9]:[0-5][0-9]-[0-2][0-9]:[0-5][0-9]$");

/// Time zone.
pub(super) static TIME_ZONE: Form<Zone> =
    Form::new("a time zone such as \"Europe/Berlin\"", |text, _| {
        grammar::time_zone(text)
    })
    .pattern("^[A-Za-z][0-9A-Za-z_+/-]*$");

/// URL of http or https.
pub(super) static URL: Form<String> = Form::new(
    "a URL such as \"https://lists.example/ads.txt\"",
    |text, _| grammar::url(text),
)
.pattern("^https?://[^ #]+$");

/// URL of a collector of traces.
pub(super) static COLLECTOR: Form<String> =
    Form::new("a URL such as \"http://127.0.0.1:4318\"", |text, _| {
        grammar::collector(text)
    })
    .pattern("^https?://[^ #?@]+$");

/// Service of the request plane, or all whose names begin alike.
pub(super) static SERVICES: Form<String> =
    Form::new("a service such as \"embed\", or \"embed/*\"", |text, _| {
        grammar::services(text)
    })
    .pattern("^[!-)+-~]{0,127}[!-~]$");

/// URL of a member of etcd.
pub(super) static ETCD_ENDPOINT: Form<Endpoint> =
    Form::new("a URL such as \"http://127.0.0.1:2379\"", |text, _| {
        grammar::etcd_endpoint(text)
    })
    .pattern("^https?://[^ /?#@]+/?$")
    .shown_by(ToString::to_string);

/// Prefix of keys in etcd.
pub(super) static ETCD_PREFIX: Form<String> =
    Form::new("a prefix of keys such as \"/steppe\"", |text, _| {
        grammar::etcd_prefix(text)
    })
    .pattern("^/[!-~]{0,254}$");

/// Domain name as a key of a map: names that differ in case, or by a last dot, are one name.
pub(super) static DNS_NAME_KEY: Form<Name> =
    Form::new("a domain name such as \"example.org\"", |text, _| {
        Ok(grammar::dns_name(text)?.to_lower())
    })
    .pattern("^[!-~]+$")
    .shown_by(ToString::to_string);

fn rule_method(text: &str, _: &Path) -> Read<String> {
    match text {
        "*" => Ok(text.to_owned()),
        _ => method(text),
    }
}

/// The URL of a database: the password alone is a secret, and the rest tells where it leads.
fn store_without_password(url: &str) -> String {
    let Some(rest) = url.strip_prefix("redis://") else {
        return MASK.to_owned();
    };
    let Some((user, host)) = rest.rsplit_once('@') else {
        return url.to_owned();
    };
    let name = user.split(':').next().unwrap_or_default();
    format!("redis://{name}:{MASK}@{host}")
}
