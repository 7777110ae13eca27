//! A real name server, and resolver settings that name it.
//!
//! dnsmasq answers from a file of hosts, which a test changes. It listens at port 53 of a loopback
//! address of its own, since resolver settings can't name another port; the node gets settings
//! (`/etc/resolv.conf`) of its own in a mount namespace. Both take root.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::peer::PATIENCE;
use crate::{Process, Scratch};

/// A name server for the test's names.
#[derive(Debug)]
pub struct NameServer {
    process: Process,
    address: Ipv4Addr,
    scratch: Scratch,
}

impl NameServer {
    /// Starts the server with the addresses in `hosts`, one pair for each name.
    ///
    /// # Errors
    /// The reason why this machine doesn't allow it, for the message of a skipped test.
    ///
    /// # Panics
    /// When dnsmasq ends at once.
    pub fn start(hosts: &[(&str, Ipv4Addr)]) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("port 53 and a mount namespace take root".to_owned());
        }
        if !works(&["dnsmasq", "--version"]) {
            return Err("dnsmasq is not installed".to_owned());
        }
        if !works(&["unshare", "-m", "true"]) {
            return Err("no mount namespace can be made".to_owned());
        }
        let (address, scratch) = (own_address(), Scratch::new("names"));
        scratch.write("hosts", hosts_text(hosts));
        let options = "options timeout:1 attempts:1\n";
        scratch.write("resolv.conf", format!("nameserver {address}\n{options}"));
        let process = launch(address, &scratch);
        Ok(Self {
            process,
            address,
            scratch,
        })
    }

    /// Gives names other addresses.
    pub fn set(&self, hosts: &[(&str, Ipv4Addr)]) {
        self.scratch.write("hosts", hosts_text(hosts));
        // dnsmasq reads its hosts again.
        self.process.signal(Signal::HUP);
    }

    /// Kills the server.
    pub fn kill(&mut self) {
        self.process.signal(Signal::KILL);
        self.process.wait(PATIENCE);
    }

    /// Starts the server again, after [`NameServer::kill`].
    ///
    /// # Panics
    /// When dnsmasq ends at once.
    pub fn restart(&mut self) {
        self.process = launch(self.address, &self.scratch);
    }

    /// The file of settings that name this server, to be mounted over `/etc/resolv.conf`.
    pub(crate) fn settings(&self) -> PathBuf {
        self.scratch.join("resolv.conf")
    }
}

/// Each server has a loopback address of its own, of this process's share of 127/8.
fn own_address() -> Ipv4Addr {
    static COUNT: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high | 0x80, low, COUNT.fetch_add(1, Ordering::Relaxed))
}

fn hosts_text(hosts: &[(&str, Ipv4Addr)]) -> String {
    let lines = hosts.iter().map(|(name, ip)| format!("{ip} {name}\n"));
    lines.collect()
}

fn launch(address: Ipv4Addr, scratch: &Scratch) -> Process {
    let mut command = Command::new("dnsmasq");
    command
        .args([
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--user=root",
        ])
        .args([
            "--pid-file=",
            "--no-resolv",
            "--no-hosts",
            "--log-facility=-",
        ])
        .args(["--bind-interfaces", "--local-ttl=1", "--local=/test/"])
        .arg(format!("--listen-address={address}"))
        .arg(format!("--addn-hosts={}", scratch.join("hosts").display()));
    let mut process = Process::start("dnsmasq", command);
    let (tcp, end) = (
        SocketAddr::new(address.into(), 53),
        Instant::now() + PATIENCE,
    );
    while TcpStream::connect(tcp).is_err() {
        assert!(process.is_running(), "dnsmasq ended: {}", process.said());
        assert!(Instant::now() < end, "dnsmasq doesn't listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    process
}

/// True if a command can be run and succeeds.
pub(crate) fn works(words: &[&str]) -> bool {
    let output = Command::new(words[0]).args(&words[1..]).output();
    output.is_ok_and(|output| output.status.success())
}
