//! `jwt` and `authorize` on the wire: tokens that pass, and the requests that they permit.

mod algorithms;
mod api_keys;
mod attacks;
mod authorize;
mod beside;
mod explained;
mod jwks;
mod others;

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use steppe_testkit::{Curl, Message, NodeConfig, RawOrigin, Scratch, Steppe};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const SECRET: &str = "a secret that is long enough for HS256";

/// The protocol of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    H1,
    H2,
}

/// Runs a test over each protocol.
fn over_each(test: impl Fn(Protocol)) {
    [Protocol::H1, Protocol::H2].into_iter().for_each(test);
}

/// A node that requires tokens of these keys; `more` belongs to the `jwt` filter.
struct Site {
    protocol: Protocol,
    scratch: Scratch,
    origin: RawOrigin,
    node: Steppe,
    config: NodeConfig,
}

impl Site {
    fn start(protocol: Protocol, keys: &str, more: &str, filters: &str) -> Self {
        let (scratch, origin) = (Scratch::new("tokens"), RawOrigin::answering(OK));
        std::fs::write(scratch.path().join("hs.key"), SECRET).expect("a file");
        let folder = scratch.path().display().to_string();
        for (name, algorithm) in [
            ("rsa", "RSA"),
            ("ec", "EC"),
            ("ec384", "EC384"),
            ("ed", "ED25519"),
        ] {
            if keys.contains(&format!("/{name}.pub")) {
                key_pair(&folder, name, algorithm);
            }
        }
        let config = guarded_by(&format!("{keys}\n{more}"), filters);
        let node = start(&origin, &folder, &config);
        Self {
            protocol,
            scratch,
            origin,
            node,
            config,
        }
    }

    fn ask(&self, method: &str, target: &str, fields: &str) -> Message {
        ask(&self.node, self.protocol, method, target, fields)
    }

    /// The status of a request with this bearer token.
    fn status(&self, token: &str) -> u16 {
        self.ask("GET", "/", &bearer(token)).status()
    }

    fn private(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.scratch.path().join(format!("{name}.pem"))).expect("a key")
    }

    fn public(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.scratch.path().join(format!("{name}.pub"))).expect("a key")
    }
}

/// A configuration with a `jwt` filter with these keys, and these filters behind it. `{folder}` has its key files.
fn guarded_by(keys: &str, filters: &str) -> NodeConfig {
    let further = filters
        .split("[http.filter.")
        .skip(1)
        .filter_map(|rest| rest.split(']').next());
    let names: Vec<&str> = ["jwt"].into_iter().chain(further).collect();
    NodeConfig::plain()
        .protocols(["h1", "h2c"])
        .route("all", |r| r.filters(names))
        .add_filter("jwt", |f| f.set("kind", "jwt").with_toml(keys))
        .with_toml(filters)
}

fn start(origin: &RawOrigin, folder: &str, config: &NodeConfig) -> Steppe {
    let builder = Steppe::builder().with("origin", origin.address());
    builder.with("folder", folder).start(config)
}

fn key_pair(folder: &str, name: &str, kind: &str) {
    let private = format!("{folder}/{name}.pem");
    let (algorithm, options): (_, &[&str]) = match kind {
        "RSA" => ("RSA", &["-pkeyopt", "rsa_keygen_bits:2048"]),
        "RSA1024" => ("RSA", &["-pkeyopt", "rsa_keygen_bits:1024"]),
        "EC" => ("EC", &["-pkeyopt", "ec_paramgen_curve:P-256"]),
        "EC384" => ("EC", &["-pkeyopt", "ec_paramgen_curve:P-384"]),
        _ => (kind, &[]),
    };
    let mut args = vec!["genpkey", "-algorithm", algorithm, "-out", &private];
    args.extend(options);
    openssl(&args);
    openssl(&[
        "pkey",
        "-in",
        &private,
        "-pubout",
        "-out",
        &format!("{folder}/{name}.pub"),
    ]);
}

fn openssl(args: &[&str]) {
    let output = Command::new("openssl")
        .args(args)
        .output()
        .expect("openssl");
    assert!(output.status.success(), "{output:?}");
}

