//! Strings of what the DNS forwarder decides by: records that are made here, clients' ids, regular
//! expressions and times.

use steppe_dns::client::{ClientId, ClientIdError};
use steppe_dns::hosts::{RecordData, RecordDataError};
use steppe_dns::rules::{NamePatterns, PatternError};
use steppe_dns::schedule::{Hours, ScheduleError, Zone};

use steppe_config::form::{Read, Refusal};
use steppe_config::mistake::shown;

/// `192.0.2.1`, `MX 10 mail.example.org`.
pub(in crate::config) fn dns_record(text: &str) -> Read<RecordData> {
    text.parse().map_err(|error: RecordDataError| {
        let message = format!("`{}` is not a record", shown(text));
        Refusal::new(message).help(error.to_string())
    })
}

/// `kids-tablet`.
pub(in crate::config) fn dns_client_id(text: &str) -> Read<ClientId> {
    text.parse().map_err(|error: ClientIdError| {
        let message = format!("`{}` is not a client ID", shown(text));
        Refusal::new(message).help(error.to_string())
    })
}

/// `08:00-17:30`.
pub(in crate::config) fn hours(text: &str) -> Read<Hours> {
    text.parse().map_err(|error: ScheduleError| {
        let message = format!("`{}` is not a range of hours", shown(text));
        Refusal::new(message).help(error.to_string())
    })
}

/// `Europe/Berlin`.
pub(in crate::config) fn time_zone(text: &str) -> Read<Zone> {
    text.parse().map_err(|error: ScheduleError| {
        let message = format!("`{}` is not a time zone", shown(text));
        Refusal::new(message).help(error.to_string())
    })
}

/// Regular expressions of one rule.
pub(in crate::config) fn name_patterns(texts: &[String]) -> Read<NamePatterns> {
    NamePatterns::new(texts).map_err(|error| {
        let message = match error {
            PatternError::Syntax(_) => "a regular expression can't be read",
            PatternError::TooLarge => "regular expressions are too large",
        };
        Refusal::new(message).help(error.to_string())
    })
}

/// `https://lists.example/ads.txt`.
pub(in crate::config) fn url(text: &str) -> Read<String> {
    let uri: Option<hyper::Uri> = text.parse().ok();
    let is_url = uri.is_some_and(|uri| {
        let is_scheme = matches!(uri.scheme_str(), Some("http" | "https"));
        let authority = uri.authority().map_or("@", |authority| authority.as_str());
        is_scheme && !authority.contains('@') && uri.host().is_some_and(|host| !host.is_empty())
    });
    match is_url {
        true => Ok(text.to_owned()),
        false => {
            let message = format!("`{}` is not a URL to fetch from", shown(text));
            let help =
                "write one such as \"https://lists.example/ads.txt\", without user and password";
            Err(Refusal::new(message).help(help))
        }
    }
}
