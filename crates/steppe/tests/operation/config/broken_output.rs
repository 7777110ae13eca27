//! Standard output and error that fail: a full disk, a pipe without a reader.

use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::process::{Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use steppe_testkit::{DnsServer, Port, Scratch, Steppe, dns_query, eventually};

/// A way in which writes to a descriptor fail.
#[derive(Debug, Clone, Copy)]
enum Break {
    /// `ENOSPC`.
    FullDisk,
    /// `EPIPE`.
    NoReader,
}

const BREAKS: [Break; 2] = [Break::FullDisk, Break::NoReader];

impl Break {
    fn end(self) -> Stdio {
        match self {
            Self::FullDisk => {
                let full = File::options().write(true).open("/dev/full");
                full.expect("Linux has it").into()
            }
            Self::NoReader => io::pipe().expect("a pipe").1.into(),
        }
    }
}

const COMMANDS: [&[&str]; 17] = [
    &["--help"],
    &["--version"],
    &["version"],
    &["walk"],
    &["schema"],
    &["completions", "bash"],
    &["check", "examples/first.toml"],
    &["check", "examples/gateway.toml"],
    &["check", "nowhere.toml"],
    &["run", "-c", "nowhere.toml"],
    &["run", "-c", "examples/gateway.toml"],
    &["explain", "GET", "http://a/", "-c", "examples/first.toml"],
    &["dns", "explain", "a.example", "-c", "examples/dns.toml"],
    &[
        "dns",
        "query",
        "a.example",
        "@127.0.0.1:9",
        "--timeout",
        "1s",
    ],
    &["cert", "nowhere.pem"],
    &["health", "--admin", "127.0.0.1:9"],
    &["top", "--once", "--admin", "127.0.0.1:9"],
];

#[test]
fn commands_end_with_an_exit_code() {
    for args in COMMANDS {
        let whole = command(args).output().expect("it runs").status;
        for broken in BREAKS {
            let without_output = command(args).stdout(broken.end()).output();
            let without_output = without_output.expect("it runs");
            let said = String::from_utf8_lossy(&without_output.stderr);
            assert!(!said.contains("panicked"), "{args:?} {broken:?}: {said}");
            let code = without_output.status.code();
            let lost = matches!(broken, Break::FullDisk) && whole.success();
            let expected = if lost { Some(1) } else { whole.code() };
            assert_eq!(code, expected, "{args:?} {broken:?}: {said}");
            let without_error = command(args).stderr(broken.end()).output();
            let code = without_error.expect("it runs").status.code();
            assert_eq!(code, whole.code(), "{args:?} {broken:?}");
        }
    }
}

fn command(args: &[&str]) -> Command {
    let mut command = Steppe::command();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    command.args(args).current_dir(root);
    command
}

/// A node with a forwarder that keeps its cache in a file.
struct Node {
    child: std::process::Child,
    scratch: Scratch,
    forwarder: Port,
    admin: Port,
    _server: DnsServer,
}

impl Node {
    /// Starts a node with these descriptors as standard output and error, and waits until it
    /// serves.
    fn start(output: Stdio, error: Stdio) -> Self {
        let server = DnsServer::start(|_| Some(([192, 0, 2, 1].into(), 300)));
        let (scratch, forwarder, admin) = (Scratch::new("stdio"), Port::free(), Port::free());
        let file = scratch.write(
            "steppe.toml",
            format!(
                "[node]\nworkers = 1\nmemory_budget = \"64MiB\"\n[admin]\nlisten = \"{}\"\n\
                 [[dns.listener]]\nlisten = \"{}\"\n[dns.cache]\nsnapshot = \"cache\"\n\
                 [dns.upstream.a]\nservers = [\"udp://{}\"]\n[[dns.rule]]\nforward = \"a\"\n",
                admin.address(),
                forwarder.address(),
                server.address()
            ),
        );
        let mut command = Steppe::command();
        command.args(["run", "-c"]).arg(file);
        command.stdin(Stdio::null()).stdout(output).stderr(error);
        let child = command.spawn().expect("it starts");
        let node = Self {
            child,
            scratch,
            forwarder,
            admin,
            _server: server,
        };
        eventually("it serves", || {
            TcpStream::connect(node.admin.address()).is_ok() && node.resolves()
        });
        node
    }

    fn resolves(&self) -> bool {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let wait = Some(std::time::Duration::from_millis(200));
        socket.set_read_timeout(wait).expect("is set");
        let query = dns_query(7, "a.example", 1);
        let sent = socket.send_to(&query, self.forwarder.address());
        sent.is_ok() && socket.recv(&mut [0; 512]).is_ok()
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("it runs"), signal).expect("it runs");
    }

    fn stop(mut self) -> (ExitStatus, bool) {
        self.signal(Signal::TERM);
        let mut status = None;
        eventually("it ends", || {
            status = self.child.try_wait().expect("it is a child");
            status.is_some()
        });
        (
            status.expect("it ended"),
            self.scratch.path().join("cache").exists(),
        )
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_node_without_output_serves_drains_and_keeps_its_cache() {
    for broken in BREAKS {
        let node = Node::start(broken.end(), broken.end());
        // Makes the node write to its log while it serves.
        node.signal(Signal::USR2);
        node.signal(Signal::USR1);
        assert!(node.resolves());
        let (status, is_kept) = node.stop();
        assert_eq!((status.code(), is_kept), (Some(0), true), "{broken:?}");
    }
}

/// As in `steppe run | head`: the reader ends while the node runs.
#[test]
fn output_that_breaks_before_the_drain_loses_no_file() {
    let (reader, writer) = io::pipe().expect("a pipe");
    let error = writer.try_clone().expect("a descriptor");
    let node = Node::start(writer.into(), error.into());
    drop(reader);
    let (status, is_kept) = node.stop();
    assert_eq!((status.code(), is_kept), (Some(0), true));
}
