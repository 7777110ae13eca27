//! The configurations that people copy, and the embedded one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use expect_test::expect;
use steppe_http::config::{
    FilterKind, ListenerLimits, ListenerTimeouts, Outlier, Servers, Target, UpstreamKind,
};
use steppe_net::{ListenAddress, ServerAddress};
use steppe_node::config::{self, Config, DEFAULT, DEFAULT_NAME, MemoryBudget, Workers};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(example(name)).expect("an example")
}

fn valid(name: &str, text: &str) -> Config {
    let outcome = config::read(name, text);
    assert_eq!(outcome.report.mistakes(), [], "{}", outcome.report);
    outcome.config.expect("without mistakes")
}

/// Every line says what is not supported yet, and there is nothing else to say.
#[test]
fn what_is_not_supported_yet_is_named_and_nothing_else() {
    let report = config::parse("gateway.toml", &text("gateway.toml")).expect_err("not yet");
    let messages: Vec<_> = report
        .mistakes()
        .iter()
        .map(|each| each.message.as_str())
        .collect();
    expect![[r#"
        `trace` is not supported yet
        "h2c" in `protocols` is not supported yet
        "h2" in `protocols` is not supported yet
        "h3" in `protocols` is not supported yet
        `http.listener.tls` is not supported yet
        `http.upstream.circuit_breaker` is not supported yet
        `http.upstream.hedge` is not supported yet
        "cors" in `kind` is not supported yet
        "jwt" in `kind` is not supported yet
        "rate-limit" in `kind` is not supported yet
        "authorize" in `kind` is not supported yet
        `http.filter.path` is not supported yet
        `http.filter.query` is not supported yet
        "cache" in `kind` is not supported yet
        "compress" in `kind` is not supported yet"#]]
    .assert_eq(&messages.join("\n"));
}

#[test]
fn the_benchmark_of_h1_is_fine() {
    let config = valid("gateway-bench-h1.toml", &text("gateway-bench-h1.toml"));
    expect![[r#"
        {
          "node": {
            "workers": 1,
            "memory_budget": "256MiB",
            "drain_timeout": "30s"
          },
          "admin": {
            "listen": "127.0.0.1:28900"
          },
          "log": {
            "level": "warn",
            "format": "text",
            "access": "off"
          },
          "http": {
            "trusted_proxies": [],
            "listener": [
              {
                "listen": "127.0.0.1:28080",
                "protocols": [
                  "h1"
                ],
                "proxy_protocol": false,
                "underscores": "drop",
                "limits": {
                  "header_bytes": "16KiB",
                  "header_count": 100,
                  "body_bytes": "64MiB",
                  "connections": 10000
                },
                "timeouts": {
                  "header": "10s",
                  "idle": "1m",
                  "write_stall": "30s"
                }
              }
            ],
            "upstream": {
              "origin": {
                "servers": [
                  "127.0.0.1:28001"
                ],
                "protocol": "h1",
                "balance": "round-robin",
                "slow_start": "0s",
                "keepalive": 256,
                "timeouts": {
                  "connect": "1s",
                  "first_byte": "1m",
                  "idle": "1m"
                }
              }
            },
            "filter": {},
            "route": [
              {
                "name": "all",
                "path": "/{rest*}",
                "headers": {},
                "query": {},
                "filters": [],
                "upstream": "origin",
                "timeouts": {}
              }
            ]
          }
        }"#]]
    .assert_eq(&format!("{:#}", config.effective()));
}

#[test]
fn the_first_and_the_embedded_configuration_are_fine() {
    let first = valid("first.toml", &text("first.toml"));
    assert_eq!(first.http.routes.len(), 2);
    let embedded = valid(DEFAULT_NAME, DEFAULT);
    assert_eq!(embedded.node.memory_budget, MemoryBudget::Bytes(64 << 20));
    assert_eq!(
        embedded.http.listeners[0].address.to_string(),
        "127.0.0.1:8080"
    );
    let admin = embedded.admin.expect("admin");
    assert_eq!(admin.listen.to_string(), "127.0.0.1:9900");
}

/// The table of keys has the defaults as text, `steppe-http` as values.
#[test]
fn defaults_are_those_of_the_gateway() {
    let text = "[[http.listener]]\nlisten = \"[::]:0\"\n\
                [http.upstream.a]\nservers = [\"a:1\"]\n\
                [[http.route]]\nname = \"a\"\nupstream = \"a\"\n";
    let config = valid("a.toml", text);
    assert_eq!(config.node.workers, Workers::Auto);
    assert_eq!(config.node.memory_budget, MemoryBudget::Share(0.75));
    assert_eq!(config.node.drain_timeout, Duration::from_secs(30));
    assert!(config.admin.is_none());
    let listener = &config.http.listeners[0];
    assert_eq!(listener.limits, ListenerLimits::default());
    assert_eq!(listener.timeouts, ListenerTimeouts::default());
    let UpstreamKind::Servers(servers) = &config.http.upstreams[0].kind else {
        panic!("it has servers");
    };
    assert_eq!(*servers, Servers::of([servers.servers[0].address.clone()]));
    assert_eq!(config.http.routes[0].path.to_string(), "/{rest*}");
    let text = text.replace("[\"a:1\"]", "[\"a:1\"]\noutlier = {}");
    let config = valid("a.toml", &text);
    let UpstreamKind::Servers(servers) = &config.http.upstreams[0].kind else {
        panic!("it has servers");
    };
    assert_eq!(servers.outlier, Some(Outlier::default()));
}

/// Every key that there is.
const FULL: &str = include_str!("data/full.toml");

#[test]
fn every_key_arrives() {
    let config = valid("/etc/steppe/steppe.toml", FULL);
    let admin = config.admin.as_ref().expect("admin");
    assert_eq!(admin.listen.to_string(), "unix:/etc/steppe/admin.sock");
    assert_eq!(
        admin.token_file.as_deref(),
        Some(Path::new("/etc/steppe/secret/token"))
    );
    let FilterKind::Transform(transform) = &config.http.filters[0].kind else {
        panic!("not a transform")
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        transform.request.append,
        [pair("via-a", "1"), pair("via-a", "2")]
    );
    assert_eq!(transform.response.remove, ["server"]);
    assert_eq!(config.http.routes[0].filters, [0, 0]);
    assert_eq!(config.http.routes[0].total, Some(Duration::from_secs(20)));
    assert_eq!(config.http.routes[1].target, Target::Upstream(1));
    expect_test::expect_file!["data/full.effective.json"]
        .assert_eq(&format!("{:#}\n", config.effective()));
}

/// The effective configuration has the keys of a file, and JSON reads as TOML does.
#[test]
fn the_effective_configuration_reads_back() {
    for text in [
        FULL,
        DEFAULT,
        &text("first.toml"),
        &text("gateway-bench-h1.toml"),
    ] {
        let config = valid("/etc/steppe.toml", text);
        let effective = config.effective();
        let again = valid("/etc/steppe.json", &effective.to_string());
        assert_eq!(again.effective(), effective);
    }
}

/// A command line moves addresses, and the limit on open files lowers connections.
#[test]
fn what_the_process_changes_is_in_force_and_shown() {
    let mut config = valid(DEFAULT_NAME, DEFAULT);
    config.set_listen_address(ListenAddress::Tcp(([127, 0, 0, 1], 1).into()));
    config.set_admin_address(ListenAddress::Tcp(([127, 0, 0, 1], 2).into()));
    config.set_servers(&ServerAddress::Ip(([127, 0, 0, 1], 3).into()));
    config.set_connections(|listener| listener.limits.connections / 10);
    let listener = &config.http.listeners[0];
    assert_eq!(listener.address.to_string(), "127.0.0.1:1");
    assert_eq!(listener.limits.connections, 1_000);
    let shown = config.effective();
    assert_eq!(shown["http"]["listener"][0]["listen"], "127.0.0.1:1");
    assert_eq!(shown["http"]["listener"][0]["limits"]["connections"], 1_000);
    assert_eq!(shown["http"]["listener"][0]["limits"]["header_count"], 100);
    assert_eq!(shown["admin"]["listen"], "127.0.0.1:2");
    let upstreams = shown["http"]["upstream"].as_object().expect("a map");
    let servers = upstreams.values().filter_map(|each| each.get("servers"));
    let servers: Vec<_> = servers.map(ToString::to_string).collect();
    assert_eq!(servers, ["[\"127.0.0.1:3\"]"]);
    valid("shown.json", &shown.to_string());
}

#[test]
fn secrets_are_masked() {
    let shown = valid("a.toml", FULL).effective().to_string();
    for secret in ["Bearer", "0123", "a=1", "b=2"] {
        assert!(
            FULL.contains(secret) && !shown.contains(secret),
            "{secret}: {shown}"
        );
    }
    assert!(shown.contains("secret/token"), "paths are shown: {shown}");
}

#[test]
fn content_of_a_response_is_bounded() {
    let most = steppe_http::limits::RESPOND_BYTES_MAX;
    let responding = |bytes: usize| {
        format!(
            "[[http.listener]]\nlisten = \"[::]:0\"\n\
             [http.upstream.a]\nrespond.body = \"{}\"\n\
             [[http.route]]\nname = \"a\"\nupstream = \"a\"\n",
            "x".repeat(bytes)
        )
    };
    valid("a.toml", &responding(most));
    let report = config::parse("a.toml", &responding(most + 1)).expect_err("too long");
    assert_eq!(
        report.mistakes()[0].message,
        format!("`body` has {} bytes: at most {most}", most + 1)
    );
    // A line this long is not quoted.
    assert!(report.to_string().len() < 200, "{report}");
}
