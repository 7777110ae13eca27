//! Tables of TLS: of listeners, of upstreams and of the admin endpoint, and what routes ask of a
//! client's certificate.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use steppe_config::key::{Key, OptionalKey, key, text};
use steppe_config::keys;
use steppe_config::table::{Kind, Needs, Spec, Table};
use steppe_net::config::tls::{
    ACME, CERT, KEY, SERVER_KEYS, certificate, certificates, listener_keys,
};
use steppe_net::tls::config::CertificateFiles;

use crate::config::forms;

/// Certificates of a listener of the gateway.
pub static CERTIFICATES: Key<Vec<CertificateFiles>> = certificates(&Kind::Table(&CERTIFICATE));

static CERTIFICATE: Table = certificate("http.listener.tls.certificates");

pub(super) static LISTENER_TLS: Table = Table::new(
    "http.listener.tls",
    "TLS of a listener: its certificates, and the client certificates that it accepts. The files are \
     checked for changes every two seconds and read again; files that can't be used change nothing, and \
     the log says so once.",
    &listener_keys::<10>(&CERTIFICATES.spec, &TRANSPORT_SECURITY.spec),
);

pub static TRANSPORT_SECURITY: OptionalKey<String> = key(
    "strict_transport_security",
    text(&forms::TRANSPORT_SECURITY),
    "Value of `Strict-Transport-Security` in responses, with a `max-age`: \
     \"max-age=31536000; includeSubDomains\". Without it, the field is left to servers.",
);

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

pub(super) static UPSTREAM_TLS: Table = Table::new(
    "http.upstream.tls",
    "TLS to servers: their verification, and the certificate of the node. It needs `protocol = \"h1s\"` or \
     `\"h2\"`.",
    SERVER_KEYS,
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

pub(super) static CLIENT_CERT: Table = Table {
    name: "http.route.client_cert",
    doc: "Conditions on the client's certificate. Some listener must ask for client certificates.",
    keys: &[
        &Spec::new(
            "subject",
            Kind::Text(&forms::SUBJECT),
            "Subject that the certificate must have, exactly, as RFC 4514 writes it: \
             \"CN=api,O=Example\".",
        ),
        &Spec::new(
            "san",
            Kind::Text(&forms::ALT_NAME),
            "Subject alternative name that the certificate must have, exactly: a DNS name, URI, \
             address or e-mail address.",
        ),
        &Spec::new(
            "fingerprint",
            Kind::Text(&forms::FINGERPRINT),
            "SHA-256 digest of the whole certificate, in hexadecimal, with colons or without.",
        ),
    ],
    needs: Needs::Any(&["subject", "san", "fingerprint"]),
};
