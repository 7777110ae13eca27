//! A real nginx as an origin.

use std::ffi::OsString;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::peer::PATIENCE;
use crate::{Namespace, Port, Process, Scratch, eventually};

/// nginx in the foreground, one worker, in a directory of its own.
#[derive(Debug)]
pub struct Nginx {
    process: Process,
    program: Vec<OsString>,
    address: SocketAddr,
    _port: Option<Port>,
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
        Self::start_speaking("", server)
    }

    /// As [`Nginx::start`], for clients of HTTP/2 with prior knowledge (RFC 9113 §3.3).
    ///
    /// # Panics
    /// As [`Nginx::start`].
    pub fn start_h2c(server: &str) -> Self {
        Self::start_speaking("http2", server)
    }

    fn start_speaking(protocol: &str, server: &str) -> Self {
        let port = Port::free();
        let mut nginx = Self::run(&[], (port.address(), protocol), server);
        nginx._port = Some(port);
        nginx
    }

    /// Starts nginx at `address`, whose port the caller holds.
    ///
    /// # Panics
    /// As [`Nginx::start`].
    pub fn start_at(address: SocketAddr, server: &str) -> Self {
        Self::run(&[], (address, ""), server)
    }

    /// Starts nginx inside a network namespace.
    ///
    /// # Panics
    /// As [`Nginx::start`].
    pub fn start_within(namespace: &Namespace, server: &str) -> Self {
        // No other program has ports there.
        let address = SocketAddr::new(namespace.address().into(), 8080);
        Self::run(&namespace.prefix(), (address, ""), server)
    }

    fn run(prefix: &[&str], (address, protocol): (SocketAddr, &str), server: &str) -> Self {
        let directory = Scratch::new("nginx");
        let root = directory.join("root");
        std::fs::create_dir_all(&root).expect("a directory can be made in scratch");
        let server = server.replace("{root}", &root.to_string_lossy());
        let config = directory.write(
            "nginx.conf",
            configuration(&format!("{address} {protocol}"), &server),
        );
        let mut words: Vec<OsString> = prefix.iter().map(OsString::from).collect();
        words.extend([program().into(), "-p".into(), directory.path().into()]);
        words.extend(["-e".into(), "stderr".into(), "-c".into(), config.into()]);
        Self {
            process: launch(&words, address),
            program: words,
            address,
            _port: None,
            directory,
        }
    }

    /// The address that nginx listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Kills master and worker at once, as a crash of the machine's software does: open connections
    /// of clients are reset.
    pub fn kill(&mut self) {
        let workers = self.workers();
        // A worker that ends alone is replaced by its master.
        self.process.signal(Signal::STOP);
        send(&workers, Signal::KILL);
        self.process.signal(Signal::KILL);
        self.process.wait(PATIENCE);
    }

    /// Starts nginx again at the same address, after [`Nginx::kill`].
    ///
    /// # Panics
    /// As [`Nginx::start`].
    pub fn restart(&mut self) {
        // Another process reaps the orphaned worker: its socket may be there a moment longer.
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect(self.address).is_ok() {
            assert!(Instant::now() < end, "nginx survived its end");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.process = launch(&self.program, self.address);
    }

    /// Reloads configuration and certificates; new connections see them soon.
    pub fn reload(&self) {
        self.process.signal(Signal::HUP);
    }

    /// Stops the worker by SIGSTOP: its sockets stay, and nothing answers.
    pub fn hang(&self) {
        send(&self.workers(), Signal::STOP);
    }

    /// Lets the worker go on after [`Nginx::hang`].
    pub fn go_on(&self) {
        send(&self.workers(), Signal::CONT);
    }

    /// Process ids of the workers, which accept and answer: the master only watches. nginx listens
    /// before it has a worker, so this waits for one.
    ///
    /// # Panics
    /// When no worker comes in time.
    pub fn workers(&self) -> Vec<u32> {
        let list = format!("/proc/{0}/task/{0}/children", self.id());
        let mut workers = Vec::new();
        eventually("nginx has a worker", || {
            let children = std::fs::read_to_string(&list).expect("the kernel lists children");
            let ids = children.split_whitespace().map(str::parse);
            workers = ids.collect::<Result<_, _>>().expect("ids are numbers");
            !workers.is_empty()
        });
        workers
    }

    /// Writes a file under the root directory.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> std::path::PathBuf {
        self.directory.write(&format!("root/{name}"), content)
    }

    /// The log so far.
    pub fn said(&self) -> String {
        self.process.said()
    }

    /// Process id of the master.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}

/// nginx ends its workers itself when its master is told to stop; a kill would orphan them.
impl Drop for Nginx {
    fn drop(&mut self) {
        if self.process.is_running() {
            self.go_on();
        }
        self.process.signal(Signal::TERM);
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

fn configuration(listen: &str, server: &str) -> String {
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
                listen {listen};
                {server}
            }}
        }}
        "
    )
}

fn launch(words: &[OsString], address: SocketAddr) -> Process {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    let mut process = Process::start("nginx", command);
    await_listener(&mut process, address);
    process
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

fn send(processes: &[u32], signal: Signal) {
    for &id in processes {
        let id = i32::try_from(id).ok().and_then(Pid::from_raw);
        kill_process(id.expect("an id of a process"), signal).expect("it runs");
    }
}
