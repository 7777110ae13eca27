//! Tokens signed with a known key, with claims that take far more memory than their text.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use steppe_testkit::{NodeConfig, Peer, RawOrigin, Steppe, is_left_to_long_tier};

use crate::flood::{Flood, SilentOrigin};

const SECRET: &str = "a secret that is long enough for HS256";
/// A response that closes: an idle connection to a server would stay charged for a minute.
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
const TOKENS: usize = 1100;
/// Bytes of the longest token that the node verifies.
const TOKEN_BYTES_MAX: usize = 8 << 10;
/// Lifetime of tokens from the beginning of the attack; they are dropped then.
const LIFETIME: Duration = Duration::from_secs(20);

/// The content of claims.
#[derive(Debug, Clone, Copy)]
enum Claims {
    /// 560 objects with one member of no name.
    Objects,
    /// 1,900 numbers.
    Numbers,
    /// Roles in 125 clients, as Keycloak has them.
    Roles,
}

impl Claims {
    #[expect(
        clippy::disallowed_methods,
        reason = "tokens expire by the time of day"
    )]
    fn of(self, at: usize) -> Value {
        let mut claims = match self {
            Self::Objects => json!({ "a": vec![json!({ "": 0 }); 560] }),
            Self::Numbers => json!({ "a": vec![1; 1900] }),
            Self::Roles => {
                let client = |at| (format!("client-{at:03}"), json!({ "roles": ["view"] }));
                let clients: serde_json::Map<_, _> = (0..125).map(client).collect();
                json!({ "resource_access": clients })
            }
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let ends_at = now.expect("after 1970") + LIFETIME;
        claims["exp"] = json!(ends_at.as_secs());
        claims["jti"] = json!(at.to_string());
        claims
    }

    fn token(self, at: usize) -> String {
        let key = EncodingKey::from_secret(SECRET.as_bytes());
        let token = encode(&Header::new(Algorithm::HS256), &self.of(at), &key).expect("a token");
        assert!(token.len() <= TOKEN_BYTES_MAX, "{}", token.len());
        token
    }

    fn request(self, at: usize) -> String {
        let token = self.token(at);
        format!("GET /flood/a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n")
    }
}

/// A node whose route `flood` requires tokens, and caches so many of them.
fn guarded(case: &str, address: std::net::SocketAddr, cache_entries: i32) -> Flood {
    let guard = |config: NodeConfig| {
        config
            .listener(|l| l.set("limits.header_bytes", "16KiB"))
            .add_filter("jwt", |f| {
                f.set("kind", "jwt")
                    .set("leeway", "0s")
                    .set("cache_entries", cache_entries)
                    .with_toml(
                        "keys = [{ algorithm = \"HS256\", secret_file = \"{scratch}/hs.key\" }]",
                    )
            })
            .route("flood", |r| r.filters(["jwt"]))
    };
    Flood::new(case, 64)
        .builder(|builder| builder.with_file("hs.key", SECRET))
        .toward(address, "h1")
        .config(guard)
}

/// Sends each token once, one after the other: all of them are valid, and as many as allowed are cached.
fn distinct_tokens(claims: Claims) {
    let origin = RawOrigin::answering(OK);
    let case = format!("1,100 distinct tokens: {claims:?}");
    guarded(&case, origin.address(), 1024).run(|node: &Steppe| {
        let mut peer = node.connect();
        for at in 0..TOKENS {
            let answer = peer.send(claims.request(at)).response();
            assert_eq!(answer.status(), 200, "token {at}");
        }
        peer
    });
}

/// Sends a token on each of as many connections, whose requests wait for their server.
fn tokens_in_flight(claims: Claims) {
    let origin = SilentOrigin::start();
    let case = format!("1,100 tokens in flight: {claims:?}");
    guarded(&case, origin.address(), 0).run(|node: &Steppe| {
        let connect = |at| {
            let mut peer: Peer = node.connect();
            let _ = peer.try_send(claims.request(at).as_bytes());
            peer
        };
        (0..TOKENS).map(connect).collect::<Vec<_>>()
    });
}

#[test]
fn distinct_tokens_of_many_objects() {
    distinct_tokens(Claims::Objects);
}

#[test]
fn distinct_tokens_of_many_numbers() {
    if !is_left_to_long_tier("distinct_tokens_of_many_numbers") {
        distinct_tokens(Claims::Numbers);
    }
}

#[test]
fn distinct_tokens_of_many_roles() {
    if !is_left_to_long_tier("distinct_tokens_of_many_roles") {
        distinct_tokens(Claims::Roles);
    }
}

#[test]
fn tokens_in_flight_of_many_objects() {
    tokens_in_flight(Claims::Objects);
}

#[test]
fn tokens_in_flight_of_many_numbers() {
    if !is_left_to_long_tier("tokens_in_flight_of_many_numbers") {
        tokens_in_flight(Claims::Numbers);
    }
}

#[test]
fn tokens_in_flight_of_many_roles() {
    if !is_left_to_long_tier("tokens_in_flight_of_many_roles") {
        tokens_in_flight(Claims::Roles);
    }
}

/// Cached tokens are freed only by their expiry here: no reservation needs the account's memory, and no token replaces
/// another.
#[test]
fn tokens_that_expired_are_given_up() {
    let origin = RawOrigin::answering(OK);
    // The account has to return to its former value, which the harness awaits.
    guarded("900 tokens that expire", origin.address(), 100_000).run(|node: &Steppe| {
        let (mut peer, before) = (node.connect(), reserved_bytes(node));
        for at in 0..900 {
            let claims = json!({ "jti": at.to_string(), "exp": Claims::Roles.of(at)["exp"] });
            let key = EncodingKey::from_secret(SECRET.as_bytes());
            let token = encode(&Header::new(Algorithm::HS256), &claims, &key).expect("a token");
            let request = format!(
                "GET /flood/a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"
            );
            assert_eq!(peer.send(request).response().status(), 200);
        }
        let kept = reserved_bytes(node) - before;
        assert!(kept > 900 * 512, "{kept} bytes are kept");
        peer
    });
}

/// Bytes reserved for tokens and for the table of their places.
fn reserved_bytes(node: &Steppe) -> u64 {
    let report = node.admin_json("/memory");
    let children = |account: &Value| account["children"].as_array().cloned().unwrap_or_default();
    let find = |account: &Value, name: &str| {
        let found = children(account)
            .into_iter()
            .find(|child| child["name"] == name);
        found.unwrap_or_else(|| panic!("no account {name}: {report}"))
    };
    let tokens = find(&find(&report["budget"], "filters"), "tokens jwt");
    tokens["reserved_bytes"].as_u64().expect("a number")
}
