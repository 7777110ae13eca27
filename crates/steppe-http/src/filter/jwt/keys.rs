//! Keys that may have signed tokens, out of the files that a configuration names.
//!
//! Keys are parsed when they are read: a key that can't be used shows then, and a token costs its
//! signature alone.

use std::fmt;
use std::path::Path;

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{
    self, EcdsaVerificationAlgorithm, ParsedPublicKey, RsaParameters, RsaPublicKeyComponents,
};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{AlgorithmFamily, DecodingKey, DecodingKeyKind};
use serde_json::Value;
use steppe_net::tls::{LoadError, read};

use crate::config::{Jwt, JwtKey};
use crate::limits::JWKS_KEYS_MAX;

/// Shortest secret of HMAC, in bytes: as long as the digest of SHA-256 (RFC 7518 §3.2).
const SECRET_BYTES_MIN: usize = 32;

/// One key, for one algorithm.
#[derive(Clone)]
pub struct Key {
    pub(super) id: Option<String>,
    pub(super) name: &'static str,
    pub(super) verifier: Verifier,
}

/// A verifier of signatures, for every token.
#[derive(Clone)]
pub(super) enum Verifier {
    Secret(Box<hmac::Key>),
    Public(ParsedPublicKey),
}

/// A set of keys.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) keys: Vec<Key>,
    /// Mistakes of the other keys, which would verify nothing.
    pub(super) unfit: Vec<String>,
}

/// The signature scheme of an algorithm.
#[derive(Clone, Copy)]
enum SignatureScheme {
    Hmac(hmac::Algorithm),
    Rsa(&'static RsaParameters),
    /// With the name of its curve.
    Ecdsa(&'static EcdsaVerificationAlgorithm, &'static str),
    Ed25519,
}

/// Algorithms that keys may have, by their names (RFC 7518 §3.1, RFC 8037).
const ALGORITHMS: [(&str, SignatureScheme); 12] = [
    ("HS256", SignatureScheme::Hmac(hmac::HMAC_SHA256)),
    ("HS384", SignatureScheme::Hmac(hmac::HMAC_SHA384)),
    ("HS512", SignatureScheme::Hmac(hmac::HMAC_SHA512)),
    (
        "RS256",
        SignatureScheme::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
    ),
    (
        "RS384",
        SignatureScheme::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
    ),
    (
        "RS512",
        SignatureScheme::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
    ),
    (
        "PS256",
        SignatureScheme::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
    ),
    (
        "PS384",
        SignatureScheme::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
    ),
    (
        "PS512",
        SignatureScheme::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
    ),
    (
        "ES256",
        SignatureScheme::Ecdsa(&signature::ECDSA_P256_SHA256_FIXED, "P-256"),
    ),
    (
        "ES384",
        SignatureScheme::Ecdsa(&signature::ECDSA_P384_SHA384_FIXED, "P-384"),
    ),
    ("EdDSA", SignatureScheme::Ed25519),
];

impl Key {
    /// True when it made this signature of `signed`.
    pub(super) fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        match &self.verifier {
            Verifier::Secret(key) => hmac::verify(key, signed, signature).is_ok(),
            Verifier::Public(key) => key.verify_sig(signed, signature).is_ok(),
        }
    }
}

/// Reads the files of a filter.
///
/// # Errors
/// A file can't be used.
pub(super) fn load(jwt: &Jwt) -> Result<Vec<Key>, LoadError> {
    let mut keys: Vec<_> = jwt.keys.iter().map(single).collect::<Result<_, _>>()?;
    for path in &jwt.sets {
        let set = parse_set(&read(path)?).map_err(|error| LoadError::content(path, error))?;
        if let Some(problem) = set.unfit.first() {
            return Err(LoadError::content(path, problem));
        }
        keys.extend(set.keys);
    }
    Ok(keys)
}

