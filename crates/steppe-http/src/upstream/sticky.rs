//! Session affinity by cookie, and the keys of `hash_on`.
//!
//! Invariant: a cookie does not reveal a server's address: its value is a keyed hash, and the
//! key stays in the process. A value that matches no candidate is ignored.
//!
//! Non-goals: affinity across nodes. Each node has a key of its own, so a client that reaches
//! another node gets a new cookie there. Spec: RFC 6265bis §5.4 to §5.7.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use super::random::hash;
use super::target::TargetState;
use crate::config::HashOn;
use crate::encoder::{Encoder, Put};
use crate::field::FieldBlock;
use crate::head::RequestHead;

/// Hexadecimal digits of a value.
const DIGITS: usize = 16;

/// The token of a server: a keyed hash of its address.
pub(super) fn token(secret: &RandomState, state: &TargetState) -> u64 {
    secret.hash_one((state.server.to_string(), state.ip))
}

/// The token in a client's cookie.
pub(super) fn read(fields: &FieldBlock, name: &str) -> Option<u64> {
    let value = fields.cookies(name.as_bytes()).next()?;
    let text = std::str::from_utf8(value).ok()?;
    let is_value = text.len() == DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_value.then(|| u64::from_str_radix(text, 16).ok())?
}

/// The attribute `Secure` of a cookie (RFC 6265bis §5.7): it is for TLS alone, as the client's scheme is `https`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Secure {
    /// Without `Secure`.
    #[default]
    No,
    /// With `Secure`.
    Yes,
}

/// An affinity cookie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cookie<'a> {
    pub(super) name: &'a str,
    pub(super) secure: Secure,
    pub(super) token: u64,
    pub(super) max_age_s: u64,
}

/// Writes the value of `Set-Cookie`.
pub(super) fn write(out: &mut Encoder<'_>, cookie: Cookie<'_>) {
    let Cookie {
        name,
        secure,
        token,
        max_age_s,
    } = cookie;
    let digits: [u8; DIGITS] = std::array::from_fn(|at| {
        let nibble = token >> (4 * (DIGITS - 1 - at)) & 0xf;
        b"0123456789abcdef"[usize::try_from(nibble).expect("four bits")]
    });
    out.put(name.as_bytes());
    out.put(b"=");
    out.put(&digits);
    out.put(b"; Path=/; HttpOnly; SameSite=Lax; Max-Age=");
    out.number(max_age_s);
    if secure == Secure::Yes {
        out.put(b"; Secure");
    }
}

/// The hash of the request's value that `on` names; `None` if it has none.
pub(super) fn key(on: &HashOn, head: &RequestHead, client: IpAddr) -> Option<u64> {
    let bytes = match on {
        HashOn::Header(name) => head.fields.values_named(name.as_bytes()).next()?,
        HashOn::Cookie(name) => head.fields.cookies(name.as_bytes()).next()?,
        HashOn::Path => head.path(),
        HashOn::Ip => {
            return Some(match client.to_canonical() {
                IpAddr::V4(ip) => hash(&ip.octets()),
                IpAddr::V6(ip) => hash(&ip.octets()),
            });
        }
    };
    Some(hash(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_written_as_browsers_take_it() {
        let mut room = [0; 128];
        const COOKIE: &str =
            "steppe=0123456789abcdef; Path=/; HttpOnly; SameSite=Lax; Max-Age=3600";
        for (secure, end) in [(Secure::No, ""), (Secure::Yes, "; Secure")] {
            let mut out = Encoder::new(&mut room);
            let cookie = Cookie {
                name: "steppe",
                secure,
                token: 0x0123_4567_89ab_cdef,
                max_age_s: 3600,
            };
            write(&mut out, cookie);
            let written = out.finish().expect("there is room");
            assert_eq!(room[..written], *[COOKIE, end].concat().as_bytes());
        }
    }
}