/// Sends a request; `fields` are lines of HTTP/1.
#[track_caller]
#[expect(clippy::too_many_arguments, reason = "older than the limit")]
fn ask(node: &Steppe, by: Protocol, method: &str, target: &str, fields: &str) -> Message {
    if by == Protocol::H1 {
        return node.exchange(format!(
            "{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"
        ));
    }
    let curl = Curl::new(&node.url(target));
    let curl = curl.args(["--http2-prior-knowledge", "--path-as-is", "--globoff"]);
    let curl = fields
        .lines()
        .fold(curl, |curl, line| curl.args(["-H", line]));
    let got = curl.args(["-X", method]).run();
    assert_eq!(got.exit, 0, "{method} {target}: {}", got.errors);
    Message {
        head: got.head,
        body: got.body,
        trailers: got.trailers,
        interim: Vec::new(),
    }
}

/// The output of `steppe check` for a filter with these unusable keys.
#[track_caller]
fn refused(keys: &str) -> String {
    let toml = format!(
        "[[http.listener]]\nlisten = \"127.0.0.1:8080\"\n[http.upstream.a]\nrespond = {{}}\n\
         [http.filter.f]\n{keys}\n[[http.route]]\nname = \"a\"\nupstream = \"a\"\nfilters = [\"f\"]\n"
    );
    let (status, said) = Steppe::builder().run(&["check"], &toml);
    assert_eq!(status.code(), Some(1), "{said}");
    // Long lines of a report are wrapped.
    said.replace("\n  │ ", " ")
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[expect(clippy::disallowed_methods, reason = "tokens tell the time of day")]
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("after 1970").as_secs()
}

/// A token of `claims`, with an `exp` in an hour if they have none.
fn signed(claims: Value) -> String {
    sign(
        &Header::new(Algorithm::HS256),
        claims,
        &EncodingKey::from_secret(SECRET.as_bytes()),
    )
}

fn sign(header: &Header, mut claims: Value, key: &EncodingKey) -> String {
    let members = claims.as_object_mut().expect("an object");
    members
        .entry("exp")
        .or_insert_with(|| (now() + 3600).into());
    encode(header, &claims, key).expect("a token")
}

const HS: &str =
    "keys = [{ id = \"local\", algorithm = \"HS256\", secret_file = \"{folder}/hs.key\" }]";

#[test]
fn a_valid_token_passes_and_no_token_is_asked_for() {
    over_each(|protocol| {
        let site = Site::start(protocol, HS, "", "");
        let token = signed(json!({ "sub": "ann" }));
        // The second request finds the token cached.
        assert_eq!((site.status(&token), site.status(&token)), (200, 200));
        let asked = site.ask("GET", "/", "");
        assert_eq!(
            (asked.status(), asked.field("www-authenticate")),
            (401, Some("Bearer realm=\"steppe\""))
        );
        assert_eq!(
            site.ask("GET", "/", "Authorization: Basic YTpi\r\n")
                .status(),
            401
        );
        assert_eq!(site.origin.received().matches("GET / HTTP/1.1").count(), 2);
    });
}

#[test]
fn what_is_wrong_with_a_token_is_said() {
    over_each(|protocol| {
        let site = Site::start(
            protocol,
            HS,
            "issuer = \"us\"\naudience = [\"api\", \"other\"]\nleeway = \"10s\"",
            "",
        );
        let good = json!({ "iss": "us", "aud": "api" });
        let with = |name: &str, value: Value| {
            let mut claims = good.clone();
            claims[name] = value;
            signed(claims)
        };
        for good in [
            signed(good.clone()),
            with("aud", json!(["x", "other"])),
            with("exp", json!(now() + 60)),
            with("exp", json!(now() - 5)),
            with("nbf", json!(now() + 5)),
            with("exp", json!(4e9)),
        ] {
            assert_eq!(site.status(&good), 200);
        }
        for (bad, why) in [
            (with("exp", json!(now() - 20)), "expired"),
            (with("nbf", json!(now() + 20)), "not valid yet"),
            (with("iss", json!("them")), "issuer"),
            (with("aud", json!("them")), "audience"),
            (with("aud", json!([])), "audience"),
            // Claims of a wrong type fail, never pass.
            (with("exp", json!("4000000000")), "number"),
            (with("exp", json!(null)), "number"),
            (with("exp", json!(-1)), "number"),
            (with("nbf", json!("0")), "number"),
            (with("nbf", json!({})), "number"),
            (with("iat", json!("now")), "number"),
            (with("iss", json!(["us"])), "string"),
            (with("sub", json!(1)), "string"),
            (with("aud", json!({ "api": 1 })), "`aud`"),
            (with("aud", json!(["api", 1])), "`aud`"),
        ] {
            let answer = site.ask("GET", "/", &bearer(&bad));
            assert_eq!(answer.status(), 401, "{why}");
            let says = answer.field("www-authenticate").unwrap_or_default();
            assert!(
                says.starts_with("Bearer error=\"invalid_token\"") && says.contains(why),
                "{says}: {why}"
            );
        }
    });
}

