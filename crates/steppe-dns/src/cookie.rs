//! Server cookies, which prove that a client owns its source address. Spec: RFC 7873, and RFC 9018 for their
//! format, so that servers behind one address accept each other's cookies.

use std::net::IpAddr;

use crate::limits::{COOKIE_FUTURE_SECONDS_MAX, COOKIE_RENEW_SECONDS, COOKIE_SECONDS_MAX};
use crate::siphash::{SipHash24, SipKey};
use crate::wire::ClientCookie;

/// The proof of a client's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// No proof: no cookie, one with another secret, or one that is too old.
    None,
    /// The client receives datagrams that are sent to its address.
    Address,
}

/// The secrets that cookies are made and checked with.
#[derive(Debug, Clone)]
pub struct Secrets {
    /// The secret that cookies are made with.
    current: SipKey,
    /// The secret before it, whose cookies are accepted until all are too old: RFC 9018 §5.
    previous: Option<SipKey>,
}

/// The result of checking a client's cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checked {
    /// Proof of the client's address by the cookie.
    pub proof: Proof,
    /// Server cookie to send: the one that the client sent, while it is new.
    pub answer: [u8; 16],
}

const VERSION: u8 = 1;

impl Secrets {
    /// Secrets of one key, random and shared by servers that answer for one address.
    #[must_use]
    pub fn new(current: SipKey) -> Self {
        Self {
            current,
            previous: None,
        }
    }

    /// Makes cookies with another key from now on; those of the key before are still accepted.
    pub fn rotate(&mut self, next: SipKey) {
        self.previous = Some(std::mem::replace(&mut self.current, next));
    }

    /// Checks a client's cookie. `now` is the time of day in seconds since 1970; RFC 9018 §4.3 counts 32
    /// bits of it.
    #[must_use]
    pub fn check(&self, cookie: &ClientCookie<'_>, client: IpAddr, now: u32) -> Checked {
        let [t0, t1, t2, t3] = now.to_be_bytes();
        let head = [VERSION, 0, 0, 0, t0, t1, t2, t3];
        let renewed = make(&self.current, cookie.client, client, head);
        let none = Checked {
            proof: Proof::None,
            answer: renewed,
        };
        let Ok(sent) = <[u8; 16]>::try_from(cookie.server) else {
            return none;
        };
        let made_at = u32::from_be_bytes([sent[4], sent[5], sent[6], sent[7]]);
        // RFC 1982: serial numbers, so that the count may wrap.
        let age = now.wrapping_sub(made_at).cast_signed();
        let is_timely = (-COOKIE_FUTURE_SECONDS_MAX..=COOKIE_SECONDS_MAX).contains(&age);
        if sent[0] != VERSION || !is_timely {
            return none;
        }
        // The reserved bytes are hashed as they came.
        let head = std::array::from_fn(|at| sent[at]);
        let is_of = |key: &SipKey| is_equal(&make(key, cookie.client, client, head), &sent);
        let is_current = is_of(&self.current);
        if !is_current && !self.previous.as_ref().is_some_and(is_of) {
            return none;
        }
        Checked {
            proof: Proof::Address,
            answer: if is_current && age <= COOKIE_RENEW_SECONDS {
                sent
            } else {
                renewed
            },
        }
    }
}

/// Makes a server cookie. RFC 9018 §4.4: version, reserved bytes and time (`head`), and the hash of the client
/// cookie, these, and the address.
fn make(key: &SipKey, client_cookie: [u8; 8], client: IpAddr, head: [u8; 8]) -> [u8; 16] {
    let mut cookie = [0; 16];
    cookie[..8].copy_from_slice(&head);
    let mut hash = SipHash24::new(key);
    hash.write(&client_cookie);
    hash.write(&head);
    match client {
        IpAddr::V4(v4) => hash.write(&v4.octets()),
        IpAddr::V6(v6) => hash.write(&v6.octets()),
    }
    cookie[8..].copy_from_slice(&hash.finish().to_le_bytes());
    cookie
}

