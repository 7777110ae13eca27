//! DNS rebinding: private addresses that a public name should not have, by which a web page reaches into its
//! reader's network.
//!
//! Covered are A, AAAA, addresses of IPv4 inside of those of IPv6, and the address hints of SVCB and HTTPS
//! (RFC 9460 §7.3). Non-goals: exceptions for names and upstreams, which are up to the configuration.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::wire::{Record, Response, Rtype, Section};

/// The first private address among a response's answers.
#[must_use]
pub fn private_address(response: &Response<'_>) -> Option<IpAddr> {
    response
        .kept(Section::Answer)
        .find_map(|record| in_record(&record))
}

fn in_record(record: &Record<'_>) -> Option<IpAddr> {
    match record.rtype {
        Rtype::A => first_private::<4>(record.rdata),
        Rtype::AAAA => first_private::<16>(record.rdata),
        Rtype::SVCB | Rtype::HTTPS => in_hints(record.rdata),
        _ => None,
    }
}

/// The first private address of several in a row.
fn first_private<const N: usize>(bytes: &[u8]) -> Option<IpAddr>
where
    IpAddr: From<[u8; N]>,
{
    let addresses = bytes
        .chunks_exact(N)
        .filter_map(|chunk| <[u8; N]>::try_from(chunk).ok());
    addresses
        .map(IpAddr::from)
        .find(|address| is_private(*address))
}

/// The first private address among the hints of an SVCB record. RFC 9460 §2.2: its data is a priority, a name that
/// is not compressed, then keys with values.
fn in_hints(rdata: &[u8]) -> Option<IpAddr> {
    const IPV4_HINT: u16 = 4;
    const IPV6_HINT: u16 = 6;
    let mut at = 2;
    while *rdata.get(at)? != 0 {
        at += 1 + usize::from(rdata[at]);
    }
    let mut rest = rdata.get(at + 1..)?;
    while let Some((&[k0, k1, l0, l1], after)) = rest.split_first_chunk::<4>() {
        let len = usize::from(u16::from_be_bytes([l0, l1]));
        let (value, after) = after.split_at_checked(len)?;
        let found = match u16::from_be_bytes([k0, k1]) {
            IPV4_HINT => first_private::<4>(value),
            IPV6_HINT => first_private::<16>(value),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
        rest = after;
    }
    None
}

/// True if an address is of a private network or of this host, link-local, unspecified or broadcast.
#[must_use]
pub fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_private_v4(v4),
        IpAddr::V6(v6) => is_private_v6(v6),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        // RFC 791 §3.2: "this network"; Linux connects to 0.0.0.0 as to itself.
        || a == 0
        // RFC 6598: shared address space.
        || a == 100 && b & 0xc0 == 64
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let low = |at: usize| {
        let [a, b] = segments[at].to_be_bytes();
        let [c, d] = segments[at + 1].to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    let embedded = match segments {
        // ::ffff:0:0/96 (RFC 4291 §2.5.5.2), and ::/96, which §2.5.5.1 withdrew.
        [0, 0, 0, 0, 0, 0 | 0xffff, _, _] => Some(low(6)),
        // RFC 6052 §2.1, and the local prefix of RFC 8215.
        [0x64, 0xff9b, 0 | 1, _, _, _, _, _] => Some(low(6)),
        // 6to4, RFC 3056 §2.
        [0x2002, ..] => Some(low(1)),
        _ => None,
    };
    address.is_loopback()
        || address.is_unspecified()
        || address.is_unique_local()
        || address.is_unicast_link_local()
        // RFC 3879 §4: site-local, which old hosts still route.
        || segments[0] & 0xffc0 == 0xfec0
        || embedded.is_some_and(is_private_v4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_known_in_every_disguise() {
        for private in [
            "10.0.0.1",
            "172.16.0.1",
            "192.168.7.9",
            "127.0.0.1",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.1.1",
            "100.64.0.1",
            "100.127.255.255",
            "255.255.255.255",
            "::",
            "::1",
            "fd00::9",
            "fc00::1",
            "fe80::1",
            "fec0::1",
            "::ffff:10.0.0.1",
            "::10.0.0.1",
            "64:ff9b::192.168.0.1",
            "64:ff9b:1::10.1.1.1",
            "2002:a00:1::1",
        ] {
            assert!(is_private(private.parse().unwrap()), "{private}");
        }
        for public in [
            "192.0.2.1",
            "172.32.0.1",
            "100.128.0.1",
            "11.0.0.1",
            "2001:db8::1",
            "::ffff:192.0.2.1",
            "64:ff9b::192.0.2.1",
            "2002:c000:201::1",
            "2606:4700::1",
        ] {
            assert!(!is_private(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn hints_are_searched_through() {
        let with = |params: &[u8]| [&[0, 1, 1, b'a', 0][..], params].concat();
        let alpn = [0, 1, 0, 3, 2, b'h', b'2'];
        let public = [0, 4, 0, 4, 192, 0, 2, 1];
        let private = [0, 4, 0, 8, 192, 0, 2, 1, 10, 0, 0, 1];
        let v6 = [&[0, 6, 0, 16][..], &Ipv6Addr::LOCALHOST.octets()].concat();
        assert_eq!(in_hints(&with(&[])), None);
        assert_eq!(in_hints(&with(&[&alpn[..], &public].concat())), None);
        let found = in_hints(&with(&[&alpn[..], &private].concat()));
        assert_eq!(found, Some(Ipv4Addr::new(10, 0, 0, 1).into()));
        let found = in_hints(&with(&[&public[..], &v6].concat()));
        assert_eq!(found, Some(Ipv6Addr::LOCALHOST.into()));
        for len in 0..with(&private).len() {
            assert_eq!(in_hints(&with(&private)[..len]), None, "cut at {len}");
        }
    }
}
