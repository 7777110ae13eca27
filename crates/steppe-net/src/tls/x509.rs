//! Fields of a certificate (RFC 5280), for reports, logs, metrics and predicates.
//!
//! Invariant: bytes of a peer neither panic nor cost more than a small multiple of
//! [`CERT_BYTES_MAX`], and text of a certificate can't pass for other text: names are escaped.
//! Left out: trust in the certificate, which the verifiers of rustls decide.

mod distinguished_name;

use std::fmt;
use std::net::IpAddr;

use aws_lc_rs::digest::{SHA256, digest};
use x509_parser::certificate::{X509Certificate, X509CertificateParser};
use x509_parser::extensions::{
    AuthorityKeyIdentifier, BasicConstraints, GeneralName, KeyIdentifier, SubjectAlternativeName,
    X509Extension,
};
use x509_parser::nom::Parser;
use x509_parser::oid_registry::{
    OID_X509_EXT_AUTHORITY_KEY_IDENTIFIER, OID_X509_EXT_BASIC_CONSTRAINTS,
    OID_X509_EXT_SUBJECT_ALT_NAME, OID_X509_EXT_SUBJECT_KEY_IDENTIFIER, Oid,
};
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::signature_algorithm::RsaSsaPssParams;
use x509_parser::x509::{AlgorithmIdentifier, SubjectPublicKeyInfo};

use self::distinguished_name::hex;
use crate::limits::{CERT_BYTES_MAX, CERT_NAMES_MAX};

/// Fields of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// RFC 4514, the most specific part first: `CN=api,O=Example,C=DE`.
    pub subject: String,
    /// Issuer, in the form of `subject`.
    pub issuer: String,
    /// Uppercase hexadecimal digits, as OpenSSL writes it.
    pub serial: String,
    /// Subject alternative names: DNS names in lower case, IP addresses, email addresses and URIs.
    /// A name without the form of its kind is left out, so that no kind can pass for another.
    pub names: Vec<String>,
    /// Unix time in seconds from which it is valid.
    pub not_before: i64,
    /// Unix time in seconds until which it is valid.
    pub not_after: i64,
    /// Kind of the public key.
    pub key: KeyKind,
    /// Algorithm of the issuer's signature.
    pub signature: Signature,
    /// SHA-256 of the certificate.
    pub fingerprint: [u8; 32],
    /// SHA-256 of its `SubjectPublicKeyInfo`, by which keys are pinned.
    pub spki_fingerprint: [u8; 32],
    /// True if it may issue certificates.
    pub is_ca: bool,
    subject_key_id: Option<Vec<u8>>,
    authority_key_id: Option<Vec<u8>>,
}

/// The kind of a public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyKind {
    /// Elliptic curve: `P-256`, `P-384`, `P-521`, or another one's identifier.
    Ec(String),
    /// RSA.
    Rsa {
        /// Length of the modulus.
        bits: usize,
    },
    /// RFC 8410.
    Ed25519,
    /// Another algorithm, by its object identifier.
    Other(String),
}

/// The algorithm of a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// `ECDSA with SHA-256`, or the object identifier of an unknown one.
    pub name: String,
    /// True if it hashes with MD5 or SHA-1, for which collisions are made.
    pub is_weak: bool,
}

/// A reason why bytes have no [`Summary`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum X509Error {
    /// Longer than [`CERT_BYTES_MAX`].
    #[error("the certificate is longer than {CERT_BYTES_MAX} bytes")]
    TooLong,
    /// No X.509 certificate in DER.
    #[error("not a DER X.509 certificate")]
    Malformed,
    /// More than [`CERT_NAMES_MAX`] subject alternative names.
    #[error("the certificate has more than {CERT_NAMES_MAX} names")]
    TooManyNames,
}

/// The state of a certificate's dates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dates {
    /// Valid now.
    Valid,
    /// Past its end.
    Expired,
    /// Before its begin.
    NotYetValid,
}

impl Dates {
    /// The state at `now`: both ends are within (RFC 5280 §4.1.2.5).
    fn at(now: i64, not_before: i64, not_after: i64) -> Self {
        if now > not_after {
            Self::Expired
        } else if now < not_before {
            Self::NotYetValid
        } else {
            Self::Valid
        }
    }
}

