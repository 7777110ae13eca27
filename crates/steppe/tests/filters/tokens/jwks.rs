//! Keys behind a URL: fetched, rotated, removed, and the effect of a flood of tokens.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use jsonwebtoken::jwk::Jwk;
use steppe_testkit::{Authority, FieldSection, H2Peer, Leaf, OriginPeer, TlsServer, eventually};

use super::*;

/// An issuer whose set is behind a URL.
struct Issuer {
    server: RawOrigin,
    answer: Arc<Mutex<String>>,
    asked: Arc<AtomicUsize>,
}

/// A key of the issuer.
struct Signer {
    key: EncodingKey,
    id: String,
}

impl Issuer {
    fn start(answer: String) -> Self {
        Self::serving(answer, |script| RawOrigin::start(script))
    }

    fn serving(
        answer: String,
        serve: impl FnOnce(Box<dyn Fn(&mut OriginPeer) + Send + Sync>) -> RawOrigin,
    ) -> Self {
        let answer = Arc::new(Mutex::new(answer));
        let asked: Arc<AtomicUsize> = Arc::default();
        let (said, count) = (Arc::clone(&answer), Arc::clone(&asked));
        let server = serve(Box::new(move |peer| {
            while peer.request().is_some() {
                count.fetch_add(1, Ordering::SeqCst);
                let answer = said.lock().expect("no test panicked").clone();
                if peer.try_send(answer.as_bytes()).is_err() {
                    return;
                }
            }
        }));
        Self {
            server,
            answer,
            asked,
        }
    }

    fn says(&self, answer: String) {
        *self.answer.lock().expect("no test panicked") = answer;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// The keys of a `jwt` filter that trusts the issuer.
    fn trusted(&self, more: &str) -> String {
        format!("jwks = {{ url = \"{}\"{more} }}", self.url("/jwks.json"))
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.address())
    }
}

impl Signer {
    fn new(id: &str) -> Self {
        let key = rcgen::KeyPair::generate().expect("random numbers");
        let key = EncodingKey::from_ec_der(&key.serialize_der());
        let id = id.to_owned();
        Self { key, id }
    }

    fn jwk(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.key, Algorithm::ES256).expect("a key");
        jwk.common.key_id = Some(self.id.clone());
        json!(jwk)
    }

    fn token(&self) -> String {
        let header = Header {
            kid: Some(self.id.clone()),
            ..Header::new(Algorithm::ES256)
        };
        sign(&header, json!({ "sub": "ann" }), &self.key)
    }
}

fn set(keys: &[&Signer]) -> String {
    let keys: Vec<_> = keys.iter().map(|signer| signer.jwk()).collect();
    ok(&json!({ "keys": keys }).to_string())
}

fn ok(content: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{content}",
        content.len()
    )
}

fn fetches(node: &Steppe, result: &str) -> f64 {
    let labels = [("filter", "jwt"), ("result", result)];
    node.metrics()
        .sum("steppe_http_jwks_fetches_total", &labels)
}

#[test]
fn a_set_is_fetched_once_for_all_that_wait_for_it() {
    let signer = Signer::new("1");
    // The first fetch is answered once ten requests wait.
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().expect("no test panicked");
    let (inner, answer) = (Arc::clone(&gate), set(&[&signer]));
    let issuer = Issuer::serving(answer, move |script| {
        RawOrigin::start(move |peer| {
            drop(inner.lock());
            script(peer);
        })
    });
    let site = Site::start(Protocol::H1, &issuer.trusted(""), "", "");
    let token = signer.token();
    let mut clients: Vec<_> = (0..10).map(|_| site.node.connect()).collect();
    for client in &mut clients {
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
            bearer(&token)
        ));
    }
    eventually("all wait", || {
        site.node.metrics().sum("steppe_http_jwks_waiting", &[]) == 10.0
    });
    assert_eq!(site.origin.received(), "");
    drop(closed);
    for client in &mut clients {
        assert_eq!(client.response().status(), 200);
    }
    assert_eq!(issuer.asked(), 1);
    // The last of them is answered a moment before it is counted as gone.
    eventually("none waits", || {
        site.node.metrics().sum("steppe_http_jwks_waiting", &[]) == 0.0
    });
    let metrics = site.node.metrics();
    assert_eq!(
        metrics.sum("steppe_http_jwks_keys", &[("filter", "jwt")]),
        1.0
    );
    assert!(site.node.admin_get("/config").text().contains("/jwks.json"));
}

#[test]
fn a_key_that_is_new_is_fetched_and_one_that_is_gone_vouches_for_nobody() {
    over_each(|protocol| {
        let (first, second) = (Signer::new("1"), Signer::new("2"));
        let issuer = Issuer::start(set(&[&first]));
        let more = ", refresh = \"1h\", cooldown = \"1s\"";
        let site = Site::start(protocol, &issuer.trusted(more), "", "");
        let (old, new) = (first.token(), second.token());
        // Verified, then cached.
        assert_eq!((site.status(&old), site.status(&old)), (200, 200));
        issuer.says(set(&[&second]));
        // Within the cooldown the key is not fetched.
        eventually("the new key is known", || site.status(&new) == 200);
        assert_eq!(site.status(&old), 401);
        assert_eq!(issuer.asked(), 2);
        assert_eq!(fetches(&site.node, "changed"), 2.0);
    });
}

