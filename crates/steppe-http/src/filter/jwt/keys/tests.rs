//! Keys of files and sets, and what is none.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;

const RSA: &str = "-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA5nJ69jSU4BhnL848Oksp
99dZz7cY+hY3hGN5XZ7ny10gYvM3p7x9UD+UhXmNgI4iIrlms/A/EfExfWRwFRGw
DMFjBYvClrDCbOGTJRpv0qS1IUn42IJL8bZcz4Gooa9SrZeckgENfI9XaU+I9l/h
uEbm9/HGTbULWFphPFSVq4bjR/ICUq0NZZQtovvzPL9xIOa5alf6uLnsMupPxuye
/6g3lnBwnri6q5Hb3K+Mqcg8Brh7W/paxlx66Ab6bf4+d82v5euAaAaJXDOvjb/I
QYMnKn0obXfsrGQrMm02KdI+ZldXZuCErHa/WFKs3thFZHCxEk87cCVQBI+Qokp7
5wIDAQAB
-----END PUBLIC KEY-----
";
const RSA_1024: &str = "-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDkRKOgxXUs6KTX/JisnpHY/FQo
QrVAi1NFNBzBHBbRCE/fYs0Hu+R+A9ohiyYvQhCWalvY2ODQvgH69LwkQBhpIcrj
VsvazqcsyT4ImucNxHumXnrdTTYqSwDYD/1txNMVRhteS/DbacGj8cqb+jbTZva4
LWC7L2+YYLWiSaGn4wIDAQAB
-----END PUBLIC KEY-----
";
const P256: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAETtOsJVniybN6Bdsvo1k9uzzP+8p5
9U0ftBu9p+A9l+3icF9f54wVK0qUN/CCpl894vMnvFAlsPJY9JXpMRengQ==
-----END PUBLIC KEY-----
";
const P384: &str = "-----BEGIN PUBLIC KEY-----
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEFDBPjFobjOrcO+esOeUVxlPpx1Z/ZeRn
TbjTcKC0YbgxVAjAFo9lUfiiaTYDW3IKOnIejTii09hfAXn/3ZMYL4xrWL53cUeD
Mca1T7jNLrRN0W8OMEptnOG5dZ9/zq6E
-----END PUBLIC KEY-----
";
const P521: &str = "-----BEGIN PUBLIC KEY-----
MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQAjbG+4QGlMwFPxMJLm9+SfCfK5K6x
SibeQPlSQCnEpPJgE79F5sPslbzDbUnKCzs/Ti6VJpAjIqFMvXZ99Je8p+gB5R2W
GvUbtTAuR7o4da7VSuFnFhODf+2k336KxDt2CMNeqG6/ZfZbQDraeuMCjaHkKECN
1y229u28uJPgEGo94L4=
-----END PUBLIC KEY-----
";
const SECP256K1: &str = "-----BEGIN PUBLIC KEY-----
MFYwEAYHKoZIzj0CAQYFK4EEAAoDQgAEU7oemb+6vH8qsJ47XD8P60KsNUfcQ31S
11eHZUaDYmAK8Tj7kf+zztuWjfxIOmNxfX/N/tAt/GI8HzqiL0F47Q==
-----END PUBLIC KEY-----
";
const ED25519: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA/hRkc2c2wrr3z4K6eE9OfCGj+Nv4v1e4OKXepXzGK/w=
-----END PUBLIC KEY-----
";

/// A key of a set: 2,048 bits, each of them 1, and `more` members.
pub(in crate::filter::jwt) fn rsa_jwk(more: &str) -> String {
    let modulus = "_".repeat(341) + "w";
    format!(r#"{{"kty":"RSA","n":"{modulus}","e":"AQAB"{more}}}"#)
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("steppe-keys-{}-{next}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a new folder");
        Self(path)
    }

    /// A file with this in it.
    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).expect("room");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Loads a file with this content as a key of `algorithm`; returns the key's name, or the error.