/// The time as certificates count it: Unix time in seconds.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "certificates count by the calendar"
)]
pub fn unix_now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_secs()).unwrap_or(i64::MAX)
}

impl Summary {
    /// The state of its dates at `now`, Unix time in seconds.
    #[must_use]
    pub fn dates(&self, now: i64) -> Dates {
        Dates::at(now, self.not_before, self.not_after)
    }

    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// `der` is no certificate, has bytes behind it, or exceeds a limit.
    pub fn of(der: &[u8]) -> Result<Self, X509Error> {
        if der.len() > CERT_BYTES_MAX {
            return Err(X509Error::TooLong);
        }
        // Only the extensions that are read here are parsed: the others may hold anything.
        let mut parser = X509CertificateParser::new().with_deep_parse_extensions(false);
        let (rest, certificate) = parser.parse(der).map_err(|_| X509Error::Malformed)?;
        if !rest.is_empty() {
            return Err(X509Error::Malformed);
        }
        let key_id = extension(&certificate, &OID_X509_EXT_SUBJECT_KEY_IDENTIFIER)?
            .map(read::<KeyIdentifier<'_>>)
            .transpose()?;
        let authority = extension(&certificate, &OID_X509_EXT_AUTHORITY_KEY_IDENTIFIER)?
            .map(read::<AuthorityKeyIdentifier<'_>>)
            .transpose()?;
        let constraints = extension(&certificate, &OID_X509_EXT_BASIC_CONSTRAINTS)?
            .map(read::<BasicConstraints>)
            .transpose()?;
        let validity = certificate.validity();
        Ok(Self {
            subject: distinguished_name::format(certificate.subject()),
            issuer: distinguished_name::format(certificate.issuer()),
            serial: serial(certificate.raw_serial()),
            names: names(&certificate)?,
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
            key: key_kind(certificate.public_key()),
            signature: signature(&certificate.signature_algorithm),
            fingerprint: sha256(der),
            spki_fingerprint: sha256(certificate.public_key().raw),
            is_ca: constraints.is_some_and(|each| each.ca),
            subject_key_id: key_id.map(|id| id.0.to_vec()),
            authority_key_id: authority
                .and_then(|each| each.key_identifier)
                .map(|id| id.0.to_vec()),
        })
    }

    /// True if `issuer` is named as the one that signed this; the signature is not checked.
    pub fn names_as_issuer(&self, issuer: &Self) -> bool {
        // RFC 5280 §4.2.1.1: key identifiers tell keys of one name apart, where both have them.
        let is_other_key = match (&self.authority_key_id, &issuer.subject_key_id) {
            (Some(wanted), Some(has)) => wanted != has,
            _ => false,
        };
        self.issuer == issuer.subject && !is_other_key
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ec(curve) => write!(f, "EC {curve}"),
            Self::Rsa { bits } => write!(f, "RSA {bits}"),
            Self::Ed25519 => f.write_str("Ed25519"),
            Self::Other(id) => f.write_str(id),
        }
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

fn extension<'a, 'c>(
    certificate: &'c X509Certificate<'a>,
    id: &Oid<'_>,
) -> Result<Option<&'c X509Extension<'a>>, X509Error> {
    // RFC 5280 §4.2: an extension must not be there twice, and readers would differ over which counts.
    certificate
        .get_extension_unique(id)
        .map_err(|_| X509Error::Malformed)
}

fn read<'a, T>(extension: &X509Extension<'a>) -> Result<T, X509Error>
where
    T: FromDer<'a, x509_parser::error::X509Error>,
{
    match T::from_der(extension.value) {
        Ok(([], value)) => Ok(value),
        _ => Err(X509Error::Malformed),
    }
}

fn serial(bytes: &[u8]) -> String {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    // A serial of zero keeps one.
    let digits = &bytes[zeros.min(bytes.len().saturating_sub(1))..];
    hex(digits)
}

fn names(certificate: &X509Certificate<'_>) -> Result<Vec<String>, X509Error> {
    let Some(extension) = extension(certificate, &OID_X509_EXT_SUBJECT_ALT_NAME)? else {
        return Ok(Vec::new());
    };
    let parsed: SubjectAlternativeName<'_> = read(extension)?;
    if parsed.general_names.len() > CERT_NAMES_MAX {
        return Err(X509Error::TooManyNames);
    }
    Ok(parsed.general_names.iter().filter_map(name).collect())
}

/// A name whose form tells its kind: only an email address has `@` and no colon, only a URI a
/// colon, unless it is an IPv6 address; a DNS name has neither and is no IPv4 address.
fn name(name: &GeneralName<'_>) -> Option<String> {
    let is_ip = |text: &str| text.parse::<IpAddr>().is_ok();
    let is_visible = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    match name {
        GeneralName::DNSName(text) => {
            let is_of_dns = |b: u8| b.is_ascii_alphanumeric() || b"-_.*".contains(&b);
            let fits = !text.is_empty() && text.bytes().all(is_of_dns) && !is_ip(text);
            fits.then(|| text.to_ascii_lowercase())
        }
        GeneralName::RFC822Name(text) => {
            let fits = is_visible(text) && text.contains('@') && !text.contains(':');
            fits.then(|| (*text).to_owned())
        }
        GeneralName::URI(text) => {
            let fits = is_visible(text) && text.contains(':') && !is_ip(text);
            fits.then(|| (*text).to_owned())
        }
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let v6 = || <[u8; 16]>::try_from(*bytes).map(IpAddr::from);
            v4.or_else(|_| v6()).ok().map(|ip| ip.to_string())
        }
        _ => None,
    }
}

fn key_kind(key: &SubjectPublicKeyInfo<'_>) -> KeyKind {
    let id = key.algorithm.algorithm.to_id_string();
    match id.as_str() {
        "1.2.840.10045.2.1" => KeyKind::Ec(curve(&key.algorithm)),
        "1.3.101.112" => KeyKind::Ed25519,
        "1.2.840.113549.1.1.1" => match key.parsed() {
            Ok(PublicKey::RSA(rsa)) => KeyKind::Rsa {
                bits: bits(rsa.modulus),
            },
            _ => KeyKind::Other(id),
        },
        _ => KeyKind::Other(id),
    }
}

fn curve(algorithm: &AlgorithmIdentifier<'_>) -> String {
    let parameters = algorithm.parameters.as_ref();
    let Some(id) = parameters.and_then(|any| any.as_oid().ok()) else {
        return "with explicit parameters".to_owned();
    };
    let id = id.to_id_string();
    match id.as_str() {
        "1.2.840.10045.3.1.7" => "P-256".to_owned(),
        "1.3.132.0.34" => "P-384".to_owned(),
        "1.3.132.0.35" => "P-521".to_owned(),
        _ => id,
    }
}

/// Length of an unsigned number.
fn bits(number: &[u8]) -> usize {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    match &number[zeros..] {
        [] => 0,
        [first, rest @ ..] => {
            let high = u8::BITS - first.leading_zeros();
            rest.len() * 8 + usize::try_from(high).unwrap_or_default()
        }
    }
}

fn signature(algorithm: &AlgorithmIdentifier<'_>) -> Signature {
    let id = algorithm.algorithm.to_id_string();
    let (name, is_weak) = match id.as_str() {
        "1.2.840.113549.1.1.4" => ("RSA with MD5", true),
        "1.2.840.113549.1.1.5" | "1.3.14.3.2.29" => ("RSA with SHA-1", true),
        "1.2.840.113549.1.1.11" => ("RSA with SHA-256", false),
        "1.2.840.113549.1.1.12" => ("RSA with SHA-384", false),
        "1.2.840.113549.1.1.13" => ("RSA with SHA-512", false),
        "1.2.840.113549.1.1.10" => return pss(algorithm),
        "1.2.840.10045.4.1" => ("ECDSA with SHA-1", true),
        "1.2.840.10045.4.3.2" => ("ECDSA with SHA-256", false),
        "1.2.840.10045.4.3.3" => ("ECDSA with SHA-384", false),
        "1.2.840.10045.4.3.4" => ("ECDSA with SHA-512", false),
        "1.2.840.10040.4.3" => ("DSA with SHA-1", true),
        "1.3.101.112" => ("Ed25519", false),
        other => (other, false),
    };
    Signature {
        name: name.to_owned(),
        is_weak,
    }
}

/// RFC 4055 §3.1: the hash is a parameter, SHA-1 where there is none.
fn pss(algorithm: &AlgorithmIdentifier<'_>) -> Signature {
    let parameters = algorithm.parameters.as_ref();
    let parameters = parameters.and_then(|any| RsaSsaPssParams::try_from(any).ok());
    let hash = parameters.map(|each| each.hash_algorithm_oid().to_id_string());
    let (hash, is_weak) = match hash.as_deref() {
        Some("1.3.14.3.2.26") => ("SHA-1", true),
        Some("2.16.840.1.101.3.4.2.1") => ("SHA-256", false),
        Some("2.16.840.1.101.3.4.2.2") => ("SHA-384", false),
        Some("2.16.840.1.101.3.4.2.3") => ("SHA-512", false),
        _ => ("an unknown hash", false),
    };
    Signature {
        name: format!("RSA-PSS with {hash}"),
        is_weak,
    }
}

/// A digest as people compare it: lowercase hexadecimal digits.
#[must_use]
pub fn fingerprint_text(digest: &[u8; 32]) -> String {
    hex(digest).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DnType, DnValue, IsCa, KeyPair,
        PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SanType,
    };

