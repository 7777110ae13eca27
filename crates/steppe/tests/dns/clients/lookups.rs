//! dig and kdig over every transport, with the forwarder's certificate verified.

use std::net::SocketAddr;
use std::process::{Command, Output};

use super::zones::{LONG_RECORDS, SIGNED};
use super::{HOST, Site, run, said};

/// A way to query: the transport's name in metrics, the address, and the program's options.
type Way = (&'static str, SocketAddr, Vec<String>);

fn ways(site: &Site) -> [Way; 5] {
    let verified = |by: &str| {
        let ca = format!("+tls-ca={}", site.ca().display());
        vec![by.to_owned(), ca, format!("+tls-hostname={HOST}")]
    };
    [
        ("udp", site.forwarder.plain, vec!["+notcp".to_owned()]),
        ("tcp", site.forwarder.plain, vec!["+tcp".to_owned()]),
        ("tls", site.forwarder.dot, verified("+tls")),
        ("https", site.forwarder.doh, verified("+https")),
        ("https", site.forwarder.doh, verified("+https-get")),
    ]
}

fn ask(test: &str, program: &str, (_, server, args): &Way, question: [&str; 2]) -> Option<Output> {
    let mut command = Command::new(program);
    command
        .arg("@127.0.0.1")
        .args(["-p", &server.port().to_string()])
        .args(args)
        .args(["+dnssec", "+time=10", "+retry=0"])
        .args(question);
    run(test, command)
}

/// Queries a signed name over every transport, and one whose answer is longer than a datagram.
fn asks_over_every_transport(test: &str, program: &str) {
    let Some(site) = Site::start(test) else {
        return;
    };
    let (www, long) = (format!("www.{SIGNED}"), format!("long.{SIGNED}"));
    for way in ways(&site) {
        let before = site.forwarder.queries(way.0);
        let Some(output) = ask(test, program, &way, [&www, "A"]) else {
            return;
        };
        let text = said(&output);
        assert!(output.status.success(), "{way:?}: {text}");
        assert!(text.contains("status: NOERROR"), "{way:?}: {text}");
        assert!(text.contains("192.0.2.7"), "{way:?}: {text}");
        assert!(text.contains("RRSIG"), "{way:?}: {text}");
        assert!(site.forwarder.queries(way.0) > before, "{way:?}");
    }
    // The answer over UDP is truncated, which leads to TCP.
    let way = ("tcp", site.forwarder.plain, Vec::new());
    let before = [site.forwarder.queries("udp"), site.forwarder.queries("tcp")];
    let Some(output) = ask(test, program, &way, [&long, "TXT"]) else {
        return;
    };
    let text = said(&output);
    let records = text.lines().filter(|line| line.contains("\tTXT\t"));
    assert_eq!(records.count(), LONG_RECORDS, "{text}");
    assert!(site.forwarder.queries("udp") > before[0] && site.forwarder.queries("tcp") > before[1]);
    // A client that verifies sees another server's certificate.
    let other = format!("+tls-ca={}", site.other_ca().display());
    let way = ("tls", site.forwarder.dot, vec!["+tls".to_owned(), other]);
    let Some(output) = ask(test, program, &way, [&www, "A"]) else {
        return;
    };
    assert!(!said(&output).contains("192.0.2.7"), "{}", said(&output));
    site.stop();
}

#[test]
fn dig_asks_over_every_transport() {
    asks_over_every_transport("dig_asks_over_every_transport", "dig");
}

#[test]
fn kdig_asks_over_every_transport() {
    asks_over_every_transport("kdig_asks_over_every_transport", "kdig");
}
