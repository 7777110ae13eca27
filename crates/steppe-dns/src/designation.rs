//! Discovery of designated resolvers: records that refer clients of UDP and TCP to encrypted listeners. Spec:
//! RFC 9462 §4, and for the records RFC 9460 §2.2 and RFC 9461.
//!
//! A client verifies that the certificate of the listener is for the address that it asks now. A listener whose
//! certificate has no host name, or that this client can't reach, is left out.

use std::net::{IpAddr, SocketAddr};

use crate::config::{Listener, Protocol};
use crate::limits::{DESIGNATION_BYTES_MAX, DESIGNATIONS_MAX, DOH_PATH};
use crate::wire::{Full, Name, Writer};

/// A listener that clients may switch to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Designation {
    /// A host name of the listener's certificate.
    target: Name,
    address: SocketAddr,
    protocol: Protocol,
}

/// The data of SVCB records, in a buffer for each.
#[derive(Debug)]
pub(crate) struct DesignationData {
    bytes: [[u8; DESIGNATION_BYTES_MAX]; DESIGNATIONS_MAX],
    lens: [usize; DESIGNATIONS_MAX],
    count: usize,
}

/// Keys of parameters. RFC 9460 §14.3.2, RFC 9461 §5.
const ALPN: u16 = 1;
const PORT: u16 = 3;
const IPV4HINT: u16 = 4;
const IPV6HINT: u16 = 6;
const DOHPATH: u16 = 7;

impl Designation {
    /// The designation of a listener whose certificate has these names. `None`: no host name, or not encrypted.
    pub(crate) fn of(listener: &Listener, names: &[String]) -> Option<Self> {
        let mut protocols = listener.protocols.iter().copied();
        let protocol = protocols.find(|protocol| protocol.is_encrypted())?;
        // The other names are wildcards, mail and IP addresses, and URIs.
        let is_host = |name: &&String| {
            !name.contains(['*', '@', ':', '/']) && name.parse::<IpAddr>().is_err()
        };
        let mut hosts = names.iter().filter(is_host);
        Some(Self {
            target: hosts.find_map(|name| name.parse().ok())?,
            address: listener.address,
            protocol,
        })
    }

    /// The address of the listener for a client that asked at `local`. `None`: it can't reach the listener.
    fn reached_from(&self, local: Option<IpAddr>) -> Option<IpAddr> {
        let own = self.address.ip();
        if own.is_unspecified() {
            return local;
        }
        let is_far = own.is_loopback() && !local.is_some_and(|local| local.is_loopback());
        (!is_far).then_some(own)
    }

    /// Writes the data of a record. RFC 9460 §2.2: keys in ascending order.
    fn write(&self, priority: u16, hint: IpAddr, out: &mut Writer<'_>) -> Result<(), Full> {
        out.numbers([priority])?;
        out.bytes(self.target.wire())?;
        let (alpn, path): (&[u8], &str) = match self.protocol {
            Protocol::Https => (b"\x02h2", DOH_PATH),
            _ => (b"\x03dot", ""),
        };
        parameter(ALPN, &[alpn], out)?;
        parameter(PORT, &[&self.address.port().to_be_bytes()], out)?;
        match hint.to_canonical() {
            IpAddr::V4(v4) => parameter(IPV4HINT, &[&v4.octets()], out)?,
            IpAddr::V6(v6) => parameter(IPV6HINT, &[&v6.octets()], out)?,
        }
        if !path.is_empty() {
            parameter(DOHPATH, &[path.as_bytes(), b"{?dns}"], out)?;
        }
        Ok(())
    }
}

impl DesignationData {
    /// The data of the records for a client that asked at `local`: one for each listener that it can reach.
    pub(crate) fn new(designations: &[Designation], local: Option<IpAddr>) -> Self {
        let mut data = Self {
            bytes: [[0; DESIGNATION_BYTES_MAX]; DESIGNATIONS_MAX],
            lens: [0; DESIGNATIONS_MAX],
            count: 0,
        };
        for designation in designations {
            let Some(hint) = designation.reached_from(local) else {
                continue;
            };
            let Some(room) = data.bytes.get_mut(data.count) else {
                break;
            };
            let mut writer = Writer::new(room);
            let priority = u16::try_from(data.count + 1).unwrap_or(u16::MAX);
            if designation.write(priority, hint, &mut writer).is_ok() {
                data.lens[data.count] = writer.len();
                data.count += 1;
            }
        }
        data
    }

    /// The data of each record.
    pub(crate) fn records(&self) -> impl Iterator<Item = &[u8]> {
        let records = self.bytes.iter().zip(self.lens).take(self.count);
        records.map(|(bytes, len)| &bytes[..len])
    }
}

fn parameter(key: u16, parts: &[&[u8]], out: &mut Writer<'_>) -> Result<(), Full> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    out.numbers([key, u16::try_from(len).map_err(|_| Full)?])?;
    parts.iter().try_for_each(|part| out.bytes(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Introduction;

    fn listener(address: &str, protocol: Protocol) -> Listener {
        Listener {
            address: address.parse().expect("an address"),
            protocols: vec![Protocol::Udp, protocol],
            tls: None,
            introduction: Introduction::None,
        }
    }

    fn designation(address: &str, protocol: Protocol) -> Designation {
        let names = [
            "192.0.2.1",
            "*.example.org",
            "a@example.org",
            "dns.example.org",
        ]
        .map(str::to_owned);
        Designation::of(&listener(address, protocol), &names).expect("it has a name")
    }

    fn records(designations: &[Designation], local: &str) -> Vec<Vec<u8>> {
        let local = Some(local.parse().expect("an address"));
        let data = DesignationData::new(designations, local);
        data.records().map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn records_say_where_and_how() {
        let dot = designation("0.0.0.0:853", Protocol::Tls);
        let doh = designation("[::]:8443", Protocol::Https);
        let found = records(&[dot, doh], "192.0.2.1");
        let target = b"\x03dns\x07example\x03org\0";
        let first = [
            &[0, 1][..],
            target,
            &[0, 1, 0, 4],
            b"\x03dot",
            &[0, 3, 0, 2, 0x03, 0x55, 0, 4, 0, 4, 192, 0, 2, 1],
        ];
        assert_eq!(found[0], first.concat());
        let second = [
            &[0, 2][..],
            target,
            &[0, 1, 0, 3],
            b"\x02h2",
            &[0, 3, 0, 2, 0x20, 0xfb, 0, 4, 0, 4, 192, 0, 2, 1],
            &[0, 7, 0, 16],
            b"/dns-query{?dns}",
        ];
        assert_eq!(found[1], second.concat());
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_listener_that_the_client_cannot_reach_is_not_told_of() {
        let near = designation("127.0.0.1:853", Protocol::Tls);
        assert_eq!(records(std::slice::from_ref(&near), "127.0.0.1").len(), 1);
        assert!(records(&[near], "192.0.2.1").is_empty());
        let other = designation("198.51.100.7:853", Protocol::Tls);
        assert_eq!(records(&[other], "192.0.2.1").len(), 1);
    }

    #[test]
    fn a_certificate_for_no_host_designates_nothing() {
        let tls = listener("0.0.0.0:853", Protocol::Tls);
        assert_eq!(Designation::of(&tls, &["192.0.2.1".to_owned()]), None);
        assert_eq!(Designation::of(&tls, &["*.example.org".to_owned()]), None);
        let plain = listener("0.0.0.0:53", Protocol::Tcp);
        assert_eq!(Designation::of(&plain, &["a.example".to_owned()]), None);
    }
}
