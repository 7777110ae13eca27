//! `basic-auth` and `forward-auth` on the wire.

use std::net::SocketAddr;

use steppe_testkit::{FullQueue, NodeConfig, Port};

use super::*;

/// A node with one filter, which may query an upstream `decides`.
fn start(origin: &RawOrigin, filter: &str, decides: Option<SocketAddr>) -> Steppe {
    let config = filtering(filter);
    let config = match decides {
        Some(server) => config.add_upstream("decides", |u| u.servers([server])),
        None => config,
    };
    start_with(origin, &config)
}

/// A configuration whose one route has the filter `f` with these keys.
fn filtering(filter: &str) -> NodeConfig {
    NodeConfig::plain()
        .protocols(["h1", "h2c"])
        .route("all", |r| r.filters(["f"]))
        .add_filter("f", |f| f.with_toml(filter))
}

fn start_with(origin: &RawOrigin, config: &NodeConfig) -> Steppe {
    let builder = Steppe::builder().with("origin", origin.address());
    builder.start(config)
}

fn basic(credentials: &str) -> String {
    use base64::Engine;
    let token = base64::engine::general_purpose::STANDARD.encode(credentials);
    format!("Authorization: Basic {token}\r\n")
}

/// The hash of "open sesame", by bcrypt.
const HASH: &str = "$2b$04$cBxG3y4QbtIdO423VEpLmeN.5fHcr5.kOR7fAk6QelkQ4tcdoXtG.";

struct Guarded {
    _scratch: Scratch,
    origin: RawOrigin,
    node: Steppe,
}

fn guarded(users: &str, more: &str) -> Guarded {
    let (scratch, origin) = (Scratch::new("basic"), RawOrigin::answering(OK));
    let file = scratch.path().join("users");
    std::fs::write(&file, users).expect("a file");
    let filter = format!(
        "kind = \"basic-auth\"\nusers_file = \"{}\"\n{more}\n",
        file.display()
    );
    let node = start(&origin, &filter, None);
    Guarded {
        _scratch: scratch,
        origin,
        node,
    }
}

#[test]
fn a_password_lets_in_and_everything_else_is_challenged() {
    over_each(|protocol| {
        let site = guarded(
            &format!("# staff\nann:{HASH}\n"),
            "realm = \"staff\"\nforward_user = \"X-User\"",
        );
        let ask = |fields: &str| ask(&site.node, protocol, "GET", "/", fields);
        let lies = "X-User: root\r\n";
        // The second request finds the password cached.
        for _ in 0..2 {
            assert_eq!(ask(&(basic("ann:open sesame") + lies)).status(), 200);
        }
        let received = site.origin.received().to_ascii_lowercase();
        assert_eq!(received.matches("x-user: ann\r\n").count(), 2, "{received}");
        assert!(!received.contains("root"), "{received}");
        for wrong in ["ann:open sesam", "ann:", "bob:open sesame", ":open sesame"] {
            let answer = ask(&basic(wrong));
            assert_eq!(answer.status(), 401, "{wrong}");
            assert_eq!(
                answer.field("www-authenticate"),
                Some("Basic realm=\"staff\", charset=\"UTF-8\"")
            );
        }
        assert_eq!(ask("").status(), 401);
        assert_eq!(ask("Authorization: Bearer x\r\n").status(), 401);
        for malformed in [
            "Authorization: Basic !\r\n".to_owned(),
            basic("no colon"),
            basic("ann:open sesame") + &basic("ann:open sesame"),
            format!("Authorization: Basic {}\r\n", "A".repeat(2000)),
        ] {
            assert_eq!(ask(&malformed).status(), 400);
        }
        assert_eq!(site.origin.received().matches("GET /").count(), 2);
    });
}

#[test]
fn a_password_is_forgotten_with_its_file() {
    over_each(|protocol| {
        let site = guarded(&format!("ann:{HASH}\n"), "");
        let status = || ask(&site.node, protocol, "GET", "/", &basic("ann:open sesame")).status();
        assert_eq!((status(), status()), (200, 200));
        let file = site._scratch.path().join("users");
        std::fs::write(&file, format!("bob:{HASH}\n")).expect("a file");
        assert_eq!(site.node.admin_post("/reload").status(), 200);
        assert_eq!(status(), 401);
    });
}

#[test]
fn more_passwords_than_can_wait_are_refused_and_workers_go_on() {
    // Each verification takes a processor for about 50 ms.
    let hash = HASH.replace("$04$", "$10$");
    let site = guarded(&format!("ann:{hash}\n"), "");
    let mut clients: Vec<_> = (0..150).map(|_| site.node.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let wrong = basic(&format!("ann:{number}"));
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{wrong}\r\n"));
    }
    // The worker answers other requests meanwhile.
    assert_eq!(ask(&site.node, Protocol::H1, "GET", "/", "").status(), 401);
    let statuses: Vec<_> = clients
        .iter_mut()
        .map(|client| client.response().status())
        .collect();
    let count = |status| statuses.iter().filter(|known| **known == status).count();
    assert!(count(401) >= 64 && count(503) > 0, "{statuses:?}");
    assert_eq!(count(401) + count(503), 150, "{statuses:?}");
}

