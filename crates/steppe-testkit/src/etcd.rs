//! A real etcd of one member, which can be stopped and started again on what it has.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::peer::PATIENCE;
use crate::{Port, Process, Scratch};

/// An etcd.
#[derive(Debug)]
pub struct EtcdServer {
    process: Process,
    clients: SocketAddr,
    peers: SocketAddr,
    scratch: Scratch,
}

impl EtcdServer {
    /// Starts one without keys.
    ///
    /// # Panics
    /// When etcd is not installed, or ends at once.
    pub fn start() -> Self {
        let (clients, peers) = (Port::free().keep(), Port::free().keep());
        let scratch = Scratch::new("etcd");
        Self {
            process: launch(clients, peers, &scratch),
            clients,
            peers,
            scratch,
        }
    }

    /// Where clients reach it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.clients)
    }

    /// Kills it; what it has stays.
    pub fn kill(&mut self) {
        self.process.signal(Signal::KILL);
        self.process.wait(PATIENCE);
    }

    /// Loses what it has, after [`EtcdServer::kill`].
    ///
    /// # Panics
    /// When that can't be removed.
    pub fn forget(&self) {
        std::fs::remove_dir_all(self.scratch.join("data")).expect("it is there");
    }

    /// Starts it again, after [`EtcdServer::kill`].
    ///
    /// # Panics
    /// When it ends at once.
    pub fn restart(&mut self) {
        self.process = launch(self.clients, self.peers, &self.scratch);
    }

    /// Runs its own client; what that printed.
    ///
    /// # Panics
    /// When it fails.
    pub fn ctl<const N: usize>(&self, args: [&str; N]) -> String {
        let mut command = Command::new("etcdctl");
        command
            .env("ETCDCTL_API", "3")
            .arg("--endpoints")
            .arg(self.url());
        let output = command.args(args).output();
        let output = output.expect("etcdctl is installed");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "etcdctl {args:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

fn launch(clients: SocketAddr, peers: SocketAddr, scratch: &Scratch) -> Process {
    let (clients_url, peers_url) = (format!("http://{clients}"), format!("http://{peers}"));
    let mut command = Command::new("etcd");
    command.arg("--data-dir").arg(scratch.join("data")).args([
        "--name=test",
        "--logger=zap",
        "--log-outputs=stderr",
        "--log-level=warn",
        "--unsafe-no-fsync=true",
    ]);
    command
        .arg(format!("--listen-client-urls={clients_url}"))
        .arg(format!("--advertise-client-urls={clients_url}"))
        .arg(format!("--listen-peer-urls={peers_url}"))
        .arg(format!("--initial-advertise-peer-urls={peers_url}"))
        .arg(format!("--initial-cluster=test={peers_url}"));
    let mut process = Process::start("etcd", command);
    let end = Instant::now() + PATIENCE;
    while TcpStream::connect(clients).is_err() {
        assert!(process.is_running(), "etcd ended: {}", process.said());
        assert!(Instant::now() < end, "etcd doesn't listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    process
}
