//! Tickets: sessions that may be resumed, and those that must not. rustls takes a client's
//! certificates from its ticket, so each test that changes a policy has a client that would be
//! accepted by its ticket alone.

use std::net::SocketAddr;
use std::path::Path;

use steppe_testkit::{
    Authority, Issued, Leaf, Port, RawOrigin, SClient, Scratch, Steppe, TlsClient, Validity,
};

use super::{GET, GET_AND_CLOSE, NAME, OK, Site, expect_count, reload};

/// Makes a request; returns true if the session was resumed, or the error if there was no response.
fn visit(client: &TlsClient, address: SocketAddr) -> Result<bool, String> {
    let mut peer = client
        .try_connect(address, NAME)
        .map_err(|error| error.to_string())?;
    let is_resumed = peer.is_resumed();
    let sent = peer.try_send(GET.as_bytes());
    if sent.is_ok()
        && let Ok(Some(head)) = peer.try_head()
    {
        assert_eq!(head.status(), 200);
        return Ok(is_resumed);
    }
    Err(peer
        .end()
        .map_or_else(String::new, |error| error.to_string()))
}

/// Clients of both versions, with a ticket each.
fn with_tickets(node: &Steppe, client: impl Fn(TlsClient) -> TlsClient) -> [TlsClient; 2] {
    [TlsClient::new(), TlsClient::of_1_2()].map(|version| {
        let client = client(version);
        assert_eq!(visit(&client, node.gateway()), Ok(false));
        assert_eq!(visit(&client, node.gateway()), Ok(true));
        client
    })
}

struct Clients {
    authority: Authority,
    server: Issued,
    client: Issued,
}

impl Clients {
    fn new() -> Self {
        let authority = Authority::new("clients");
        let server = authority.issue(&Leaf::named(&[NAME]));
        let client = authority.issue(&Leaf::named(&["client"]).serial(7));
        Self {
            authority,
            server,
            client,
        }
    }

    /// A node that asks for certificates and has an empty revocation list.
    fn node(&self, origin: &RawOrigin) -> Steppe {
        self.site().start(origin.address())
    }

    /// The same node before it is started.
    fn site(&self) -> Site {
        let list = self.authority.revocation_list(&[], Validity::Current);
        Site::serving(&self.server)
            .asking("required", &self.authority.pem())
            .file("clients.crl", &list)
            .listener(|l| l.set("tls.client_crl", ["{scratch}/clients.crl"]))
    }
}

#[test]
fn a_reload_that_changes_nothing_keeps_tickets() {
    let all = Clients::new();
    let origin = RawOrigin::answering(OK);
    let site = all.site();
    let config = site.config.clone();
    let node = site.start(origin.address());
    let clients = with_tickets(&node, |client| client.showing(&all.client));
    reload(&node);
    for client in &clients {
        assert_eq!(visit(client, node.gateway()), Ok(true));
    }
    // A change of other keys keeps the tickets, too.
    node.set_config(config.upstream("origin", |u| u.set("keepalive", 8)));
    reload(&node);
    for client in &clients {
        assert_eq!(visit(client, node.gateway()), Ok(true));
    }
    expect_count(&node, "full", 2.0);
}

#[test]
fn a_client_that_is_revoked_does_not_resume() {
    let all = Clients::new();
    let origin = RawOrigin::answering(OK);
    let node = all.node(&origin);
    let clients = with_tickets(&node, |client| client.showing(&all.client));
    let list = all
        .authority
        .revocation_list(&[&all.client], Validity::Current);
    node.scratch().write("clients.crl", list);
    reload(&node);
    let served = origin.received().matches("GET /").count();
    for client in &clients {
        let refused = visit(client, node.gateway()).expect_err("it is revoked");
        assert!(refused.contains("CertificateRevoked"), "{refused}");
    }
    assert_eq!(origin.received().matches("GET /").count(), served);
    expect_count(&node, "client_certificate", 2.0);
}

#[test]
fn a_client_of_an_authority_that_has_gone_does_not_resume() {
    let all = Clients::new();
    let other = Authority::new("others");
    let origin = RawOrigin::answering(OK);
    let site = Site::serving(&all.server).asking("required", &all.authority.pem());
    let node = site.start(origin.address());
    let clients = with_tickets(&node, |client| client.showing(&all.client));
    node.scratch().write("ca.crt", other.pem());
    reload(&node);
    for client in &clients {
        let refused = visit(client, node.gateway()).expect_err("nobody trusts it");
        assert!(refused.contains("UnknownCA"), "{refused}");
    }
}

