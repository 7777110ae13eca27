//! delv, which validates the forwarder's responses by the key of the zone.

use std::process::Command;

use super::zones::{SIGNED, UNSIGNED};
use super::{Site, run, said};

const TEST: &str = "delv_validates_what_it_gets_through_the_forwarder";

/// The output of delv for a name. `None` if it is not installed.
fn delv(site: &Site, transport: &str, name: &str) -> Option<String> {
    let anchors = site
        .forwarder
        .node
        .scratch()
        .write("anchors.conf", &site.nsd.trust_anchors);
    let mut command = Command::new("delv");
    command
        .args([
            "@127.0.0.1",
            "-p",
            &site.forwarder.plain.port().to_string(),
            "-a",
        ])
        .arg(anchors)
        .args([&format!("+root={SIGNED}"), transport, name, "A"]);
    Some(said(&run(TEST, command)?))
}

#[test]
fn delv_validates_what_it_gets_through_the_forwarder() {
    let Some(site) = Site::start(TEST) else {
        return;
    };
    for (transport, counted) in [("+notcp", "udp"), ("+tcp", "tcp")] {
        for (name, wants) in [
            (format!("www.{SIGNED}"), "; fully validated\nwww."),
            (
                format!("no.{SIGNED}"),
                "; negative response, fully validated",
            ),
            (format!("www.{UNSIGNED}"), "; unsigned answer\nwww."),
            // A record that was changed after it was signed: the forwarder passes it on, and delv detects it.
            (format!("forged.{SIGNED}"), "resolution failed"),
        ] {
            let before = site.forwarder.queries(counted);
            let Some(said) = delv(&site, transport, &name) else {
                return;
            };
            assert!(said.contains(wants), "{transport} {name}: {said}");
            assert!(
                site.forwarder.queries(counted) > before,
                "{transport} {name}"
            );
        }
    }
    site.stop();
}
