//! Forms of strings in a scenario: times, URLs, signs of readiness, fields and names.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use steppe_config::form::{Form, Read, Refusal};
use steppe_config::mistake::shown;
use steppe_config::read::closest;

use super::super::{DRIFTS, Expect, Ready};
use crate::limits::{DURATION_MAX, LIMIT_WITHIN_MAX, SAMPLING_MIN};

/// A length of time of at least a millisecond.
pub static TIME: Form<Duration> = Form::new(A_TIME, within::<1, { DURATION_MAX.as_secs() }>);

/// A length of time, which may be zero.
pub static TIME_OR_NONE: Form<Duration> =
    Form::new(A_TIME, within::<0, { DURATION_MAX.as_secs() }>);

/// An interval of samples.
pub static INTERVAL: Form<Duration> = Form::new(
    A_TIME,
    within::<{ SAMPLING_MIN.subsec_millis() as u64 }, { DURATION_MAX.as_secs() }>,
);

/// The time of `budget.limit_within`.
pub static LIMIT_WITHIN: Form<Duration> =
    Form::new(A_TIME, within::<1_000, { LIMIT_WITHIN_MAX.as_secs() }>);

/// A path as it was written: relative ones count from the folder in which the lab was started.
pub static PATH: Form<PathBuf> = Form::new("a path", |text, _| {
    let refusal = || Refusal::new("a path can't be empty");
    Some(PathBuf::from(text))
        .filter(|_| !text.is_empty())
        .ok_or_else(refusal)
});

/// A URL without TLS, for requests of the lab's own.
pub static HTTP_URL: Form<String> = Form::new("a URL: \"http://HOST:PORT/PATH\"", |text, _| {
    Some(text.to_owned())
        .filter(|text| is_http(text))
        .ok_or_else(|| not(text, "a URL that the lab can ask", "http://HOST:PORT/PATH"))
});

/// The URL of a load.
pub static LOAD_URL: Form<String> = Form::new("a URL", |text, _| {
    let uri = text.parse::<hyper::Uri>().ok();
    uri.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some())
        .map(|_| text.to_owned())
        .ok_or_else(|| not(text, "a URL", "http://HOST:PORT/PATH\" or \"https://…"))
});

/// A sign that a process has started.
pub static READY: Form<Ready> = Form::new("a sign of readiness", ready);

/// A method of HTTP.
pub static METHOD: Form<String> = Form::new("a method", |text, _| {
    let method = hyper::Method::from_bytes(text.as_bytes());
    method
        .map(|_| text.to_owned())
        .map_err(|_| not(text, "a method", "GET"))
});

/// Statuses that are a success.
pub static STATUSES: Form<Vec<Expect>> = Form::new("statuses", |text, _| {
    let statuses: Option<Vec<_>> = text.split(',').map(|each| status(each.trim())).collect();
    statuses.ok_or_else(|| {
        let refusal = Refusal::new(format!("`{}` is no status", shown(text)));
        refusal.help("write \"2xx\", \"204\" or \"2xx, 429\"")
    })
});

/// Name of a header field.
pub static FIELD_NAME: Form<String> = Form::new("a field name", |text, _| {
    let name = hyper::header::HeaderName::from_bytes(text.as_bytes());
    name.map(|_| text.to_owned())
        .map_err(|_| not(text, "a field name", "accept"))
});

/// Value of a header field.
pub static FIELD_VALUE: Form<String> = Form::new("a field value", |text, _| {
    let value = hyper::header::HeaderValue::from_str(text);
    value
        .map(|_| text.to_owned())
        .map_err(|_| not(text, "a field value", "text/html"))
});

/// Address and port of a server.
pub static SOCKET: Form<SocketAddr> = Form::new("an address and a port", |text, _| {
    text.parse()
        .map_err(|_| not(text, "an address with a port", "127.0.0.1:53"))
});

/// A domain name, in which `{n}` stands for a number.
pub static DNS_NAME: Form<String> = Form::new("a domain name", |text, _| {
    let longest = text.replace("{n}", "18446744073709551615");
    let name = hickory_proto::rr::Name::from_ascii(longest);
    name.map(|_| text.to_owned())
        .map_err(|_| not(text, "a domain name", "www.example.\" or \"h{n}.example."))
});

