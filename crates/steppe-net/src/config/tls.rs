//! Keys of TLS: of listeners, of connections to servers, and what they say together.
//!
//! Invariant: a product has a table of its own, with its own name and description, of the keys here.

use std::path::PathBuf;

use steppe_config::choice::Choices;
use steppe_config::form::FILE;
use steppe_config::key::{Key, OptionalKey, boolean, choice, key, list, of, text};
use steppe_config::keys;
use steppe_config::mistake::{Mistake, Span};
use steppe_config::mistakes::Mistakes;
use steppe_config::table::{Absent, Kind, Spec, Table};
use steppe_config::typed::{Fields, Node, Typed};

use super::forms::{PIN, SERVER_NAME};
use crate::tls::config::{
    CertificateFiles, ClientAuth, ClientTrust, ListenerConfig, MinVersion, RevocationPolicy,
    ServerTrust,
};

/// Certificate of a listener.
pub static CERT: Key<PathBuf> = key(
    "cert",
    text(&FILE),
    "PEM file with the certificate, followed by its intermediate certificates.",
)
.required();

/// Private key of a listener's certificate.
pub static KEY: Key<PathBuf> = key("key", text(&FILE), KEY_DOC).required();

const KEY_DOC: &str = "PEM file with the private key of the certificate.";

static OCSP: OptionalKey<PathBuf> = key(
    "ocsp",
    text(&FILE),
    "DER file with an OCSP response to staple.",
);

/// The table of a listener's certificates, at this place in the file.
#[must_use]
pub const fn certificate(name: &'static str) -> Table {
    Table::new(name, "A certificate and its key.", CERTIFICATE)
}

static CERTIFICATE: &[&Spec] = keys! { CERT, KEY, OCSP };

/// The key of a listener's certificates, each a [`certificate`].
#[must_use]
pub const fn certificates(table: &'static Kind) -> Key<Vec<CertificateFiles>> {
    let doc = "Certificates and their keys. The server name that a client asks for (SNI) selects one; the \
               first is for clients without SNI, and for names that no certificate has.";
    key(
        "certificates",
        of(Kind::List(table, 1), served_certificates),
        doc,
    )
    .required()
}

static MIN_VERSION: Key<MinVersion> = key(
    "min_version",
    choice(&Choices::of(&[
        ("1.2", MinVersion::Tls12),
        ("1.3", MinVersion::Tls13),
    ])),
    "Oldest TLS version that is accepted.",
)
.or(Absent::Text("1.2"));

static CLIENT_CA: OptionalKey<PathBuf> = key(
    "client_ca",
    text(&FILE),
    "PEM file with the authorities of client certificates. Required if `client_auth` is \"optional\" or \
     \"required\", an error if it is \"none\".",
);

/// Client certificates; `None`: none is requested.
pub static CLIENT_AUTH: Key<Option<WithTrust>> = key(
    "client_auth",
    choice(&AUTHS),
    "Client certificates. \"none\": not requested. \"optional\": a certificate that is presented must be \
     valid. \"required\": each client must present one.",
)
.or(Absent::Text("none"));

static CLIENT_CRL: Key<Vec<PathBuf>> = key(
    "client_crl",
    list(&text(&FILE), 0),
    "Files with revocation lists, PEM or DER. Without any, no certificate is revoked.",
)
.or(Absent::Texts(&[]));

/// The way to ask for certificates, once it is known whom to trust.
pub type WithTrust = fn(ClientTrust) -> ClientAuth;

static AUTHS: Choices<Option<WithTrust>> = Choices::of(&[
    ("none", None),
    ("optional", Some(ClientAuth::Optional)),
    ("required", Some(ClientAuth::Required)),
]);

static POLICIES: Choices<RevocationPolicy> = Choices::of(&[
    ("refuse", RevocationPolicy::Refuse),
    ("accept", RevocationPolicy::Accept),
]);

static CRL_EXPIRED: Key<RevocationPolicy> = key(
    "crl_expired",
    choice(&POLICIES),
    "Treatment of clients whose authority's revocation list is past its next update.",
)
.or(Absent::Text("refuse"));

