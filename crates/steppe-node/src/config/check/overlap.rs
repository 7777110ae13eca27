//! Overlapping addresses: no two sockets at one address, or at a wildcard address of the same port.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use steppe_config::mistake::{Mistake, Span};
use steppe_config::mistakes::Mistakes;
use steppe_config::typed::{Fields, Node};
use steppe_net::ListenAddress;

use super::addresses;
use crate::bind_help::ONE_OF_THEM;

pub(super) fn check(file: &Fields, mistakes: &mut Mistakes) {
    let mut found = overlapping(&addresses::streams(file));
    for each in overlapping(&addresses::datagrams(file)) {
        // Listeners that overlap for both kinds of sockets are reported once.
        if !found.contains(&each) {
            found.push(each);
        }
    }
    for Overlap { held, again } in found {
        let (address, span) = again;
        let mistake = match held.0 == address {
            true => Mistake::new(span, format!("{address} is listened on twice")),
            false => Mistake::new(span, format!("{address} overlaps {}", held.0)).help(ONE_OF_THEM),
        };
        mistakes.push(mistake.label("again here").also(held.1, "first here"));
    }
}

/// An address, and its place.
type Place = (ListenAddress, Span);

/// Two addresses that one socket would serve.
#[derive(PartialEq)]
struct Overlap {
    held: Place,
    again: Place,
}

/// Each address that overlaps an earlier one, in time proportional to their number.
fn overlapping(nodes: &[&Node]) -> Vec<Overlap> {
    let place = |node: &&Node| Some((node.typed.value::<ListenAddress>()?.clone(), node.span));
    let mut places: Vec<Place> = nodes.iter().filter_map(place).collect();
    // The file may have the listeners before `[admin]`.
    places.sort_by_key(|(_, span)| span.start);
    let mut paths: HashMap<PathBuf, Place> = HashMap::new();
    let mut ports: HashMap<u16, OnPort> = HashMap::new();
    let mut found = Vec::new();
    for place in places {
        let held = match &place.0 {
            // Port 0 is a new port each time.
            ListenAddress::Tcp(tcp) if tcp.port() == 0 => None,
            ListenAddress::Tcp(tcp) => ports.entry(tcp.port()).or_default().add(*tcp, &place),
            ListenAddress::Unix(path) => match paths.get(path) {
                Some(held) => Some(held.clone()),
                None => paths.insert(path.clone(), place.clone()),
            },
        };
        let overlap = held.map(|held| Overlap { held, again: place });
        found.extend(overlap);
    }
    found
}

/// Addresses of one port.
#[derive(Default)]
struct OnPort {
    by_ip: HashMap<IpAddr, Place>,
    first: Option<Place>,
    first_v4: Option<Place>,
}

impl OnPort {
    /// Adds an address, or returns the earlier one that overlaps it.
    fn add(&mut self, address: SocketAddr, place: &Place) -> Option<Place> {
        let ip = address.ip().to_canonical();
        let of = |ip: IpAddr| self.by_ip.get(&ip);
        let held = match ip {
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => self.first.as_ref(),
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => self.first_v4.as_ref(),
            _ => of(ip),
        };
        let held = held.or_else(|| of(Ipv6Addr::UNSPECIFIED.into()));
        let any_v4 = ip.is_ipv4().then(|| of(Ipv4Addr::UNSPECIFIED.into()));
        let held = held.or(any_v4.flatten()).cloned();
        if held.is_none() {
            self.by_ip.insert(ip, place.clone());
            self.first.get_or_insert_with(|| place.clone());
            if ip.is_ipv4() {
                self.first_v4.get_or_insert_with(|| place.clone());
            }
        }
        debug_assert!(held.as_ref().is_none_or(|held| held.0.overlaps(&place.0)));
        held
    }
}