/// A type of DNS records.
pub static RECORD_TYPE: Form<String> = Form::new("a type of DNS records", |text, _| {
    let known = text.parse::<hickory_proto::rr::RecordType>();
    known
        .map(|_| text.to_owned())
        .map_err(|_| not(text, "a type of DNS records", "AAAA"))
});

/// A JSON pointer (RFC 6901).
pub static POINTER: Form<String> = Form::new("a JSON pointer", |text, _| {
    Some(text.to_owned())
        .filter(|text| text.is_empty() || text.starts_with('/'))
        .ok_or_else(|| not(text, "a JSON pointer", "/allocator/live_bytes"))
});

/// A series that is judged for drift.
pub static DRIFT: Form<String> = Form::new("a series", |text, _| {
    let names = || DRIFTS.iter().map(|(name, _)| *name);
    if names().any(|name| name == text) {
        return Ok(text.to_owned());
    }
    let refusal = Refusal::new(format!("no series `{}` is judged for drift", shown(text)));
    Err(refusal.help(match closest(text, names()) {
        Some(closest) => format!("did you mean `{closest}`?"),
        None => format!("the series are {}", names().collect::<Vec<_>>().join(", ")),
    }))
});

const A_TIME: &str = "a length of time such as \"5s\", \"250ms\" or \"10min\"";

fn not(text: &str, expected: &str, example: &str) -> Refusal {
    let refusal = Refusal::new(format!("`{}` is not {expected}", shown(text)));
    refusal.help(format!("write \"{example}\""))
}

fn within<const MIN_MS: u64, const MAX_S: u64>(text: &str, _: &Path) -> Read<Duration> {
    let time = humantime::parse_duration(text)
        .map_err(|_| not(text, "a length of time", "250ms\", \"5s\" or \"10min"))?;
    let (min, max) = (Duration::from_millis(MIN_MS), Duration::from_secs(MAX_S));
    if (min..=max).contains(&time) {
        return Ok(time);
    }
    let show = humantime::format_duration;
    let refusal = Refusal::new(format!("`{}` is out of range", shown(text)));
    Err(refusal.help(format!(
        "it takes times from {} to {}",
        show(min),
        show(max)
    )))
}

fn ready(text: &str, _: &Path) -> Read<Ready> {
    if is_http(text) {
        return Ok(Ready::Http(text.to_owned()));
    }
    let (scheme, rest) = text.split_once(':').unwrap_or((text, ""));
    let sign = match scheme {
        "tcp" => {
            let address = rest.strip_prefix("//").and_then(|rest| rest.parse().ok());
            address.map(Ready::Tcp)
        }
        "log" => match regex::Regex::new(rest) {
            Ok(_) => Some(Ready::Log(rest.to_owned())),
            Err(error) => return Err(Refusal::new(error.to_string())),
        },
        "after" => humantime::parse_duration(rest).ok().map(Ready::After),
        _ => None,
    };
    sign.ok_or_else(|| {
        let refusal = Refusal::new(format!("`{}` is no sign of readiness", shown(text)));
        refusal.help("write \"http://HOST:PORT/PATH\", \"tcp://ADDRESS:PORT\", \"log:PATTERN\" or \"after:2s\"")
    })
}

/// A status such as `204`, or a class of them such as `2xx`.
fn status(text: &str) -> Option<Expect> {
    let class = text.strip_suffix("xx").map(|class| class.parse::<u16>());
    match (class, text.parse::<u16>()) {
        (Some(Ok(class @ 1..=5)), _) => Some(Expect {
            from: class * 100,
            to: class * 100 + 99,
        }),
        (None, Ok(status @ 100..=599)) => Some(Expect {
            from: status,
            to: status,
        }),
        _ => None,
    }
}

/// True if a URL has a host, and a valid port if any, and no TLS.
fn is_http(url: &str) -> bool {
    let Ok(uri) = url.parse::<hyper::Uri>() else {
        return false;
    };
    let Some(authority) = uri.authority() else {
        return false;
    };
    let (host, address) = (authority.host(), authority.as_str());
    let address = address
        .rsplit_once('@')
        .map_or(address, |(_, address)| address);
    let has_port = address.len() > host.len();
    uri.scheme_str() == Some("http")
        && !host.is_empty()
        && (!has_port || authority.port_u16().is_some())
}
