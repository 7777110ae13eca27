//! Keys of `[[dns.rule]]` beside its action reach the forwarder's configuration.

use std::time::Duration;

use steppe_dns::config::{
    Action, CacheBounds, CachePolicy, LoggedQueries, Rule, RuleLog, ServeStale, Stale, StalePolicy,
};
use steppe_node::config;

/// The rest of a file.
const REST: &str = r#"
[[dns.listener]]
listen = "127.0.0.1:5300"
[dns.upstream.public]
servers = ["udp://192.0.2.1"]
[[dns.rule]]
name = "a.example"
block = "refused"
"#;

/// The last rule of a file.
fn rule(text: &str) -> Rule {
    let outcome = config::read(
        "/etc/steppe/dns.toml",
        &format!("{REST}[[dns.rule]]\n{text}\n"),
    );
    assert_eq!(outcome.report.mistakes(), [], "{}", outcome.report);
    let mut rules = outcome.config.expect("without mistakes").dns.rules;
    rules.pop().expect("one")
}

fn secs(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

#[test]
fn each_key_of_a_cache_policy_arrives() {
    let usual = CacheBounds::default();
    let stale = ServeStale {
        up_to: Duration::from_secs(86_400),
        after: Duration::from_millis(1800),
        only: Stale::Positive,
    };
    let served = |stale| CacheBounds {
        serve_stale: Some(stale),
        ..usual
    };
    for (text, bounds) in [
        (
            "min_ttl = \"5s\"",
            CacheBounds {
                min_ttl: secs(5),
                ..usual
            },
        ),
        (
            "max_ttl = \"6s\"",
            CacheBounds {
                max_ttl: secs(6),
                ..usual
            },
        ),
        (
            "negative_ttl_max = \"7s\"",
            CacheBounds {
                negative_ttl_max: secs(7),
                ..usual
            },
        ),
        ("serve_stale = \"off\"", served(StalePolicy::Off)),
        ("serve_stale = {}", served(StalePolicy::Served(stale))),
        (
            "serve_stale = { up_to = \"1h\" }",
            served(StalePolicy::Served(ServeStale {
                up_to: Duration::from_secs(3600),
                ..stale
            })),
        ),
        (
            "serve_stale = { after = \"1s\" }",
            served(StalePolicy::Served(ServeStale {
                after: Duration::from_secs(1),
                ..stale
            })),
        ),
        (
            "serve_stale = { only = \"all\" }",
            served(StalePolicy::Served(ServeStale {
                only: Stale::All,
                ..stale
            })),
        ),
    ] {
        let rule = rule(&format!("cache = {{ {text} }}"));
        assert_eq!(rule.cache, Some(CachePolicy::Kept(bounds)), "{text}");
        assert_eq!(rule.action, None);
    }
    let rule = rule("forward = \"public\"\ncache = \"off\"");
    assert_eq!(rule.cache, Some(CachePolicy::Off));
    assert_eq!(rule.action, Some(Action::Forward(0)));
}

#[test]
fn what_a_rule_says_of_its_lines_arrives_and_which_queries_have_one_without() {
    let log = "[dns.log]\nqueries = { file = \"queries.log\"";
    for (text, want) in [
        ("log = true", RuleLog::On),
        ("log = false", RuleLog::Off),
        ("log = \"kids\"", RuleLog::Tagged("kids".into())),
    ] {
        let rule = rule(&format!("{text}\n{log} }}"));
        assert_eq!((rule.log, rule.action), (Some(want), None), "{text}");
    }
    for (which, want) in [
        ("", LoggedQueries::All),
        (", which = \"all\"", LoggedQueries::All),
        (", which = \"rules\"", LoggedQueries::OfRules),
    ] {
        let text = format!("{REST}[[dns.rule]]\nlog = true\n{log}{which} }}\n");
        let outcome = config::read("/etc/steppe/dns.toml", &text);
        assert_eq!(outcome.report.mistakes(), [], "{}", outcome.report);
        let dns = outcome.config.expect("without mistakes").dns;
        assert_eq!(dns.query_log.expect("a log").queries, want);
    }
}
