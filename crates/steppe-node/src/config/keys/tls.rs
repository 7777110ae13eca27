//! Tables of TLS: of listeners, of upstreams and of the admin endpoint, and what routes ask of a
//! client's certificate.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use steppe_config::table::{Absent, Kind, Needs, Spec, Table};

use crate::config::forms;

const FILE: Kind = Kind::Text(&forms::FILE);

const VERSION: Kind = Kind::Choice(&["1.2", "1.3"]);

const DOUBT: Kind = Kind::Choice(&["refuse", "accept"]);

const CERT: &str = "PEM file with the certificate, followed by its intermediate certificates.";
const KEY: &str = "PEM file with the private key of the certificate.";

const CERTIFICATES: &str = "Certificates and their keys. The server name that a client asks for (SNI) selects one; the \
     first is for clients without SNI, and for names that no certificate has.";

static MIN_VERSION: Spec = Spec::new(
    "min_version",
    VERSION,
    "Oldest TLS version that is accepted.",
)
.absent(Absent::Text("1.2"));

static CLIENT_CA: Spec = Spec::new(
    "client_ca",
    FILE,
    "PEM file with the authorities of client certificates. Required if `client_auth` is \
     \"optional\" or \"required\", an error if it is \"none\".",
);

static CLIENT_AUTH: Spec = Spec::new(
    "client_auth",
    Kind::Choice(&["none", "optional", "required"]),
    "Client certificates. \"none\": not requested. \"optional\": a certificate that is presented \
     must be valid. \"required\": each client must present one.",
)
.absent(Absent::Text("none"));

static CLIENT_CRL: Spec = Spec::new(
    "client_crl",
    Kind::List(&FILE, 0),
    "Files with revocation lists, PEM or DER. Without any, no certificate is revoked.",
)
.absent(Absent::Texts(&[]));

static CRL_EXPIRED: Spec = Spec::new(
    "crl_expired",
    DOUBT,
    "Treatment of clients whose authority's revocation list is past its next update.",
)
.absent(Absent::Text("refuse"));

static CRL_UNKNOWN: Spec = Spec::new(
    "crl_unknown",
    DOUBT,
    "Treatment of clients whose authority has no revocation list in `client_crl`.",
)
.absent(Absent::Text("refuse"));

static TICKET_KEYS: Spec = Spec::new(
    "ticket_keys",
    FILE,
    "File with the secrets of session tickets, for nodes that share them. Without it, the node \
     makes its own at start, and rotates them.",
);

pub(super) static LISTENER_TLS: Table = Table {
    name: "http.listener.tls",
    doc: "TLS of a listener: its certificates, and the client certificates that it accepts. The \
     files are checked for changes every two seconds and read again; files that can't be used \
     change nothing, and the log says so once.",
    keys: &[
        &Spec::new(
            "certificates",
            Kind::List(&Kind::Table(&CERTIFICATE), 1),
            CERTIFICATES,
        )
        .required(),
        &MIN_VERSION,
        &CLIENT_CA,
        &CLIENT_AUTH,
        &CLIENT_CRL,
        &CRL_EXPIRED,
        &CRL_UNKNOWN,
        &TICKET_KEYS,
        &Spec::new(
            "strict_transport_security",
            Kind::Text(&forms::TRANSPORT_SECURITY),
            "Value of `Strict-Transport-Security` in responses, with a `max-age`: \
             \"max-age=31536000; includeSubDomains\". Without it, the field is left to servers.",
        ),
        &ACME,
    ],
    needs: Needs::Nothing,
};

/// Keys of listeners of other protocols than HTTP.
const fn listener_keys(certificates: &'static Spec) -> [&'static Spec; 9] {
    [
        certificates,
        &MIN_VERSION,
        &CLIENT_CA,
        &CLIENT_AUTH,
        &CLIENT_CRL,
        &CRL_EXPIRED,
        &CRL_UNKNOWN,
        &TICKET_KEYS,
        &ACME,
    ]
}

const fn certificates(table: &'static Kind) -> Spec {
    Spec::new("certificates", Kind::List(table, 1), CERTIFICATES).required()
}

