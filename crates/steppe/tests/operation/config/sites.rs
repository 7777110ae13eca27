//! Sites: their long form, and a node that serves them.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::process::Output;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use proptest::sample::select;
use steppe_http::config::{Gateway, ListenerRoutes, Target};
use steppe_http::router::{FieldLookup, RouteQuery, Router};
use steppe_net::ListenAddress;
use steppe_node::config::{self, Drawing};
use steppe_testkit::{Authority, Curl, CurlOutput, Leaf, Port, RawOrigin, Scratch, Steppe};

/// The long form of a valid file.
fn expanded(text: &str) -> String {
    let (outcome, expanded) = config::expand("steppe.toml", text);
    let report = outcome.report.render(Drawing::Plain);
    expanded.unwrap_or_else(|| panic!("{report}\n{text}"))
}

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&expanded(text));
}

#[test]
fn sites_become_listeners_upstreams_filters_and_routes() {
    check(
        r#"
[[site]]
hosts = "app.example.com"
proxy = "127.0.0.1:3000"
compress = true
[[site]]
hosts = ["example.com", "example.org"]
www = "remove"
files = "public"
fallback = "/index.html"
https = { cert = "a.crt", key = "a.key" }
[[site]]
hosts = ["*.example.net"]
redirect = "https://example.com{path}{query}"
https = { cert = "b.crt", key = "b.key" }
"#,
        expect![[r#"
            [[http.listener]]
            listen = "[::]:80"

            [[http.listener]]
            listen = "[::]:443"
            protocols = ["h1", "h2"]

            [[http.listener.tls.certificates]]
            cert = "a.crt"
            key = "a.key"

            [[http.listener.tls.certificates]]
            cert = "b.crt"
            key = "b.key"

            [http.upstream."app.example.com"]
            servers = ["127.0.0.1:3000"]

            [http.filter."app.example.com-compress"]
            kind = "compress"

            [[http.route]]
            name = "app.example.com"
            host = "app.example.com"
            listener = "[::]:80"
            filters = ["app.example.com-compress"]
            upstream = "app.example.com"

            [[http.route]]
            name = "example.com"
            host = ["example.com", "example.org"]
            listener = "[::]:443"

            [http.route.files]
            root = "public"
            fallback = "/index.html"

            [[http.route]]
            name = "example.com-www"
            host = "www.example.com"
            listener = "[::]:443"
            redirect = "https://example.com{path}{query}"

            [[http.route]]
            name = "example.com-www-2"
            host = "www.example.org"
            listener = "[::]:443"
            redirect = "https://example.org{path}{query}"

            [[http.route]]
            name = "example.com-http"
            host = ["example.com", "www.example.com"]
            listener = "[::]:80"
            redirect = "https://example.com{path}{query}"

            [[http.route]]
            name = "example.com-http-2"
            host = ["example.org", "www.example.org"]
            listener = "[::]:80"
            redirect = "https://example.org{path}{query}"

            [[http.route]]
            name = "*.example.net"
            host = ["*.example.net"]
            listener = "[::]:443"
            redirect = "https://example.com{path}{query}"

            [[http.route]]
            name = "*.example.net-http"
            host = ["*.example.net"]
            listener = "[::]:80"
            redirect = "https://{host}{path}{query}"
        "#]],
    );
}

#[test]
fn filters_stand_in_the_order_in_which_they_work() {
    check(
        r#"
[[site]]
name = "shop"
hosts = ["shop.example"]
proxy = ["127.0.0.1:1", "unix:run/shop.sock"]
listen = ["127.0.0.1:8080", "127.0.0.2:8080", "unix:run/web.sock"]
www = "add"
filters = ["near", "store"]
auth = "users"
compress = true
[[site]]
hosts = ["api.example"]
proxy = "127.0.0.1:2"
listen = "127.0.0.1:8080"
auth = "users"
cache = { bytes = "8MiB", stale_if_error = "1h" }
[http.filter.near]
kind = "ip"
allow = ["10.0.0.0/8"]
[http.filter.store]
kind = "cache"
"#,
        expect![[r#"
            [http.filter.near]
            kind = "ip"
            allow = ["10.0.0.0/8"]

            [http.filter.store]
            kind = "cache"

            [http.filter.shop-auth]
            kind = "basic-auth"
            users_file = "users"

            [http.filter.shop-compress]
            kind = "compress"

            [http.filter."api.example-auth"]
            kind = "basic-auth"
            users_file = "users"

            [http.filter."api.example-cache"]
            kind = "cache"
            bytes = "8MiB"
            stale_if_error = "1h"

            [[http.listener]]
            listen = "127.0.0.1:8080"

            [[http.listener]]
            listen = "127.0.0.2:8080"

            [[http.listener]]
            listen = "unix:run/web.sock"

            [http.upstream.shop]
            servers = ["127.0.0.1:1", "unix:run/shop.sock"]

            [http.upstream."api.example"]
            servers = ["127.0.0.1:2"]

            [[http.route]]
            name = "shop"
            host = ["www.shop.example"]
            listener = ["127.0.0.1:8080", "127.0.0.2:8080", "unix:run/web.sock"]
            filters = ["near", "shop-auth", "store", "shop-compress"]
            upstream = "shop"

            [[http.route]]
            name = "shop-www"
            host = "shop.example"
            listener = ["127.0.0.1:8080", "127.0.0.2:8080"]
            redirect = "http://www.shop.example:8080{path}{query}"

            [[http.route]]
            name = "shop-www-2"
            host = "shop.example"
            listener = "unix:run/web.sock"
            redirect = "http://www.shop.example{path}{query}"

            [[http.route]]
            name = "api.example"
            host = ["api.example"]
            listener = "127.0.0.1:8080"
            filters = ["api.example-auth", "api.example-cache"]
            upstream = "api.example"
        "#]],
    );
}

/// A file without sites is printed in its order, and so is the rest of a file with sites.
#[test]
fn the_rest_of_a_file_is_printed_as_it_is() {
    check(
        r#"
[node]
workers = 2
[[http.listener]]
listen = "[::]:80"
limits = { body_bytes = "1GiB" }
[http.upstream.api]
servers = [{ address = "127.0.0.1:1", weight = 2 }]
[[http.route]]
name = "api"
path = "/api/{rest*}"
headers = { "x-a" = "\"\\" }
upstream = "api"
[[site]]
hosts = ["a.example"]
proxy = "127.0.0.1:3000"
[admin]
listen = "127.0.0.1:9900"
"#,
        expect![[r#"
            [node]
            workers = 2

            [[http.listener]]
            listen = "[::]:80"

            [http.listener.limits]
            body_bytes = "1GiB"

            [[http.upstream.api.servers]]
            address = "127.0.0.1:1"
            weight = 2

            [http.upstream."a.example"]
            servers = ["127.0.0.1:3000"]

            [[http.route]]
            name = "api"
            path = "/api/{rest*}"
            upstream = "api"

            [http.route.headers]
            x-a = '"\'

            [[http.route]]
            name = "a.example"
            host = ["a.example"]
            listener = "[::]:80"
            upstream = "a.example"

            [admin]
            listen = "127.0.0.1:9900"
        "#]],
    );
}

/// A listener of the file is used as it is: with its limits, and with the certificate of the site.
#[test]
fn listeners_of_the_file_are_used() {
    let text = r#"
[[http.listener]]
listen = "[::]:443"
protocols = ["h2"]
tls = { certificates = [{ cert = "b.crt", key = "b.key" }, { cert = "a.crt", key = "a.key", ocsp = "a.ocsp" }] }
[[http.listener]]
listen = "[::]:80"
redirect_https = true
[[http.listener]]
listen = "unix:run/web.sock"
[[site]]
hosts = ["a.example"]
proxy = "127.0.0.1:1"
https = { cert = "a.crt", key = "a.key" }
[[site]]
hosts = ["b.example"]
files = "public"
listen = "unix:run/web.sock"
"#;
    let (outcome, long) = config::expand("conf/steppe.toml", text);
    assert_eq!(outcome.report.render(Drawing::Plain), "");
    let gateway = outcome.config.expect("it is valid").http;
    assert_eq!(gateway.listeners.len(), 3);
    let path = std::path::PathBuf::from("conf/run/web.sock");
    let routes = gateway
        .routes
        .iter()
        .map(|route| (&*route.name, route.listeners.len()));
    let expected = [("a.example", 1), ("a.example-http", 1), ("b.example", 1)];
    assert_eq!(routes.collect::<Vec<_>>(), expected);
    assert_eq!(gateway.routes[2].listeners, [ListenAddress::Unix(path)]);
    let long = long.expect("it is valid");
    let again = config::parse("conf/steppe.toml", &long).expect("it is valid");
    assert_eq!(again.http, gateway);
}

#[test]
fn expand_prints_toml_or_the_report() {
    let scratch = Scratch::new("expand");
    let expand = |name: &str, text: &str| -> Output {
        let file = scratch.write(name, text);
        let output = Steppe::command().arg("expand").arg(file).output();
        output.expect("it runs")
    };
    let site = r#"{"site": [{"hosts": "a.example", "proxy": "127.0.0.1:1"}]}"#;
    let output = expand("a.json", site);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed = String::from_utf8(output.stdout).expect("text");
    let toml = "[[site]]\nhosts = \"a.example\"\nproxy = \"127.0.0.1:1\"\n";
    assert_eq!(printed, expanded(toml));
    let output = expand("b.toml", "[[site]]\nhosts = \"a.example\"\n");
    assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b""[..]));
    let told = String::from_utf8(output.stderr).expect("text");
    assert!(
        told.contains("`site` needs one of `proxy`, `files` and `redirect`"),
        "{told}"
    );
    let output = Steppe::command().args(["expand", "missing.toml"]).output();
    assert_eq!(output.expect("it runs").status.code(), Some(1));
}

#[test]
fn explain_quotes_the_lines_of_the_site() {
    let authority = Authority::new("test");
    let issued = authority.issue(&Leaf::named(&["a.example"]));
    let scratch = Scratch::new("explain-site");
    scratch.write("a.crt", &issued.cert);
    scratch.write("a.key", &issued.key);
    let file = r#"[http.filter.near]
kind = "ip"
allow = ["127.0.0.0/8"]

[[site]]
hosts = ["a.example"]
proxy = "127.0.0.1:3000"
https = { cert = "a.crt", key = "a.key" }
filters = ["near"]
"#;
    scratch.write("steppe.toml", file);
    let explain = |url: &str| {
        let output = Steppe::command()
            .current_dir(scratch.path())
            .args(["explain", "-c", "steppe.toml", "GET", url])
            .output()
            .expect("it runs");
        String::from_utf8([output.stdout, output.stderr].concat()).expect("text")
    };
    expect![[r#"
        GET https://a.example/x?y from 127.0.0.1
          listener [::]:443
          route a.example (steppe.toml:5)
          near (ip) passes
          served by upstream a.example: /x?y
    "#]]
    .assert_eq(&explain("https://a.example/x?y"));
    expect![[r#"
        GET http://a.example/x?y from 127.0.0.1
          listener [::]:80
          route a.example (steppe.toml:5) does not match: listener (steppe.toml:5)
          route a.example-http (steppe.toml:5)
          served by a redirect with 308: https://a.example/x?y
    "#]]
    .assert_eq(&explain("http://a.example/x?y"));
    expect![[r#"
        GET http://b.example/ from 127.0.0.1
          listener [::]:80
          answered by the listener: 404, no route matches
    "#]]
    .assert_eq(&explain("http://b.example/"));
}

/// A request without fields.
struct NoFields;

impl FieldLookup for NoFields {
    fn each_value(&self, _: &str, _: &mut dyn FnMut(&[u8])) {}
}

/// The name of the route of a `GET`, and its target.
fn answer(gateway: &Gateway, listener: &ListenAddress, host: &str) -> Option<(String, String)> {
    let router = Router::new(&gateway.routes, &gateway.filters);
    let route = router.route(&RouteQuery {
        host: host.as_bytes(),
        path: b"/a",
        method: b"GET",
        preflight: None,
        query: None,
        fields: &NoFields,
        listener,
        routes: ListenerRoutes::Shared,
        client_cert: None,
    });
    let route = &gateway.routes[route.ok()?];
    let answer = match &route.target {
        Target::Upstream(index) => format!("proxy {}", gateway.upstreams[*index].name),
        Target::Files(files) => format!("files {}", files.root.display()),
        Target::Redirect(redirect) => redirect.to.clone(),
    };
    Some((route.name.clone(), answer))
}

/// A random site.
#[derive(Debug, Clone)]
struct Drawn {
    /// Indices in [`HOSTS`], each of one site alone.
    hosts: HashSet<usize>,
    has_www: bool,
    www: Option<&'static str>,
    target: &'static str,
    is_https: bool,
    listen: &'static [&'static str],
    filters: &'static str,
    compress: bool,
}

const HOSTS: [&str; 6] = ["a.x", "b.x", "c.x", "d.y", "e.y", "f.y"];

fn drawn() -> impl Strategy<Value = Drawn> {
    let hosts = prop::collection::hash_set(0..HOSTS.len(), 1..3);
    let www = select(vec![None, Some("add"), Some("remove")]);
    let targets = vec![
        "proxy = \"127.0.0.1:1\"",
        "proxy = [\"127.0.0.1:1\", \"b:2\"]\ncache = true",
        "files = \"public\"",
        "redirect = \"https://else.z{path}\"",
    ];
    let listen: Vec<&'static [&'static str]> = vec![
        &[],
        &[],
        &["127.0.0.1:8080"],
        &["127.0.0.1:8080", "127.0.0.1:8081"],
        &["127.0.0.1:8080", "unix:run/plain.sock"],
    ];
    let listen = (any::<bool>(), select(listen));
    let rest = (select(vec!["", "filters = [\"near\"]"]), any::<bool>());
    (hosts, any::<bool>(), www, select(targets), listen, rest).prop_map(
        |(hosts, has_www, www, target, (is_https, listen), (filters, compress))| Drawn {
            hosts,
            has_www,
            www,
            target,
            is_https,
            listen,
            filters,
            compress: compress && !target.starts_with("redirect"),
        },
    )
}

impl Drawn {
    /// The site as a table of a file. Addresses with TLS differ from those without.
    fn text(&self, number: usize) -> String {
        let www = if self.has_www { "www." } else { "" };
        let hosts: Vec<_> = self.names().map(|host| format!("{www}{host}")).collect();
        let mut text = format!("[[site]]\nname = \"s{number}\"\nhosts = {hosts:?}\n");
        text += &format!("{}\n{}\n", self.target, self.filters);
        if let Some(www) = self.www {
            text += &format!("www = \"{www}\"\n");
        }
        if !self.listen.is_empty() {
            text += &format!("listen = {:?}\n", self.addresses());
        }
        if self.is_https {
            text += "https = { cert = \"a.crt\", key = \"a.key\" }\n";
        }
        text + &format!("compress = {}\n", self.compress)
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        let mut numbers: Vec<_> = self.hosts.iter().copied().collect();
        numbers.sort_unstable();
        numbers.into_iter().map(|number| HOSTS[number])
    }

    /// The addresses that serve it.
    fn addresses(&self) -> Vec<String> {
        let usual = if self.is_https { "[::]:443" } else { "[::]:80" };
        match self.listen {
            [] => vec![usual.to_owned()],
            listen if self.is_https => listen
                .iter()
                .map(|at| at.replace(":80", ":84").replace("plain", "tls"))
                .collect(),
            listen => listen.iter().map(|at| (*at).to_owned()).collect(),
        }
    }

    /// The answer to a request to this host and address; `None` if neither belongs to the site.
    fn answer(&self, address: &str, host: &str) -> Option<String> {
        let bare = host.strip_prefix("www.").unwrap_or(host);
        self.names().find(|name| *name == bare)?;
        let served = match (self.www, self.has_www) {
            (None, false) | (Some("remove"), _) => bare.to_owned(),
            _ => format!("www.{bare}"),
        };
        let is_other = host != served;
        if is_other && self.www.is_none() {
            return None;
        }
        let host = if self.www.is_some() {
            &served
        } else {
            "{host}"
        };
        if self.addresses().iter().any(|each| each == address) {
            let port = address.rsplit_once(':').expect("a port").1;
            let port = match port {
                "80" | "443" => String::new(),
                port => format!(":{port}"),
            };
            let scheme = if self.is_https { "https" } else { "http" };
            return Some(match is_other {
                true => format!("{scheme}://{served}{port}{{path}}{{query}}"),
                false => "served".to_owned(),
            });
        }
        let is_redirected = self.is_https && self.listen.is_empty() && address == "[::]:80";
        is_redirected.then(|| format!("https://{host}{{path}}{{query}}"))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// The long form is the same configuration, and routes requests as the sites do.
    #[test]
    fn the_long_form_is_the_same_configuration(sites in prop::collection::vec(drawn(), 1..4)) {
        let mut taken = HashSet::new();
        let mut sites = sites;
        sites.retain(|site| site.hosts.iter().all(|host| taken.insert(*host)));
        prop_assume!(!sites.is_empty());
        let near = "[http.filter.near]\nkind = \"ip\"\nallow = [\"10.0.0.0/8\"]\n";
        let texts = sites.iter().enumerate().map(|(number, site)| site.text(number));
        let mut text: String = texts.collect();
        if text.contains("near") {
            text += near;
        }
        let (outcome, long) = config::expand("steppe.toml", &text);
        let report = outcome.report.render(Drawing::Plain);
        let Some(short) = outcome.config else {
            panic!("{report}\n{text}");
        };
        prop_assert_eq!(report, "", "{}", text);
        let long = long.expect("it is valid");
        let read = config::parse("steppe.toml", &long);
        let read = read.unwrap_or_else(|report| panic!("{report}\n{long}"));
        prop_assert_eq!(&short.http, &read.http);
        prop_assert_eq!(short.effective(), read.effective());
        prop_assert_eq!(expanded(&long), long.clone());
        let addresses = ["[::]:80", "[::]:443", "127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:8480", "127.0.0.1:8481"];
        for address in addresses {
            let tcp: SocketAddr = address.parse().expect("an address");
            for host in HOSTS.iter().flat_map(|host| [(*host).to_owned(), format!("www.{host}")]) {
                let said = sites.iter().find_map(|site| site.answer(address, &host));
                let got = answer(&read.http, &ListenAddress::Tcp(tcp), &host);
                match (said.as_deref(), got) {
                    (None, None) => {}
                    (Some("served"), Some((name, _))) => {
                        let number = sites.iter().position(|site| site.answer(address, &host).is_some());
                        prop_assert_eq!(name, format!("s{}", number.expect("it answers")));
                    }
                    (Some(to), Some((_, got))) => prop_assert_eq!(to, got, "{} {}\n{}", address, host, long),
                    (said, got) => prop_assert!(false, "{address} {host}: {said:?} {got:?}\n{long}"),
                }
            }
        }
    }
}

/// Sites of every kind, reached by curl.
#[test]
fn a_node_serves_its_sites() {
    let authority = Authority::new("test");
    let issued = authority.issue(&Leaf::named(&["secure.example", "www.secure.example"]));
    let other = authority.issue(&Leaf::named(&["other.example"]));
    let origin = RawOrigin::permissive();
    let builder = Steppe::builder()
        .with("origin", origin.address())
        .with_file("ca.pem", &authority.pem())
        .with_file("secure.crt", &issued.cert)
        .with_file("secure.key", &issued.key)
        .with_file("other.crt", &other.cert)
        .with_file("other.key", &other.key)
        .with_file("index.html", "a page");
    let (builder, https) = builder.with_port("https");
    let node = builder.start(
        r#"
[admin]
listen = "{admin}"

[[site]]
hosts = ["app.example"]
listen = "{gateway}"
proxy = "{origin}"

[[site]]
hosts = ["pages.example"]
listen = "{gateway}"
files = "{scratch}"
www = "add"

[[site]]
hosts = ["old.example"]
listen = "{gateway}"
redirect = "https://new.example{path}{query}"

[[site]]
hosts = ["secure.example"]
listen = "127.0.0.1:{https}"
files = "{scratch}"
www = "remove"
https = { cert = "{scratch}/secure.crt", key = "{scratch}/secure.key" }

[[site]]
hosts = ["other.example"]
listen = "127.0.0.1:{https}"
proxy = "{origin}"
https = { cert = "{scratch}/other.crt", key = "{scratch}/other.key" }
"#,
    );
    let http = node.gateway().port();
    let ca = node.scratch().join("ca.pem");
    let get = |scheme: &str, host: &str, path: &str| -> CurlOutput {
        let port = if scheme == "https" { https } else { http };
        let got = Curl::new(&format!("{scheme}://{host}:{port}{path}"))
            .args(["--cacert", ca.to_str().expect("text")])
            .args(["--resolve", &format!("*:{port}:127.0.0.1")])
            .run();
        assert_eq!(got.exit, 0, "{scheme}://{host}{path}: {}", got.errors);
        got
    };
    let location = |scheme: &str, host: &str, path: &str| {
        let got = get(scheme, host, path);
        assert_eq!(got.head.status(), 308, "{scheme}://{host}{path}");
        got.head.field("location").map(str::to_owned)
    };
    let status = |scheme: &str, host: &str| get(scheme, host, "/").head.status();
    assert_eq!(status("http", "app.example"), 200);
    assert!(origin.received().contains("app.example"));
    assert_eq!(get("http", "www.pages.example", "/").body, b"a page");
    assert_eq!(
        location("http", "pages.example", "/a?b").as_deref(),
        Some(&*format!("http://www.pages.example:{http}/a?b"))
    );
    assert_eq!(
        location("http", "old.example", "/a?b").as_deref(),
        Some("https://new.example/a?b")
    );
    assert_eq!(get("https", "secure.example", "/").body, b"a page");
    assert_eq!(
        location("https", "www.secure.example", "/a?b").as_deref(),
        Some(&*format!("https://secure.example:{https}/a?b"))
    );
    // SNI selects the certificate.
    assert_eq!(status("https", "other.example"), 200);
    // A site is served at its own addresses alone.
    assert_eq!(status("http", "secure.example"), 404);
    let shown = node.admin_json("/config");
    assert_eq!(shown.get("site"), None);
    let routes = shown["http"]["route"].as_array().map(Vec::len);
    assert_eq!(routes, Some(7));
}

#[test]
fn a_start_tells_what_a_site_lacks() {
    let (status, told) = Steppe::builder().run(
        &["run", "-c"],
        "[[site]]\nhosts = \"a.example\"\nlisten = \"{gateway}\"\nproxy = \"127.0.0.1:1\"\n\
         https = { cert = \"missing.crt\", key = \"missing.key\" }\nauth = \"missing.users\"\n",
    );
    assert_eq!(status.code(), Some(1), "{told}");
    for (file, place) in [
        ("missing.crt", ":5:18]"),
        ("missing.key", ":5:39]"),
        ("missing.users", ":6:8]"),
    ] {
        assert!(told.contains(file) && told.contains(place), "{told}");
    }
    assert!(told.contains("steppe.toml: 3 errors"), "{told}");
    let port = Port::free();
    let held = port.address();
    let listener = std::net::TcpListener::bind(held).expect("it is free");
    let site =
        format!("[[site]]\nhosts = \"a.example\"\nlisten = \"{held}\"\nproxy = \"127.0.0.1:1\"\n");
    let (status, told) = Steppe::builder().run(&["run", "-c"], site);
    assert_eq!(status.code(), Some(3), "{told}");
    assert!(
        told.contains("stop the process that listens there"),
        "{told}"
    );
    drop(listener);
}

/// The usual ports, which a test cannot bind.
#[test]
fn http_is_redirected_to_https_on_the_usual_ports() {
    let (outcome, _) = config::expand(
        "steppe.toml",
        r#"
[[site]]
hosts = ["a.example"]
proxy = "127.0.0.1:1"
https = { cert = "a.crt", key = "a.key" }
[[site]]
hosts = ["b.example"]
proxy = "127.0.0.1:2"
"#,
    );
    let gateway = outcome.config.expect("it is valid").http;
    let at = |address: &str, host: &str| {
        let address: SocketAddr = address.parse().expect("an address");
        answer(&gateway, &ListenAddress::Tcp(address), host).map(|(_, answer)| answer)
    };
    let to_https = Some("https://{host}{path}{query}".to_owned());
    assert_eq!(at("[::]:80", "a.example"), to_https);
    assert_eq!(
        at("[::]:443", "a.example").as_deref(),
        Some("proxy a.example")
    );
    assert_eq!(
        at("[::]:80", "b.example").as_deref(),
        Some("proxy b.example")
    );
    assert_eq!(at("[::]:443", "b.example"), None);
}
