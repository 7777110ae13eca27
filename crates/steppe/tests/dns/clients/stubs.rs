//! stubby: programs of a machine query it over UDP, and it queries the forwarder over TLS.

use std::path::Path;
use std::process::Command;

use steppe_testkit::{Port, Process, Scratch, eventually};

use super::zones::{NUMBERED, SIGNED};
use super::{HOST, Site, run, said};

const TEST: &str = "stubby_asks_over_tls_for_programs_that_know_none";

/// A stub resolver that queries only the forwarder, over TLS.
struct Stubby {
    process: Process,
    port: Port,
    _folder: Scratch,
}

impl Stubby {
    /// Starts stubby, which trusts certificates issued by `ca`.
    fn start(site: &Site, ca: &Path) -> Self {
        let (folder, port) = (Scratch::new("stubby"), Port::free());
        let text = format!(
            r#"
resolution_type: GETDNS_RESOLUTION_STUB
dns_transport_list:
  - GETDNS_TRANSPORT_TLS
tls_authentication: GETDNS_AUTHENTICATION_REQUIRED
tls_query_padding_blocksize: 128
edns_client_subnet_private: 1
idle_timeout: 10000
tls_ca_file: "{ca}"
appdata_dir: "{folder}"
listen_addresses:
  - 127.0.0.1@{port}
upstream_recursive_servers:
  - address_data: 127.0.0.1
    tls_port: {dot}
    tls_auth_name: "{HOST}"
"#,
            ca = ca.display(),
            folder = folder.path().display(),
            port = port.number(),
            dot = site.forwarder.dot.port(),
        );
        let mut command = Command::new("stubby");
        command.arg("-C").arg(folder.write("stubby.yml", text));
        let mut stubby = Self {
            process: Process::start("stubby", command),
            port,
            _folder: folder,
        };
        eventually("stubby answers, whatever it is", || {
            let ended = !stubby.process.is_running();
            assert!(!ended, "stubby ended: {}", stubby.process.said());
            let said = stubby.dig(&["+time=2", "+tries=1", SIGNED, "SOA"]);
            said.is_none_or(|said| said.contains("status: "))
        });
        stubby
    }

    /// The output of dig for a query to stubby. `None` if dig is not installed.
    fn dig(&self, args: &[&str]) -> Option<String> {
        let mut command = Command::new("dig");
        let port = self.port.number().to_string();
        command.args(["@127.0.0.1", "-p", &port]).args(args);
        Some(said(&run(TEST, command)?))
    }
}

#[test]
fn stubby_asks_over_tls_for_programs_that_know_none() {
    let Some(site) = Site::start(TEST) else {
        return;
    };
    let mut version = Command::new("stubby");
    version.arg("-V");
    if run(TEST, version).is_none() {
        return;
    }
    let stubby = Stubby::start(&site, &site.ca());
    let before = site.forwarder.queries("tls");
    let names: Vec<_> = (0..NUMBERED).map(|at| format!("n{at}.{SIGNED}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let Some(text) = stubby.dig(&[&["+noall", "+answer"], &names[..]].concat()) else {
        return;
    };
    for (number, name) in names.iter().enumerate() {
        let line = text.lines().find(|line| line.starts_with(name));
        let address = format!("\t192.0.2.{number}");
        assert!(line.is_some_and(|line| line.ends_with(&address)), "{text}");
    }
    let asked = site.forwarder.queries("tls") - before;
    assert!(asked >= f64::from(NUMBERED), "{asked} queries over TLS");
    // A certificate of another authority is not trusted: the answer is SERVFAIL.
    let stubby = Stubby::start(&site, &site.other_ca());
    let text = stubby.dig(&["+time=5", "+tries=1", names[0]]);
    assert!(text.is_some_and(|text| text.contains("SERVFAIL")));
    site.stop();
}
