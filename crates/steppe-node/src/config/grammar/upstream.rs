//! Strings of upstreams: what tells requests apart, cookies, targets of probes, statuses.
//!
//! Spec: RFC 6265 §4.1.1 for names of cookies, RFC 9112 §3.2.1 for targets.

use steppe_config::mistake::shown;
use steppe_config::units::duration;
use steppe_http::config::{HashOn, HedgeAfter, Statuses};
use steppe_http::field::is_token;

use super::{Read, Refusal, field_name};
use crate::config::limits::{COOKIE_NAME_BYTES_MAX, TIMEOUT_MAX, TIMEOUT_MIN};

/// `header:NAME`, `cookie:NAME`, `ip`, `path`.
pub(in crate::config) fn hash_on(text: &str) -> Read<HashOn> {
    match text.split_once(':') {
        Some(("header", name)) => field_name(name).map(HashOn::Header),
        Some(("cookie", name)) => cookie_name(name).map(HashOn::Cookie),
        None if text == "ip" => Ok(HashOn::Ip),
        None if text == "path" => Ok(HashOn::Path),
        _ => Err(Refusal::new(format!("`{}` is not a hash key", shown(text)))
            .help("write \"header:NAME\", \"cookie:NAME\", \"ip\" or \"path\"")),
    }
}

/// A token.
pub(in crate::config) fn cookie_name(text: &str) -> Read<String> {
    if is_token(text.as_bytes()) && text.len() <= COOKIE_NAME_BYTES_MAX {
        return Ok(text.to_owned());
    }
    let message = format!("`{}` is not a cookie's name", shown(text));
    let help = format!("a token of at most {COOKIE_NAME_BYTES_MAX} characters, such as \"steppe\"");
    Err(Refusal::new(message).help(help))
}

/// An origin-form target.
pub(in crate::config) fn target(text: &str) -> Read<String> {
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'#');
    if text.starts_with('/') && is_plain {
        return Ok(text.to_owned());
    }
    let message = format!("`{}` is not a request path", shown(text));
    Err(Refusal::new(message).help("write it as a request does, such as \"/healthz\""))
}

/// `2xx`, `200`, `200-399`, or several of them.
pub(in crate::config) fn statuses(text: &str) -> Read<Statuses> {
    Statuses::parse(text).ok_or_else(|| {
        Refusal::new(format!("`{}` is not a set of statuses", shown(text)))
            .help("write \"2xx\", \"200\", \"200-399\", or several with commas between")
    })
}

/// A percentile of latencies such as `p95`, or a time.
pub(in crate::config) fn hedge_after(text: &str) -> Read<HedgeAfter> {
    let time = || {
        let bounds = TIMEOUT_MIN..=TIMEOUT_MAX;
        let time = duration(text).ok().filter(|time| bounds.contains(time));
        time.map(HedgeAfter::Time)
    };
    HedgeAfter::percentile(text).or_else(time).ok_or_else(|| {
        Refusal::new(format!(
            "`{}` is neither a percentile nor a time",
            shown(text)
        ))
        .help("write a percentile from \"p50\" to \"p99\", or a time such as \"20ms\"")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hashed_on_reads_back() {
        for text in ["header:x-user", "cookie:Session", "ip", "path"] {
            assert_eq!(hash_on(text).map(|on| on.to_string()), Ok(text.to_owned()));
        }
        for wrong in ["", "header:", "header:a b", "cookie:a=b", "ip:x", "query"] {
            assert!(hash_on(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_target_has_no_space_and_no_fragment() {
        assert_eq!(target("/a?b=c"), Ok("/a?b=c".to_owned()));
        for wrong in ["", "a", "/a b", "/a#b", "/a\r\nb", "http://a/"] {
            assert!(target(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_first_server_is_waited_for_a_percentile_or_a_time() {
        assert_eq!(hedge_after("p95"), Ok(HedgeAfter::Percentile(95)));
        let time = std::time::Duration::from_millis(20);
        assert_eq!(hedge_after("20ms"), Ok(HedgeAfter::Time(time)));
        for text in ["p49", "p100", "p9", "p+9", "p", "95", "0s", "2d", ""] {
            assert!(hedge_after(text).is_err(), "{text}");
        }
    }
}
