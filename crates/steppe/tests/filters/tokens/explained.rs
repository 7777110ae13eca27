//! `steppe explain` predicts the gateway's decisions.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD;

use super::*;

const CONFIG: &str = r#"[[http.listener]]
listen = "127.0.0.1:8080"
[[http.listener]]
listen = "127.0.0.1:8081"
[http.upstream.api]
servers = ["127.0.0.1:9001"]
[http.filter.near]
kind = "ip"
deny = ["10.0.0.0/8"]
[http.filter.token]
kind = "jwt"
keys = [{ id = "local", algorithm = "HS256", secret_file = "hs.key" }]
[http.filter.rules]
kind = "authorize"
rules = [
  { methods = ["GET"], any_scope = ["read"] },
  { methods = ["PUT"], all_scopes = ["read", "write"], claims = { role = "editor" } },
]
[http.filter.rewrite]
kind = "transform"
path = [{ pattern = "^/v1/users/(?<id>[0-9]+)$", to = "/users/${id}" }]
query = { set = { source = "edge" } }
[http.filter.limit]
kind = "rate-limit"
rate = 5
key = "jwt:sub"
[[http.route]]
name = "api"
host = "api.example.com"
path = "/v1/{rest*}"
methods = ["GET", "PUT", "DELETE"]
headers = { x-version = "2" }
filters = ["near", "token", "limit", "rules", "rewrite"]
upstream = "api"
"#;

/// Exit code and standard output, or standard error if there is none.
fn explain(scratch: &Scratch, args: &[&str]) -> (Option<i32>, String) {
    explain_by(CONFIG, scratch, args)
}

fn explain_by(config: &str, scratch: &Scratch, args: &[&str]) -> (Option<i32>, String) {
    let file = scratch.path().join("steppe.toml");
    std::fs::write(&file, config).expect("a file");
    std::fs::write(scratch.path().join("hs.key"), SECRET).expect("a file");
    let output = Steppe::command()
        .current_dir(scratch.path())
        .args(["explain", "-c", "steppe.toml"])
        .args(args)
        .output()
        .expect("steppe");
    let said = if output.stdout.is_empty() {
        output.stderr
    } else {
        output.stdout
    };
    let said = String::from_utf8_lossy(&said).into_owned();
    (output.status.code(), said)
}

const URL: &str = "http://api.example.com/v1/users/7?a=b";