/// The keys of a set (RFC 7517 §5) that verify signatures. Others are left out: a set may have them for
/// others.
///
/// # Errors
/// The set can't be used.
pub(super) fn parse_set(text: &[u8]) -> Result<Set, String> {
    let mut set: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let Some(Value::Array(keys)) = set.get_mut("keys").map(Value::take) else {
        return Err("not a JSON Web Key Set".to_owned());
    };
    if keys.len() > JWKS_KEYS_MAX {
        return Err(format!("more than {JWKS_KEYS_MAX} keys"));
    }
    // One of a kind that is not known here is nobody's mistake (RFC 7517 §5).
    let known = keys
        .into_iter()
        .filter_map(|key| serde_json::from_value(key).ok());
    let (mut keys, mut unfit) = (Vec::new(), Vec::new());
    for key in known.filter_map(|key: Jwk| from_set(&key)) {
        match key {
            Ok(key) => keys.push(key),
            Err(problem) => unfit.push(problem),
        }
    }
    match unfit.first() {
        Some(problem) if keys.is_empty() => Err(problem.clone()),
        None if keys.is_empty() => Err("no key that verifies signatures".to_owned()),
        _ => Ok(Set { keys, unfit }),
    }
}

fn single(key: &JwtKey) -> Result<Key, LoadError> {
    let path = &key.file;
    let bytes = read(path)?;
    let (name, scheme) = named(key.algorithm)
        .ok_or_else(|| LoadError::content(path, format!("unknown algorithm {}", key.algorithm)))?;
    let read = match scheme {
        SignatureScheme::Hmac(_) => secret(path, &bytes)?,
        SignatureScheme::Rsa(_) => pem(path, DecodingKey::from_rsa_pem(&bytes))?,
        SignatureScheme::Ecdsa(..) => pem(path, DecodingKey::from_ec_pem(&bytes))?,
        SignatureScheme::Ed25519 => pem(path, DecodingKey::from_ed_pem(&bytes))?,
    };
    let verifier = verifier(name, scheme, &read);
    Ok(Key {
        id: key.id.clone(),
        name,
        verifier: verifier.map_err(|problem| LoadError::content(path, problem))?,
    })
}

/// The bytes of the file, but for the line's end that an editor adds.
fn secret(path: &Path, bytes: &[u8]) -> Result<DecodingKey, LoadError> {
    let secret = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let secret = secret.strip_suffix(b"\r").unwrap_or(secret);
    // Whoever knows a public key would sign with it.
    if secret.starts_with(b"-----BEGIN") {
        return Err(LoadError::content(
            path,
            "a PEM file can't be an HMAC secret",
        ));
    }
    if secret.len() < SECRET_BYTES_MIN {
        let problem = format!("the secret is shorter than {SECRET_BYTES_MIN} bytes");
        return Err(LoadError::content(path, problem));
    }
    Ok(DecodingKey::from_secret(secret))
}

fn pem(
    path: &Path,
    parsed: Result<DecodingKey, jsonwebtoken::errors::Error>,
) -> Result<DecodingKey, LoadError> {
    let problem = "not a PEM public key for this algorithm";
    parsed.map_err(|_| LoadError::content(path, problem))
}

