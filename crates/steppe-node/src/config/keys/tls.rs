//! Tables of TLS: of listeners, of upstreams and of the admin endpoint, and what routes ask of a
//! client's certificate.
//!
//! Invariant: as for all of `keys`, nothing else lists these keys.

use crate::config::table::{Absent, Choice, Form, Key, Kind, Needs, Table};

const FILE: Kind = Kind::Text(Form::File);

const VERSION: Kind = Kind::Choice(&[Choice::served("1.2"), Choice::served("1.3")]);

const DOUBT: Kind = Kind::Choice(&[Choice::served("refuse"), Choice::served("accept")]);

const CERT: &str = "PEM file with the certificate, and the intermediate ones after it.";
const KEY: &str = "PEM file with its private key.";

const CERTIFICATES: &str =
    "Certificates, chosen by the name that a client asks for; the first serves all others.";

const MIN_VERSION: Key = Key::new("min_version", VERSION, "The oldest version that is spoken.")
    .absent(Absent::Text("1.2"));

const CLIENT_CA: Key = Key::new(
    "client_ca",
    FILE,
    "PEM file with the authorities whose client certificates are valid.",
);

const CLIENT_AUTH: Key = Key::new(
    "client_auth",
    Kind::Choice(&[
        Choice::served("none"),
        Choice::served("optional"),
        Choice::served("required"),
    ]),
    "Whether clients are asked for a certificate; one that is shown must be valid.",
)
.absent(Absent::Text("none"));

const CLIENT_CRL: Key = Key::new(
    "client_crl",
    Kind::List(&FILE, 0),
    "Files with revocation lists, PEM or DER; without them no certificate is revoked.",
)
.absent(Absent::Texts(&[]));

const CRL_EXPIRED: Key = Key::new(
    "crl_expired",
    DOUBT,
    "What becomes of clients whose revocation list is past its next update.",
)
.absent(Absent::Text("refuse"));

const CRL_UNKNOWN: Key = Key::new(
    "crl_unknown",
    DOUBT,
    "What becomes of clients whose authority has no revocation list, where others have.",
)
.absent(Absent::Text("refuse"));

const TICKET_KEYS: Key = Key::new(
    "ticket_keys",
    FILE,
    "File with the secrets of session tickets, shared between nodes; without it they are \
     made at start, and rotated.",
);

pub(super) static LISTENER_TLS: Table = Table {
    name: "http.listener.tls",
    doc: "TLS of a listener: its certificates, and what clients must show.",
    keys: &[
        Key::new(
            "certificates",
            Kind::List(&Kind::Table(&CERTIFICATE), 1),
            CERTIFICATES,
        )
        .required(),
        MIN_VERSION,
        CLIENT_CA,
        CLIENT_AUTH,
        CLIENT_CRL,
        CRL_EXPIRED,
        CRL_UNKNOWN,
        TICKET_KEYS,
        Key::new(
            "strict_transport_security",
            Kind::Text(Form::TransportSecurity),
            "The value of Strict-Transport-Security in responses; without it the field is left to \
             servers.",
        ),
        Key::later("acme", "Certificates from an ACME authority."),
    ],
    needs: Needs::Nothing,
};

/// Keys of listeners of other protocols than HTTP.
const fn listener_keys(certificate: &'static Kind) -> [Key; 9] {
    [
        Key::new("certificates", Kind::List(certificate, 1), CERTIFICATES).required(),
        MIN_VERSION,
        CLIENT_CA,
        CLIENT_AUTH,
        CLIENT_CRL,
        CRL_EXPIRED,
        CRL_UNKNOWN,
        TICKET_KEYS,
        Key::later("acme", "Certificates from an ACME authority."),
    ]
}

pub(super) static DNS_LISTENER_TLS: Table = Table {
    name: "dns.listener.tls",
    doc: LISTENER_TLS.doc,
    keys: &listener_keys(&Kind::Table(&DNS_CERTIFICATE)),
    needs: Needs::Nothing,
};

pub(super) static PLANE_LISTENER_TLS: Table = Table {
    name: "plane.listener.tls",
    doc: LISTENER_TLS.doc,
    keys: &listener_keys(&Kind::Table(&PLANE_CERTIFICATE)),
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

const CERTIFICATE_KEYS: &[Key] = &[
    Key::new("cert", FILE, CERT).required(),
    Key::new("key", FILE, KEY).required(),
    Key::new(
        "ocsp",
        FILE,
        "DER file with an OCSP response that is stapled.",
    ),
];

pub(super) static UPSTREAM_TLS: Table = Table {
    name: "http.upstream.tls",
    doc: "How servers are verified, and what they are shown.",
    keys: SERVER_KEYS,
    needs: Needs::Nothing,
};

pub(super) static DISCOVERY_TLS: Table = Table {
    name: "discovery.tls",
    doc: "How workers that are dialed are verified, and what they are shown; without it there is no TLS to them.",
    keys: SERVER_KEYS,
    needs: Needs::Nothing,
};

const SERVER_KEYS: &[Key] = &[
    Key::new(
        "ca",
        FILE,
        "PEM file with the authorities of servers; without it the system's.",
    ),
    Key::new(
        "server_name",
        Kind::Text(Form::ServerName),
        "The name to ask for and to verify; without it the server's address.",
    ),
    Key::new(
        "cert",
        FILE,
        "PEM file with a certificate for servers that ask for one.",
    ),
    Key::new("key", FILE, KEY),
    Key::new(
        "verify",
        Kind::Boolean,
        "Whether certificates of servers are verified.",
    )
    .absent(Absent::Yes),
    Key::new(
        "pins",
        Kind::List(&Kind::Text(Form::Pin), 0),
        "SHA-256 digests of public keys, one of which a server must have.",
    )
    .absent(Absent::Texts(&[])),
    Key::new("min_version", VERSION, "The oldest version that is spoken.")
        .absent(Absent::Text("1.2")),
];

pub(super) static ADMIN_TLS: Table = Table {
    name: "admin.tls",
    doc: "TLS of the admin endpoint.",
    keys: &[
        Key::new("cert", FILE, CERT).required(),
        Key::new("key", FILE, KEY).required(),
    ],
    needs: Needs::Nothing,
};

pub(super) static CLIENT_CERT: Table = Table {
    name: "http.route.client_cert",
    doc: "What the client's certificate must have.",
    keys: &[
        Key::new(
            "subject",
            Kind::Text(Form::Subject),
            "Just this subject, written as RFC 4514 says.",
        ),
        Key::new(
            "san",
            Kind::Text(Form::AltName),
            "A subject alternative name that is just this.",
        ),
        Key::new(
            "fingerprint",
            Kind::Text(Form::Fingerprint),
            "Just this SHA-256 digest of the whole certificate, in hexadecimal.",
        ),
    ],
    needs: Needs::Any(&["subject", "san", "fingerprint"]),
};
