//! Rules: the services that peers may offer and call.

use std::net::IpAddr;

use ipnet::IpNet;
use steppe_net::tls::x509::Summary;

/// A rule: the rights of the peers that it matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The peers.
    pub peers: Peers,
    /// Services that the peers may register.
    pub offer: Vec<Services>,
    /// Services that the peers may call.
    pub call: Vec<Services>,
}

/// The peers that a rule matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peers {
    /// Peers whose certificate has this name: as a subject alternative name, as its subject (RFC 4514), or as the
    /// common name that the subject begins with.
    ClientCert(String),
    /// Peers with an address in this network.
    Network(IpNet),
}

/// A service by its name, or all services whose names have a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Services {
    /// The service of this name.
    Named(String),
    /// All services whose names begin with this text.
    Prefixed(String),
}

impl Rule {
    /// True if the rule matches a peer with this address and this certificate.
    #[must_use]
    pub(crate) fn is_about(&self, address: IpAddr, cert: Option<&Summary>) -> bool {
        match &self.peers {
            Peers::Network(network) => network.contains(&address),
            Peers::ClientCert(name) => cert.is_some_and(|cert| {
                is_subject(&cert.subject, name) || cert.names.iter().any(|known| known == name)
            }),
        }
    }
}

/// True if `name` is a subject in the form of RFC 4514, or the common name that the subject begins with.
fn is_subject(subject: &str, name: &str) -> bool {
    // RFC 4514 escapes a comma within a value, so a comma ends the common name.
    let common = subject.strip_prefix("CN=");
    let rest = common.and_then(|common| common.strip_prefix(name));
    subject == name || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
}

impl Services {
    /// Reads the name of a service, or a prefix of names before a `*`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(prefix) => Self::Prefixed(prefix.to_owned()),
            None => Self::Named(text.to_owned()),
        }
    }

    /// True if `service` is among them.
    #[must_use]
    pub(crate) fn has(&self, service: &str) -> bool {
        match self {
            Self::Named(name) => name == service,
            Self::Prefixed(prefix) => service.starts_with(&**prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_named_or_begin_alike() {
        for (pattern, service, has) in [
            ("embed", "embed", true),
            ("embed", "embed/v1", false),
            ("embed*", "embed", true),
            ("embed*", "embed/v1", true),
            ("embed/*", "embed", false),
            ("*", "embed", true),
        ] {
            let is_there = Services::new(pattern).has(service);
            assert_eq!(is_there, has, "{pattern} {service}");
        }
    }

    #[test]
    fn a_common_name_counts_whole() {
        for (subject, name, is_it) in [
            ("CN=worker", "worker", true),
            ("CN=worker,O=Example", "worker", true),
            ("CN=worker,O=Example", "CN=worker,O=Example", true),
            ("CN=worker-2,O=Example", "worker", false),
            ("CN=worker\\,O=Example", "worker", false),
            ("CN=worker+UID=1", "worker", false),
            ("O=Example,CN=worker", "worker", false),
            ("O=x\\,CN=worker", "worker", false),
        ] {
            assert_eq!(is_subject(subject, name), is_it, "{subject}: {name}");
        }
    }
}
