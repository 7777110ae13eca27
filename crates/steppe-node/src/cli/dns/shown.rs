//! A response as text: the form of zone files (RFC 1035 §5.1), comments before it.
//!
//! Invariant: text of a server reaches the terminal as printable characters.

use std::fmt::Write as _;
use std::time::Duration;

use hickory_proto::op::Message;
use hickory_proto::rr::Record;
use hickory_proto::rr::rdata::opt::EdnsCode;

use super::server::Server;

pub(super) fn shown(response: &Message, server: &Server, took: Duration) -> String {
    let mut text = head(response, server, took);
    for (title, records) in [
        ("answer", &response.answers),
        ("authority", &response.authorities),
        ("additional", &response.additionals),
    ] {
        if !records.is_empty() {
            text += &format!(";; {title}\n");
        }
        for record in records {
            text += &line(record);
        }
    }
    text
}

fn head(response: &Message, server: &Server, took: Duration) -> String {
    let about = &response.metadata;
    let flags = [
        (about.authoritative, " aa"),
        (about.truncation, " tc"),
        (about.recursion_desired, " rd"),
        (about.recursion_available, " ra"),
        (about.authentic_data, " ad"),
        (about.checking_disabled, " cd"),
    ];
    let flags = flags.into_iter().filter(|&(is_set, _)| is_set);
    let flags: String = flags.map(|(_, name)| name).collect();
    let milliseconds = took.as_secs_f64() * 1e3;
    let rcode = format!("{:?}", about.response_code).to_uppercase();
    let mut text = format!(";; {rcode} from {server} in {milliseconds:.1} ms, flags:{flags}\n");
    if let Some((code, why)) = extended_error(response) {
        text += &extended_error_line(code, &why);
    }
    text
}

/// The info-code, its registered name, and the text of the server in parentheses.
fn extended_error_line(code: u16, why: &str) -> String {
    let name = extended_error_name(code);
    let why = match why {
        "" => String::new(),
        why => format!(" ({})", printable(why)),
    };
    format!(";; extended error {code}: {name}{why}\n")
}

/// Info-code and text of RFC 8914.
fn extended_error(response: &Message) -> Option<(u16, String)> {
    let options = response.edns.as_ref()?.options();
    let option = options.get(EdnsCode::Unknown(EXTENDED_ERROR))?;
    let bytes = Vec::<u8>::try_from(option).ok()?;
    let (code, why) = bytes.split_first_chunk::<2>()?;
    Some((
        u16::from_be_bytes(*code),
        String::from_utf8_lossy(why).into_owned(),
    ))
}

/// The registered name of an info-code: RFC 8914 §4, and IANA's registry beyond 24.
fn extended_error_name(code: u16) -> &'static str {
    let name = EXTENDED_ERROR_NAMES.get(usize::from(code));
    name.copied().unwrap_or("unknown info-code")
}

/// Registered names by info-code.
const EXTENDED_ERROR_NAMES: [&str; 31] = [
    "Other Error",
    "Unsupported DNSKEY Algorithm",
    "Unsupported DS Digest Type",
    "Stale Answer",
    "Forged Answer",
    "DNSSEC Indeterminate",
    "DNSSEC Bogus",
    "Signature Expired",
    "Signature Not Yet Valid",
    "DNSKEY Missing",
    "RRSIGs Missing",
    "No Zone Key Bit Set",
    "NSEC Missing",
    "Cached Error",
    "Not Ready",
    "Blocked",
    "Censored",
    "Filtered",
    "Prohibited",
    "Stale NXDOMAIN Answer",
    "Not Authoritative",
    "Not Supported",
    "No Reachable Authority",
    "Network Error",
    "Invalid Data",
    "Signature Expired before Valid",
    "Too Early",
    "Unsupported NSEC3 Iterations Value",
    "Unable to conform to policy",
    "Synthesized",
    "Invalid Query Type",
];

/// The code of the EDNS option of RFC 8914.
const EXTENDED_ERROR: u16 = 15;

fn line(record: &Record) -> String {
    let (ttl, class, rtype) = (record.ttl, record.dns_class, record.record_type());
    let line = format!("{}\t{ttl}\t{class}\t{rtype}\t{}", record.name, record.data);
    format!("{}\n", printable(&line))
}

/// The text without control characters, which could control the terminal.
fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\t' => shown.push(character),
            _ if character.is_control() => {
                write!(shown, "\\{:03}", u32::from(character)).expect("a string");
            }
            _ => shown.push(character),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert_eq!(printable("a\x1b[2J\tb\u{9b}c"), "a\\027[2J\tb\\155c");
    }

    #[test]
    fn an_extended_error_has_its_registered_name() {
        assert_eq!(extended_error_name(0), "Other Error");
        assert_eq!(extended_error_name(22), "No Reachable Authority");
        assert_eq!(extended_error_name(24), "Invalid Data");
        assert_eq!(extended_error_name(30), "Invalid Query Type");
        assert_eq!(extended_error_name(4_000), "unknown info-code");
    }

    #[test]
    fn an_extended_error_has_its_name_and_its_text() {
        let line = extended_error_line;
        assert_eq!(line(15, ""), ";; extended error 15: Blocked\n");
        assert_eq!(
            line(22, "cached"),
            ";; extended error 22: No Reachable Authority (cached)\n"
        );
        assert_eq!(
            line(4_000, "a\nb"),
            ";; extended error 4000: unknown info-code (a\\010b)\n"
        );
    }
}