#[test]
fn a_token_without_an_end_is_none() {
    over_each(|protocol| {
        let site = Site::start(protocol, HS, "", "");
        let key = EncodingKey::from_secret(SECRET.as_bytes());
        let endless = encode(&Header::default(), &json!({ "sub": "ann" }), &key).expect("a token");
        assert_eq!(site.status(&endless), 401);
    });
}

#[test]
fn every_kind_of_key_verifies_its_own_tokens_alone() {
    over_each(|protocol| {
        let keys = "keys = [\
        { id = \"r\", algorithm = \"RS256\", public_key_file = \"{folder}/rsa.pub\" }, \
        { id = \"p\", algorithm = \"PS256\", public_key_file = \"{folder}/rsa.pub\" }, \
        { id = \"e\", algorithm = \"ES256\", public_key_file = \"{folder}/ec.pub\" }, \
        { id = \"d\", algorithm = \"EdDSA\", public_key_file = \"{folder}/ed.pub\" }]";
        let site = Site::start(protocol, keys, "", "");
        let rsa = EncodingKey::from_rsa_pem(&site.private("rsa")).expect("a key");
        let ec = EncodingKey::from_ec_pem(&site.private("ec")).expect("a key");
        let ed = EncodingKey::from_ed_pem(&site.private("ed")).expect("a key");
        let token = |algorithm, id: Option<&str>, key: &EncodingKey| {
            let header = Header {
                kid: id.map(str::to_owned),
                ..Header::new(algorithm)
            };
            sign(&header, json!({ "sub": "ann" }), key)
        };
        for (algorithm, id, key) in [
            (Algorithm::RS256, Some("r"), &rsa),
            (Algorithm::PS256, Some("p"), &rsa),
            (Algorithm::ES256, Some("e"), &ec),
            (Algorithm::EdDSA, Some("d"), &ed),
            (Algorithm::ES256, None, &ec),
        ] {
            assert_eq!(
                site.status(&token(algorithm, id, key)),
                200,
                "{algorithm:?}"
            );
        }
        for (algorithm, id, key) in [
            // A key's algorithm is its own, whatever the token's header has.
            (Algorithm::RS384, Some("r"), &rsa),
            (Algorithm::PS256, Some("r"), &rsa),
            (Algorithm::RS256, Some("e"), &rsa),
            (Algorithm::RS256, Some("../../dev/null"), &rsa),
        ] {
            assert_eq!(
                site.status(&token(algorithm, id, key)),
                401,
                "{algorithm:?} {id:?}"
            );
        }
        // An attacker signs with the public key, which is known, as if it were a secret.
        let confused = EncodingKey::from_secret(&site.public("rsa"));
        assert_eq!(
            site.status(&token(Algorithm::HS256, Some("r"), &confused)),
            401
        );
        // r = s = 0 (CVE-2022-21449).
        let signature = "A".repeat(86);
        let psychic = token(Algorithm::ES256, Some("e"), &ec);
        let (signed, _) = psychic.rsplit_once('.').expect("three parts");
        assert_eq!(site.status(&format!("{signed}.{signature}")), 401);
    });
}