static ACME: Spec = Spec::later("acme", "Certificates from an ACME authority.");

pub(super) static DNS_LISTENER_TLS: Table = Table {
    name: "dns.listener.tls",
    doc: "TLS of a listener, required by \"tls\" and \"https\" and an error without them. ALPN \
     negotiates `dot`, or `h2` and `http/1.1`; clients of \"tls\" may offer no protocol.",
    keys: &listener_keys(&certificates(&Kind::Table(&DNS_CERTIFICATE))),
    needs: Needs::Nothing,
};

pub(super) static PLANE_LISTENER_TLS: Table = Table {
    name: "plane.listener.tls",
    doc: "TLS of a listener. With `client_auth = \"required\"`, callers and workers must present \
     certificates. Each session takes 96 KiB of the budget beside its connection.",
    keys: &listener_keys(&certificates(&Kind::Table(&PLANE_CERTIFICATE))),
    needs: Needs::Nothing,
};

static CERTIFICATE: Table = Table {
    name: "http.listener.tls.certificates",
    doc: "A certificate and its key.",
    keys: CERTIFICATE_KEYS,
    needs: Needs::Nothing,
};

static DNS_CERTIFICATE: Table = Table {
    name: "dns.listener.tls.certificates",
    doc: CERTIFICATE.doc,
    keys: CERTIFICATE_KEYS,
    needs: Needs::Nothing,
};

static PLANE_CERTIFICATE: Table = Table {
    name: "plane.listener.tls.certificates",
    doc: CERTIFICATE.doc,
    keys: CERTIFICATE_KEYS,
    needs: Needs::Nothing,
};

static CERTIFICATE_KEYS: &[&Spec] = &[
    &Spec::new("cert", FILE, CERT).required(),
    &Spec::new("key", FILE, KEY).required(),
    &Spec::new("ocsp", FILE, "DER file with an OCSP response to staple."),
];

pub(super) static UPSTREAM_TLS: Table = Table {
    name: "http.upstream.tls",
    doc: "TLS to servers: their verification, and the certificate of the node. It needs \
     `protocol = \"h1s\"` or `\"h2\"`.",
    keys: SERVER_KEYS,
    needs: Needs::Nothing,
};

pub(super) static DISCOVERY_TLS: Table = Table {
    name: "discovery.tls",
    doc: "TLS to workers that are dialed, with the keys of upstreams. Without it, connections to \
     workers are not encrypted.",
    keys: SERVER_KEYS,
    needs: Needs::Nothing,
};

static SERVER_KEYS: &[&Spec] = &[
    &Spec::new(
        "ca",
        FILE,
        "PEM file with the authorities of the servers. Without it, the system's.",
    ),
    &Spec::new(
        "server_name",
        Kind::Text(&forms::SERVER_NAME),
        "Name for SNI and for verification. Without it, the server's address. Servers on Unix \
         sockets need one, unless `verify` is off.",
    ),
    &Spec::new(
        "cert",
        FILE,
        "PEM file with a certificate for servers that ask for one. Needs `key`.",
    ),
    &Spec::new("key", FILE, KEY),
    &Spec::new(
        "verify",
        Kind::Boolean,
        "Verifies the certificates of servers.",
    )
    .absent(Absent::Yes),
    &Spec::new(
        "pins",
        Kind::List(&Kind::Text(&forms::PIN), 0),
        "SHA-256 digests of public keys (`SubjectPublicKeyInfo`), written \"sha256/BASE64\". A \
         server must have one of these keys.",
    )
    .absent(Absent::Texts(&[])),
    &Spec::new(
        "min_version",
        VERSION,
        "Oldest TLS version that is accepted.",
    )
    .absent(Absent::Text("1.2")),
];

pub(super) static ADMIN_TLS: Table = Table {
    name: "admin.tls",
    doc: "TLS of `admin.listen`. The files are read again when they change.",
    keys: &[
        &Spec::new("cert", FILE, CERT).required(),
        &Spec::new("key", FILE, KEY).required(),
    ],
    needs: Needs::Nothing,
};

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
