//! nsd with two zones, one of them signed.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use steppe_testkit::{Port, Process, Scratch, eventually};

pub const SIGNED: &str = "signed.example.";
pub const UNSIGNED: &str = "unsigned.example.";

/// Records of `long`, more than a datagram of 1,232 bytes has room for.
pub const LONG_RECORDS: usize = 40;

/// Names `n0`, `n1`, … of one address each.
pub const NUMBERED: u8 = 40;

/// The address of `forged` that was signed, and the one that is served.
const SIGNED_ADDRESS: &str = "192.0.2.66";
const FORGED_ADDRESS: &str = "192.0.2.99";

/// An authority server that runs.
pub struct Nsd {
    _process: Process,
    _folder: Scratch,
    port: Port,
    /// Public keys of the signed zone, in the format of BIND's tools.
    pub trust_anchors: String,
}

impl Nsd {
    /// Signs a zone and serves both.
    ///
    /// # Errors
    /// The name of the missing program.
    pub fn start() -> Result<Self, String> {
        let folder = Scratch::new("nsd");
        for origin in [SIGNED, UNSIGNED] {
            folder.write(&format!("{origin}zone"), zone(origin));
        }
        let trust_anchors = sign(folder.path())?;
        let port = Port::free();
        folder.write("nsd.conf", configuration(folder.path(), port.number()));
        let mut command = Command::new("nsd");
        command.args(["-d", "-c"]).arg(folder.join("nsd.conf"));
        let version = Command::new("nsd").arg("-v").output();
        version.map_err(|error| format!("nsd: {error}"))?;
        let mut process = Process::start("nsd", command);
        eventually("nsd listens", || {
            assert!(process.is_running(), "nsd ended: {}", process.said());
            TcpStream::connect(port.address()).is_ok()
        });
        Ok(Self {
            _process: process,
            _folder: folder,
            port,
            trust_anchors,
        })
    }

    /// The address of nsd, for UDP and TCP.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }
}

fn zone(origin: &str) -> String {
    let mut text = format!("$ORIGIN {origin}\n$TTL 3600\n");
    text += "@ SOA ns hostmaster 1 3600 600 86400 300\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.7\n";
    text += &format!("forged A {SIGNED_ADDRESS}\n");
    for number in 0..LONG_RECORDS {
        text += &format!("long TXT \"{number} {}\"\n", "t".repeat(60));
    }
    for number in 0..NUMBERED {
        text += &format!("n{number} A 192.0.2.{number}\n");
    }
    text
}

/// Signs the zone with NSEC3, then has one of its records changed, and returns the trust anchor.
fn sign(folder: &Path) -> Result<String, String> {
    let ldns = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        let output = command.args(args).current_dir(folder).output();
        let output = output.map_err(|error| format!("{program}: {error}"))?;
        assert!(output.status.success(), "{program}: {output:?}");
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let made = ["-a", "ECDSAP256SHA256", SIGNED];
    let [key_signing, zone_signing] = [
        ldns("ldns-keygen", &[&["-k"], &made[..]].concat())?,
        ldns("ldns-keygen", &made)?,
    ];
    let file = format!("{SIGNED}zone");
    let args = [
        "-n",
        "-f",
        "signed.zone",
        &file,
        &key_signing,
        &zone_signing,
    ];
    ldns("ldns-signzone", &args)?;
    let path = folder.join("signed.zone");
    let text = fs::read_to_string(&path).expect("it was signed");
    assert!(text.contains(SIGNED_ADDRESS), "{text}");
    let forged = text.replace(SIGNED_ADDRESS, FORGED_ADDRESS);
    fs::write(&path, forged).expect("can be written");
    let key = fs::read_to_string(folder.join(format!("{key_signing}.key"))).expect("a key");
    // NAME TTL? CLASS DNSKEY FLAGS PROTOCOL ALGORITHM KEY ;comment
    let record = key.split(';').next().unwrap_or_default();
    let data = record.split("DNSKEY").nth(1).expect("a DNSKEY record");
    let words: Vec<_> = data.split_whitespace().collect();
    let (numbers, key) = (words[..3].join(" "), words[3..].concat());
    Ok(format!(
        "trust-anchors {{ \"{SIGNED}\" static-key {numbers} \"{key}\"; }};\n"
    ))
}

fn configuration(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    format!(
        r#"
server:
  ip-address: 127.0.0.1
  port: {port}
  username: ""
  chroot: ""
  zonesdir: "{folder}"
  database: ""
  pidfile: "{folder}/nsd.pid"
  xfrdfile: "{folder}/xfrd.state"
  zonelistfile: "{folder}/zone.list"
remote-control:
  control-enable: no
zone:
  name: {UNSIGNED}
  zonefile: {UNSIGNED}zone
zone:
  name: {SIGNED}
  zonefile: signed.zone
"#
    )
}