static CRL_UNKNOWN: Key<RevocationPolicy> = key(
    "crl_unknown",
    choice(&POLICIES),
    "Treatment of clients whose authority has no revocation list in `client_crl`.",
)
.or(Absent::Text("refuse"));

static TICKET_KEYS: OptionalKey<PathBuf> = key(
    "ticket_keys",
    text(&FILE),
    "File with the secrets of session tickets, for nodes that share them. Without it, the node makes its \
     own at start, and rotates them.",
);

/// A key that is not supported yet: the last of a listener's.
pub static ACME: Spec = Spec::later("acme", "Certificates from an ACME authority.");

/// The nine keys of every listener, `last` of them [`ACME`] or another one before it.
#[must_use]
pub const fn listener_keys<const N: usize>(
    certificates: &'static Spec,
    last: &'static Spec,
) -> [&'static Spec; N] {
    let [expired, unknown] = [&CRL_EXPIRED.spec, &CRL_UNKNOWN.spec];
    let [version, ca, auth, crl, tickets] =
        *keys! { MIN_VERSION, CLIENT_CA, CLIENT_AUTH, CLIENT_CRL, TICKET_KEYS };
    let shared = [
        certificates,
        version,
        ca,
        auth,
        crl,
        expired,
        unknown,
        tickets,
        last,
    ];
    let mut keys = [&ACME; N];
    keys.split_at_mut(shared.len()).0.copy_from_slice(&shared);
    keys
}

/// TLS of a listener whose clients agree on one of `alpn`; `None`: a value of it is invalid, and its mistake was
/// reported.
#[must_use]
pub fn listener(
    tls: &Fields,
    certificates: &'static Key<Vec<CertificateFiles>>,
    alpn: Vec<Vec<u8>>,
) -> Option<ListenerConfig> {
    let client = match tls.get(&CLIENT_AUTH)? {
        None => ClientAuth::None,
        Some(auth) => auth(ClientTrust {
            ca: tls.get(&CLIENT_CA)??,
            crls: tls.get(&CLIENT_CRL)?,
            expired_crl: tls.get(&CRL_EXPIRED)?,
            unknown_status: tls.get(&CRL_UNKNOWN)?,
        }),
    };
    Some(ListenerConfig {
        certificates: tls.get(certificates)?,
        min_version: tls.get(&MIN_VERSION)?,
        client,
        ticket_keys: tls.get(&TICKET_KEYS)?,
        alpn,
    })
}

fn served_certificates(node: &Node) -> Option<Vec<CertificateFiles>> {
    node.each(|node| certificate_files(node.fields()?))
}

/// The files that a [`certificate`] names; `None`: a value of it is invalid, and its mistake was reported.
#[must_use]
pub fn certificate_files(certificate: &Fields) -> Option<CertificateFiles> {
    Some(CertificateFiles {
        cert: certificate.get(&CERT)?,
        key: certificate.get(&KEY)?,
        ocsp: certificate.get(&OCSP)?,
    })
}

/// Finds the mistakes of a listener's keys: clients are asked for a certificate if there are authorities, and only
/// then; revocation lists are those of client certificates, and policies for clients without a current list need lists.
pub fn check_listener(tls: &Fields, mistakes: &mut Mistakes) {
    let asks = tls.get(&CLIENT_AUTH).map(|auth| auth.is_some());
    let node = tls.value(&CLIENT_AUTH.spec);
    match (asks, tls.place_of(&CLIENT_CA), node) {
        (Some(false), Some(at), _) => mistakes.push(unasked(at, "client_ca")),
        (Some(true), None, Some(node)) => {
            let name = node.chosen().unwrap_or_default();
            let message = format!("`client_auth = \"{name}\"` needs `client_ca`");
            mistakes.push(
                Mistake::new(node.span, message)
                    .label("no authorities for client certificates")
                    .help("add `client_ca`: the file with the authorities of clients"),
            );
        }
        _ => {}
    }
    let lists = tls.value(&CLIENT_CRL.spec).map(|node| (node, &node.typed));
    let Some((lists, Typed::List(files))) = lists else {
        return;
    };
    if !files.is_empty() {
        if asks == Some(false) {
            mistakes.push(unasked(lists.span, "client_crl"));
        }
        return;
    }
    for policy in [&CRL_EXPIRED, &CRL_UNKNOWN] {
        let is_set = tls.get(policy) == Some(RevocationPolicy::Accept);
        if let Some(at) = tls.place_of(policy).filter(|_| is_set) {
            let name = policy.spec.name;
            mistakes.push(
                Mistake::new(at, format!("`{name}` has no effect without `client_crl`"))
                    .label("there are no revocation lists")
                    .help("name their files in `client_crl`, or take it out"),
            );
        }
    }
}