/// A key without a name may have signed any token: a failure may mean that there is a newer key.
#[test]
fn a_nameless_key_that_is_new_is_fetched() {
    let nameless = |signer: &Signer| {
        let mut jwk = signer.jwk();
        jwk.as_object_mut().expect("an object").remove("kid");
        ok(&json!({ "keys": [jwk] }).to_string())
    };
    over_each(|protocol| {
        let (first, second) = (Signer::new("1"), Signer::new("2"));
        let issuer = Issuer::start(nameless(&first));
        let more = ", refresh = \"1h\", cooldown = \"1s\"";
        let site = Site::start(protocol, &issuer.trusted(more), "", "");
        assert_eq!(site.status(&first.token()), 200);
        issuer.says(nameless(&second));
        eventually("the new key is known", || {
            site.status(&second.token()) == 200
        });
        assert_eq!(site.status(&first.token()), 401);
    });
}

/// A key set that a reload removes is neither fetched nor awaited any more.
#[test]
fn a_set_that_a_reload_takes_away_is_not_waited_for() {
    let (known, unknown) = (Signer::new("1"), Signer::new("2"));
    let issuer = Issuer::start(set(&[&known]));
    let keys = issuer.trusted(", refresh = \"1h\", cooldown = \"1s\"");
    let edit = "[http.filter.edit]\nkind = \"transform\"\nrequest_json = { remove = [\"a\"] }\n";
    let site = Site::start(Protocol::H1, &keys, "", edit);
    let reload = |config: &NodeConfig| {
        site.node.set_config(config);
        assert_eq!(site.node.admin_post("/reload").status(), 200);
    };
    let edited_first = site.config.clone();
    let edited_first = edited_first.route("all", |r| r.filters(["edit", "jwt"]));
    reload(&edited_first);
    eventually("the set is there", || fetches(&site.node, "changed") == 1.0);
    // The request has its old filters, and reaches the one with the set after the next reload.
    let mut client = site.node.connect();
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: a\r\n{}Content-Type: application/json\r\n\
         Content-Length: 2\r\nExpect: 100-continue\r\n\r\n",
        bearer(&unknown.token())
    ));
    let go_on = client.head().expect("it is asked for its content");
    assert!(go_on.start.contains(" 100 "), "{go_on:?}");
    reload(&edited_first.filter("jwt", |f| f.set("jwks.url", issuer.url("/other.json"))));
    // No fetch follows after a cooldown, either; `steppe-http` tests that in virtual time.
    client.send("{}");
    assert_eq!(client.response().status(), 401);
}

#[test]
fn a_set_that_can_not_be_had_again_stays() {
    over_each(|protocol| {
        let signer = Signer::new("1");
        let issuer = Issuer::start(set(&[&signer]));
        let more = ", refresh = \"1s\", cooldown = \"1s\"";
        let site = Site::start(protocol, &issuer.trusted(more), "cache_entries = 0", "");
        let token = signer.token();
        assert_eq!(site.status(&token), 200);
        for answer in [
            "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n".to_owned(),
            ok("{}"),
            ok("{\"keys\":[]}"),
            ok("no JSON"),
            // Longer than the limit of a set.
            ok(&format!("{{\"keys\":[\"{}\"]}}", "x".repeat(300 << 10))),
            // A response that is cut off.
            "HTTP/1.1 200 OK\r\ncontent-length: 100\r\nconnection: close\r\n\r\n{".to_owned(),
        ] {
            issuer.says(answer);
            let failed = fetches(&site.node, "failed");
            eventually("a fetch failed", || fetches(&site.node, "failed") > failed);
            assert_eq!(site.status(&token), 200);
        }
    });
}

#[test]
fn a_node_starts_without_its_issuer_and_says_so() {
    over_each(|protocol| {
        let signer = Signer::new("1");
        let issuer = Issuer::start(
            "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n".to_owned(),
        );
        let keys = format!("{HS}\n{}", issuer.trusted(", cooldown = \"1s\""));
        let site = Site::start(protocol, &keys, "", "");
        let answer = site.ask("GET", "/", &bearer(&signer.token()));
        assert_eq!(
            (answer.status(), answer.field("retry-after")),
            (503, Some("1"))
        );
        // Keys of files are available, and algorithms that no set can have are refused.
        assert_eq!(site.status(&signed(json!({ "sub": "ann" }))), 200);
        let key = EncodingKey::from_secret(SECRET.as_bytes());
        let other = sign(&Header::new(Algorithm::HS512), json!({}), &key);
        assert_eq!(site.status(&other), 401);
        issuer.says(set(&[&signer]));
        eventually("the set is there", || site.status(&signer.token()) == 200);
    });
}