#[test]
fn what_is_no_token_is_refused() {
    over_each(|protocol| {
        use base64::Engine;
        let site = Site::start(protocol, HS, "", "");
        let url = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
        let claims = url(&json!({ "sub": "ann", "exp": now() + 60 }).to_string());
        for algorithm in ["none", "None", "NoNe", "NONE"] {
            let header = url(&json!({ "alg": algorithm }).to_string());
            assert_eq!(
                site.status(&format!("{header}.{claims}.")),
                401,
                "{algorithm}"
            );
        }
        let token = signed(json!({ "sub": "ann" }));
        let tampered = token.replacen('.', ".eyJzdWIiOiJib2IifQ", 1);
        assert_eq!(site.status(&tampered), 401);
        assert_eq!(site.status(&token[..token.len() - 4]), 401);
        for text in [
            "x",
            "a.b.c",
            "....",
            &url("{}"),
            &format!("{}.x.y", url("[]")),
            &"A".repeat(9000),
        ] {
            assert_eq!(site.status(text), 400, "{}", &text[..text.len().min(20)]);
        }
        // Two tokens count as none.
        let both = bearer(&token) + &bearer(&token);
        assert_eq!(site.ask("GET", "/", &both).status(), 400);
        // A critical extension (RFC 7515 §4.1.11), and keys inside of the token.
        let key = EncodingKey::from_secret(SECRET.as_bytes());
        let parts = |header: Value| {
            let signing = format!("{}.{claims}", url(&header.to_string()));
            let signature = jsonwebtoken::crypto::sign(signing.as_bytes(), &key, Algorithm::HS256);
            format!("{signing}.{}", signature.expect("a signature"))
        };
        assert_eq!(site.status(&parts(json!({ "alg": "HS256" }))), 200);
        assert_eq!(
            site.status(&parts(
                json!({ "alg": "HS256", "crit": ["b64"], "b64": false })
            )),
            401
        );
        assert_eq!(
            site.status(&parts(json!({ "alg": "HS256", "kid": 7 }))),
            400
        );
        assert_eq!(
            site.status(&parts(json!({ "alg": "HS256", "kid": "other" }))),
            401
        );
    });
}

#[test]
fn a_token_is_found_where_it_may_be() {
    over_each(|protocol| {
        let from = "from = [\"header:authorization\", \"cookie:session\", \"query:access_token\"]";
        let site = Site::start(protocol, HS, from, "");
        let token = signed(json!({ "sub": "ann" }));
        let status = |target: &str, fields: &str| site.ask("GET", target, fields).status();
        assert_eq!(
            status("/", &format!("Cookie: a=b; session={token}\r\n")),
            200
        );
        assert_eq!(status(&format!("/?a=b&access_token={token}"), ""), 200);
        assert_eq!(status("/", &format!("Cookie: xsession={token}\r\n")), 401);
        assert_eq!(
            status("/", &format!("authorization: bEaReR  {token}\r\n")),
            200
        );
        let site = Site::start(protocol, HS, "from = [\"header:X-Token\"]", "");
        assert_eq!(
            site.ask("GET", "/", &format!("X-Token: {token}\r\n"))
                .status(),
            200
        );
        assert_eq!(site.status(&token), 401);
    });
}

#[test]
fn claims_are_told_to_servers_in_place_of_what_clients_say() {
    over_each(|protocol| {
        let more = "forward_claims = { sub = \"X-User\", \"realm.team\" = \"x-team\", admin = \"x-admin\" }";
        let site = Site::start(protocol, HS, more, "");
        let token = signed(json!({ "sub": "ann", "realm": { "team": "a" } }));
        let lies = "X-User: root\r\nx-user: admin\r\nX-Admin: true\r\n";
        assert_eq!(site.ask("GET", "/", &(bearer(&token) + lies)).status(), 200);
        let received = site.origin.received().to_ascii_lowercase();
        assert!(
            received.contains("x-user: ann\r\n") && received.contains("x-team: a\r\n"),
            "{received}"
        );
        assert!(
            !received.contains("root") && !received.contains("x-admin"),
            "{received}"
        );
        // A claim with a line break, which would end the field.
        let token = signed(json!({ "sub": "ann\r\nx-admin: true" }));
        assert_eq!(site.status(&token), 401);
    });
}

