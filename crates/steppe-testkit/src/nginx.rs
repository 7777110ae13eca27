//! A real nginx as an origin.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::peer::PATIENCE;
use crate::{Port, Process, Scratch};

/// nginx in the foreground, one worker, in a directory of its own.
#[derive(Debug)]
pub struct Nginx {
    process: Process,
    port: Port,
    directory: Scratch,
}

impl Nginx {
    /// Starts nginx with `server` inside its only `server {}` block.
    ///
    /// `{root}` in it stands for the directory that [`Nginx::file`] writes to.
    ///
    /// # Panics
    /// When nginx isn't installed, refuses the configuration, or doesn't listen in time.
    pub fn start(server: &str) -> Self {
        let port = Port::free();
        let directory = Scratch::new("nginx");
        let root = directory.join("root");
        std::fs::create_dir_all(&root).expect("a directory can be made in scratch");
        let server = server.replace("{root}", &root.to_string_lossy());
        let config = directory.write("nginx.conf", configuration(&port, &server));
        let mut command = Command::new(program());
        command
            .arg("-p")
            .arg(directory.path())
            .arg("-e")
            .arg("stderr")
            .arg("-c")
            .arg(config);
        let mut process = Process::start("nginx", command);
        await_listener(&mut process, port.address());
        Self {
            process,
            port,
            directory,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Writes a file under its root.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> std::path::PathBuf {
        self.directory.write(&format!("root/{name}"), content)
    }

    /// What it logged.
    pub fn said(&self) -> String {
        self.process.said()
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}

/// nginx ends its workers itself when its master is told to stop; a kill would orphan them.
impl Drop for Nginx {
    fn drop(&mut self) {
        self.process.signal(rustix::process::Signal::TERM);
        let end = Instant::now() + Duration::from_secs(2);
        while self.process.is_running() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn program() -> &'static str {
    let debian = "/usr/sbin/nginx";
    if std::path::Path::new(debian).exists() {
        debian
    } else {
        "nginx"
    }
}

fn configuration(port: &Port, server: &str) -> String {
    let user = if rustix::process::geteuid().is_root() {
        "user root;"
    } else {
        ""
    };
    format!(
        "daemon off; worker_processes 1; pid nginx.pid; error_log stderr warn; {user}
        worker_rlimit_nofile 16384;
        events {{ worker_connections 8192; }}
        http {{
            access_log off;
            default_type application/octet-stream;
            keepalive_requests 1000000;
            client_max_body_size 0;
            client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
            uwsgi_temp_path uwsgi; scgi_temp_path scgi;
            server {{
                listen 127.0.0.1:{};
                {server}
            }}
        }}
        ",
        port.number()
    )
}

fn await_listener(process: &mut Process, address: SocketAddr) {
    let end = Instant::now() + PATIENCE;
    while TcpStream::connect(address).is_err() {
        assert!(process.is_running(), "nginx ended: {}", process.said());
        assert!(
            Instant::now() < end,
            "nginx doesn't listen: {}",
            process.said()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