/// Compares two cookies in constant time.
fn is_equal(one: &[u8; 16], other: &[u8; 16]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex"))
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn checked(secrets: &Secrets, client: &str, server: &str, from: &str, now: u32) -> Checked {
        let server: Vec<u8> = (0..server.len() / 2)
            .map(|at| bytes::<1>(&server[2 * at..])[0])
            .collect();
        let cookie = ClientCookie {
            client: bytes(client),
            server: &server,
        };
        secrets.check(&cookie, from.parse().expect("an address"), now)
    }

    fn secrets(hex: &str) -> Secrets {
        Secrets::new(SipKey::from_bytes(bytes(hex)))
    }

    const SECRET: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";

    #[test]
    fn the_examples_of_rfc_9018_come_out() {
        // Appendix A.1: a new cookie.
        let made = checked(
            &secrets(SECRET),
            "2464c4abcf10c957",
            "",
            "198.51.100.100",
            1_559_731_985,
        );
        assert_eq!(made.proof, Proof::None);
        assert_eq!(made.answer, bytes("010000005cf79f111f8130c3eee29480"));
        // A.2: the same, half an hour later or more, is renewed.
        let server = "010000005cf79f111f8130c3eee29480";
        let renewed = checked(
            &secrets(SECRET),
            "2464c4abcf10c957",
            server,
            "198.51.100.100",
            1_559_734_385,
        );
        assert_eq!(renewed.proof, Proof::Address);
        assert_eq!(renewed.answer, bytes("010000005cf7a871d4a564a1442aca77"));
        // A.3: another client's, with bits set in the reserved part.
        let server = "01abcdef5cf78f71a314227b6679ebf5";
        let odd = checked(
            &secrets(SECRET),
            "fc93fc62807ddb86",
            server,
            "203.0.113.203",
            1_559_734_700,
        );
        assert_eq!(odd.answer, bytes("010000005cf7a9acf73a7810aca2381e"));
        // A.4: IPv6, and a secret that was replaced.
        let mut rolled = secrets("dd3bdf9344b678b185a6f5cb60fca715");
        rolled.rotate(SipKey::from_bytes(bytes(
            "445536bcd2513298075a5d379663c962",
        )));
        let server = "010000005cf7c57926556bd0934c72f8";
        let from = "2001:db8:220:1:59de:d0f4:8769:82b8";
        let renewed = checked(&rolled, "22681ab97d52c298", server, from, 1_559_741_961);
        assert_eq!(renewed.proof, Proof::Address);
        assert_eq!(renewed.answer, bytes("010000005cf7c609a6bb79d16625507a"));
    }

    #[test]
    fn a_cookie_is_for_its_client_and_its_time() {
        let secrets = secrets(SECRET);
        let (client, server) = ("2464c4abcf10c957", "010000005cf79f111f8130c3eee29480");
        let (from, at) = ("198.51.100.100", 1_559_731_985);
        let proof = |client, server, from, now| checked(&secrets, client, server, from, now).proof;
        assert_eq!(proof(client, server, from, at), Proof::Address);
        assert_eq!(
            checked(&secrets, client, server, from, at + 60).answer,
            bytes(server)
        );
        assert_eq!(proof(client, server, "198.51.100.101", at), Proof::None);
        assert_eq!(proof("2464c4abcf10c958", server, from, at), Proof::None);
        let forged = "010000005cf79f111f8130c3eee29481";
        assert_eq!(proof(client, forged, from, at), Proof::None);
        assert_eq!(proof(client, &server[..16], from, at), Proof::None);
        assert_eq!(proof(client, server, from, at + 3600), Proof::Address);
        assert_eq!(proof(client, server, from, at + 3601), Proof::None);
        assert_eq!(proof(client, server, from, at - 300), Proof::Address);
        assert_eq!(proof(client, server, from, at - 301), Proof::None);
    }
}