#[test]
fn a_file_that_knows_passwords_themselves_is_refused() {
    let scratch = Scratch::new("basic");
    let users = scratch.path().join("users");
    std::fs::write(&users, "ann:secret\n").expect("a file");
    let keys = format!(
        "kind = \"basic-auth\"\nusers_file = \"{}\"",
        users.display()
    );
    let said = refused(&keys);
    assert!(said.contains("line 1: unknown password hash"), "{said}");
    assert!(!said.contains("secret"), "{said}");
}

const ASKS: &str = "kind = \"forward-auth\"\nupstream = \"decides\"\npath = \"/verify?x=1\"\n\
    request_headers = [\"Cookie\"]\nresponse_headers = [\"X-User\", \"X-Team\"]\ntimeout = \"10s\"\n";

#[test]
fn a_service_decides_about_each_request() {
    over_each(|protocol| {
        let decides = RawOrigin::replying(|request| match request.field("cookie") {
            Some("session=ann") => {
                b"HTTP/1.1 204 No Content\r\nx-user: ann\r\nx-secret: 1\r\n\r\n".to_vec()
            }
            _ => {
                b"HTTP/1.1 302 Found\r\nlocation: /login\r\nset-cookie: a=1\r\nset-cookie: b=2\r\n\
                    content-type: text/html\r\ncontent-length: 5\r\n\r\nlogin"
                    .to_vec()
            }
        });
        let origin = RawOrigin::answering(OK);
        let node = start(&origin, ASKS, Some(decides.address()));
        let lies = "X-User: root\r\nx-team: admins\r\nX-Other: kept\r\n";
        for _ in 0..3 {
            let passed = ask(
                &node,
                protocol,
                "PUT",
                "/a/%2e/b?q=1",
                &format!("Cookie: session=ann\r\n{lies}"),
            );
            assert_eq!(passed.status(), 200);
        }
        let received = origin.received().to_ascii_lowercase();
        assert_eq!(received.matches("x-user: ann\r\n").count(), 3, "{received}");
        for absent in ["root", "x-team", "x-secret"] {
            assert!(!received.contains(absent), "{absent}: {received}");
        }
        assert!(received.contains("x-other: kept\r\n"), "{received}");
        let asked = decides.received().to_ascii_lowercase();
        for told in [
            "get /verify?x=1 http/1.1\r\n",
            "x-forwarded-method: put\r\n",
            "x-forwarded-uri: /a/b?q=1\r\n",
            "x-forwarded-proto: http\r\n",
        ] {
            assert_eq!(asked.matches(told).count(), 3, "{told}: {asked}");
        }
        assert!(
            !asked.contains("x-other") && !asked.contains("root"),
            "{asked}"
        );
        // One connection, reused.
        assert_eq!(decides.accepted(), 1);
        let refused = ask(&node, protocol, "GET", "/", "");
        assert_eq!(
            (
                refused.status(),
                refused.field("location"),
                refused.text().as_str()
            ),
            (302, Some("/login"), "login")
        );
        assert_eq!(refused.all("set-cookie"), ["a=1", "b=2"]);
        assert_eq!(origin.received().matches("HTTP/1.1\r\n").count(), 3);
    });
}

#[test]
fn its_time_is_for_the_connection_as_well() {
    let full = FullQueue::new();
    let origin = RawOrigin::answering(OK);
    let config = filtering(ASKS)
        .filter("f", |f| f.set("timeout", "200ms").upstream("unheard"))
        .add_upstream("unheard", |u| {
            u.servers([full.address()]).set("timeouts.connect", "10m")
        });
    let node = start_with(&origin, &config);
    assert_eq!(ask(&node, Protocol::H1, "GET", "/", "").status(), 504);
    assert_eq!(origin.accepted(), 0);
}

#[test]
fn without_an_answer_nobody_passes() {
    over_each(|protocol| {
        let origin = RawOrigin::answering(OK);
        // The service never answers.
        let silent = RawOrigin::start(|peer| while peer.request().is_some() {});
        let config = filtering(ASKS)
            .filter("f", |f| f.set("timeout", "200ms"))
            .add_upstream("decides", |u| u.servers([silent.address()]));
        let node = start_with(&origin, &config);
        assert_eq!(ask(&node, protocol, "GET", "/", "").status(), 504);
        // The service answers with too much content.
        let long = format!(
            "HTTP/1.1 403 Forbidden\r\ncontent-length: 20000\r\n\r\n{}",
            "x".repeat(20_000)
        );
        let long = RawOrigin::answering(long);
        let node = start(&origin, ASKS, Some(long.address()));
        assert_eq!(ask(&node, protocol, "GET", "/", "").status(), 502);
        // The service is not there.
        let gone = Port::free();
        let node = start(&origin, ASKS, Some(gone.address()));
        assert_eq!(ask(&node, protocol, "GET", "/", "").status(), 502);
        assert_eq!(origin.received(), "");
    });
}

#[test]
fn an_idle_connection_that_closed_is_nobodys_refusal() {
    over_each(|protocol| {
        let origin = RawOrigin::answering(OK);
        // The service closes after each answer, without `Connection: close`.
        let decides = RawOrigin::start(|peer| {
            if peer.request().is_some() {
                peer.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
            }
        });
        let node = start(&origin, ASKS, Some(decides.address()));
        for _ in 0..5 {
            assert_eq!(ask(&node, protocol, "GET", "/", "").status(), 200);
        }
    });
}
