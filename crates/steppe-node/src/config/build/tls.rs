//! TLS, as listeners, upstreams and the admin endpoint take it.
//!
//! Invariant: as for all of `build`, `None` on the outside only where a mistake was reported.

use std::num::NonZeroU16;

use steppe_config::typed::{Fields, Typed};
use steppe_http::config::{H1, H2, ListenerTls};
use steppe_net::config::tls::{self, CERT, KEY};
use steppe_net::tls::config::CertificateFiles;

use crate::config::keys::tls::{CERTIFICATES, TRANSPORT_SECURITY};
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
        session: tls::listener(tls, &CERTIFICATES, alpn(&protocols))?,
        strict_transport_security: tls.get(&TRANSPORT_SECURITY)?,
    }))
}

/// Protocols by their names in ALPN, the one first that is preferred where a client has both.
fn alpn(protocols: &[&str]) -> Vec<Vec<u8>> {
    let known = [(H2, HTTP_2), (H1, HTTP_1_1)];
    let spoken = known.iter().filter(|(name, _)| protocols.contains(name));
    spoken.map(|(_, alpn)| alpn.to_vec()).collect()
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

#[expect(clippy::option_option, reason = "invalid and absent are two things")]
pub(in crate::config) fn admin(admin: &Fields) -> Option<Option<CertificateFiles>> {
    let Some(tls) = admin.node("tls") else {
        return Some(None);
    };
    let tls = tls.fields()?;
    Some(Some(CertificateFiles {
        cert: tls.get(&CERT)?,
        key: tls.get(&KEY)?,
        ocsp: None,
    }))
}
