//! Queries of a DNS load, and the check of their responses. No sockets: bytes in, a judgment out.
//!
//! Queries ask for recursion, without EDNS: a response that does not fit into 512 bytes comes truncated over
//! UDP, and is an error (`truncated`). A response to another query (late or forged) is ignored.

use std::str::FromStr;

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use rand::{Rng, RngExt};

use super::super::tally::{ErrorKind, Failure};
use crate::scenario::DnsLoad;

/// The questions of a load.
#[derive(Debug, Clone)]
pub(super) struct Questions {
    names: Vec<Pattern>,
    spread: u64,
    record_type: RecordType,
    expected: ResponseCode,
}

/// A qname, or a pattern of many.
#[derive(Debug, Clone)]
enum Pattern {
    Fixed(Name),
    /// Text with `{n}`, which a number replaces.
    Numbered(String),
}

/// One query that waits for its response.
#[derive(Debug)]
pub(super) struct Exchange {
    id: u16,
    query: Query,
    expected: ResponseCode,
}

impl Questions {
    /// # Errors
    /// With the reason, when the load's questions are invalid.
    pub(super) fn new(load: &DnsLoad) -> Result<Self, String> {
        let names = load.names.iter().map(|name| pattern(name, load.spread));
        let names: Vec<_> = names.collect::<Result<_, _>>()?;
        if names.is_empty() {
            return Err("it has no name to query".to_owned());
        }
        let record_type = RecordType::from_str(&load.record_type)
            .map_err(|_| format!("`{}` is not a record type", load.record_type))?;
        if matches!(record_type, RecordType::AXFR | RecordType::IXFR) {
            return Err("zone transfers are not supported as a load".to_owned());
        }
        let wanted = load.expect_rcode.as_str();
        let expected = (0..=LAST_RCODE)
            .map(|code| ResponseCode::from(0, code))
            .find(|code| label(*code) == wanted)
            .ok_or_else(|| format!("`{wanted}` is not a response code, such as NOERROR"))?;
        Ok(Self {
            names,
            spread: load.spread,
            record_type,
            expected,
        })
    }

    /// Draws a question at random, and encodes it as a query.
    pub(super) fn ask(&self, random: &mut impl Rng) -> Result<(Exchange, Vec<u8>), Failure> {
        let unwritable = |_| Failure::answered(ErrorKind::Known("unwritable question"));
        let name = match &self.names[random.random_range(0..self.names.len())] {
            Pattern::Fixed(name) => name.clone(),
            Pattern::Numbered(text) => {
                let number = random.random_range(0..self.spread);
                numbered(text, number).map_err(unwritable)?
            }
        };
        let id = random.random();
        let query = Query::query(name, self.record_type);
        let mut message = Message::new(id, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = true;
        message.add_query(query.clone());
        let bytes = message.to_vec().map_err(unwritable)?;
        let expected = self.expected;
        Ok((
            Exchange {
                id,
                query,
                expected,
            },
            bytes,
        ))
    }
}

impl Exchange {
    /// Checks a message; `None`: the message is no response to this query.
    pub(super) fn judge(&self, bytes: &[u8]) -> Option<Result<(), Failure>> {
        let (id, _) = bytes.split_first_chunk()?;
        if u16::from_be_bytes(*id) != self.id {
            return None;
        }
        let Ok(message) = Message::from_vec(bytes) else {
            return Some(Err(Failure::answered(ErrorKind::Known("malformed"))));
        };
        let is_ours = message.metadata.message_type == MessageType::Response
            && message.queries == [self.query.clone()];
        if !is_ours {
            return None;
        }
        let code = message.metadata.response_code;
        Some(if message.metadata.truncation {
            Err(Failure::answered(ErrorKind::Known("truncated")))
        } else if code != self.expected {
            let kind = ErrorKind::Said(format!("rcode {}", label(code)));
            Err(Failure::answered(kind))
        } else {
            Ok(())
        })
    }
}

fn pattern(text: &str, spread: u64) -> Result<Pattern, String> {
    let unusable = |e| format!("`{text}` is not a domain name: {e}");
    if !text.contains(NUMBER) {
        return numbered(text, 0).map(Pattern::Fixed).map_err(unusable);
    }
    let last = spread
        .checked_sub(1)
        .ok_or_else(|| format!("`{text}` has a number, and `spread` is 0"))?;
    // The longest name: if it is valid, so are the others.
    numbered(text, last).map_err(unusable)?;
    Ok(Pattern::Numbered(text.to_owned()))
}

fn numbered(text: &str, number: u64) -> Result<Name, hickory_proto::ProtoError> {
    let mut name = Name::from_ascii(text.replace(NUMBER, &number.to_string()))?;
    name.set_fqdn(true);
    Ok(name)
}

/// Name of a response code, as RFC 1035 and RFC 2136 spell it.
fn label(code: ResponseCode) -> String {
    match code {
        ResponseCode::Unknown(number) => number.to_string(),
        known => format!("{known:?}").to_uppercase(),
    }
}

const NUMBER: &str = "{n}";
/// NOTZONE, the last response code that has a name without EDNS.
const LAST_RCODE: u8 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    fn load(name: &str) -> DnsLoad {
        DnsLoad {
            server: "127.0.0.1:53".parse().unwrap(),
            tcp: false,
            names: vec![name.to_owned()],
            spread: 10,
            record_type: "A".to_owned(),
            expect_rcode: "NOERROR".to_owned(),
            connections: 1,
        }
    }

