//! Keys of files and sets, and what is none.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;

const RSA: &str = "-----BEGIN PUBLIC KEY-----
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
const ED25519: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA/hRkc2c2wrr3z4K6eE9OfCGj+Nv4v1e4OKXepXzGK/w=
-----END PUBLIC KEY-----
";

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

/// What a file with this in it is as a key of `algorithm`: the name that it has, or what is wrong.
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
        for (kind, content) in [("HS", &*secret), ("RS", RSA), ("ES", P256), ("Ed", ED25519)] {
            let own = match &algorithm[..2] {
                "PS" => "RS",
                own => own,
            };
            let loaded = loaded(algorithm, content);
            let is_taken = loaded.as_ref().is_ok_and(|name| *name == algorithm);
            assert_eq!(is_taken, own == kind, "{kind} for {algorithm}: {loaded:?}");
        }
    }
    assert!(loaded("none", &secret).is_err_and(|error| error.contains("none is not known")));
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
            problem(short).contains("a secret has at least 32 bytes"),
            "{short:?}"
        );
    }
    assert!(problem(RSA).contains("a PEM file is no secret"));
}

#[test]
fn keys_of_a_configuration_are_those_of_its_filters() {
    let folder = Folder::new();
    let secret = folder.file("secret", "x".repeat(32));
    let set = folder.file(
        "set",
        r#"{"keys":[{"kty":"RSA","kid":"b","n":"AQAB","e":"AQAB"}]}"#,
    );
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
    let config = |sets| config::Gateway {
        filters: vec![
            config::Filter {
                name: "rules".to_owned(),
                kind: FilterKind::Authorize(Vec::new()),
            },
            config::Filter {
                name: "tokens".to_owned(),
                kind: FilterKind::Jwt(jwt(sets)),
            },
        ],
        ..config::Gateway::default()
    };
    let keys = JwtKeys::load(&config(vec![set])).expect("valid files");
    let of = |filter| {
        let keys = keys.of(filter);
        let names = keys.iter().map(|key| (key.id.clone(), key.name));
        names.collect::<Vec<_>>()
    };
    let named = |id: &str, name| (Some(id.to_owned()), name);
    assert_eq!(of("tokens"), [named("a", "HS256"), named("b", "RS256")]);
    assert!(of("rules").is_empty());
    let empty = folder.file("empty", r#"{"keys":[]}"#);
    let error = JwtKeys::load(&config(vec![empty]))
        .expect_err("no key")
        .to_string();
    assert!(
        error.contains("no key of it verifies signatures"),
        "{error}"
    );
    let error = JwtKeys::load(&config(vec![folder.0.join("none")]));
    assert!(error.is_err());
}

/// The algorithms of a set's keys.
fn algorithms(keys: &[&str]) -> Vec<&'static str> {
    let text = format!(r#"{{"keys":[{}]}}"#, keys.join(","));
    let keys = parse_set(text.as_bytes());
    keys.map_or(Vec::new(), |keys| keys.iter().map(|key| key.name).collect())
}

#[test]
fn keys_of_a_set_have_the_algorithm_that_they_name_or_the_usual_one() {
    let coordinate = "A".repeat(43);
    let curve =
        |name| format!(r#"{{"kty":"EC","crv":"{name}","x":"{coordinate}","y":"{coordinate}"}}"#);
    let rsa = |more| format!(r#"{{"kty":"RSA","n":"AQAB","e":"AQAB"{more}}}"#);
    let ed = format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{coordinate}"}}"#);
    let oct = |more| format!(r#"{{"kty":"oct","k":"{coordinate}"{more}}}"#);
    for (key, expected) in [
        (rsa(""), Some("RS256")),
        (rsa(r#","alg":"PS384""#), Some("PS384")),
        (rsa(r#","use":"sig""#), Some("RS256")),
        // For others to encrypt with.
        (rsa(r#","use":"enc""#), None),
        (rsa(r#","alg":"RSA-OAEP""#), None),
        // Everybody knows it.
        (rsa(r#","alg":"HS256""#), None),
        (oct(""), None),
        (oct(r#","alg":"HS256""#), None),
        (curve("P-256"), Some("ES256")),
        (curve("P-384"), Some("ES384")),
        (curve("P-521"), None),
        (ed, Some("EdDSA")),
    ] {
        let expected: Vec<_> = expected.into_iter().collect();
        assert_eq!(algorithms(&[&key]), expected, "{key}");
    }
}

#[test]
fn a_set_has_so_many_keys() {
    let keys = |count| algorithms(&vec![r#"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#; count]).len();
    assert_eq!(keys(JWKS_KEYS_MAX), JWKS_KEYS_MAX);
    assert_eq!(keys(JWKS_KEYS_MAX + 1), 0);
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
