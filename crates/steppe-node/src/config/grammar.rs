//! Strings of a configuration: names of files, methods, fields.
//!
//! Invariant: text that reads is within the grammar and its bounds; nothing is guessed. Non-goals:
//! hosts and paths of routes, which `steppe-http` reads. Spec: RFC 9110 §5.1, §5.5, §9.1.

use steppe_config::form::{Read, Refusal};
use steppe_config::mistake::shown;
use steppe_http::field::FieldId;
use steppe_http::field::{is_field_value, is_token};
use steppe_net::config::forms::{decimal_port, network, server_name};

use crate::config::limits::FILE_NAME_BYTES_MAX;

/// The name of a file that can be asked for.
pub(super) fn file_name(text: &str) -> Read<String> {
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

/// RFC 9110 §9.1: a token, case-sensitive.
pub(super) fn method(text: &str) -> Read<String> {
    if text == "*" {
        return Err(Refusal::new("`*` is not a method")
            .help("leave `methods` out: every method but CONNECT"));
    }
    if is_token(text.as_bytes()) {
        return Ok(text.to_owned());
    }
    Err(Refusal::new(format!("`{}` is not a method", shown(text)))
        .help("a method is a token such as \"GET\": letters, digits and !#$%&'*+-.^_`|~"))
}

/// RFC 9110 §5.1: a token, in lower case from here on.
pub(super) fn field_name(text: &str) -> Read<String> {
    if is_token(text.as_bytes()) {
        return Ok(text.to_ascii_lowercase());
    }
    Err(
        Refusal::new(format!("`{}` is not the name of a field", shown(text)))
            .help("a name is a token: letters, digits and !#$%&'*+-.^_`|~"),
    )
}

/// RFC 9110 §5.5.
pub(super) fn field_value(text: &str) -> Read<String> {
    let refusal = |what: &str| {
        Refusal::new(format!(
            "`{}` is not the value of a field: {what}",
            shown(text)
        ))
    };
    if is_field_value(text.as_bytes()) {
        return Ok(text.to_owned());
    }
    let is_control = |byte: u8| byte.is_ascii_control() && byte != b'\t';
    let (why, help) = match text.bytes().any(is_control) {
        true => ("it contains a control character", "write one line of text"),
        false => (
            "it begins or ends with white space",
            "take the white space out",
        ),
    };
    Err(refusal(why).help(help))
}

/// Fields that frame a message or end at the next hop (RFC 9110 §7.6.1, RFC 9112 §6): the gateway
/// alone writes them.
pub(super) fn is_ours(name: &str) -> bool {
    let id = FieldId::of(name.as_bytes());
    id.is_hop_by_hop() || matches!(id, FieldId::ContentLength | FieldId::Trailer)
}

mod dns;
mod filter;
mod host;
mod plane;
mod tls;
mod trace;
mod upstream;

pub(super) use dns::records::{dns_client_id, dns_record, hours, name_patterns, time_zone, url};
pub(super) use dns::{clients, dns_bootstrap, dns_name, dns_server, dns_type, subnet_prefixes};
pub(super) use filter::{
    json, member_path, origin, pattern, rate_key, rate_store, text_source, token_source,
};
pub(super) use host::host;
pub(super) use plane::{etcd_endpoint, etcd_prefix, services};
pub(super) use tls::{alt_name, fingerprint, subject, transport_security};
pub(super) use trace::collector;
pub(super) use upstream::{cookie_name, hash_on, hedge_after, statuses, target};