    fn asked(name: &str) -> (Exchange, Message) {
        let questions = Questions::new(&load(name)).unwrap();
        let (exchange, bytes) = questions.ask(&mut Pcg64Mcg::seed_from_u64(1)).unwrap();
        (exchange, Message::from_vec(&bytes).unwrap())
    }

    fn said(exchange: &Exchange, message: &Message) -> Option<String> {
        let judged = exchange.judge(&message.to_vec().unwrap())?;
        Some(judged.map_or_else(|e| e.kind.label(), |()| "ok".to_owned()))
    }

    #[test]
    fn an_answer_is_one_to_the_question() {
        let (exchange, query) = asked("host.test");
        assert_eq!(said(&exchange, &query), None);
        let mut answer = query.clone().into_response();
        assert_eq!(said(&exchange, &answer).as_deref(), Some("ok"));
        answer.metadata.response_code = ResponseCode::ServFail;
        assert_eq!(said(&exchange, &answer).as_deref(), Some("rcode SERVFAIL"));
        answer.metadata.truncation = true;
        assert_eq!(said(&exchange, &answer).as_deref(), Some("truncated"));
        answer.metadata.id ^= 1;
        assert_eq!(said(&exchange, &answer), None);
        let (_, other) = asked("other.test");
        let mut other = other.into_response();
        other.metadata.id = exchange.id;
        assert_eq!(said(&exchange, &other), None);
    }

    #[test]
    fn numbers_are_drawn_below_the_spread() {
        let questions = Questions::new(&load("a-{n}.{n}.test.")).unwrap();
        let mut random = Pcg64Mcg::seed_from_u64(2);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..300 {
            let (exchange, _) = questions.ask(&mut random).unwrap();
            seen.insert(exchange.query.name.to_string());
        }
        let expected = (0..10).map(|n| format!("a-{n}.{n}.test."));
        assert_eq!(seen, expected.collect());
    }

    #[test]
    fn mistakes_are_named() {
        let with = |change: &dyn Fn(&mut DnsLoad)| {
            let mut load = load("host.test");
            change(&mut load);
            Questions::new(&load).unwrap_err()
        };
        let said = [
            with(&|load| load.names.clear()),
            with(&|load| load.names.push("a..b".to_owned())),
            with(&|load| load.names.push(format!("{}.test", "a".repeat(64)))),
            with(&|load| {
                load.names.push("{n}.test".to_owned());
                load.spread = 0;
            }),
            with(&|load| load.record_type = "AXFR".to_owned()),
            with(&|load| load.record_type = "B".to_owned()),
            with(&|load| load.expect_rcode = "NoError".to_owned()),
        ];
        expect_test::expect![[r#"
            [
                "it has no name to query",
                "`a..b` is not a domain name: Malformed label: ",
                "`aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.test` is not a domain name: decoding error: label bytes exceed 63: 64",
                "`{n}.test` has a number, and `spread` is 0",
                "zone transfers are not supported as a load",
                "`B` is not a record type",
                "`NoError` is not a response code, such as NOERROR",
            ]
        "#]].assert_debug_eq(&said);
    }

    proptest! {
        #[test]
        fn no_message_panics(mut bytes: Vec<u8>, keep in 0_usize..40) {
            let (exchange, query) = asked("host.test");
            let mut answer = query.into_response().to_vec().unwrap();
            exchange.judge(&bytes);
            answer.truncate(keep);
            answer.append(&mut bytes);
            exchange.judge(&answer);
        }
    }
}
