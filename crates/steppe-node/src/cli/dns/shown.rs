//! A response as people read it: the form of zone files (RFC 1035 §5.1), comments before it.
//!
//! Invariant: what a server sent reaches the terminal as printable text.

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
        writeln!(text, ";; extended error {code}: {}", printable(&why)).expect("a string");
    }
    text
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

/// The option of RFC 8914.
const EXTENDED_ERROR: u16 = 15;

fn line(record: &Record) -> String {
    let (ttl, class, rtype) = (record.ttl, record.dns_class, record.record_type());
    let line = format!("{}\t{ttl}\t{class}\t{rtype}\t{}", record.name, record.data);
    format!("{}\n", printable(&line))
}

/// Without control characters, which could tell a terminal something.
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
}