fn loaded(algorithm: &'static str, content: impl AsRef<[u8]>) -> Result<&'static str, String> {
    let folder = Folder::new();
    let key = JwtKey {
        id: None,
        algorithm,
        file: folder.file("key", content),
    };
    let loaded = single(&key).map(|key| key.name);
    loaded.map_err(|error| error.to_string())
}

#[test]
fn each_algorithm_takes_keys_of_its_own_kind() {
    let secret = "x".repeat(32);
    for (algorithm, _) in ALGORITHMS {
        for (kind, content) in [
            ("HS", &*secret),
            ("RS", RSA),
            ("ES256", P256),
            ("ES384", P384),
            ("Ed", ED25519),
        ] {
            let own = match &algorithm[..2] {
                "PS" => "RS",
                "ES" => algorithm,
                own => own,
            };
            let loaded = loaded(algorithm, content);
            let is_taken = loaded.as_ref().is_ok_and(|name| *name == algorithm);
            assert_eq!(is_taken, own == kind, "{kind} for {algorithm}: {loaded:?}");
        }
    }
    assert!(loaded("none", &secret).is_err_and(|error| error.contains("unknown algorithm none")));
}

#[test]
fn a_key_that_would_verify_nothing_is_named() {
    let problem = |algorithm, content| loaded(algorithm, content).expect_err("it is of no use");
    for (algorithm, content, says) in [
        (
            "RS256",
            RSA_1024,
            "RSA key of 1024 bits, 2048 to 8192 are allowed",
        ),
        (
            "PS512",
            RSA_1024,
            "RSA key of 1024 bits, 2048 to 8192 are allowed",
        ),
        (
            "ES256",
            P384,
            "ES256 requires a key on P-256, this key is on P-384",
        ),
        (
            "ES384",
            P256,
            "ES384 requires a key on P-384, this key is on P-256",
        ),
        (
            "ES256",
            P521,
            "ES256 requires a key on P-256, this key is on P-521",
        ),
        // Its points take as many bytes as those on P-256.
        ("ES256", SECP256K1, "not a public key for ES256"),
    ] {
        let said = problem(algorithm, content);
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn a_key_verifies_what_it_has_signed() {
    const TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm4iLCJleHAiOjQyOTQ5NjcyOTV9";
    const SIGNATURE: &str = "H13LfGNbBiwwbwsHg-6tpvmq-ZXXyE8aJ6CVq82zx6ZmsNHx-gFt1j8BmC_fN2aQuwiaOhqWUjGV9qRvyHBRunwd0fOv72K6pfLwSkvAHa7DxyPOVs7RUFs8RQ_HGJENCPaiEFwTicRdckR7PMB46b_liDl2A5Z0W5AVauFc8E3FpfZ48QsMDQFN6hW3JmEqsRKxEvfbl8mT2eE94a3o2zX1TEjJxX5vXtLeSbHFGpTW9jKy475d_jUeGTslASu2u_MBbonOv1bBy4loAm4R2z30vZfEg1lI3dXg3TtM13tcGDtyHu__o2J0m11uSSqW2f8l-LN8utjb6aoLsOeu8g";
    let folder = Folder::new();
    let key = |algorithm| {
        let file = folder.file("key", RSA);
        single(&JwtKey {
            id: None,
            algorithm,
            file,
        })
        .expect("a key")
    };
    let signature = URL_SAFE_NO_PAD.decode(SIGNATURE).expect("base64url");
    assert!(key("RS256").verifies(TOKEN.as_bytes(), &signature));
    assert!(!key("RS256").verifies(&TOKEN.as_bytes()[1..], &signature));
    assert!(!key("RS256").verifies(TOKEN.as_bytes(), &signature[1..]));
    assert!(!key("RS256").verifies(TOKEN.as_bytes(), b""));
    for other in ["RS384", "PS256"] {
        assert!(
            !key(other).verifies(TOKEN.as_bytes(), &signature),
            "{other}"
        );
    }
}

#[test]
fn a_secret_is_long_enough_and_no_public_key() {
    let least = "x".repeat(SECRET_BYTES_MIN);
    let problem = |content: &str| loaded("HS256", content).expect_err("it is too short");
    for taken in [
        least.clone(),
        format!("{least}\n"),
        format!("{least}\r\n"),
        format!("{least}x"),
    ] {
        assert_eq!(loaded("HS256", &taken), Ok("HS256"), "{taken:?}");
    }
    // The line's end is not part of it.
    for short in [&least[1..], &format!("{}\n", &least[1..]), ""] {
        assert!(
            problem(short).contains("the secret is shorter than 32 bytes"),
            "{short:?}"
        );
    }
    assert!(problem(RSA).contains("a PEM file can't be an HMAC secret"));
}

#[test]
fn keys_of_a_configuration_are_those_of_its_filters() {
    let folder = Folder::new();
    let secret = folder.file("secret", "x".repeat(32));
    let set = |key: String| format!(r#"{{"keys":[{key}]}}"#);
    let short = folder.file(
        "short",
        set(rsa_jwk(r#","kid":"b""#) + r#",{"kty":"RSA","kid":"s\n","n":"AQAB","e":"AQAB"}"#),
    );
    let set = folder.file("set", set(rsa_jwk(r#","kid":"b""#)));
    let jwt = |sets| Jwt {
        issuer: None,
        audience: Vec::new(),
        leeway: Duration::ZERO,
        keys: vec![JwtKey {
            id: Some("a".to_owned()),
            algorithm: "HS256",
            file: secret.clone(),
        }],
        sets,
        remote: None,
        from: Vec::new(),
        forward_claims: Vec::new(),
        cache_entries: 0,
    };
    let keys = load(&jwt(vec![set])).expect("valid files");
    let names = keys.iter().map(|key| (key.id.clone(), key.name));
    let named = |id: &str, name| (Some(id.to_owned()), name);
    assert_eq!(
        names.collect::<Vec<_>>(),
        [named("a", "HS256"), named("b", "RS256")]
    );
    let empty = folder.file("empty", r#"{"keys":[]}"#);
    let error = load(&jwt(vec![empty])).expect_err("no key").to_string();
    assert!(error.contains("no key that verifies signatures"), "{error}");
    let error = load(&jwt(vec![folder.0.join("none")]));
    assert!(error.is_err());
    let error = load(&jwt(vec![short])).expect_err("one is short");
    let says = r#"key "s\n": RSA key of 17 bits, 2048 to 8192 are allowed"#;
    assert!(error.to_string().contains(says), "{error}");
}

/// The algorithms of a set's keys.
fn algorithms(keys: &[&str]) -> Vec<&'static str> {
    let text = format!(r#"{{"keys":[{}]}}"#, keys.join(","));
    let keys = parse_set(text.as_bytes());
    keys.map_or(Vec::new(), |set| {
        set.keys.iter().map(|key| key.name).collect()
    })
}

#[test]
fn keys_of_a_set_have_the_algorithm_that_they_name_or_the_usual_one() {
    let curve = |name, x, y| format!(r#"{{"kty":"EC","crv":"{name}","x":"{x}","y":"{y}"}}"#);
    let coordinate = "A".repeat(43);
    let p256 = [
        "TtOsJVniybN6Bdsvo1k9uzzP-8p59U0ftBu9p-A9l-0",
        "4nBfX-eMFStKlDfwgqZfPeLzJ7xQJbDyWPSV6TEXp4E",
    ];
    let p384 = [
        "FDBPjFobjOrcO-esOeUVxlPpx1Z_ZeRnTbjTcKC0YbgxVAjAFo9lUfiiaTYDW3IK",
        "OnIejTii09hfAXn_3ZMYL4xrWL53cUeDMca1T7jNLrRN0W8OMEptnOG5dZ9_zq6E",
    ];
    let rsa = rsa_jwk;
    let ed = format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{coordinate}"}}"#);
    let oct = |more| format!(r#"{{"kty":"oct","k":"{coordinate}"{more}}}"#);
    for (key, expected) in [
        (rsa(""), Some("RS256")),
        (rsa(r#","alg":"PS384""#), Some("PS384")),
        (rsa(r#","use":"sig""#), Some("RS256")),
        // For others to encrypt with.
        (rsa(r#","use":"enc""#), None),
        (rsa(r#","alg":"RSA-OAEP""#), None),
        (rsa(r#","key_ops":["verify"]"#), Some("RS256")),
        (rsa(r#","key_ops":["sign","verify"]"#), Some("RS256")),
        (rsa(r#","use":"sig","key_ops":["verify"]"#), Some("RS256")),
        (rsa(r#","key_ops":["sign"]"#), None),
        (rsa(r#","key_ops":["encrypt","wrapKey"]"#), None),
        (rsa(r#","key_ops":["x-other"]"#), None),
        (rsa(r#","key_ops":[]"#), None),
        (rsa(r#","use":"sig","key_ops":["deriveKey"]"#), None),
        // Everybody knows it.
        (rsa(r#","alg":"HS256""#), None),
        (oct(""), None),
        (oct(r#","alg":"HS256""#), None),
        // It is another kind of key.
        (rsa(r#","alg":"ES256""#), None),
        (curve("P-256", p256[0], p256[1]), Some("ES256")),
        (curve("P-384", p384[0], p384[1]), Some("ES384")),
        (curve("P-521", p384[0], p384[1]), None),
        // No such point is on the curve.
        (curve("P-256", &*coordinate, &*coordinate), None),
        (ed, Some("EdDSA")),
    ] {
        let expected: Vec<_> = expected.into_iter().collect();
        assert_eq!(algorithms(&[&key]), expected, "{key}");
    }
}

#[test]
fn a_set_has_so_many_keys() {
    let key = rsa_jwk("");
    let keys = |count| algorithms(&vec![&*key; count]).len();
    assert_eq!(keys(JWKS_KEYS_MAX), JWKS_KEYS_MAX);
    assert_eq!(keys(JWKS_KEYS_MAX + 1), 0);
}

#[test]
fn a_key_of_a_set_that_would_verify_nothing_is_left_out_and_named() {
    let of = |first: u8, bytes: usize| {
        let mut modulus = vec![0xff; bytes];
        modulus[0] = first;
        let modulus = URL_SAFE_NO_PAD.encode(modulus);
        format!(r#"{{"kty":"RSA","n":"{modulus}","e":"AQAB"}}"#)
    };
    let unfit = |key: &str| {
        let text = format!(r#"{{"keys":[{},{key}]}}"#, rsa_jwk(""));
        let set = parse_set(text.as_bytes()).expect("one is good");
        assert_eq!(set.keys.len() + set.unfit.len(), 2);
        set.unfit.into_iter().next()
    };
    assert_eq!(unfit(&of(0x80, 256)), None);
    assert_eq!(unfit(&of(0xff, 1024)), None);
    let bits = |bits| Some(format!("RSA key of {bits} bits, 2048 to 8192 are allowed"));
    assert_eq!(unfit(&of(0x7f, 256)), bits(2047));
    assert_eq!(unfit(&of(0x01, 1025)), bits(8193));
    // RFC 7518 §6.3.1.1: without zeros before it.
    let other = Some("not a public key for RS256".to_owned());
    assert_eq!(unfit(&of(0, 257)), other);
    // Where there is no other one, that is what is wrong with the set.
    let text = format!(r#"{{"keys":[{}]}}"#, of(0x7f, 256));
    assert_eq!(parse_set(text.as_bytes()).err(), bits(2047));
}

#[test]
fn sets_have_keys_of_public_algorithms_alone() {
    for (algorithm, _) in ALGORITHMS {
        assert_eq!(
            is_of_sets(algorithm),
            !algorithm.starts_with("HS"),
            "{algorithm}"
        );
    }
    for unknown in ["none", "", "RS", "HS", "ES512", "rs256"] {
        assert!(!is_of_sets(unknown), "{unknown}");
    }
}
