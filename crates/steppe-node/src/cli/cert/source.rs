//! Certificates and keys in files, PEM (RFC 7468) or DER.
//!
//! Invariant: a file is read up to [`FILE_BYTES_MAX`], so that a device or a wrong name can't fill
//! the memory. Left out: encrypted keys, which need a password.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use steppe_net::tls::x509::Summary;

/// Bytes of a file, at most: all roots of a system have some 250 KiB.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The certificates of a file, and its private key.
#[derive(Debug)]
pub(super) struct Contents {
    /// The certificates, at least one, in the order of the file.
    pub(super) chain: Vec<CertificateDer<'static>>,
    /// The first private key in the same file.
    pub(super) key: Option<PrivateKeyDer<'static>>,
}

/// The relation of a private key to a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeyMatch {
    /// The key belongs to the certificate.
    Matches,
    /// The key belongs to another certificate.
    Differs,
    /// The key can't be compared, for this reason.
    Unusable(String),
}

/// Reads the certificates of a file, and a key in the same file.
pub(super) fn certificates(path: &Path) -> Result<Contents, String> {
    let bytes = bytes(path)?;
    if !is_pem(&bytes) {
        Summary::of(&bytes)
            .map_err(|error| format!("neither a PEM nor a DER certificate: {error}"))?;
        let chain = vec![CertificateDer::from(bytes)];
        return Ok(Contents { chain, key: None });
    }
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let chain = chain.map_err(|error| format!("malformed PEM: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(&bytes).ok();
    match (chain.is_empty(), &key) {
        (true, Some(_)) => Err("the file has a private key but no certificate".to_owned()),
        (true, None) => Err("no PEM certificate in the file".to_owned()),
        _ => Ok(Contents { chain, key }),
    }
}

/// Reads the private key of a file.
pub(super) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = bytes(path)?;
    let key = match is_pem(&bytes) {
        true => PrivateKeyDer::from_pem_slice(&bytes).ok(),
        false => PrivateKeyDer::try_from(bytes).ok(),
    };
    key.ok_or_else(|| "no unencrypted private key in the file".to_owned())
}

/// Compares `key` with the first certificate of `chain`.
pub(super) fn matches(
    provider: &CryptoProvider,
    chain: &[CertificateDer<'static>],
    key: PrivateKeyDer<'static>,
) -> KeyMatch {
    let signer = match provider.key_provider.load_private_key(key) {
        Ok(signer) => signer,
        Err(error) => return KeyMatch::Unusable(error.to_string()),
    };
    let certified = Arc::new(CertifiedKey::new(chain.to_vec(), signer));
    match certified.keys_match() {
        Ok(()) => KeyMatch::Matches,
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => KeyMatch::Differs,
        Err(error) => KeyMatch::Unusable(error.to_string()),
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let read = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?
            .take(FILE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|error| error.to_string())?;
    match u64::try_from(bytes.len()) {
        Ok(0) => Err("the file is empty".to_owned()),
        Ok(1..=FILE_BYTES_MAX) => Ok(bytes),
        _ => Err(format!("the file is longer than {FILE_BYTES_MAX} bytes")),
    }
}

fn is_pem(bytes: &[u8]) -> bool {
    bytes.windows(10).any(|window| window == b"-----BEGIN")
}
