//! Stored responses are found again by the clients they are meant for, and only by those.

use super::*;

/// An origin that answers with the request's host and scheme, and a site with `filters` in front of
/// it.
fn telling(protocol: Protocol, more: &str, filters: &[&str]) -> Site {
    let origin = RawOrigin::replying(|request| {
        let told = |name| request.field(name).unwrap_or_default().to_owned();
        let content = format!("{} {}", told("host"), told("x-forwarded-proto"));
        ok(FRESH, &content).into_bytes()
    });
    let config = config()
        .with_toml(more)
        .route("all", |r| r.filters(filters));
    Site::start_with(origin, protocol, config)
}

#[test]
fn a_host_that_a_filter_has_set_is_told_apart() {
    const TENANT: &str = r#"
[http.filter.tenant]
kind = "transform"
path = [{ pattern = "^/t/[^/]+", to = "" }]
request_headers.rewrite = [{ header = "host", from = "path", pattern = "^/t/(?<t>[^/]+)/", to = "${t}.internal" }]
"#;
    for protocol in [Protocol::H1, Protocol::H2] {
        let site = telling(protocol, TENANT, &["tenant", "store"]);
        for tenant in ["alice", "bob"] {
            let path = format!("/t/{tenant}/a");
            let first = site.get(&path);
            assert!(
                text(&first).starts_with(&format!("{tenant}.internal")),
                "{first:?}"
            );
            assert!(!is_hit(&first));
            let again = site.get(&path);
            assert_eq!((text(&again), is_hit(&again)), (text(&first), true));
        }
        let forgotten = format!("uri={}", site.node.url("/a"));
        assert_eq!(site.purge(&forgotten), 2);
    }
}

#[test]
fn a_host_is_one_however_it_is_spelled() {
    for protocol in [Protocol::H1, Protocol::H2] {
        let site = telling(protocol, "", &["store"]);
        let first = site.get_with("/a", ["Host: Shop.example.:80"]);
        assert!(!is_hit(&first));
        assert_eq!(
            text(&first),
            "Shop.example:80 http",
            "servers see no final dot"
        );
        for host in [
            "shop.example",
            "SHOP.Example",
            "shop.example.",
            "shop.example:80",
        ] {
            assert!(
                is_hit(&site.get_with("/a", [&format!("Host: {host}")])),
                "{host}"
            );
        }
        assert!(!is_hit(&site.get_with("/a", ["Host: shop.example:81"])));
        assert_eq!(site.purge("uri=http://SHOP.example./a"), 1);
    }
}

#[test]
fn the_scheme_is_what_a_trusted_proxy_says() {
    for protocol in [Protocol::H1, Protocol::H2] {
        let trusted = "[http]\ntrusted_proxies = [\"127.0.0.0/8\"]\n";
        for (more, is_believed) in [(trusted, true), ("", false)] {
            let site = telling(protocol, more, &["store"]);
            let get = |scheme: &str| site.get_with("/a", [&format!("x-forwarded-proto: {scheme}")]);
            assert!(!is_hit(&get("http")));
            assert_eq!(is_hit(&get("https")), !is_believed);
            assert!(is_hit(&get("https")) && is_hit(&get("http")));
        }
    }
}

/// An origin may render any of these fields.
#[test]
fn what_a_trusted_proxy_says_is_told_apart() {
    const FIELDS: [&str; 8] = [
        "X-Forwarded-Host: shop.example",
        "X-Forwarded-Host: shop.example, cdn.example",
        "X-Forwarded-Proto: https, http",
        "X-Forwarded-Prefix: /shop",
        "X-Forwarded-Port: 8443",
        "Forwarded: for=192.0.2.1;proto=https",
        "Forwarded: for=192.0.2.1;host=shop.example",
        "Forwarded: for=192.0.2.1;path=\"/shop\"",
    ];
    for protocol in [Protocol::H1, Protocol::H2] {
        let trusted = "[http]\ntrusted_proxies = [\"127.0.0.0/8\"]\n";
        for (more, is_believed) in [(trusted, true), ("", false)] {
            let site = telling(protocol, more, &["store"]);
            assert!(!is_hit(&site.get("/a")));
            for field in FIELDS {
                assert_eq!(
                    is_hit(&site.get_with("/a", [field])),
                    !is_believed,
                    "{field}"
                );
                assert!(is_hit(&site.get_with("/a", [field])), "{field}");
            }
            // Addresses differ for each client.
            for field in [
                "X-Forwarded-For: 192.0.2.7",
                "X-Real-IP: 192.0.2.7",
                "Forwarded: for=192.0.2.7",
            ] {
                assert!(is_hit(&site.get_with("/a", [field])), "{field}");
            }
            let stored = if is_believed { 1 + FIELDS.len() } else { 1 };
            let purged = site.purge(&format!("uri={}", site.node.url("/a")));
            assert_eq!(purged, stored as u64, "every variant");
            assert!(!is_hit(&site.get("/a")));
        }
    }
}

/// A client may invent values of fields that its proxy passes on.
#[test]
fn so_much_is_stored_of_one_uri_as_variants_may_be() {
    let trusted = "[http]\ntrusted_proxies = [\"127.0.0.0/8\"]\n";
    let site = telling(Protocol::H1, trusted, &["store"]);
    for at in 0..70 {
        site.get_with("/a", [&format!("X-Forwarded-Host: a{at}.example")]);
    }
    let stored = site.node.metrics().sum("steppe_http_cache_responses", &[]);
    assert_eq!(stored, 64.0);
    assert!(is_hit(
        &site.get_with("/a", ["X-Forwarded-Host: a69.example"])
    ));
}

#[test]
fn what_came_with_a_client_certificate_is_for_nobody_else() {
    let trusted = "[http]\ntrusted_proxies = [\"127.0.0.0/8\"]\n";
    for protocol in [Protocol::H1, Protocol::H2] {
        let site = telling(protocol, trusted, &["store"]);
        for _ in 0..2 {
            assert!(!is_hit(&site.get_with("/a", ["client-cert: :AA==:"])));
        }
        assert!(!is_hit(&site.get("/a")), "it was not stored");
        assert!(is_hit(&site.get("/a")));
    }
}

#[test]
fn operators_name_paths_as_clients_do() {
    let site = telling(Protocol::H1, "", &["store"]);
    site.get("/a/%7eb/caf%c3%a9");
    let uri = site.node.url("/a/%257eb/caf%25c3%25a9");
    assert_eq!(site.purge(&format!("uri={uri}")), 1);
}