    use super::distinguished_name::is_invisible;
    use super::*;

    #[test]
    fn both_ends_of_its_time_are_within() {
        use Dates::{Expired, NotYetValid, Valid};
        let dates = [9, 10, 20, 21].map(|now| Dates::at(now, 10, 20));
        assert_eq!(dates, [NotYetValid, Valid, Valid, Expired]);
    }

    const ODD: &[u8] = include_bytes!("../../testdata/x509/odd.der");

    fn params(subject: impl Into<DnValue>) -> CertificateParams {
        let mut params = CertificateParams::new(vec!["example.com".to_owned()]).expect("a name");
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, subject);
        params
    }

    fn self_signed(params: &CertificateParams) -> Vec<u8> {
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("signed").der().to_vec()
    }

    fn subject(text: impl Into<DnValue>) -> String {
        Summary::of(&self_signed(&params(text)))
            .expect("valid")
            .subject
    }

    #[test]
    fn a_certificate_says_what_openssl_says() {
        let odd = Summary::of(ODD).expect("a certificate");
        let expected = r#"2.3.4=#0C07737472616E6765,emailAddress=ops@example.com,CN=api.example.com,OU=a\+b=c\\d\"e,O=\ Example\, Inc. #1\ ,C=DE"#;
        assert_eq!(odd.subject, expected);
        assert_eq!(odd.issuer, expected);
        assert_eq!(odd.serial, "C0FFEE");
        assert_eq!(odd.key, KeyKind::Rsa { bits: 1024 });
        assert_eq!(odd.signature.name, "RSA with SHA-1");
        assert!(odd.signature.is_weak && !odd.is_ca);
        assert_eq!(odd.not_after - odd.not_before, 3650 * 24 * 60 * 60);
        // openssl x509 -fingerprint -sha256; openssl pkey -pubin -outform DER | sha256sum
        assert_eq!(
            hex(&odd.fingerprint),
            "520409683B10C5A2B4BE5DC4E26DB08A5CD959DA88CA6CB468AF41AC22FD1CC5"
        );
        assert_eq!(
            hex(&odd.spki_fingerprint),
            "9F5DE97FD23A4826C8AC3641E86DC4080EDB2D0FCBD96A8CC71A4E60723F9F1E"
        );
    }

    #[test]
    fn names_that_pose_as_another_kind_are_left_out() {
        let odd = Summary::of(ODD).expect("a certificate");
        let expected = [
            "api.example.com",
            "*.example.com",
            "192.0.2.1",
            "2001:db8::1",
            "ops@example.com",
            "spiffe://example.com/api",
        ];
        assert_eq!(odd.names, expected);
    }

    #[test]
    fn keys_and_signatures_are_named() {
        let of = |algorithm| {
            let key = KeyPair::generate_for(algorithm).expect("a key");
            let signed = params("a").self_signed(&key).expect("signed");
            let summary = Summary::of(signed.der()).expect("valid");
            assert!(!summary.signature.is_weak);
            format!("{} {}", summary.key, summary.signature)
        };
        assert_eq!(of(&PKCS_ED25519), "Ed25519 Ed25519");
        assert_eq!(of(&PKCS_ECDSA_P384_SHA384), "EC P-384 ECDSA with SHA-384");
    }

    #[test]
    fn a_subject_can_not_pass_for_another() {
        for (text, expected) in [
            ("a,O=b", r"CN=a\,O=b"),
            ("a+CN=b", r"CN=a\+CN=b"),
            ("#a ", r"CN=\#a\ "),
            (" ", r"CN=\ "),
            ("a\\", r"CN=a\\"),
            ("a\u{1b}[2J\nb", r"CN=a\1B[2J\0Ab"),
            ("a\u{202e}b", r"CN=a\E2\80\AEb"),
            ("é", "CN=é"),
            ("", "CN="),
        ] {
            assert_eq!(subject(text), expected, "{text:?}");
        }
        let wide = rcgen::string::BmpString::try_from("é,b").expect("two bytes each");
        assert_eq!(subject(DnValue::BmpString(wide)), r"CN=é\,b");
        let latin = rcgen::string::TeletexString::try_from("ab").expect("text");
        assert_eq!(subject(DnValue::TeletexString(latin)), "CN=#14026162");
    }

    #[test]
    fn an_issuer_is_found_by_name_and_key() {
        let authority = || {
            let mut params = params("ca");
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().expect("a key");
            CertifiedIssuer::self_signed(params, key).expect("signed")
        };
        let (first, second) = (authority(), authority());
        let mut leaf = params("leaf");
        leaf.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().expect("a key");
        let leaf = leaf.signed_by(&key, &first).expect("signed");
        let of = |der| Summary::of(der).expect("valid");
        let (leaf, first, second) = (of(leaf.der()), of(first.der()), of(second.der()));
        assert!(first.is_ca && !leaf.is_ca);
        assert!(leaf.names_as_issuer(&first) && first.names_as_issuer(&first));
        assert!(!leaf.names_as_issuer(&second), "one name, another key");
        assert!(!first.names_as_issuer(&leaf));
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        let trailing = [ODD, &[0]].concat();
        for bytes in [&[][..], &[0x30], b"-----BEGIN", &ODD[..400], &trailing] {
            assert_eq!(Summary::of(bytes), Err(X509Error::Malformed));
        }
        let long = [ODD, &vec![0; CERT_BYTES_MAX]].concat();
        assert_eq!(Summary::of(&long), Err(X509Error::TooLong));
    }

    #[test]
    fn names_have_a_limit() {
        let with = |count| {
            let mut params = params("a");
            let name = SanType::IpAddress(IpAddr::from([192, 0, 2, 1]));
            params.subject_alt_names = vec![name; count];
            Summary::of(&self_signed(&params)).map(|summary| summary.names.len())
        };
        assert_eq!(with(CERT_NAMES_MAX), Ok(CERT_NAMES_MAX));
        assert_eq!(with(CERT_NAMES_MAX + 1), Err(X509Error::TooManyNames));
    }

    #[test]
    fn numbers_have_the_bits_that_count() {
        for (number, expected) in [
            (&[][..], 0),
            (&[0], 0),
            (&[1], 1),
            (&[0, 0x80, 0], 16),
            (&[0x7f, 0xff], 15),
        ] {
            assert_eq!(bits(number), expected, "{number:?}");
        }
        assert_eq!(serial(&[0]), "00");
        assert_eq!(serial(&[0, 0x80]), "80");
        assert_eq!(serial(&[]), "");
    }

    fn check_text(summary: &Summary) {
        for text in [&summary.subject, &summary.issuer] {
            assert!(!text.chars().any(is_invisible), "{text:?}");
        }
        let is_plain = |name: &String| name.bytes().all(|byte| byte.is_ascii_graphic());
        assert!(summary.names.iter().all(is_plain), "{:?}", summary.names);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn mutated_certificates_do_not_panic(
            edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in prop::option::weighted(0.1, any::<prop::sample::Index>()),
        ) {
            let mut bytes = ODD.to_vec();
            for (at, value) in edits {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            if let Ok(summary) = Summary::of(&bytes) {
                check_text(&summary);
            }
        }

        #[test]
        fn any_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Summary::of(&bytes).is_err());
        }
    }
}
