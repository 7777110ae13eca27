//! Certificates of a run: an authority, and a P-256 and an RSA-2048 certificate below it.
//!
//! Each run makes new ones: a key that is kept somewhere may come to be trusted.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer};
use rcgen::{KeyPair, KeyUsagePurpose};

/// Files below the run's folder.
#[derive(Debug)]
pub struct Credentials {
    /// The authority of both certificates, PEM.
    pub ca: PathBuf,
    pub p256: Certificate,
    pub rsa: Certificate,
}

/// A certificate with its key, PEM.
#[derive(Debug)]
pub struct Certificate {
    /// The only name in it.
    pub name: &'static str,
    pub cert: PathBuf,
    pub key: PathBuf,
    /// Certificate and key in one file, as HAProxy reads them.
    pub bundle: PathBuf,
}

impl Credentials {
    /// Makes keys and certificates in `folder`.
    ///
    /// # Errors
    /// When a file can't be written.
    pub fn create(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named("steppe-bench authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let ca = folder.join("ca.crt");
        write(&ca, &pem("CERTIFICATE", params.self_signed(&key)?.der()))?;
        let issuer = Issuer::new(params, key);
        let p256 = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let rsa = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048)?;
        Ok(Self {
            ca,
            p256: issue(folder, "p256", P256_NAME, &p256, &issuer)?,
            rsa: issue(folder, "rsa", RSA_NAME, &rsa, &issuer)?,
        })
    }
}

/// The name that wrk resolves, and sends as its SNI.
const P256_NAME: &str = "localhost";
/// Another name, since Caddy chooses by name among all certificates that it has.
const RSA_NAME: &str = "rsa.localhost";

#[expect(clippy::too_many_arguments, reason = "older than the limit")]
fn issue(
    folder: &Path,
    file: &str,
    name: &'static str,
    key: &KeyPair,
    issuer: &Issuer<'_, KeyPair>,
) -> Result<Certificate> {
    let mut params = CertificateParams::new([name.to_owned()])?;
    params.distinguished_name = named(name);
    params.use_authority_key_identifier_extension = true;
    let text = pem("CERTIFICATE", params.signed_by(key, issuer)?.der());
    let path = |extension| folder.join(format!("{file}.{extension}"));
    let certificate = Certificate {
        name,
        cert: path("crt"),
        key: path("key"),
        bundle: path("pem"),
    };
    let key = pem("PRIVATE KEY", key.serialized_der());
    write(&certificate.cert, &text)?;
    write(&certificate.key, &key)?;
    write(&certificate.bundle, &format!("{text}{key}"))?;
    Ok(certificate)
}

/// A distinguished name. OpenSSL takes a certificate for its own issuer where both have one name.
fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// RFC 7468 §2: Base64 in lines of 64 characters.
fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    // 48 bytes are 64 characters without padding.
    for line in der.chunks(48) {
        STANDARD.encode_string(line, &mut text);
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

/// Writes a file that its owner alone can read: some of them hold keys.
fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o600)))
        .with_context(|| format!("cannot write {}", path.display()))
}
