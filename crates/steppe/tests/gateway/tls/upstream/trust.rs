//! Servers that are trusted, by each key, and the reasons that are reported for others.

use steppe_testkit::{Issued, Validity};

use super::*;

const OK: &str = "return 200 ok;";

/// The pin of a certificate.
fn pin(issued: &Issued) -> String {
    format!("sha256/{}", issued.key_digest())
}

#[test]
fn the_named_authority_is_trusted_and_no_other() {
    let (authority, other) = (Authority::new("one"), Authority::new("other"));
    let nginx = TlsNginx::start(&authority, &authority.issue(&local()), OK);
    let trusting = node(&authority, nginx.address(), (CA, ""));
    assert_eq!(get(&trusting).text(), "ok");
    assert_eq!(reason(&trusting), "");
    let doubting = node(&other, nginx.address(), (CA, ""));
    assert_eq!(get(&doubting).status(), 502);
    assert_eq!(reason(&doubting), "certificate from an unknown authority");
}

/// Each failure has its reason, in `/upstreams` and once in the log.
#[test]
fn a_failure_names_its_reason() {
    let authority = Authority::new("one");
    let issue = |leaf: Leaf| authority.issue(&leaf);
    let good = issue(local());
    let stranger = pin(&issue(local()));
    let of_old = "ssl_protocols TLSv1.2; return 200 ok;";
    let cases = [
        (
            &issue(Leaf::named(&["b.example"])),
            OK,
            CA.to_owned(),
            "certificate for another name",
        ),
        (
            &issue(local().valid(Validity::Expired)),
            OK,
            CA.to_owned(),
            "certificate expired or not valid yet",
        ),
        (
            &issue(local().valid(Validity::NotYet)),
            OK,
            CA.to_owned(),
            "certificate expired or not valid yet",
        ),
        (
            &good,
            OK,
            format!("{CA}, server_name = \"b.example\""),
            "certificate for another name",
        ),
        (
            &good,
            OK,
            format!("{CA}, pins = [\"{stranger}\"]"),
            "public key is not pinned",
        ),
        (
            &good,
            OK,
            format!("verify = false, pins = [\"{stranger}\"]"),
            "public key is not pinned",
        ),
        (
            &good,
            of_old,
            format!("{CA}, min_version = \"1.3\""),
            "TLS handshake refused",
        ),
    ];
    for (issued, lines, tls, expected) in cases {
        let nginx = TlsNginx::start(&authority, issued, lines);
        let node = node(&authority, nginx.address(), (&tls, ""));
        for _ in 0..3 {
            assert_eq!(get(&node).status(), 502, "{expected}: {tls}");
        }
        assert_eq!(reason(&node), expected, "{tls}");
        eventually("it is logged", || node.said().contains(expected));
        let said = node.said();
        let warnings = said
            .lines()
            .filter(|line| line.contains("WARN") && line.contains(expected));
        assert_eq!(warnings.count(), 1, "{tls}: {said}");
    }
}

#[test]
fn a_reason_goes_when_the_server_is_mended() {
    let authority = Authority::new("one");
    let old = authority.issue(&local().valid(Validity::Expired));
    let nginx = TlsNginx::start(&authority, &old, OK);
    let node = node(&authority, nginx.address(), (CA, ""));
    assert_eq!(get(&node).status(), 502);
    assert_ne!(reason(&node), "");
    nginx.renew(&authority.issue(&local()));
    eventually("the renewed certificate is seen", || {
        get(&node).status() == 200
    });
    // An exchange is counted after its response was sent.
    eventually("the reason is gone", || reason(&node).is_empty());
}

#[test]
fn the_server_name_is_asked_for_and_verified() {
    let authority = Authority::new("one");
    let issued = authority.issue(&Leaf::named(&["b.example"]));
    let nginx = TlsNginx::start(&authority, &issued, "return 200 $ssl_server_name;");
    let tls = format!("{CA}, server_name = \"b.example\"");
    let node = node(&authority, nginx.address(), (&tls, ""));
    assert_eq!(get(&node).text(), "b.example");
}

/// Without `server_name`, SNI has the host of the server's address.
#[test]
fn a_servers_own_name_is_asked_for() {
    let authority = Authority::new("one");
    let issued = authority.issue(&Leaf::named(&["localhost"]));
    let nginx = TlsNginx::start(&authority, &issued, "return 200 $ssl_server_name;");
    let address = format!("localhost:{}", nginx.address().port());
    assert_eq!(
        get(&node(&authority, address, (CA, ""))).text(),
        "localhost"
    );
    let by_number = node(&authority, nginx.address(), (CA, ""));
    assert_eq!(
        get(&by_number).status(),
        502,
        "the certificate has no address"
    );
}

