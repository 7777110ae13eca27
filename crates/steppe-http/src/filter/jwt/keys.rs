//! Keys that may have signed tokens, out of the files that a configuration names.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::Value;
use steppe_net::tls::{LoadError, read};

use crate::config::{self, FilterKind, Jwt, JwtKey};
use crate::limits::JWKS_KEYS_MAX;

/// Shortest secret of HMAC, in bytes: as long as the digest of SHA-256 (RFC 7518 §3.2).
const SECRET_BYTES_MIN: usize = 32;

/// Keys of every `jwt` filter of a configuration, by its name.
#[derive(Debug, Default)]
pub struct JwtKeys(HashMap<String, Arc<[Key]>>);

/// One key, for one algorithm.
#[derive(Clone)]
pub struct Key {
    pub(super) id: Option<String>,
    pub(super) name: &'static str,
    pub(super) algorithm: Algorithm,
    pub(super) key: DecodingKey,
}

/// Algorithms that keys may have, by their names (RFC 7518 §3.1, RFC 8037).
const ALGORITHMS: [(&str, Algorithm); 12] = [
    ("HS256", Algorithm::HS256),
    ("HS384", Algorithm::HS384),
    ("HS512", Algorithm::HS512),
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
];

impl JwtKeys {
    /// Reads the files that `config` names.
    ///
    /// # Errors
    /// What is wrong with a file.
    pub fn load(config: &config::Gateway) -> Result<Self, LoadError> {
        let filters = config.filters.iter();
        let jwt = filters.filter_map(|filter| match &filter.kind {
            FilterKind::Jwt(jwt) => Some((filter.name.clone(), jwt)),
            _ => None,
        });
        let loaded = jwt.map(|(name, jwt)| Ok((name, of(jwt)?.into())));
        loaded.collect::<Result<_, _>>().map(Self)
    }

    /// Those of one filter; none where it was not loaded.
    pub(crate) fn of(&self, filter: &str) -> Arc<[Key]> {
        self.0.get(filter).map_or_else(|| Arc::new([]), Arc::clone)
    }
}

fn of(jwt: &Jwt) -> Result<Vec<Key>, LoadError> {
    let mut keys: Vec<_> = jwt.keys.iter().map(single).collect::<Result<_, _>>()?;
    for path in &jwt.sets {
        let set = parse_set(&read(path)?);
        keys.extend(set.map_err(|error| LoadError::content(path, error))?);
    }
    Ok(keys)
}

/// The keys of a set (RFC 7517 §5) that verify signatures. Others are left out: a set may have them for
/// others.
///
/// # Errors
/// What is wrong with the set.
pub(super) fn parse_set(text: &[u8]) -> Result<Vec<Key>, String> {
    let mut set: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let Some(Value::Array(keys)) = set.get_mut("keys").map(Value::take) else {
        return Err("it is no set of keys".to_owned());
    };
    if keys.len() > JWKS_KEYS_MAX {
        return Err(format!("it has more than {JWKS_KEYS_MAX} keys"));
    }
    // One of a kind that is not known here is nobody's mistake (RFC 7517 §5).
    let known = keys
        .into_iter()
        .filter_map(|key| serde_json::from_value(key).ok());
    let keys: Vec<_> = known.filter_map(|key: Jwk| from_set(&key)).collect();
    if keys.is_empty() {
        return Err("no key of it verifies signatures".to_owned());
    }
    Ok(keys)
}

fn single(key: &JwtKey) -> Result<Key, LoadError> {
    let path = &key.file;
    let bytes = read(path)?;
    let (name, algorithm) = named(key.algorithm)
        .ok_or_else(|| LoadError::content(path, format!("{} is not known", key.algorithm)))?;
    let parsed = match &name[..2] {
        "HS" => secret(path, &bytes)?,
        "ES" => pem(path, DecodingKey::from_ec_pem(&bytes))?,
        "Ed" => pem(path, DecodingKey::from_ed_pem(&bytes))?,
        _ => pem(path, DecodingKey::from_rsa_pem(&bytes))?,
    };
    Ok(Key {
        id: key.id.clone(),
        name,
        algorithm,
        key: parsed,
    })
}

/// The bytes of the file, but for the line's end that an editor adds.
fn secret(path: &Path, bytes: &[u8]) -> Result<DecodingKey, LoadError> {
    let secret = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let secret = secret.strip_suffix(b"\r").unwrap_or(secret);
    // Whoever knows a public key would sign with it.
    if secret.starts_with(b"-----BEGIN") {
        return Err(LoadError::content(path, "a PEM file is no secret"));
    }
    if secret.len() < SECRET_BYTES_MIN {
        let problem = format!("a secret has at least {SECRET_BYTES_MIN} bytes");
        return Err(LoadError::content(path, problem));
    }
    Ok(DecodingKey::from_secret(secret))
}

fn pem(
    path: &Path,
    parsed: Result<DecodingKey, jsonwebtoken::errors::Error>,
) -> Result<DecodingKey, LoadError> {
    let problem = "it is not a public key of this algorithm as PEM";
    parsed.map_err(|_| LoadError::content(path, problem))
}

/// A key of a set that verifies signatures: by the algorithm that it names, or the usual one of its kind.
/// Secrets have no place in a set, which is public.
fn from_set(jwk: &Jwk) -> Option<Key> {
    let common = &jwk.common;
    let usage = common.public_key_use.as_ref();
    if usage.is_some_and(|usage| *usage != PublicKeyUse::Signature) {
        return None;
    }
    let (name, algorithm) = match (common.key_algorithm, &jwk.algorithm) {
        (Some(algorithm), _) => named(&algorithm.to_string())?,
        (None, AlgorithmParameters::RSA(_)) => named("RS256")?,
        (None, AlgorithmParameters::EllipticCurve(curve)) => match curve.curve {
            EllipticCurve::P256 => named("ES256")?,
            EllipticCurve::P384 => named("ES384")?,
            _ => return None,
        },
        (None, AlgorithmParameters::OctetKeyPair(_)) => named("EdDSA")?,
        (None, AlgorithmParameters::OctetKey(_)) => return None,
    };
    let is_of_secret = name.starts_with("HS");
    (!is_of_secret).then_some(Key {
        id: common.key_id.clone(),
        name,
        algorithm,
        key: DecodingKey::from_jwk(jwk).ok()?,
    })
}

/// Whether a set may have a key of this algorithm.
pub(super) fn is_of_sets(algorithm: &str) -> bool {
    named(algorithm).is_some() && !algorithm.starts_with("HS")
}

fn named(wanted: &str) -> Option<(&'static str, Algorithm)> {
    ALGORITHMS.into_iter().find(|(name, _)| *name == wanted)
}

/// Keys may be secrets.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
