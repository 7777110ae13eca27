//! `steppe run` without a file: its default configuration, and the commands in its banner.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use steppe_testkit::{PATIENCE, Port, Process, Steppe, eventually};

/// Ports of gateway, gateway with TLS, admin, demo origin and DNS forwarder.
struct Ports([Port; 5]);

impl Ports {
    fn free() -> Self {
        Self([(); 5].map(|()| Port::free()))
    }

    fn command(&self) -> Command {
        self.command_with_tls_at(self.0[1].address())
    }

    fn command_with_tls_at(&self, tls: SocketAddr) -> Command {
        let [http, _, admin, demo, dns] = self.0.each_ref().map(Port::address);
        let mut command = Steppe::command();
        command.arg("run");
        for (option, address) in [
            ("--listen", http),
            ("--listen-tls", tls),
            ("--admin", admin),
            ("--demo", demo),
            ("--listen-dns", dns),
        ] {
            command.arg(option).arg(address.to_string());
        }
        command
    }
}

fn started(command: Command) -> Process {
    let node = Process::start("steppe", command);
    eventually("the banner", || node.said().contains("Ctrl-C drains"));
    node
}

/// Runs a `curl` command of the banner; returns its output.
fn try_it(command: &str) -> String {
    let words: Vec<_> = command.split_whitespace().collect();
    let output = Command::new(words[0])
        .args(["-sS", "--max-time", "20", "--noproxy", "*"])
        .args(&words[1..])
        .output()
        .expect("curl is there");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_banner_tells_what_works_https_included() {
    let ports = Ports::free();
    let mut node = started(ports.command());
    let said = node.said();
    let commands: Vec<_> = said.lines().map(str::trim).collect();
    let curls = commands.iter().filter(|line| line.starts_with("curl "));
    let curls: Vec<_> = curls.filter(|line| !line.contains(" -N ")).collect();
    assert_eq!(curls.len(), 3, "{said}");
    for command in &curls {
        assert!(!try_it(command).is_empty(), "{command}");
    }
    let https = curls.iter().find(|line| line.contains(" https://"));
    let https = https.unwrap_or_else(|| panic!("{said}"));
    let url = format!(" https://{}/", ports.0[1].address());
    assert!(https.ends_with(&url), "{https}");
    let cert = https.split_whitespace().nth(2).expect("a file");
    assert!(Path::new(cert).exists(), "{https}");
    let dns = ports.0[4].address();
    let dig = format!("dig @{} -p {} demo.home.arpa", dns.ip(), dns.port());
    assert!(commands.contains(&dig.as_str()), "{said}");
    let (mut dig, options) = (Command::new("dig"), ["+short", "+tries=1"]);
    let words = commands.iter().find(|line| line.starts_with("dig "));
    let words = words.expect("it is there").split(' ').skip(1);
    let answer = dig
        .args(words)
        .args(options)
        .output()
        .expect("dig is there");
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "127.0.0.1\n");
    node.signal(Signal::TERM);
    assert!(node.wait(PATIENCE).success());
    assert!(!Path::new(cert).exists(), "it is removed");
}

#[test]
fn a_port_for_https_that_is_taken_is_told_with_the_option_that_moves_it() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("it is bound");
    let ports = Ports::free();
    let mut node = Process::start("steppe", ports.command_with_tls_at(address));
    assert_eq!(node.wait(PATIENCE).code(), Some(3));
    let said = node.said();
    assert!(said.contains(&address.to_string()), "{said}");
    assert!(said.contains("--listen-tls"), "{said}");
}

/// A read-only image has no writable folder for a certificate.
#[test]
fn without_a_folder_for_temporary_files_it_goes_without_https() {
    let ports = Ports::free();
    let mut command = ports.command();
    command.env("TMPDIR", "/dev/null/none");
    let node = started(command);
    eventually("the log says so", || {
        node.said().contains("cannot write a certificate")
    });
    let said = node.said();
    assert!(!said.contains("https://"), "{said}");
    assert!(!try_it(&format!("curl http://{}/", ports.0[0].address())).is_empty());
}