#[test]
fn a_ticket_from_before_clients_were_asked_does_not_open() {
    let all = Clients::new();
    let origin = RawOrigin::answering(OK);
    let site = Site::serving(&all.server).file("ca.crt", &all.authority.pem());
    let config = site.config.clone();
    let node = site.start(origin.address());
    let clients = with_tickets(&node, |client| client);
    node.set_config(config.listener(|l| {
        l.set("tls.client_ca", "{scratch}/ca.crt")
            .set("tls.client_auth", "required")
    }));
    reload(&node);
    for client in &clients {
        let refused = visit(client, node.gateway()).expect_err("it shows no certificate");
        assert!(!refused.is_empty());
    }
    expect_count(&node, "client_certificate", 2.0);
}

#[test]
fn a_ticket_of_one_listener_does_not_open_at_another() {
    let all = Clients::new();
    let origin = RawOrigin::answering(OK);
    let secrets = format!("{}\n", "5e".repeat(32));
    let site = Site::serving(&all.server)
        .file("tickets", &secrets)
        .listener(|l| l.set("tls.ticket_keys", "{scratch}/tickets"));
    let (builder, port) = site.builder.with_port("other");
    let certificates = site.certificates.clone();
    let node = Site { builder, ..site }
        .configured(|config| {
            config.add_listener("127.0.0.1:{other}", |l| {
                l.set("tls.certificates", certificates)
                    .set("tls.ticket_keys", "{scratch}/tickets")
            })
        })
        .start(origin.address());
    let other = SocketAddr::from(([127, 0, 0, 1], port));
    let clients = with_tickets(&node, |client| client);
    for client in &clients {
        // The client offers the ticket, since the name is the same.
        assert_eq!(visit(client, other), Ok(false));
        assert_eq!(visit(client, other), Ok(true));
    }
}

/// Makes a request with OpenSSL, which writes its session to `file`, or offers the one in it; true
/// if it was resumed.
fn visit_with_openssl(address: SocketAddr, version: &str, file: &Path) -> bool {
    let kept = if file.exists() {
        "-sess_in"
    } else {
        "-sess_out"
    };
    let path = file.to_str().expect("a path in ASCII");
    let client = SClient::new(address).args([version, "-servername", NAME, kept, path]);
    let said = client.request(GET_AND_CLOSE).run();
    assert!(said.text.contains("HTTP/1.1 200"), "{}", said.text);
    said.is_resumed()
}

/// One node after the other, since tickets are bound to the listener's address: nodes of a fleet
/// have the same one.
#[test]
fn nodes_that_share_ticket_keys_resume_each_others_sessions() {
    let all = Clients::new();
    let origin = RawOrigin::answering(OK);
    let port = Port::free();
    let start = |secrets: &str| {
        let site = Site::serving(&all.server);
        let site = match secrets {
            "" => site,
            secrets => site
                .file("tickets", secrets)
                .listener(|l| l.set("tls.ticket_keys", "{scratch}/tickets")),
        };
        site.listener(|l| l.set("listen", port.address()))
            .start(origin.address())
    };
    let [old, new] = ["5e", "77"].map(|byte| byte.repeat(32) + "\n");
    let scratch = Scratch::new("session");
    let sessions = ["-tls1_2", "-tls1_3"].map(|version| (version, scratch.join(version)));
    let node = start(&old);
    for (version, session) in &sessions {
        assert!(!visit_with_openssl(port.address(), version, session));
    }
    assert!(node.stop().success());
    // The first secret encrypts tickets; each of them decrypts.
    let others = [
        ("", false),
        (&*new, false),
        (&*old, true),
        (&*(new.clone() + &old), true),
    ];
    for (secrets, is_resumed) in others {
        let node = start(secrets);
        for (version, session) in &sessions {
            let resumed = visit_with_openssl(port.address(), version, session);
            assert_eq!(resumed, is_resumed, "{version} with {secrets:?}");
        }
        assert!(node.stop().success());
    }
}
