//! Reply options of a client, the same for any answer: by the options of its query, and by its transport.
//!
//! Cookies are checked here. No client is required to have one (RFC 7873 §5.2.3), so there is no BADCOOKIE: the
//! proof of a client's address only serves the rate limits.

use std::net::IpAddr;
use std::time::Instant;

use crate::config::Protocol;
use crate::cookie::{Proof, Secrets};
use crate::limits::{CLIENT_IDLE_TIME, COOKIE_SECRET_SECONDS, UDP_PAYLOAD_BYTES};
use crate::siphash::{SipHash24, SipKey};
use crate::wire::{ClientQuery, Padding, Reply, Transport};

/// The reply options of a client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    transport: Transport,
    padding: Padding,
    keepalive: Option<u16>,
    server_cookie: Option<[u8; 16]>,
    /// Proof that the client owns its address: a cookie, or a connection.
    pub(crate) proof: Proof,
}

/// The secrets of cookies of one worker. They are derived from a seed and the time of day, so that all workers
/// have the same ones without any exchange between them.
#[derive(Debug)]
pub(crate) struct Cookies {
    seed: SipKey,
    secrets: Secrets,
    /// Number of the period that `secrets` are of.
    period: u32,
    /// A moment, and its time in seconds since 1970.
    began: (Instant, u32),
}

/// Units of a keepalive: 100 ms. RFC 7828 §3.1.
#[expect(clippy::cast_possible_truncation, reason = "seconds, not hours")]
const KEEPALIVE: u16 = (CLIENT_IDLE_TIME.as_millis() / 100) as u16;

impl Manner {
    /// The options for a query that came by `protocol` from `client`.
    pub(crate) fn new(
        query: &ClientQuery<'_>,
        protocol: Protocol,
        client: IpAddr,
        (cookies, now): (&mut Cookies, Instant),
    ) -> Self {
        let is_datagram = protocol == Protocol::Udp;
        let cookie = query.options().cookie;
        let checked = cookie.map(|cookie| {
            let (secrets, now) = cookies.at(now);
            secrets.check(&cookie, client, now)
        });
        let by_cookie = checked.map_or(Proof::None, |checked| checked.proof);
        Self {
            transport: match is_datagram {
                true => Transport::Udp {
                    payload_max: UDP_PAYLOAD_BYTES,
                },
                false => Transport::Stream,
            },
            padding: match protocol.is_encrypted() {
                true => Padding::Blocks,
                false => Padding::None,
            },
            keepalive: match protocol {
                Protocol::Tcp | Protocol::Tls => Some(KEEPALIVE),
                // RFC 7828 §3.2.1: there is none over UDP; and HTTP has its own.
                Protocol::Udp | Protocol::Https => None,
            },
            server_cookie: checked.map(|checked| checked.answer),
            proof: if is_datagram {
                by_cookie
            } else {
                Proof::Address
            },
        }
    }

    /// True where the response goes out on a stream.
    pub(crate) fn is_of_stream(&self) -> bool {
        self.transport == Transport::Stream
    }

    /// A reply with these options.
    pub(crate) fn reply<'a>(&self, query: &'a ClientQuery<'a>) -> Reply<'a> {
        Reply {
            padding: self.padding,
            keepalive: self.keepalive,
            server_cookie: self.server_cookie,
            ..Reply::new(query, self.transport)
        }
    }
}

impl Cookies {
    /// The secrets of `seed`; `now` is `unix` seconds since 1970.
    pub(crate) fn new(seed: SipKey, now: Instant, unix: u32) -> Self {
        let period = unix / COOKIE_SECRET_SECONDS;
        Self {
            secrets: secrets(&seed, period),
            seed,
            period,
            began: (now, unix),
        }
    }

    /// The secrets in use at `now`, and `now` in seconds since 1970.
    fn at(&mut self, now: Instant) -> (&Secrets, u32) {
        let (then, unix) = self.began;
        let passed = now.saturating_duration_since(then).as_secs();
        // RFC 9018 §4.3: the lower 32 bits.
        let passed = u32::try_from(passed & u64::from(u32::MAX)).unwrap_or_default();
        let unix = unix.wrapping_add(passed);
        let period = unix / COOKIE_SECRET_SECONDS;
        if period != self.period {
            self.secrets = secrets(&self.seed, period);
            self.period = period;
        }
        (&self.secrets, unix)
    }
}

/// The secrets of a period, and those of the one before, whose cookies are still good.
fn secrets(seed: &SipKey, period: u32) -> Secrets {
    let mut secrets = Secrets::new(secret(seed, period.wrapping_sub(1)));
    secrets.rotate(secret(seed, period));
    secrets
}

fn secret(seed: &SipKey, period: u32) -> SipKey {
    let half = |number: u8| {
        let mut hash = SipHash24::new(seed);
        hash.write(&period.to_be_bytes());
        hash.write(&[number]);
        hash.finish()
    };
    SipKey([half(0), half(1)])
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;
    use crate::wire::ClientCookie;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn check(cookies: &mut Cookies, server: &[u8], now: Instant) -> ([u8; 16], Proof) {
        let cookie = ClientCookie {
            client: [7; 8],
            server,
        };
        let (secrets, unix) = cookies.at(now);
        let checked = secrets.check(&cookie, CLIENT, unix);
        (checked.answer, checked.proof)
    }

    #[test]
    fn workers_agree_and_a_new_secret_leaves_young_cookies_good() {
        let (seed, start) = (SipKey([3, 5]), Instant::now());
        let unix = 1000 * COOKIE_SECRET_SECONDS - 10;
        let [mut one, mut other] = [(); 2].map(|()| Cookies::new(seed, start, unix));
        let (given, proof) = check(&mut one, &[], start);
        assert_eq!(proof, Proof::None);
        // Another worker that has begun a new period meanwhile.
        let later = start + Duration::from_secs(20);
        let (renewed, proof) = check(&mut other, &given, later);
        assert_eq!(proof, Proof::Address);
        assert_ne!(renewed, given, "it is of the new secret");
        assert_eq!(check(&mut other, &renewed, later).1, Proof::Address);
        let much_later = later + Duration::from_secs(2 * u64::from(COOKIE_SECRET_SECONDS));
        assert_eq!(check(&mut one, &renewed, much_later).1, Proof::None);
    }

    #[test]
    fn secrets_follow_from_the_seed() {
        let now = Instant::now();
        let [mut one, mut other] =
            [[3, 5], [3, 6]].map(|seed| Cookies::new(SipKey(seed), now, 1 << 30));
        let (given, _) = check(&mut one, &[], now);
        assert_eq!(check(&mut other, &given, now).1, Proof::None);
    }
}