/// A verifier of an algorithm's signatures by this key.
///
/// # Errors
/// The reason why the key would verify none.
fn verifier(name: &str, scheme: SignatureScheme, key: &DecodingKey) -> Result<Verifier, String> {
    use DecodingKeyKind::{RsaModulusExponent, SecretOrDer};
    let parsed = match (scheme, key.family(), key.kind()) {
        (SignatureScheme::Hmac(algorithm), AlgorithmFamily::Hmac, SecretOrDer(secret)) => {
            let key = hmac::Key::new(algorithm, secret);
            return Ok(Verifier::Secret(Box::new(key)));
        }
        (SignatureScheme::Rsa(parameters), AlgorithmFamily::Rsa, SecretOrDer(der)) => {
            if let Ok(bits) = RsaParameters::public_modulus_len(der) {
                check_bits(parameters, bits)?;
            }
            ParsedPublicKey::new(parameters, der).ok()
        }
        (SignatureScheme::Rsa(parameters), AlgorithmFamily::Rsa, RsaModulusExponent { n, e }) => {
            check_bits(parameters, bits(n))?;
            let components = RsaPublicKeyComponents { n, e };
            components.to_parsed_public_key(parameters).ok()
        }
        (SignatureScheme::Ecdsa(algorithm, curve), AlgorithmFamily::Ec, SecretOrDer(point)) => {
            if let Some(other) = curve_of(point).filter(|other| *other != curve) {
                return Err(format!(
                    "{name} requires a key on {curve}, this key is on {other}"
                ));
            }
            ParsedPublicKey::new(algorithm, point).ok()
        }
        (SignatureScheme::Ed25519, AlgorithmFamily::Ed, SecretOrDer(bytes)) => {
            ParsedPublicKey::new(&signature::ED25519, bytes).ok()
        }
        _ => None,
    };
    let parsed = parsed.ok_or_else(|| format!("not a public key for {name}"))?;
    Ok(Verifier::Public(parsed))
}

/// The library looks at this anew for each signature, which it says is not good.
fn check_bits(parameters: &RsaParameters, bits: u32) -> Result<(), String> {
    let (least, most) = (parameters.min_modulus_len(), parameters.max_modulus_len());
    if (least..=most).contains(&bits) {
        return Ok(());
    }
    Err(format!(
        "RSA key of {bits} bits, {least} to {most} are allowed"
    ))
}

/// The bits of a number, its most significant byte first.
fn bits(number: &[u8]) -> u32 {
    let zeros = number.first().map_or(0, |first| first.leading_zeros());
    let bits = u32::try_from(8 * number.len()).unwrap_or(u32::MAX);
    bits - zeros
}

/// The curve of a point that is written in so many bytes (SEC 1 §2.3.3), whole or compressed.
fn curve_of(point: &[u8]) -> Option<&'static str> {
    match point.len() {
        33 | 65 => Some("P-256"),
        49 | 97 => Some("P-384"),
        67 | 133 => Some("P-521"),
        _ => None,
    }
}

/// A key of a set that verifies signatures: by the algorithm that it names, or the usual one of its kind.
/// Secrets have no place in a set, which is public. `None`: it is for something else.
fn from_set(jwk: &Jwk) -> Option<Result<Key, String>> {
    let common = &jwk.common;
    let usage = common.public_key_use.as_ref();
    if usage.is_some_and(|usage| *usage != PublicKeyUse::Signature) {
        return None;
    }
    // RFC 7517 §4.3: what a key is for, by operation.
    let operations = common.key_operations.as_ref();
    if operations.is_some_and(|operations| !operations.contains(&KeyOperations::Verify)) {
        return None;
    }
    let algorithm = match (common.key_algorithm, &jwk.algorithm) {
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
    let (name, scheme) = algorithm;
    if matches!(scheme, SignatureScheme::Hmac(_)) {
        return None;
    }
    let read = DecodingKey::from_jwk(jwk).map_err(|_| format!("not a public key for {name}"));
    let verifier = read.and_then(|key| verifier(algorithm.0, algorithm.1, &key));
    let key = verifier.map(|verifier| Key {
        id: common.key_id.clone(),
        name,
        verifier,
    });
    Some(key.map_err(|problem| match &common.key_id {
        None => problem,
        Some(id) => {
            let shown: String = id.chars().take(SHOWN_ID_CHARS).collect();
            format!("key {shown:?}: {problem}")
        }
    }))
}

/// The most characters that are shown of a key's id, which the server of the set chose.
const SHOWN_ID_CHARS: usize = 64;

/// True when a set may have a key of this algorithm.
pub(super) fn is_of_sets(algorithm: &str) -> bool {
    named(algorithm).is_some() && !algorithm.starts_with("HS")
}

fn named(wanted: &str) -> Option<(&'static str, SignatureScheme)> {
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
pub(super) mod tests;
