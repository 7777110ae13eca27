//! Real servers with the library preloaded, on ports of the loopback.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use steppe_testkit::{Port, Process, Scratch};

use super::{library, preloaded};

/// A program that serves, until this is dropped.
pub struct Server {
    process: Process,
    address: SocketAddr,
    _port: Port,
    _scratch: Scratch,
}

impl Server {
    /// Starts the command that `command` returns for a folder and an address, and waits until it
    /// listens.
    pub fn start(name: &str, command: impl FnOnce(&Path, SocketAddr) -> Command) -> Self {
        let port = Port::free();
        let address = port.address();
        let scratch = Scratch::new(name);
        let mut process = Process::start(name, command(scratch.path(), address));
        let end = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(address).is_err() {
            let is_up = process.is_running() && Instant::now() < end;
            assert!(is_up, "{name} does not listen: {}", process.said());
            std::thread::sleep(Duration::from_millis(20));
        }
        Self {
            process,
            address,
            _port: port,
            _scratch: scratch,
        }
    }

    /// The address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Expects that the server runs, and has loaded the library.
    #[track_caller]
    pub fn has_library(&mut self) {
        assert!(self.process.is_running(), "{}", self.process.said());
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.process.id()));
        let maps = maps.expect("a process of ours can be read");
        let path = std::fs::canonicalize(library()).expect("it was built");
        assert!(maps.contains(&*path.to_string_lossy()), "{maps}");
    }
}

/// nginx: a page of its own, with gzip and TLS off, one process and its threads.
pub struct Nginx(Server);

impl Nginx {
    /// Starts nginx with a page of 20 KB that it compresses.
    pub fn start() -> Self {
        Self(Server::start("malloc-nginx", |folder, address| {
            let page = "a page of some words, ".repeat(1000);
            std::fs::write(folder.join("page"), page).expect("scratch can be written");
            let config = format!(
                "daemon off; master_process off; error_log stderr; pid pid;\n\
                 events {{ worker_connections 512; }}\n\
                 http {{ access_log off; gzip on; gzip_proxied any; gzip_types *;\n\
                 client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t;\n\
                 uwsgi_temp_path t; scgi_temp_path t;\n\
                 server {{ listen {address}; root {0}; }} }}\n",
                folder.display()
            );
            let file = folder.join("nginx.conf");
            std::fs::write(&file, config).expect("scratch can be written");
            let mut command = preloaded(program("nginx"));
            command
                .arg("-p")
                .arg(folder)
                .args(["-e", "stderr", "-c"])
                .arg(file);
            command
        }))
    }

    /// A URL of the server.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.0.address())
    }

    /// Expects that nginx runs, and has loaded the library.
    #[track_caller]
    pub fn has_library(mut self) {
        self.0.has_library();
    }
}

/// The path of a server, which a user's `PATH` may not have.
pub fn program(name: &str) -> String {
    let path = format!("/usr/sbin/{name}");
    if Path::new(&path).exists() {
        return path;
    }
    name.to_owned()
}
