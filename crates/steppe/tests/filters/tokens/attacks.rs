//! Attacks with tokens, over HTTP/1.1 and HTTP/2 alike.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use steppe_testkit::{FieldSection, H2Peer};

use super::*;

/// Sends a request by both protocols, which must give the same status.
fn status(site: &Site, method: &str, target: &str, token: Option<&str>) -> u16 {
    let field = token.map(bearer).unwrap_or_default();
    let by_h1 = site.ask(method, target, &field).status();
    let mut fields = FieldSection::of(method, target);
    if let Some(token) = token {
        fields = fields.field("authorization", format!("Bearer {token}"));
    }
    let by_h2 = H2Peer::connect(site.node.gateway()).exchange(&fields);
    assert_eq!(by_h2.status, Some(by_h1), "{method} {target}");
    by_h1
}

/// A token with this header and this signature.
fn forged(header: &Value, signature: &str) -> String {
    let claims = json!({ "sub": "root", "scope": "read write", "exp": now() + 3600 });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.{signature}", part(header), part(&claims))
}

#[test]
fn a_good_token_passes_and_none_does_not() {
    let site = Site::start(Protocol::H1, HS, "", "");
    let token = signed(json!({ "sub": "ann" }));
    assert_eq!(status(&site, "GET", "/", Some(&token)), 200);
    assert_eq!(status(&site, "GET", "/", None), 401);
    let expired = signed(json!({ "exp": now() - 3600 }));
    assert_eq!(status(&site, "GET", "/", Some(&expired)), 401);
}

#[test]
fn an_unsigned_token_is_none() {
    let site = Site::start(Protocol::H1, HS, "", "");
    for algorithm in ["none", "None", "NoNe", "NONE", "", " none", "hs256"] {
        let token = forged(&json!({ "alg": algorithm, "typ": "JWT" }), "");
        assert_eq!(status(&site, "GET", "/", Some(&token)), 401, "{algorithm}");
    }
    assert_eq!(site.origin.received(), "");
}

#[test]
fn a_public_key_is_no_secret() {
    let keys = "keys = [{ algorithm = \"RS256\", public_key_file = \"{folder}/rsa.pub\" }]";
    let site = Site::start(Protocol::H1, keys, "", "");
    let public = site.public("rsa");
    // With and without the final line feed of an editor.
    for secret in [&public[..], public.trim_ascii_end()] {
        let key = EncodingKey::from_secret(secret);
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            let token = sign(&Header::new(algorithm), json!({}), &key);
            assert_eq!(status(&site, "GET", "/", Some(&token)), 401);
        }
    }
}

#[test]
fn a_key_that_a_token_brings_along_is_nobodys() {
    let site = Site::start(Protocol::H1, HS, "", "");
    let key = EncodingKey::from_secret(b"the secret of an attacker, long enough");
    let mine = URL_SAFE_NO_PAD.encode("the secret of an attacker, long enough");
    for extra in [
        json!({ "jwk": { "kty": "oct", "k": mine } }),
        json!({ "jku": "http://127.0.0.1:1/jwks.json" }),
        json!({ "x5u": "http://127.0.0.1:1/cert.pem" }),
        json!({ "x5c": ["MIIB"] }),
        json!({ "kid": "../../../../dev/null" }),
        json!({ "kid": "local' OR '1'='1" }),
        json!({ "kid": "local\u{0}" }),
    ] {
        let mut header = json!({ "alg": "HS256" });
        let members = header.as_object_mut().expect("an object");
        members.extend(extra.as_object().expect("an object").clone());
        let unsigned = forged(&header, "");
        let unsigned = unsigned.trim_end_matches('.');
        let signature = jsonwebtoken::crypto::sign(unsigned.as_bytes(), &key, Algorithm::HS256);
        let token = format!("{unsigned}.{}", signature.expect("a signature"));
        assert_eq!(status(&site, "GET", "/", Some(&token)), 401, "{extra}");
    }
    // A `kid` that is a path reads no file: an empty file would be an empty secret.
    assert!(Path::new("/dev/null").exists());
    let empty = EncodingKey::from_secret(b"");
    let header = Header {
        kid: Some("../../../../dev/null".to_owned()),
        ..Header::new(Algorithm::HS256)
    };
    let token = sign(&header, json!({}), &empty);
    assert_eq!(status(&site, "GET", "/", Some(&token)), 401);
}

#[test]
fn a_signature_of_zeros_is_none() {
    let keys = "keys = [{ algorithm = \"ES256\", public_key_file = \"{folder}/ec.pub\" }]";
    let site = Site::start(Protocol::H1, keys, "", "");
    for signature in [
        "A".repeat(86),
        String::new(),
        "A".to_owned(),
        // A signature in DER.
        "MAYCAQACAQA".to_owned(),
    ] {
        let token = forged(&json!({ "alg": "ES256" }), &signature);
        assert_eq!(status(&site, "GET", "/", Some(&token)), 401, "{signature}");
    }
}

#[test]
fn a_token_is_not_remembered_beyond_its_end_nor_for_another() {
    let site = Site::start(Protocol::H1, HS, "leeway = \"0s\"", "");
    let token = signed(json!({ "sub": "ann", "exp": now() + 5 }));
    assert_eq!(status(&site, "GET", "/", Some(&token)), 200);
    // Differs in one letter from a cached token.
    let last = match token.ends_with('A') {
        true => "B",
        false => "A",
    };
    let other = format!("{}{last}", &token[..token.len() - 1]);
    assert_eq!(status(&site, "GET", "/", Some(&other)), 401);
    steppe_testkit::eventually("it has expired", || {
        site.ask("GET", "/", &bearer(&token)).status() == 401
    });
    assert_eq!(status(&site, "GET", "/", Some(&token)), 401);
}

#[test]
fn no_way_of_writing_a_path_gets_around_a_rule() {
    let rules = "[http.filter.rules]\nkind = \"authorize\"\nrules = [\
        { path = \"/admin/{rest*}\", any_scope = [\"admin\"] }, { path = \"/admin\", any_scope = [\"admin\"] }, \
        { methods = [\"GET\"] }]\n";
    let site = Site::start(Protocol::H1, HS, "", rules);
    let token = signed(json!({ "scope": "read" }));
    assert_eq!(status(&site, "GET", "/public", Some(&token)), 200);
    for target in [
        "/admin",
        "/admin/",
        "/admin/x",
        "/public/../admin",
        "/public/..%2fadmin",
        "/public/%2e%2e/admin",
        "/./admin",
        "/%61dmin",
        "/%61%64%6d%69%6e/x",
    ] {
        let refused = status(&site, "GET", target, Some(&token));
        assert!(matches!(refused, 403 | 400), "{target}: {refused}");
    }
    // Other spellings are other paths, and the server receives exactly the authorized one.
    for target in ["//admin", "/admin;x", "/admin%3bx", "/ADMIN"] {
        site.origin.forget();
        let answer = status(&site, "GET", target, Some(&token));
        let received = site.origin.received();
        assert!(
            matches!(answer, 400 | 403) || !received.contains("GET /admin HTTP"),
            "{target}: {answer} {received}"
        );
    }
}
