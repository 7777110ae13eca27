//! Tables of TLS: of listeners, of upstreams and of the admin endpoint, and what routes ask of a
//! client's certificate.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use steppe_config::key::Key;
use steppe_config::keys;
use steppe_config::table::{Kind, Table};
use steppe_net::config::tls::{
    ACME, CERT, KEY, SERVER_KEYS, certificate, certificates, listener_keys,
};
use steppe_net::tls::config::CertificateFiles;

/// Certificates of a listener of the DNS forwarder.
pub static DNS_CERTIFICATES: Key<Vec<CertificateFiles>> =
    certificates(&Kind::Table(&DNS_CERTIFICATE));

static DNS_CERTIFICATE: Table = certificate("dns.listener.tls.certificates");

pub(super) static DNS_LISTENER_TLS: Table = Table::new(
    "dns.listener.tls",
    "TLS of a listener, required by \"tls\" and \"https\" and an error without them. ALPN negotiates `dot`, \
     or `h2` and `http/1.1`; clients of \"tls\" may offer no protocol.",
    &listener_keys::<9>(&DNS_CERTIFICATES.spec, &ACME),
);

/// Certificates of a listener of the request plane.
pub static PLANE_CERTIFICATES: Key<Vec<CertificateFiles>> =
    certificates(&Kind::Table(&PLANE_CERTIFICATE));

static PLANE_CERTIFICATE: Table = certificate("plane.listener.tls.certificates");

pub(super) static PLANE_LISTENER_TLS: Table = Table::new(
    "plane.listener.tls",
    "TLS of a listener. With `client_auth = \"required\"`, callers and workers must present \
     certificates. Each session takes 96 KiB of the budget beside its connection.",
    &listener_keys::<9>(&PLANE_CERTIFICATES.spec, &ACME),
);

pub(super) static DISCOVERY_TLS: Table = Table::new(
    "discovery.tls",
    "TLS to workers that are dialed, with the keys of upstreams. Without it, connections to workers are \
     not encrypted.",
    SERVER_KEYS,
);

pub(super) static ADMIN_TLS: Table = Table::new(
    "admin.tls",
    "TLS of `admin.listen`. The files are read again when they change.",
    keys! { CERT, KEY },
);