#[test]
fn the_rule_that_decides_is_named_with_its_line() {
    let scratch = Scratch::new("explain");
    let asked = |method: &str, claims: &str| {
        let args = [method, URL, "-H", "X-Version: 2", "--claims", claims];
        let (code, said) = explain(&scratch, &args);
        assert_eq!(code, Some(0), "{said}");
        said
    };
    let passed = asked("GET", r#"{"scope": "read", "sub": "ann"}"#);
    let expected = "GET http://api.example.com/v1/users/7?a=b from 127.0.0.1
  listener 127.0.0.1:8080
  route api (steppe.toml:27)
  near (ip) passes
  token (jwt) passes: the given claims are taken as verified
  limit (rate-limit) may respond: 429 above 5 requests per 1s, burst 5
  rules (authorize) passes, rule 1 (steppe.toml:16) decides: the request satisfies the rule
  rewrite (transform) passes: changes the target to /users/7?a=b&source=edge
  served by upstream api: /users/7?a=b&source=edge
";
    assert_eq!(passed, expected);
    for (method, claims, says) in [
        (
            "GET",
            "{}",
            "rule 1 (steppe.toml:16) decides: the token has none of the scopes",
        ),
        (
            "PUT",
            r#"{"scope": "read"}"#,
            "rule 2 (steppe.toml:17) decides: the token lacks the scope `write`",
        ),
        (
            "PUT",
            r#"{"scope": "read write"}"#,
            "the claim `role` has none of the required values",
        ),
        (
            "DELETE",
            r#"{"scope": "read write"}"#,
            "rules (authorize) responds with 403: no rule matches",
        ),
    ] {
        let said = asked(method, claims);
        assert!(
            said.contains("rules (authorize) responds with 403") && said.contains(says),
            "{said}"
        );
        assert!(!said.contains("served by"), "{said}");
    }
}

#[test]
fn a_token_is_verified_as_the_node_does() {
    let scratch = Scratch::new("explain");
    let status = |token: &str| {
        std::fs::write(scratch.path().join("token"), token).expect("a file");
        let (code, said) = explain(
            &scratch,
            &[
                "GET",
                URL,
                "-H",
                "x-version:2",
                "--token",
                "token",
                "--json",
            ],
        );
        assert_eq!(code, Some(0), "{said}");
        let said: Value = serde_json::from_str(&said).expect("JSON");
        let filters = said["filters"].as_array().expect("a list");
        let last = filters.last().expect("a filter");
        assert_eq!(said["route"]["name"], "api");
        (last["filter"].clone(), last["status"].clone())
    };
    assert_eq!(
        status(&signed(json!({ "scope": "read" }))),
        (json!("rewrite"), Value::Null)
    );
    assert_eq!(
        status(&signed(json!({ "exp": now() - 60 }))),
        (json!("token"), json!(401))
    );
    assert_eq!(status("nonsense"), (json!("token"), json!(400)));
}

/// The key set is not fetched for this: its keys are not known.
#[test]
fn keys_behind_a_url_may_answer() {
    let by_url = NodeConfig::parse(CONFIG)
        .filter("token", |f| {
            f.remove("keys")
                .set("jwks.url", "http://127.0.0.1:1/jwks.json")
        })
        .to_string();
    let of_set = format!("{}.e30.AAAA", URL_SAFE_NO_PAD.encode("{\"alg\":\"ES256\"}"));
    for (token, expected) in [
        (
            &*of_set,
            "token (jwt) may respond: depends on the keys at a URL",
        ),
        ("nonsense", "token (jwt) responds with 400"),
    ] {
        let scratch = Scratch::new("explain-url");
        std::fs::write(scratch.path().join("token"), token).expect("a file");
        let args = ["GET", URL, "-H", "x-version:2", "--token", "token"];
        let (code, said) = explain_by(&by_url, &scratch, &args);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn what_no_route_or_listener_is_for_is_said() {
    let scratch = Scratch::new("explain");
    let said = |args: &[&str]| explain(&scratch, args);
    let (code, text) = said(&["GET", URL]);
    assert!(
        code == Some(0) && text.contains("404, no route matches"),
        "{text}"
    );
    let (code, text) = said(&["PATCH", URL, "-H", "x-version: 2"]);
    let methods = "405, routes match only with DELETE, GET, PUT";
    assert!(code == Some(0) && text.contains(methods), "{text}");
    let args = ["GET", URL, "-H", "x-version: 2", "--client", "10.1.2.3"];
    let (_, text) = said(&args);
    assert!(text.contains("near (ip) responds with 403"), "{text}");
    let (_, text) = said(&["GET", "http://a:8081/"]);
    assert!(text.contains("listener 127.0.0.1:8081"), "{text}");
    // As in the gateway: a path that leaves its root.
    let (_, text) = said(&[
        "GET",
        "http://api.example.com/v1/../v1/%75sers/7",
        "-H",
        "x-version: 2",
        "--claims",
        "{}",
    ]);
    assert!(text.contains("route api"), "{text}");
    let (code, text) = said(&["GET", "https://api.example.com/"]);
    assert!(
        code == Some(2) && text.contains("no listener of "),
        "{text}"
    );
    // A port without a listener belongs to no other listener.
    let (code, text) = said(&["GET", "http://a:8082/"]);
    assert!(code == Some(2) && text.contains("127.0.0.1:8081"), "{text}");
    let (code, _) = said(&["GET", URL, "-H", "no colon"]);
    assert_eq!(code, Some(2));
}

/// Routes that a condition keeps from a request are named, with the lines of both; values are not.
#[test]
fn a_condition_that_fails_is_named_with_its_line() {
    let scratch = Scratch::new("explain");
    let more = r#"
[[http.route]]
name = "rest"
upstream = "api"
[[http.route]]
name = "admin"
path = "/admin"
upstream = "api"
[http.route.headers]
x-level = "3"
x-role = "admin"
[[http.route]]
name = "preview"
path = "/admin"
query = { preview = "true" }
upstream = "api"
"#;
    let config = format!("{CONFIG}{more}");
    let ask = |args: &[&str]| {
        let (code, said) = explain_by(&config, &scratch, args);
        assert_eq!(code, Some(0), "{said}");
        said
    };
    let said = ask(&[
        "GET",
        "http://a.example./admin?preview=true&preview=false",
        "-H",
        "x-level: 3",
        "-H",
        "x-role: user",
        "-H",
        "x-role: admin",
    ]);
    let expected = "GET http://a.example./admin?preview=true&preview=false from 127.0.0.1
  listener 127.0.0.1:8080
  route admin (steppe.toml:39) does not match: headers.x-role (steppe.toml:45)
  route preview (steppe.toml:46) does not match: query.preview (steppe.toml:49)
  route rest (steppe.toml:36)
  served by upstream api: /admin?preview=true&preview=false
";
    assert_eq!(said, expected);
    let said = ask(&[
        "POST",
        "http://API.example.com./v1/a",
        "--json",
        "-H",
        "x-version: 2",
    ]);
    let said: Value = serde_json::from_str(&said).expect("JSON");
    let passed_over = json!([{
        "name": "api",
        "file": "steppe.toml",
        "line": 27,
        "condition": "methods",
        "condition_line": 31,
    }]);
    assert_eq!(
        (&said["passed_over"], &said["route"]["name"]),
        (&passed_over, &json!("rest"))
    );
}

/// A route that redirects is explained with its target.
#[test]
fn a_redirect_says_where_to() {
    let scratch = Scratch::new("explain-redirect");
    let config = "[[http.listener]]\nlisten = \"127.0.0.1:8080\"\n[[http.route]]\nname = \"www\"\n\
        redirect = \"https://example.com{path}{query}\"\n";
    let (code, said) = explain_by(
        config,
        &scratch,
        &["GET", "http://www.example.com/a/../b?c"],
    );
    let expected = "  served by a redirect with 308: https://example.com/b?c\n";
    assert!(code == Some(0) && said.ends_with(expected), "{said}");
}
