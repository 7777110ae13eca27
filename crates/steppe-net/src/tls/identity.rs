//! Certificates of our own, and the choice of the one that a client is shown.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;

use super::config::CertificateFiles;
use super::load::{self, LoadError};
use super::x509::Summary;

/// A certificate with its key.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) key: Arc<CertifiedKey>,
    pub(super) summary: Summary,
}

/// All certificates of a listener, by the names that they are for.
#[derive(Debug)]
pub(super) struct Identities {
    all: Vec<Identity>,
    /// Indexes, in the order of the file, by name in [normal form](normal).
    exact: HashMap<Box<str>, Vec<usize>>,
    /// Indexes of wildcard names, by the part behind `*.`.
    wildcard: HashMap<Box<str>, Vec<usize>>,
    /// Default certificates, for clients that name no server or an unknown one.
    default: Vec<usize>,
}

impl Identity {
    pub(super) fn load(
        files: &CertificateFiles,
        provider: &CryptoProvider,
    ) -> Result<Self, LoadError> {
        let chain = load::certificates(&files.cert)?;
        let summary =
            Summary::of(&chain[0]).map_err(|error| LoadError::content(&files.cert, error))?;
        let key = load::private_key(&files.key)?;
        let mut key =
            CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => {
                    let cert = files.cert.display();
                    LoadError::content(&files.key, format!("the private key does not match {cert}"))
                }
                other => LoadError::content(&files.key, other),
            })?;
        key.ocsp = files.ocsp.as_deref().map(staple).transpose()?;
        Ok(Self {
            key: Arc::new(key),
            summary,
        })
    }
}

fn staple(path: &Path) -> Result<Vec<u8>, LoadError> {
    let response = load::read(path)?;
    // RFC 6960 §4.2.1: a sequence whose first element is an enumeration of one byte.
    let is_response = response.first() == Some(&0x30);
    if is_response {
        Ok(response)
    } else {
        Err(LoadError::content(path, "no DER OCSP response in the file"))
    }
}

impl Identities {
    pub(super) fn new(all: Vec<Identity>) -> Self {
        let (mut exact, mut wildcard) = (HashMap::new(), HashMap::new());
        for (index, identity) in all.iter().enumerate() {
            for name in &identity.summary.names {
                let name = normal(name);
                let (map, name): (&mut HashMap<Box<str>, Vec<usize>>, _) =
                    match name.strip_prefix("*.") {
                        Some(parent) => (&mut wildcard, parent),
                        None => (&mut exact, &*name),
                    };
                map.entry(name.into()).or_default().push(index);
            }
        }
        // Others for the names of the first one, with another kind of key, serve as well.
        let first = all.first().map(|identity| &identity.summary.names);
        let shares =
            |identity: &Identity| first.is_some_and(|names| *names == identity.summary.names);
        let default = (0..all.len()).filter(|&index| index == 0 || shares(&all[index]));
        Self {
            default: default.collect(),
            all,
            exact,
            wildcard,
        }
    }

    pub(super) fn all(&self) -> &[Identity] {
        &self.all
    }

    /// Certificates for `name`, in any case, with a final dot or without; the default ones for an unknown name.
    pub(super) fn named(&self, name: &str) -> &[usize] {
        let name = &*normal(name);
        let wildcard = || {
            let (_, parent) = name.split_once('.')?;
            self.wildcard.get(parent)
        };
        let found = self.exact.get(name).or_else(wildcard);
        found.unwrap_or(&self.default)
    }

    /// Chooses the certificate of a client that asks for `name` and can verify `schemes`: the
    /// first that it can verify, or else the first, which it refuses with an alert.
    pub(super) fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> usize {
        let candidates = match name {
            Some(name) => self.named(name),
            None => &self.default,
        };
        let is_usable = |&&index: &&usize| self.all[index].key.key.choose_scheme(schemes).is_some();
        let chosen = candidates.iter().find(is_usable);
        chosen.or(candidates.first()).copied().unwrap_or(0)
    }
}

/// A name in lower case, without a final dot: as names of certificates, of SNI (RFC 6066 §3) and of hosts are
/// compared.
fn normal(name: &str) -> Cow<'_, str> {
    let name = name.strip_suffix('.').unwrap_or(name);
    match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    }
}
