//! Tokens that pass, tokens that do not, and what either is told.

use std::time::Duration;

use aws_lc_rs::hmac;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::json;
use steppe_mem::Budget;

use super::keys::Verifier;
use super::keys::tests::rsa_jwk;
use super::*;
use crate::config::{JwksUrl, TokenSource};
use crate::filter::testing::{Exchange, field, responded};

const SECRET: &[u8] = b"a secret that is long enough for HS256";
const NOW: u64 = 1_000_000;

fn config() -> Jwt {
    Jwt {
        issuer: None,
        audience: Vec::new(),
        leeway: Duration::from_secs(60),
        keys: Vec::new(),
        sets: Vec::new(),
        remote: None,
        from: vec![TokenSource::Header("authorization".to_owned())],
        forward_claims: Vec::new(),
        cache_entries: 16,
    }
}

/// A key of HS256.
fn key(id: Option<&str>) -> Key {
    Key {
        id: id.map(str::to_owned),
        name: "HS256",
        verifier: Verifier::Secret(Box::new(hmac::Key::new(hmac::HMAC_SHA256, SECRET))),
    }
}

fn filter_with(config: Jwt, keys: Vec<Key>, remote: Option<Arc<RemoteKeys>>) -> JwtFilter {
    JwtFilter::new(config, keys.into(), remote, Budget::new(1 << 20).root())
}

fn filter(config: Jwt) -> JwtFilter {
    filter_with(config, vec![key(None)], None)
}

/// A set that was never fetched.
fn remote() -> Arc<RemoteKeys> {
    let source = JwksUrl {
        url: "http://issuer.test/".to_owned(),
        refresh: Duration::from_secs(300),
        cooldown: Duration::from_secs(30),
        ca: None,
    };
    let set = RemoteKeys::new("f", source, Budget::new(1 << 20).root());
    Arc::new(set)
}

fn token_by(header: &Header, claims: &Value, secret: &[u8]) -> String {
    jsonwebtoken::encode(header, claims, &EncodingKey::from_secret(secret)).expect("a token")
}