#[test]
fn keys_of_a_set_are_read_again_by_a_reload() {
    over_each(|protocol| {
        let (scratch, origin) = (Scratch::new("tokens"), RawOrigin::answering(OK));
        let folder = scratch.path().display().to_string();
        let set = |name: &str, id: &str| {
            key_pair(&folder, name, "EC");
            let private = std::fs::read(format!("{folder}/{name}.pem")).expect("a key");
            let key = EncodingKey::from_ec_pem(&private).expect("a key");
            let mut jwk =
                jsonwebtoken::jwk::Jwk::from_encoding_key(&key, Algorithm::ES256).expect("a key");
            jwk.common.key_id = Some(id.to_owned());
            let text = json!({ "keys": [jwk] }).to_string();
            std::fs::write(format!("{folder}/jwks.json"), text).expect("a file");
            let header = Header {
                kid: Some(id.to_owned()),
                ..Header::new(Algorithm::ES256)
            };
            sign(&header, json!({ "sub": "ann" }), &key)
        };
        let first = set("one", "1");
        let config = guarded_by("jwks.file = \"{folder}/jwks.json\"", "");
        let node = start(&origin, &folder, &config);
        let status = |token: &str| ask(&node, protocol, "GET", "/", &bearer(token)).status();
        assert_eq!(status(&first), 200);
        let second = set("two", "2");
        assert_eq!(status(&second), 401);
        assert_eq!(node.admin_post("/reload").status(), 200);
        assert_eq!((status(&first), status(&second)), (401, 200));
    });
}

#[test]
fn a_claim_has_a_limit_of_its_own() {
    over_each(|protocol| {
        let limit = "[http.filter.limit]\nkind = \"rate-limit\"\nrate = 1\nper = \"1h\"\nburst = 2\nkey = \"jwt:sub\"\n";
        let site = Site::start(protocol, HS, "", limit);
        let statuses = |name: &str| {
            let statuses = (0..3).map(|serial| signed(json!({ "sub": name, "serial": serial })));
            statuses
                .map(|token| site.status(&token))
                .collect::<Vec<_>>()
        };
        assert_eq!(statuses("ann"), [200, 200, 429]);
        assert_eq!(statuses("bob"), [200, 200, 429]);
    });
}

#[test]
fn a_key_that_can_not_be_used_is_named() {
    let scratch = Scratch::new("tokens");
    let folder = scratch.path().display();
    key_pair(&folder.to_string(), "rsa1024", "RSA1024");
    key_pair(&folder.to_string(), "ec384", "EC384");
    std::fs::write(scratch.path().join("short.key"), "short").expect("a file");
    std::fs::write(
        scratch.path().join("x.pub"),
        "-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----\n",
    )
    .expect("a file");
    for (key, says) in [
        (
            format!("algorithm = \"HS256\", secret_file = \"{folder}/short.key\""),
            "shorter than 32 bytes",
        ),
        (
            format!("algorithm = \"HS256\", secret_file = \"{folder}/x.pub\""),
            "can't be an HMAC secret",
        ),
        (
            format!("algorithm = \"RS256\", public_key_file = \"{folder}/x.pub\""),
            "not a PEM public key",
        ),
        (
            format!("algorithm = \"RS256\", public_key_file = \"{folder}/none\""),
            "No such file",
        ),
        (
            format!("algorithm = \"PS256\", public_key_file = \"{folder}/rsa1024.pub\""),
            "RSA key of 1024 bits, 2048 to 8192 are allowed",
        ),
        (
            format!("algorithm = \"ES256\", public_key_file = \"{folder}/ec384.pub\""),
            "ES256 requires a key on P-256, this key is on P-384",
        ),
    ] {
        let said = refused(&format!("kind = \"jwt\"\nkeys = [{{ {key} }}]"));
        assert!(said.contains(says), "{said}");
    }
    let modulus = "_".repeat(170) + "8";
    let set = json!({ "keys": [{ "kty": "RSA", "kid": "old", "n": modulus, "e": "AQAB" }] });
    scratch.write("set.json", set.to_string());
    let said = refused(&format!(
        "kind = \"jwt\"\njwks = {{ file = \"{folder}/set.json\" }}"
    ));
    let says = "key \"old\": RSA key of 1024 bits, 2048 to 8192 are allowed";
    assert!(said.contains(says), "{said}");
}
