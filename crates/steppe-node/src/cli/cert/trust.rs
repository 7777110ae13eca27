//! Trust in a chain, verified as the node does, by rustls' webpki (RFC 5280 §6).
//!
//! Left out: revocation, which needs requests over the network.

use std::path::Path;
use std::time::Duration;

use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};

use super::source;

/// The trust anchors that a chain is verified with.
#[derive(Debug)]
pub(super) struct Roots {
    store: RootCertStore,
    /// The name of the set: a file, or the system's.
    pub(super) label: String,
    /// The source of the set.
    pub(super) origin: Origin,
}

/// The source of trust anchors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The system's roots; there may be none.
    System,
    /// The file of `--ca`.
    File,
}

impl Roots {
    /// Loads the roots of `file`, or the system's.
    pub(super) fn load(file: Option<&Path>) -> Result<Self, String> {
        let mut store = RootCertStore::empty();
        let Some(file) = file else {
            // A root that can't be read is not available to clients either.
            let found = rustls_native_certs::load_native_certs();
            store.add_parsable_certificates(found.certs);
            return Ok(Self {
                store,
                label: "the system's root certificates".to_owned(),
                origin: Origin::System,
            });
        };
        for certificate in source::certificates(file)?.chain {
            store.add(certificate).map_err(|error| error.to_string())?;
        }
        Ok(Self {
            store,
            label: format!("the root certificates in {}", file.display()),
            origin: Origin::File,
        })
    }

    /// True if there are no roots to verify with.
    pub(super) fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    /// The verdict on a chain of clients with these roots, with any name.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub(super) fn verdict(
        &self,
        provider: &CryptoProvider,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        at: i64,
    ) -> Result<(), Error> {
        let seconds = u64::try_from(at).unwrap_or_default();
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(leaf)?,
            &self.store,
            others,
            UnixTime::since_unix_epoch(Duration::from_secs(seconds)),
            provider.signature_verification_algorithms.all,
        )
    }
}

/// Checks that a certificate is valid for `name`.
pub(super) fn has_name(leaf: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
    verify_server_name(&ParsedCertificate::try_from(leaf)?, name)
}

/// The reason why clients refuse a chain, in words.
pub(in crate::cli) fn reason(error: &Error) -> String {
    let Error::InvalidCertificate(error) = error else {
        return error.to_string();
    };
    let words = match error {
        CertificateError::UnknownIssuer => "unknown issuer",
        CertificateError::BadSignature => "a signature does not match its issuer",
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate has expired"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the certificate is for another name"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the certificate is not for servers (extended key usage)"
        }
        CertificateError::Revoked => "the certificate is revoked",
        CertificateError::BadEncoding => "the certificate is malformed",
        CertificateError::Other(other) => return reason_of_webpki(&other.to_string()),
        other => return other.to_string(),
    };
    words.to_owned()
}

/// The words for an error that the verifier has no kind for: the library gives the name of its
/// variant.
fn reason_of_webpki(variant: &str) -> String {
    let known = [
        (
            "CaUsedAsEndEntity",
            "it is a certificate of an authority, not of a server",
        ),
        (
            "EndEntityUsedAsCa",
            "a certificate in the chain is not of an authority, and signs another",
        ),
        (
            "PathLenConstraintViolated",
            "the chain is longer than one of its authorities permits",
        ),
        (
            "NameConstraintViolation",
            "one of its authorities may not issue for this name",
        ),
        (
            "UnsupportedCriticalExtension",
            "the certificate has a critical extension that is not supported",
        ),
        (
            "MalformedExtensions",
            "the certificate has malformed extensions",
        ),
        ("MaximumPathDepthExceeded", "the chain is too long"),
        (
            "MaximumPathBuildCallsExceeded",
            "the chain is too tangled to be verified",
        ),
    ];
    let words = known.iter().find(|(name, _)| variant.contains(name));
    words.map_or_else(
        || format!("not valid ({variant})"),
        |(_, words)| (*words).to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::OtherError;

    use super::*;

    #[test]
    fn kinds_of_the_verifier_are_told_in_words() {
        #[derive(Debug, thiserror::Error)]
        #[error("{0}")]
        struct Variant(&'static str);

        let told = |variant| {
            let other = OtherError(Arc::new(Variant(variant)));
            reason(&Error::InvalidCertificate(CertificateError::Other(other)))
        };
        assert_eq!(
            told("CaUsedAsEndEntity"),
            "it is a certificate of an authority, not of a server"
        );
        assert_eq!(told("NewKind"), "not valid (NewKind)");
    }
}
