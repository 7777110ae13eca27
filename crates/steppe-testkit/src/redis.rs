//! A real Redis, which can be stopped and started again.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::peer::PATIENCE;
use crate::{Port, Process};

/// A Redis that keeps nothing on a disk.
#[derive(Debug)]
pub struct RedisServer {
    process: Process,
    address: SocketAddr,
}

impl RedisServer {
    /// Starts an empty Redis.
    ///
    /// # Panics
    /// When Redis is not installed, or ends at once.
    pub fn start() -> Self {
        let address = Port::free().keep();
        Self {
            process: launch(address),
            address,
        }
    }

    /// The URL of its first database.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}/0", self.address)
    }

    /// Stops Redis by SIGSTOP: its socket accepts connections, and nothing answers.
    pub fn pause(&self) {
        self.process.signal(Signal::STOP);
    }

    /// Lets Redis go on, after [`RedisServer::pause`].
    pub fn resume(&self) {
        self.process.signal(Signal::CONT);
    }

    /// Kills Redis.
    pub fn kill(&mut self) {
        self.process.signal(Signal::KILL);
        self.process.wait(PATIENCE);
    }

    /// Starts Redis again, empty, after [`RedisServer::kill`].
    ///
    /// # Panics
    /// When it ends at once.
    pub fn restart(&mut self) {
        self.process = launch(self.address);
    }

    /// The reply to a command without arguments, as it is on the wire.
    ///
    /// # Panics
    /// When it does not answer.
    #[must_use]
    pub fn ask(&self, command: &str) -> String {
        let mut socket = TcpStream::connect(self.address).expect("it listens");
        socket
            .write_all(format!("{command}\r\nQUIT\r\n").as_bytes())
            .expect("it takes it");
        let mut said = String::new();
        socket.read_to_string(&mut said).expect("it answers");
        said
    }
}

fn launch(address: SocketAddr) -> Process {
    let mut command = Command::new("redis-server");
    command
        .args(["--bind", &address.ip().to_string()])
        .args(["--port", &address.port().to_string()])
        .args(["--save", "", "--appendonly", "no"]);
    let mut process = Process::start("redis-server", command);
    let end = Instant::now() + PATIENCE;
    while TcpStream::connect(address).is_err() {
        assert!(process.is_running(), "redis ended: {}", process.said());
        assert!(Instant::now() < end, "redis doesn't listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    process
}