#[test]
fn one_of_the_pins_is_enough_and_other_reasons_count_beside_it() {
    let (authority, other) = (Authority::new("one"), Authority::new("other"));
    let issued = authority.issue(&local());
    let nginx = TlsNginx::start(&authority, &issued, OK);
    let pins = format!(
        "pins = [\"{}\", \"{}\"]",
        pin(&other.issue(&local())),
        pin(&issued)
    );
    let pinned = node(&authority, nginx.address(), (&format!("{CA}, {pins}"), ""));
    assert_eq!(get(&pinned).text(), "ok");
    let untrusted = node(&other, nginx.address(), (&format!("{CA}, {pins}"), ""));
    assert_eq!(get(&untrusted).status(), 502, "a pin is no authority");
    let alone = node(
        &other,
        nginx.address(),
        (&format!("verify = false, {pins}"), ""),
    );
    assert_eq!(get(&alone).text(), "ok");
}

#[test]
fn without_verification_any_certificate_will_do() {
    let authority = Authority::new("one");
    let issued = authority.issue(&Leaf::named(&["b.example"]).valid(Validity::Expired));
    let nginx = TlsNginx::start(&authority, &issued, OK);
    let node = node(&authority, nginx.address(), ("verify = false", ""));
    assert_eq!(get(&node).text(), "ok");
}

#[test]
fn the_oldest_version_is_the_one_that_was_set() {
    let authority = Authority::new("one");
    let lines = "ssl_protocols TLSv1.2; return 200 $ssl_protocol;";
    let nginx = TlsNginx::start(&authority, &authority.issue(&local()), lines);
    let tls = format!("{CA}, min_version = \"1.2\"");
    assert_eq!(
        get(&node(&authority, nginx.address(), (&tls, ""))).text(),
        "TLSv1.2"
    );
    let lines = "ssl_protocols TLSv1.2 TLSv1.3; return 200 $ssl_protocol;";
    let nginx = TlsNginx::start(&authority, &authority.issue(&local()), lines);
    let tls = format!("{CA}, min_version = \"1.3\"");
    assert_eq!(
        get(&node(&authority, nginx.address(), (&tls, ""))).text(),
        "TLSv1.3"
    );
}

#[test]
fn a_server_that_asks_for_a_certificate_gets_ours() {
    let authority = Authority::new("one");
    let lines = "ssl_verify_client on; ssl_client_certificate {files}/ca.pem;
                 return 200 \"$ssl_client_verify $ssl_client_s_dn\";";
    let nginx = TlsNginx::start(&authority, &authority.issue(&local()), lines);
    let ours = authority.issue(&Leaf::named(&["gateway.example"]));
    let tls = format!("{CA}, cert = \"{{scratch}}/own.pem\", key = \"{{scratch}}/own.key\"");
    let builder = Steppe::builder()
        .with("origin", nginx.address())
        .with_file("ca.pem", &authority.pem())
        .with_file("own.pem", &ours.cert)
        .with_file("own.key", &ours.key);
    let node = builder.start(config(&tls, ""));
    assert_eq!(get(&node).text(), "SUCCESS CN=gateway.example");
    let bare = super::node(&authority, nginx.address(), (CA, ""));
    assert_eq!(get(&bare).status(), 400, "nginx asks for one");
}

#[test]
fn without_a_file_the_systems_authorities_are_trusted() {
    let authority = Authority::new("one");
    let nginx = TlsNginx::start(&authority, &authority.issue(&local()), OK);
    let builder = |bundle: &str| {
        let builder = Steppe::builder().with("origin", nginx.address());
        builder
            .with_file("bundle.pem", bundle)
            .with_env("SSL_CERT_FILE", "{scratch}/bundle.pem")
            .with_env("SSL_CERT_DIR", "")
    };
    let toml = config("min_version = \"1.2\"", "");
    assert_eq!(get(&builder(&authority.pem()).start(&toml)).text(), "ok");
    let stranger = builder(&Authority::new("other").pem()).start(&toml);
    assert_eq!(get(&stranger).status(), 502);
    // No system roots at all, as in an image with the binary alone.
    let (status, said) = builder("").run(&["run", "-c"], &toml);
    assert!(!status.success());
    assert!(
        said.contains("no system root certificates") && said.contains("`ca`"),
        "{said}"
    );
    // Without verification, no system roots are needed.
    let toml = config("verify = false", "");
    assert_eq!(get(&builder("").start(&toml)).text(), "ok");
}
