//! TLS of the admin endpoint.
//!
//! Invariant: as for all of `build`, `None` on the outside only where a mistake was reported.

use steppe_config::typed::Fields;
use steppe_net::config::tls::{CERT, KEY};
use steppe_net::tls::config::CertificateFiles;

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