#[test]
fn a_flood_of_unknown_keys_is_one_fetch_a_cooldown() {
    let signer = Signer::new("1");
    let issuer = Issuer::start(set(&[&signer]));
    let site = Site::start(Protocol::H1, &issuer.trusted(", cooldown = \"1h\""), "", "");
    assert_eq!(site.status(&signer.token()), 200);
    let token = signer.token();
    let (_, rest) = token.split_once('.').expect("a token");
    let mut client = site.node.connect();
    for batch in 0..100 {
        let mut asked = String::new();
        for number in 0..100 {
            let kid = format!("{batch}-{number}");
            let header = json!({ "alg": "ES256", "kid": kid }).to_string();
            let header =
                base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, header);
            let token = format!("{header}.{rest}");
            asked += &format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", bearer(&token));
        }
        client.send(asked);
        for _ in 0..100 {
            assert_eq!(client.response().status(), 401);
        }
    }
    let mut client = H2Peer::connect(site.node.gateway());
    for number in 0..1000 {
        let header = json!({ "alg": "ES256", "kid": format!("h2-{number}") }).to_string();
        let header =
            base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, header);
        let token = format!("Bearer {header}.{rest}");
        let asked = FieldSection::of("GET", "/").field("authorization", token);
        assert_eq!(client.exchange(&asked).status, Some(401));
    }
    assert_eq!(issuer.asked(), 1);
}

const MOVED: &[u8] =
    b"HTTP/1.1 301 Moved Permanently\r\nlocation: /keys\r\ncontent-length: 0\r\n\r\n";

#[test]
fn nothing_is_fetched_from_where_a_redirection_or_a_token_leads() {
    over_each(|protocol| {
        let signer = Signer::new("1");
        let elsewhere = Issuer::start(set(&[&signer]));
        let address = elsewhere.server.address();
        let issuer = Issuer::start(format!(
            "HTTP/1.1 302 Found\r\nlocation: http://{address}/jwks.json\r\ncontent-length: 0\r\n\r\n"
        ));
        let site = Site::start(protocol, &issuer.trusted(", cooldown = \"1h\""), "", "");
        let header = Header {
            kid: Some("1".to_owned()),
            jku: Some(format!("http://{address}/jwks.json")),
            jwk: serde_json::from_value(signer.jwk()).ok(),
            ..Header::new(Algorithm::ES256)
        };
        let token = sign(&header, json!({ "sub": "ann" }), &signer.key);
        assert_eq!(site.status(&token), 503);
        assert_eq!((issuer.asked(), elsewhere.asked()), (1, 0));
        // A redirect to another path of the same server is followed.
        let count = Arc::new(AtomicUsize::new(0));
        let (counted, answer) = (Arc::clone(&count), set(&[&signer]));
        let moved = RawOrigin::replying(move |_| match counted.fetch_add(1, Ordering::SeqCst) {
            0 => MOVED.to_vec(),
            _ => answer.clone().into_bytes(),
        });
        let keys = format!(
            "jwks = {{ url = \"http://{}/jwks.json\" }}",
            moved.address()
        );
        let site = Site::start(protocol, &keys, "", "");
        assert_eq!(site.status(&signer.token()), 200);
        assert!(moved.received().contains("GET /keys HTTP/1.1"));
        assert_eq!(count.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn a_set_comes_by_https_from_a_server_that_is_verified() {
    over_each(|protocol| {
        let signer = Signer::new("1");
        let authority = Authority::new("jwks");
        let issued = authority.issue(&Leaf::named(&["127.0.0.1"]));
        let issuer = Issuer::serving(set(&[&signer]), |script| {
            RawOrigin::start_tls(TlsServer::showing(&issued), script)
        });
        let scratch = Scratch::new("jwks");
        let site = |ca: &str| {
            let file = scratch.path().join("ca.pem");
            std::fs::write(&file, ca).expect("a file");
            let address = issuer.server.address();
            let keys = format!(
                "jwks = {{ url = \"https://{address}/jwks.json\", ca = \"{}\", cooldown = \"1s\" }}",
                file.display()
            );
            Site::start(protocol, &keys, "", "")
        };
        let stranger = site(&Authority::new("another").pem());
        assert_eq!(stranger.status(&signer.token()), 503);
        assert_eq!(issuer.asked(), 0);
        let trusting = site(&authority.pem());
        eventually("the set is there", || {
            trusting.status(&signer.token()) == 200
        });
    });
}

#[test]
fn a_reload_keeps_the_set_that_there_is() {
    over_each(|protocol| {
        let signer = Signer::new("1");
        let issuer = Issuer::start(set(&[&signer]));
        let site = Site::start(protocol, &issuer.trusted(""), "", "");
        assert_eq!(site.status(&signer.token()), 200);
        issuer.says(ok("nothing"));
        assert_eq!(site.node.admin_post("/reload").status(), 200);
        assert_eq!(site.status(&signer.token()), 200);
        assert_eq!(issuer.asked(), 1);
    });
}
