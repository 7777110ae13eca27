//! TLS, as listeners, upstreams and the admin endpoint take it.
//!
//! Invariant: as for all of `build`, `None` on the outside only where a mistake was reported.

use std::num::NonZeroU16;
use std::path::PathBuf;

use steppe_config::typed::{Fields, Node, Typed};
use steppe_http::config::{H1, H2, ListenerTls};
use steppe_net::tls::config::{
    CertificateFiles, ClientAuth, ClientTrust, Doubt, ListenerConfig, MinVersion, ServerTrust,
};

use crate::config::typed::ByName;

/// HTTP/1.1 in ALPN (RFC 7301 §6).
pub(super) const HTTP_1_1: &[u8] = b"http/1.1";

/// HTTP/2 in ALPN (RFC 9113 §3.1).
pub(super) const HTTP_2: &[u8] = b"h2";

/// Where `redirect_https = true` leads.
const HTTPS: NonZeroU16 = NonZeroU16::new(443).expect("above 0");

#[expect(clippy::option_option, reason = "invalid and absent are two things")]
pub(super) fn listener(listener: &Fields) -> Option<Option<ListenerTls>> {
    let Some(node) = listener.node("tls") else {
        return Some(None);
    };
    let tls = node.fields()?;
    let protocols: Vec<&str> = listener.take("protocols")?;
    Some(Some(ListenerTls {
        session: session(tls, alpn(&protocols))?,
        strict_transport_security: tls.optional("strict_transport_security")?,
    }))
}

/// TLS of a listener whose clients agree on one of `alpn`.
pub(in crate::config) fn session(tls: &Fields, alpn: Vec<Vec<u8>>) -> Option<ListenerConfig> {
    let certificates = tls.list("certificates").iter();
    Some(ListenerConfig {
        certificates: certificates
            .map(served_certificate)
            .collect::<Option<_>>()?,
        min_version: min_version(tls)?,
        client: client_auth(tls)?,
        ticket_keys: tls.optional("ticket_keys")?,
        alpn,
    })
}

/// Protocols by their names in ALPN, the one first that is preferred where a client has both.
fn alpn(protocols: &[&str]) -> Vec<Vec<u8>> {
    let known = [(H2, HTTP_2), (H1, HTTP_1_1)];
    let spoken = known.iter().filter(|(name, _)| protocols.contains(name));
    spoken.map(|(_, alpn)| alpn.to_vec()).collect()
}

fn served_certificate(node: &Node) -> Option<CertificateFiles> {
    let files = node.fields()?;
    Some(CertificateFiles {
        ocsp: files.optional("ocsp")?,
        ..certificate(files)?
    })
}

fn certificate(files: &Fields) -> Option<CertificateFiles> {
    Some(CertificateFiles {
        cert: files.take("cert")?,
        key: files.take("key")?,
        ocsp: None,
    })
}

fn min_version(tls: &Fields) -> Option<MinVersion> {
    match tls.take("min_version")? {
        "1.2" => Some(MinVersion::Tls12),
        "1.3" => Some(MinVersion::Tls13),
        _ => None,
    }
}

fn client_auth(tls: &Fields) -> Option<ClientAuth> {
    let trust = |ca: PathBuf| {
        Some(ClientTrust {
            ca,
            crls: tls.take("client_crl")?,
            expired_crl: doubt(tls, "crl_expired")?,
            unknown_status: doubt(tls, "crl_unknown")?,
        })
    };
    match tls.take("client_auth")? {
        "none" => Some(ClientAuth::None),
        "optional" => trust(tls.take("client_ca")?).map(ClientAuth::Optional),
        "required" => trust(tls.take("client_ca")?).map(ClientAuth::Required),
        _ => None,
    }
}

fn doubt(tls: &Fields, name: &str) -> Option<Doubt> {
    match tls.take(name)? {
        "refuse" => Some(Doubt::Refuse),
        "accept" => Some(Doubt::Accept),
        _ => None,
    }
}

#[expect(clippy::option_option, reason = "invalid and off are two things")]
pub(super) fn redirect_https(listener: &Fields) -> Option<Option<NonZeroU16>> {
    match &listener.node("redirect_https")?.typed {
        Typed::Boolean(false) => Some(None),
        Typed::Boolean(true) => Some(Some(HTTPS)),
        Typed::Number(port) => Some(Some(NonZeroU16::new(u16::try_from(*port).ok()?)?)),
        _ => None,
    }
}

/// TLS with servers that speak `alpn`.
pub(in crate::config) fn upstream(tls: &Fields, alpn: &[u8]) -> Option<ServerTrust> {
    let has_identity = tls.node("cert").is_some();
    let identity = match has_identity {
        true => Some(certificate(tls)?),
        false => None,
    };
    Some(ServerTrust {
        ca: tls.optional("ca")?,
        server_name: tls.optional("server_name")?,
        identity,
        verify: tls.take("verify")?,
        pins: tls.take("pins")?,
        min_version: min_version(tls)?,
        alpn: vec![alpn.to_vec()],
    })
}

#[expect(clippy::option_option, reason = "invalid and absent are two things")]
pub(in crate::config) fn admin(admin: &Fields) -> Option<Option<CertificateFiles>> {
    match admin.node("tls") {
        None => Some(None),
        Some(tls) => certificate(tls.fields()?).map(Some),
    }
}