/// A token of these claims that does not end soon.
fn token(mut claims: Value) -> String {
    claims["exp"] = json!(u32::MAX);
    token_by(&Header::new(Algorithm::HS256), &claims, SECRET)
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// The filter's step for a request with this `Authorization`.
fn step(filter: &JwtFilter, authorization: &str) -> Step {
    let exchange = Exchange::new();
    let mut head = exchange.head("/", &[("authorization", authorization)]);
    exchange.begin(filter, &mut head)
}

/// The refusal of a token with this header and an invalid signature.
fn refused_for(filter: &JwtFilter, header: &str, remote: Option<&KeySet>) -> TokenRejection {
    let text = format!("{}.e30.AAAA", URL_SAFE_NO_PAD.encode(header));
    let claims = filter.0.signed_claims(&text, remote);
    claims.expect_err("it is not signed")
}

const BAD_SIGNATURE: TokenRejection = TokenRejection::Invalid("the signature is not valid");

#[test]
fn a_good_token_passes_and_is_told_to_the_filters_that_follow() {
    let filter = filter(config());
    let exchange = Exchange::new();
    let text = token(json!({ "sub": "ann" }));
    // The second time it is remembered.
    for _ in 0..2 {
        let mut head = exchange.head("/", &[("authorization", &bearer(&text))]);
        let step = exchange.begin(&filter, &mut head);
        assert!(matches!(step, Step::Continue), "{step:?}");
        let known = exchange.identity.token().expect("a token");
        assert_eq!(known.claim("sub"), Some(&json!("ann")));
        assert_eq!(known.ends_at, u64::from(u32::MAX) + 60);
        exchange.identity.clear();
    }
}

#[test]
fn who_is_refused_is_told_why() {
    let filter = filter(config());
    let exchange = Exchange::new();
    let missing = responded(exchange.begin(&filter, &mut exchange.head("/", &[])));
    let malformed = responded(step(&filter, "Bearer none"));
    let other = token_by(
        &Header::new(Algorithm::HS256),
        &json!({ "exp": u32::MAX }),
        b"other",
    );
    let invalid = responded(step(&filter, &bearer(&other)));
    for (respond, status, says) in [
        (missing, 401, "Bearer realm=\"steppe\""),
        (malformed, 400, "Bearer error=\"invalid_request\""),
        (
            invalid,
            401,
            "Bearer error=\"invalid_token\", error_description=\"the signature is not valid\"",
        ),
    ] {
        assert_eq!(respond.status, status);
        assert_eq!(field(&respond, "www-authenticate"), Some(says));
        assert!(!respond.body.is_empty());
    }
}

#[test]
fn tokens_have_a_greatest_length() {
    let filter = filter(config());
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#);
    let status = |bytes: usize| {
        let text = format!("{header}.{}", "x".repeat(bytes - header.len() - 1));
        responded(step(&filter, &bearer(&text))).status
    };
    // Of these one is looked at, and has no signature.
    assert_eq!(status(JWT_BYTES_MAX), 401);
    assert_eq!(status(JWT_BYTES_MAX + 1), 400);
}

#[test]
fn tokens_are_looked_for_in_the_order_of_places() {
    let config = Jwt {
        from: ["header:x-token", "cookie:t", "query:token"]
            .map(|text| TokenSource::parse(text).expect("a place"))
            .into(),
        ..config()
    };
    let filter = filter(config);
    let exchange = Exchange::new();
    let found = |target, lines: &[(&str, &str)]| {
        let head = exchange.head(target, lines);
        let found = sources::find(&filter.0.config.from, &head);
        found.map(|found| found.map(|text| String::from_utf8(text.to_vec()).expect("ASCII")))
    };
    let all = [("x-token", "in field"), ("cookie", "s=1; t=in cookie")];
    let text = |text: &str| Ok(Some(text.to_owned()));
    assert_eq!(found("/?token=in-query", &all), text("in field"));
    assert_eq!(found("/?token=in-query", &all[1..]), text("in cookie"));
    assert_eq!(found("/?tokens=0&token=in-query", &[]), text("in-query"));
    assert_eq!(found("/?tokens=0&x=token", &[]), Ok(None));
    assert_eq!(found("/", &[("authorization", "Bearer x")]), Ok(None));
    // Which one of two counts, nobody knows.
    let malformed = Err(Unfit::Malformed);
    assert_eq!(found("/?token=a&token=a", &[]), malformed);
    assert_eq!(found("/", &[("x-token", "a"), ("x-token", "a")]), malformed);
    assert_eq!(found("/", &[("cookie", "t=a; t=a")]), malformed);
}

#[test]
fn other_schemes_say_nothing_of_tokens() {
    let filter = filter(config());
    let exchange = Exchange::new();
    let found = |values: &[&str]| {
        let lines: Vec<_> = values
            .iter()
            .map(|value| ("authorization", *value))
            .collect();
        let head = exchange.head("/", &lines);
        let found = sources::find(&filter.0.config.from, &head);
        found.map(|found| found.map(<[u8]>::to_vec))
    };
    assert_eq!(found(&["bearer  a"]), Ok(Some(b"a".to_vec())));
    assert_eq!(found(&["Basic abcdefgh"]), Ok(None));
    assert_eq!(found(&["Bearer"]), Ok(None));
    let both = found(&["Basic abcdefgh", "BEARER a"]);
    assert_eq!(both, Ok(Some(b"a".to_vec())));
    assert_eq!(found(&["Bearer a", "Bearer b"]), Err(Unfit::Malformed));
}

#[test]
fn headers_that_say_too_much_or_nothing_are_refused() {
    let filter = filter(config());
    let refused = |header: &str| refused_for(&filter, header, None);
    assert_eq!(refused(r#"{"alg":"HS256"}"#), BAD_SIGNATURE);
    for malformed in [
        "[]",
        r#"["HS256"]"#,
        "{}",
        r#"{"alg":1}"#,
        r#"{"alg":null}"#,
        r#"{"alg":"none","alg":"HS256"}"#,
        r#"{"alg":"HS256","kid":1}"#,
        r#"{"alg":"HS256","kid":null}"#,
        r#"{"alg":"HS256"}{}"#,
        "\"",
    ] {
        assert_eq!(refused(malformed), TokenRejection::Malformed, "{malformed}");
    }
    for critical in [r#"["exp"]"#, "null"] {
        let critical = refused(&format!(r#"{{"alg":"HS256","crit":{critical}}}"#));
        let says = "the `crit` header of the token is not supported";
        assert_eq!(critical, TokenRejection::Invalid(says));
    }
    // Members are named in any spelling of JSON, and what others are is nobody's business.
    let spelled = r#" {"\u0061lg":"HS25\u0036","typ":1,"x":[null]}"#;
    assert_eq!(refused(spelled), BAD_SIGNATURE);
}

#[test]
fn what_is_signed_is_all_before_the_last_dot_and_claims_are_one_part() {
    let filter = filter(config());
    let claims = |text: &str| {
        let claims = filter.0.signed_claims(text, None)?;
        serde_json::from_slice::<Map<String, Value>>(&claims).map_err(|_| BAD_SIGNATURE)
    };
    let good = token(json!({ "sub": "ann" }));
    assert_eq!(claims(&good).expect("it is signed")["sub"], "ann");
    let (signed, signature) = good.rsplit_once('.').expect("three parts");
    let (header, payload) = signed.split_once('.').expect("two parts");
    let sign = |signed: &str| {
        let key = EncodingKey::from_secret(SECRET);
        let signature = jsonwebtoken::crypto::sign(signed.as_bytes(), &key, Algorithm::HS256);
        format!("{signed}.{}", signature.expect("a signature"))
    };
    assert_eq!(sign(signed), good);
    for bad in [
        // The signature is that of something else, or none.
        format!("{signed}.{}", &signature[1..]),
        format!("{signed}."),
        format!("{signed}.{signature}="),
        format!("{header}.{}.{signature}", &payload[4..]),
        format!("{header}.{signature}"),
        // Signed, and not three parts; signed, and no claims.
        sign(header),
        sign(&format!("{header}.")),
        sign(&format!("{signed}.{payload}")),
        sign(&format!("{header}.{}", URL_SAFE_NO_PAD.encode("[]"))),
        sign(&format!("{header}.{}", URL_SAFE_NO_PAD.encode("{}{}"))),
    ] {
        assert_eq!(claims(&bad), Err(BAD_SIGNATURE), "{bad}");
    }
}

#[test]
fn a_key_verifies_with_its_own_algorithm_the_tokens_that_name_it() {
    let named = filter_with(config(), vec![key(Some("a"))], None);
    let refused = |filter: &JwtFilter, header: &str| refused_for(filter, header, None);
    assert_eq!(
        refused(&named, r#"{"alg":"HS256","kid":"a"}"#),
        BAD_SIGNATURE
    );
    assert_eq!(refused(&named, r#"{"alg":"HS256"}"#), BAD_SIGNATURE);
    let unknown = TokenRejection::Invalid(NO_KEY);
    assert_eq!(refused(&named, r#"{"alg":"HS256","kid":"b"}"#), unknown);
    for algorithm in ["HS384", "none"] {
        let header = format!(r#"{{"alg":"{algorithm}"}}"#);
        assert_eq!(refused(&named, &header), unknown, "{algorithm}");
    }
    // What a set could have.
    let of_sets = refused(&named, r#"{"alg":"RS256"}"#);
    assert_eq!(of_sets, TokenRejection::UnknownKey(NO_KEY, 0));
    let nameless = filter_with(config(), vec![key(None)], None);
    let header = r#"{"alg":"HS256","kid":"b"}"#;
    assert_eq!(refused(&nameless, header), BAD_SIGNATURE);
    // Keys of a URL are tried, too.
    let mut set = KeySet::default();
    set.keys.push(key(Some("b")));
    assert_eq!(refused_for(&named, header, Some(&set)), BAD_SIGNATURE);
}

/// Checks the judgment on these claims at [`NOW`]: the end of their validity, or the refusal.
#[track_caller]
fn judged(config: Jwt, mut claims: Value, ends_at: Result<u64, &'static str>) {
    if claims.get("exp").is_none() {
        claims["exp"] = json!(NOW);
    }
    let claims = claims.as_object().expect("an object");
    let judged = filter(config).0.judge(claims, NOW);
    assert_eq!(
        judged,
        ends_at.map_err(TokenRejection::Invalid),
        "{claims:?}"
    );
}

#[test]
fn tokens_are_good_from_and_until_the_times_that_they_name() {
    let check = |claims, ends_at| judged(config(), claims, ends_at);
    let expired = Err("the token has expired");
    check(json!({ "exp": NOW - 59 }), Ok(NOW + 1));
    check(json!({ "exp": NOW - 60 }), expired);
    check(json!({ "exp": 0 }), expired);
    check(json!({ "exp": u64::MAX }), Ok(u64::MAX));
    // With a fraction, it is cut off; what no clock reaches is for ever.
    check(json!({ "exp": 1_000_000.9 }), Ok(NOW + 60));
    check(json!({ "exp": 1e300 }), Ok(u64::MAX));
    check(json!({ "nbf": NOW + 60 }), Ok(NOW + 60));
    check(json!({ "nbf": NOW - 1 }), Ok(NOW + 60));
    check(
        json!({ "nbf": NOW + 61 }),
        Err("the token is not valid yet"),
    );
    check(json!({ "iat": NOW + 100 }), Ok(NOW + 60));
    for name in ["exp", "nbf", "iat"] {
        for wrong in [json!("1000000"), json!(null), json!(-1), json!([NOW])] {
            check(
                json!({ name: wrong }),
                Err("`exp`, `nbf` or `iat` is not a number"),
            );
        }
    }
    let claims = serde_json::Map::new();
    let never = filter(config()).0.judge(&claims, NOW);
    assert_eq!(
        never,
        Err(TokenRejection::Invalid("the token has no `exp`"))
    );
}

#[test]
fn claims_of_another_type_fail() {
    for name in ["iss", "sub", "jti"] {
        judged(config(), json!({ name: "x" }), Ok(NOW + 60));
        for wrong in [json!(1), json!(["x"]), json!(null)] {
            judged(
                config(),
                json!({ name: wrong }),
                Err("`iss`, `sub` or `jti` is not a string"),
            );
        }
    }
    let wrong = "`aud` is not a string or an array of strings";
    for aud in [json!(1), json!(["x", 1]), json!(null), json!({ "x": 1 })] {
        judged(config(), json!({ "aud": aud }), Err(wrong));
    }
}

#[test]
fn tokens_are_of_the_issuer_and_for_the_audience_that_are_wanted() {
    let of_issuer = || Jwt {
        issuer: Some("me".to_owned()),
        ..config()
    };
    let other = Err("wrong issuer");
    judged(of_issuer(), json!({ "iss": "me" }), Ok(NOW + 60));
    judged(of_issuer(), json!({ "iss": "you" }), other);
    judged(of_issuer(), json!({}), other);
    let for_two = || Jwt {
        audience: vec!["a".to_owned(), "b".to_owned()],
        ..config()
    };
    let other = Err("wrong audience");
    for good in [json!("b"), json!(["x", "a"])] {
        judged(for_two(), json!({ "aud": good }), Ok(NOW + 60));
    }
    for bad in [json!("x"), json!(["x", "y"]), json!([])] {
        judged(for_two(), json!({ "aud": bad }), other);
        // Where none is wanted, any will do.
        judged(config(), json!({ "aud": bad }), Ok(NOW + 60));
    }
    judged(for_two(), json!({}), other);
}

#[test]
fn servers_are_told_claims_in_place_of_what_clients_say() {
    let forward = |claim: &str, field: &str| (claim.to_owned(), field.to_owned());
    let filter = filter(Jwt {
        forward_claims: vec![forward("sub", "x-user"), forward("org.id", "x-org")],
        ..config()
    });
    let exchange = Exchange::new();
    let sent = |claims| {
        let authorization = bearer(&token(claims));
        let lines = [
            ("authorization", authorization.as_str()),
            ("x-user", "root"),
            ("x-org", "1"),
            ("x-other", "2"),
        ];
        let mut head = exchange.head("/", &lines);
        let step = exchange.begin(&filter, &mut head);
        let values = ["x-user", "x-org", "x-other"].map(|name| {
            let values = head.fields.values_named(name.as_bytes());
            let values: Vec<_> = values.map(String::from_utf8_lossy).collect();
            values.join(",")
        });
        (step, values)
    };
    let (_, values) = sent(json!({ "sub": "ann", "org": { "id": 7 } }));
    assert_eq!(values, ["ann", "7", "2"]);
    let (_, values) = sent(json!({ "org": {} }));
    assert_eq!(values, ["", "", "2"]);
    // A claim can't end a line.
    let (step, _) = sent(json!({ "sub": "ann\r\nx-admin: 1" }));
    let respond = responded(step);
    assert_eq!(respond.status, 401);
    let says = field(&respond, "www-authenticate").expect("a challenge");
    assert!(
        says.contains("a forwarded claim is not a valid field value"),
        "{says}"
    );
    // Nor may a client say it behind its content.
    let mut trailers = crate::field::testing::fields(&[("x-user", "root"), ("x-other", "2")]);
    filter.request_trailers(&mut trailers);
    assert!(trailers.values_named(b"x-user").next().is_none());
    assert!(trailers.values_named(b"x-other").next().is_some());
}

/// Unsigned, by an algorithm of sets.
const OF_SET: &str = "Bearer eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.e30.AAAA";

#[test]
fn a_token_of_an_unknown_key_waits_for_a_fetch_where_there_is_a_url() {
    let without = filter_with(config(), vec![key(None)], None);
    let respond = responded(step(&without, OF_SET));
    let says = format!("Bearer error=\"invalid_token\", error_description=\"{NO_KEY}\"");
    assert_eq!(
        (respond.status, field(&respond, "www-authenticate")),
        (401, Some(&*says))
    );
    let set = remote();
    let with = filter_with(config(), vec![key(None)], Some(Arc::clone(&set)));
    let waiting = step(&with, OF_SET);
    let Step::Attach(mut waiting) = waiting else {
        panic!("{waiting:?}");
    };
    assert_eq!(format!("{waiting:?}"), "KeyWait { .. }");
    // One that no set could verify does not.
    let of_secret = token_by(&Header::new(Algorithm::HS384), &json!({}), SECRET);
    assert_eq!(responded(step(&with, &bearer(&of_secret))).status, 401);
    let exchange = Exchange::new();
    let mut head = exchange.head("/", &[("authorization", OF_SET)]);
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(waiting.poll_ready(&mut cx, &mut head).is_pending());
    // The fetch brought nothing: nobody can say that the token is no good.
    set.land();
    let refused = |ready: Poll<Result<Ready, GatewayError>>| match ready {
        Poll::Ready(Ok(Ready::Respond(respond))) => respond,
        ready => panic!("{ready:?}"),
    };
    let respond = refused(waiting.poll_ready(&mut cx, &mut head));
    assert_eq!(
        (respond.status, field(&respond, "retry-after")),
        (503, Some("1"))
    );
    // While the next one is not due yet, the same is said at once.
    assert_eq!(responded(step(&with, OF_SET)).status, 503);
    let body = format!(r#"{{"keys":[{}]}}"#, rsa_jwk(r#","kid":"b""#));
    set.learn(body.as_bytes());
    assert_eq!(responded(step(&with, OF_SET)).status, 401);
}

#[test]
fn keys_are_not_shown() {
    let shown = format!("{:?}", filter(config()));
    assert!(shown.starts_with("JwtFilter(Jwt {"), "{shown}");
    assert_eq!(format!("{:?}", key(None)), "Key { name: \"HS256\", .. }");
}

/// A token of 8 KiB whose claims take more than fifty times that.
fn greedy_token(at: usize) -> String {
    let objects = vec![json!({ "": 0 }); 560];
    token(json!({ "at": at, "a": objects }))
}

#[test]
fn what_claims_take_is_charged_for_as_long_as_a_request_has_them() {
    let budget = Budget::new(16 << 20);
    let uncached = Jwt {
        cache_entries: 0,
        ..config()
    };
    let filter = JwtFilter::new(uncached, [key(None)].into(), None, budget.root());
    let (exchange, text) = (Exchange::new(), greedy_token(0));
    assert!(text.len() <= JWT_BYTES_MAX, "{}", text.len());
    let mut head = exchange.head("/", &[("authorization", &bearer(&text))]);
    let (before, reserved) = (
        steppe_mem::alloc::thread_block_bytes(),
        budget.root().reserved_bytes(),
    );
    let step = exchange.begin(&filter, &mut head);
    assert!(matches!(step, Step::Continue), "{step:?}");
    let taken = steppe_mem::alloc::thread_block_bytes() - before;
    let charged = budget.root().reserved_bytes() - reserved;
    let (taken, charged) = (u64::try_from(taken).expect("more"), charged);
    assert!(taken > 200 << 10, "{taken}");
    assert!(
        charged <= taken && taken - charged < taken / 50,
        "{charged} of {taken}"
    );
    exchange.identity.clear();
    assert_eq!(budget.root().reserved_bytes(), reserved);
}

#[test]
fn claims_that_take_much_leave_room_for_others() {
    let budget = Budget::new(16 << 20);
    let filter = JwtFilter::new(config(), [key(None)].into(), None, budget.root());
    let exchange = Exchange::new();
    let begin = |text: &str| {
        let mut head = exchange.head("/", &[("authorization", &bearer(text))]);
        filter.0.pass(&mut head, &exchange.identity)
    };
    // Some of them are kept, and give way.
    for at in 0..8 {
        assert_eq!(begin(&greedy_token(at)), Ok(()));
    }
    exchange.identity.clear();
    let others = budget.root().lease().try_reserve(12 << 20);
    let _others = others.expect("kept tokens give way");
    assert_eq!(begin(&greedy_token(9)), Err(TokenRejection::OverBudget));
    assert_eq!(begin(&token(json!({ "sub": "ann" }))), Ok(()));
}
