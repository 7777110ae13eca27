//! Forms of strings: names and values of fields, methods, targets, statuses, media types, paths of routes.
//!
//! Spec: RFC 9110 §5.1, §5.5, §9.1; RFC 9112 §3.2.1 for targets; RFC 6265 §4.1.1 for names of cookies.

use std::path::Path;

use steppe_config::form::{Form, Read, Refusal};
use steppe_config::mistake::{Mistake, Span, shown};
use steppe_config::mistakes::Mistakes;

use crate::config::{MediaRange, Statuses};
use crate::field::{FieldId, is_field_value, is_token};
use crate::limits::COOKIE_NAME_BYTES_MAX;
use crate::path::PathPattern;

/// Method.
pub static METHOD: Form<String> = Form::new("a method such as \"GET\"", |text, _| method(text))
    .pattern("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$");

/// Name of a field.
pub static FIELD_NAME: Form<String> = Form::new("a field's name", |text, _| field_name(text))
    .pattern("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$");

/// Value of a field.
pub static FIELD_VALUE: Form<String> = Form::new("a field's value", |text, _| field_value(text))
    .pattern("^([^\\x00-\\x20\\x7f]([^\\x00-\\x08\\x0a-\\x1f\\x7f]*[^\\x00-\\x20\\x7f])?)?$");

/// Target of a request, in origin-form.
pub static TARGET: Form<String> =
    Form::new("a path such as \"/healthz\"", target).pattern("^/[!-~]*$");

/// Set of status codes: `2xx`, `200`, `200-399`, or several of them.
pub static STATUSES: Form<Statuses> =
    Form::new("statuses such as \"2xx\", \"200\" or \"200-399\"", statuses)
        .pattern("^[1-5][0-9x, -]+$")
        .shown_by(ToString::to_string);

/// Media type, or all subtypes of a type.
pub(super) static MEDIA_RANGE: Form<MediaRange> = Form::new(
    "a media type such as \"application/json\" or \"text/*\"",
    media_range,
)
.pattern("^[!#$%&'+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+$");

/// Path of a route.
pub static PATH: Form<PathPattern> =
    Form::new("a path such as \"/v1/{id}\" or \"/{rest*}\"", path_pattern)
        .pattern("^/")
        .shown_by(ToString::to_string);

/// `TYPE/SUBTYPE` or `TYPE/*`.
fn media_range(text: &str, _: &Path) -> Read<MediaRange> {
    let is_one =
        |text: &str| !text.contains('*') || text.split_once('/').is_some_and(|(_, sub)| sub == "*");
    MediaRange::parse(text)
        .filter(|_| is_one(text))
        .ok_or_else(|| {
            Refusal::new(format!("`{}` is not a media type", shown(text))).help(
                "write a type and its subtype, or all of a type: \"application/json\", \"text/*\"",
            )
        })
}

fn path_pattern(text: &str, _: &Path) -> Read<PathPattern> {
    PathPattern::parse(text).map_err(|error| {
        let refusal = Refusal::new(format!("`{}` is not a path pattern", shown(text)));
        Refusal {
            range: Some(error.span.clone()),
            ..refusal.help(error.to_string())
        }
    })
}

/// RFC 9110 §9.1: a token, case-sensitive.
///
/// # Errors
/// When it is none.
pub fn method(text: &str) -> Read<String> {
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
///
/// # Errors
/// When it is none.
pub fn field_name(text: &str) -> Read<String> {
    if is_token(text.as_bytes()) {
        return Ok(text.to_ascii_lowercase());
    }
    Err(
        Refusal::new(format!("`{}` is not the name of a field", shown(text)))
            .help("a name is a token: letters, digits and !#$%&'*+-.^_`|~"),
    )
}

/// RFC 9110 §5.5.
///
/// # Errors
/// When it is none.
pub fn field_value(text: &str) -> Read<String> {
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

/// The name of a cookie: a token.
///
/// # Errors
/// When it is none.
pub fn cookie_name(text: &str) -> Read<String> {
    if is_token(text.as_bytes()) && text.len() <= COOKIE_NAME_BYTES_MAX {
        return Ok(text.to_owned());
    }
    let message = format!("`{}` is not a cookie's name", shown(text));
    let help = format!("a token of at most {COOKIE_NAME_BYTES_MAX} characters, such as \"steppe\"");
    Err(Refusal::new(message).help(help))
}

fn target(text: &str, _: &Path) -> Read<String> {
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'#');
    if text.starts_with('/') && is_plain {
        return Ok(text.to_owned());
    }
    let message = format!("`{}` is not a request path", shown(text));
    Err(Refusal::new(message).help("write it as a request does, such as \"/healthz\""))
}

fn statuses(text: &str, _: &Path) -> Read<Statuses> {
    Statuses::parse(text).ok_or_else(|| {
        Refusal::new(format!("`{}` is not a set of statuses", shown(text)))
            .help("write \"2xx\", \"200\", \"200-399\", or several with commas between")
    })
}

/// Refuses the name of a field that only the gateway writes.
pub fn refuse_ours(name: &str, span: Span, mistakes: &mut Mistakes) {
    if is_ours(name) {
        mistakes.push(
            Mistake::new(span, format!("`{name}` can't be edited"))
                .label("only the gateway writes it")
                .help("take it out: it frames the message or ends at the next hop"),
        );
    }
}

/// Fields that frame a message or end at the next hop (RFC 9110 §7.6.1, RFC 9112 §6): the gateway
/// alone writes them.
fn is_ours(name: &str) -> bool {
    let id = FieldId::of(name.as_bytes());
    id.is_hop_by_hop() || matches!(id, FieldId::ContentLength | FieldId::Trailer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_no_space_and_no_fragment() {
        assert_eq!(target("/a?b=c", Path::new("")), Ok("/a?b=c".to_owned()));
        for wrong in ["", "a", "/a b", "/a#b", "/a\r\nb", "http://a/"] {
            assert!(target(wrong, Path::new("")).is_err(), "{wrong}");
        }
    }
}
