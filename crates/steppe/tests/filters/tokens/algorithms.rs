//! Each algorithm of tokens, in each of its sizes.

use jsonwebtoken::jwk::Jwk;

use super::*;

/// The names of algorithms in a `jwt` filter, and the file with the key of each.
const ALL: [(Algorithm, &str, &str); 12] = [
    (Algorithm::HS256, "HS256", "hs.key"),
    (Algorithm::HS384, "HS384", "hs.key"),
    (Algorithm::HS512, "HS512", "hs.key"),
    (Algorithm::RS256, "RS256", "rsa.pub"),
    (Algorithm::RS384, "RS384", "rsa.pub"),
    (Algorithm::RS512, "RS512", "rsa.pub"),
    (Algorithm::PS256, "PS256", "rsa.pub"),
    (Algorithm::PS384, "PS384", "rsa.pub"),
    (Algorithm::PS512, "PS512", "rsa.pub"),
    (Algorithm::ES256, "ES256", "ec.pub"),
    (Algorithm::ES384, "ES384", "ec384.pub"),
    (Algorithm::EdDSA, "EdDSA", "ed.pub"),
];

/// The private key for the key in `file`.
fn signer(site: &Site, file: &str) -> EncodingKey {
    let private = |name| site.private(name);
    match file {
        "hs.key" => Ok(EncodingKey::from_secret(SECRET.as_bytes())),
        "rsa.pub" => EncodingKey::from_rsa_pem(&private("rsa")),
        "ec.pub" => EncodingKey::from_ec_pem(&private("ec")),
        "ec384.pub" => EncodingKey::from_ec_pem(&private("ec384")),
        _ => EncodingKey::from_ed_pem(&private("ed")),
    }
    .expect("a key")
}

fn token(algorithm: Algorithm, id: &str, key: &EncodingKey) -> String {
    let header = Header {
        kid: Some(id.to_owned()),
        ..Header::new(algorithm)
    };
    sign(&header, json!({ "sub": "ann" }), key)
}

#[test]
fn every_algorithm_verifies_its_own_tokens_and_no_other_ones() {
    let keys = ALL.map(|(_, name, file)| {
        let key = match file {
            "hs.key" => "secret_file",
            _ => "public_key_file",
        };
        format!("{{ id = \"{name}\", algorithm = \"{name}\", {key} = \"{{folder}}/{file}\" }}")
    });
    let keys = format!("keys = [{}]", keys.join(", "));
    over_each(|protocol| {
        let site = Site::start(protocol, &keys, "", "");
        for (algorithm, name, file) in ALL {
            let key = signer(&site, file);
            assert_eq!(site.status(&token(algorithm, name, &key)), 200, "{name}");
            // The same key, with another algorithm that it could sign with.
            for (other, other_name, other_file) in ALL {
                if other_file == file && other != algorithm {
                    let signed = token(other, name, &key);
                    assert_eq!(site.status(&signed), 401, "{other_name} for {name}");
                }
            }
        }
    });
}

#[test]
fn keys_of_sets_say_their_algorithm_or_have_the_usual_one() {
    let folder = Scratch::new("sets");
    let site = Site::start(
        Protocol::H1,
        "keys = [{ algorithm = \"ES256\", public_key_file = \"{folder}/ec.pub\" }, \
         { algorithm = \"ES384\", public_key_file = \"{folder}/ec384.pub\" }, \
         { algorithm = \"RS256\", public_key_file = \"{folder}/rsa.pub\" }]",
        "",
        "",
    );
    let jwk = |algorithm: Algorithm, file: &str, id: &str, is_said: bool| {
        let mut jwk = Jwk::from_encoding_key(&signer(&site, file), algorithm).expect("a key");
        jwk.common.key_id = Some(id.to_owned());
        if !is_said {
            jwk.common.key_algorithm = None;
        }
        json!(jwk)
    };
    // A key that no node can use is no error.
    let unknown =
        json!({ "kty": "EC", "crv": "P-521", "alg": "ES512", "kid": "x", "x": "AA", "y": "AA" });
    let set = json!({ "keys": [
        unknown,
        jwk(Algorithm::ES256, "ec.pub", "e", false),
        jwk(Algorithm::ES384, "ec384.pub", "f", false),
        jwk(Algorithm::PS384, "rsa.pub", "p", true),
        jwk(Algorithm::RS256, "rsa.pub", "r", false),
    ] });
    folder.write("set.json", set.to_string());
    let keys = format!(
        "jwks = {{ file = \"{}/set.json\" }}",
        folder.path().display()
    );
    over_each(|protocol| {
        let of_set = Site::start(protocol, &keys, "", "");
        for (algorithm, file, id, expected) in [
            (Algorithm::ES256, "ec.pub", "e", 200),
            (Algorithm::ES384, "ec384.pub", "f", 200),
            (Algorithm::PS384, "rsa.pub", "p", 200),
            (Algorithm::RS384, "rsa.pub", "p", 401),
            (Algorithm::RS256, "rsa.pub", "r", 200),
            (Algorithm::RS512, "rsa.pub", "r", 401),
        ] {
            let signed = token(algorithm, id, &signer(&site, file));
            assert_eq!(of_set.status(&signed), expected, "{algorithm:?} {id}");
        }
    });
}

#[test]
fn an_algorithm_that_is_not_there_is_named() {
    let key = |algorithm: &str| {
        format!(
            "kind = \"jwt\"\nkeys = [{{ algorithm = \"{algorithm}\", public_key_file = \"x\" }}]"
        )
    };
    for (algorithm, says) in [
        ("ES512", "\"ES512\" in `algorithm` is not supported yet"),
        ("none", "`algorithm` has no \"none\""),
        ("hs256", "`algorithm` has no \"hs256\""),
    ] {
        let said = refused(&key(algorithm));
        assert!(said.contains(says), "{said}");
    }
}