fn unasked(at: Span, name: &str) -> Mistake {
    let message = format!("`{name}` has no effect while `client_auth` is \"none\"");
    Mistake::new(at, message)
        .label("no client is asked for a certificate")
        .help("set `client_auth` to \"optional\" or \"required\", or take it out")
}

static CA: OptionalKey<PathBuf> = key(
    "ca",
    text(&FILE),
    "PEM file with the authorities of the servers. Without it, the system's.",
);

/// Name that the certificates of servers are verified for.
pub static NAME: OptionalKey<String> = key(
    "server_name",
    text(&SERVER_NAME),
    "Name for SNI and for verification. Without it, the server's address. Servers on Unix sockets need \
     one, unless `verify` is off.",
);

static OWN_CERT: OptionalKey<PathBuf> = key(
    "cert",
    text(&FILE),
    "PEM file with a certificate for servers that ask for one. Needs `key`.",
);

static OWN_KEY: OptionalKey<PathBuf> = key("key", text(&FILE), KEY_DOC);

/// True if the certificates of servers are verified.
pub static VERIFY: Key<bool> =
    key("verify", boolean(), "Verifies the certificates of servers.").or(Absent::Yes);

static PINS: Key<Vec<[u8; 32]>> = key(
    "pins",
    list(&text(&PIN), 0),
    "SHA-256 digests of public keys (`SubjectPublicKeyInfo`), written \"sha256/BASE64\". A server must \
     have one of these keys.",
)
.or(Absent::Texts(&[]));

/// Keys of TLS to servers.
pub static SERVER_KEYS: &[&Spec] = keys! { CA, NAME, OWN_CERT, OWN_KEY, VERIFY, PINS, MIN_VERSION };

/// TLS with servers that speak `alpn`; `None`: a value of it is invalid, and its mistake was reported.
#[must_use]
pub fn servers(tls: &Fields, alpn: &[u8]) -> Option<ServerTrust> {
    let identity = match (tls.get(&OWN_CERT)?, tls.get(&OWN_KEY)?) {
        (None, _) => None,
        (Some(cert), key) => Some(CertificateFiles {
            cert,
            key: key?,
            ocsp: None,
        }),
    };
    Some(ServerTrust {
        ca: tls.get(&CA)?,
        server_name: tls.get(&NAME)?,
        identity,
        verify: tls.get(&VERIFY)?,
        pins: tls.get(&PINS)?,
        min_version: tls.get(&MIN_VERSION)?,
        alpn: vec![alpn.to_vec()],
    })
}

/// Finds the mistakes of the keys of TLS to servers: a certificate needs its key.
pub fn check_servers(tls: &Fields, mistakes: &mut Mistakes) {
    for (one, other) in [(&OWN_CERT, &OWN_KEY), (&OWN_KEY, &OWN_CERT)] {
        if let (Some(at), None) = (tls.place_of(one), tls.place_of(other)) {
            let (name, other) = (one.spec.name, other.spec.name);
            mistakes.push(
                Mistake::new(at, format!("`{name}` needs `{other}`"))
                    .label("one of a pair")
                    .help(format!("add `{other}`, or take `{name}` out")),
            );
        }
    }
}
