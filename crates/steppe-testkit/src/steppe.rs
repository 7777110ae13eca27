//! The node under test.

use std::env;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

use crate::peer::PATIENCE;
use crate::{
    Cgroup, Message, Metrics, NameServer, NodeConfig, Peer, Port, Process, Scratch, Wire,
    callgrind, open_files,
};

/// A running node, with a configuration and ports of its own.
#[derive(Debug)]
pub struct Steppe {
    process: Process,
    gateway: Port,
    admin: Port,
    _held: Vec<Port>,
    placeholders: Placeholders,
    scratch: Scratch,
}

/// The builder of a node: values of its configuration, its files, its environment and its limits.
///
/// In the configuration `{gateway}` and `{admin}` stand for free addresses, `{scratch}` for a
/// directory of the test's own; further `{name}`s are given with [`SteppeBuilder::with`].
#[derive(Debug)]
pub struct SteppeBuilder<'a> {
    names: Vec<(String, String)>,
    held: Vec<Port>,
    cgroup: Option<&'a Cgroup>,
    names_from: Option<&'a NameServer>,
    is_counted: bool,
    open_files: Option<u32>,
    environment: Vec<(String, String)>,
    scratch: Scratch,
}

/// Values of `{name}`s in a configuration.
#[derive(Debug)]
struct Placeholders {
    gateway: SocketAddr,
    /// Names and values in the order of replacement; of several values of one name, the first counts.
    values: Vec<(String, String)>,
}

/// The configuration's file, in the scratch directory.
const CONFIG: &str = "steppe.toml";

impl<'a> SteppeBuilder<'a> {
    /// Replaces `{name}` in the configuration.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.names.push((format!("{{{name}}}"), value.to_string()));
        self
    }

    /// Replaces `{name}` by the number of a free port, which is held while the node runs.
    #[must_use]
    pub fn with_port(mut self, name: &str) -> (Self, u16) {
        let port = Port::free();
        let number = port.number();
        self.held.push(port);
        (self.with(name, number), number)
    }

    /// Puts a file into the directory that `{scratch}` stands for.
    #[must_use]
    pub fn with_file(self, name: &str, content: &str) -> Self {
        self.scratch.write(name, content);
        self
    }

    /// Runs the node in a cgroup.
    #[must_use]
    pub fn in_cgroup(mut self, cgroup: &'a Cgroup) -> Self {
        self.cgroup = Some(cgroup);
        self
    }

    /// Makes this server the node's only resolver.
    #[must_use]
    pub fn asking(mut self, server: &'a NameServer) -> Self {
        self.names_from = Some(server);
        self
    }

    /// Counts the node's instructions: see [`Steppe::instructions`]. The node is several times slower then.
    #[must_use]
    pub fn counted(mut self) -> Self {
        self.is_counted = true;
        self
    }

    /// Lets the node open so many files, and raise that limit no further.
    #[must_use]
    pub fn with_open_files(mut self, count: u32) -> Self {
        self.open_files = Some(count);
        self
    }

    /// Sets a variable of the node's environment, in whose value `{scratch}` is replaced too.
    #[must_use]
    pub fn with_env(mut self, name: &str, value: &str) -> Self {
        let value = value.replace("{scratch}", &self.scratch.path().to_string_lossy());
        self.environment.push((name.to_owned(), value));
        self
    }

    /// Runs `steppe` with `args` and the configuration's file; returns its exit status and its output.
    ///
    /// # Panics
    /// When it doesn't end in time.
    #[track_caller]
    pub fn run(self, args: &[&str], config: impl Display) -> (ExitStatus, String) {
        let (gateway, admin) = (Port::free(), Port::free());
        let config = self
            .placeholders(&gateway, &admin)
            .write(config, &self.scratch);
        let mut command = self.command();
        command.args(args).arg(config);
        let mut process = Process::start("steppe", command);
        let status = process.wait(PATIENCE);
        (status, process.said())
    }

    /// Starts the node with a [`NodeConfig`] or raw TOML and waits until it is ready.
    ///
    /// # Panics
    /// When it ends or doesn't get ready in time.
    #[track_caller]
    pub fn start(self, config: impl Display) -> Steppe {
        let (gateway, admin) = (Port::free(), Port::free());
        let placeholders = self.placeholders(&gateway, &admin);
        let config = placeholders.write(config, &self.scratch);
        let mut command = self.command();
        command.arg("run").arg("-c").arg(&config);
        let process = Process::start("steppe", command);
        let scratch = self.scratch;
        let patience = PATIENCE
            * if self.is_counted {
                callgrind::SLOWER
            } else {
                1
            };
        let mut node = Steppe {
            process,
            gateway,
            admin,
            _held: self.held,
            placeholders,
            scratch,
        };
        node.await_ready(patience);
        node
    }

    fn command(&self) -> Command {
        let mut command = self.plain_command();
        command.envs(self.environment.iter().cloned());
        command
    }

    fn plain_command(&self) -> Command {
        if self.is_counted {
            let mut command = callgrind::command(Steppe::program(), &self.scratch);
            // The node's RSS is mostly valgrind's.
            command.env("STEPPE_UNCHARGED", "off");
            return command;
        }
        match (self.cgroup, self.names_from) {
            (Some(cgroup), _) => cgroup.command(Steppe::program()),
            (None, Some(server)) => {
                let mut command = Command::new("unshare");
                let mount = "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
                command.args(["-m", "/bin/sh", "-c", mount]);
                command.arg(server.settings()).arg(Steppe::program());
                command
            }
            (None, None) => match self.open_files {
                Some(count) => open_files::command(Steppe::program(), count),
                None => Command::new(Steppe::program()),
            },
        }
    }

    fn placeholders(&self, gateway: &Port, admin: &Port) -> Placeholders {
        let mut values = vec![
            ("{gateway}".to_owned(), gateway.address().to_string()),
            ("{admin}".to_owned(), admin.address().to_string()),
            (
                "{scratch}".to_owned(),
                self.scratch.path().to_string_lossy().into_owned(),
            ),
        ];
        values.extend_from_slice(&self.names);
        Placeholders {
            gateway: gateway.address(),
            values,
        }
    }
}

impl Placeholders {
    /// Writes the configuration's file with the values, and with the keys of TLS where the run has it.
    fn write(&self, config: impl Display, scratch: &Scratch) -> PathBuf {
        let text = config.to_string();
        let fill = |text: String, (name, value): &(String, String)| text.replace(name, value);
        let mut text = self.values.iter().fold(text, fill);
        if let Some(wire) = Wire::of_run().credentials() {
            let directory = scratch.path().to_string_lossy();
            text = wire.add_keys(text, self.gateway, &directory);
            scratch.write("wire.pem", &wire.node.cert);
            scratch.write("wire.key", &wire.node.key);
            scratch.write("wire-ca.pem", &wire.ca);
        }
        let draft = scratch.write("steppe.toml.new", text);
        let file = scratch.join(CONFIG);
        std::fs::rename(draft, &file).expect("it can be replaced");
        file
    }
}

impl Steppe {
    /// The program that cargo built for the running test.
    ///
    /// Cargo builds it before the integration tests of the package `steppe`, into the folder above theirs. For them
    /// alone: tests of another package don't depend on it, and would start the program of an earlier build.
    ///
    /// # Panics
    /// When it isn't there.
    #[track_caller]
    pub fn program() -> &'static str {
        static PROGRAM: OnceLock<String> = OnceLock::new();
        PROGRAM.get_or_init(find_program)
    }

    /// A command that runs the node's program, without arguments.
    #[track_caller]
    pub fn command() -> Command {
        Command::new(Self::program())
    }

    /// Prepares to run the node.
    pub fn builder<'a>() -> SteppeBuilder<'a> {
        SteppeBuilder {
            names: Vec::new(),
            held: Vec::new(),
            cgroup: None,
            names_from: None,
            is_counted: false,
            open_files: None,
            environment: Vec::new(),
            scratch: Scratch::new("node"),
        }
    }

    /// A node with [`NodeConfig::plain`] in front of `origin`.
    #[track_caller]
    pub fn in_front_of(origin: impl ToString) -> Self {
        let builder = Self::builder().with("origin", origin);
        builder.start(NodeConfig::plain())
    }

    /// The address of the gateway.
    pub fn gateway(&self) -> SocketAddr {
        self.gateway.address()
    }

    /// The address of the admin listener.
    pub fn admin(&self) -> SocketAddr {
        self.admin.address()
    }

    /// The directory `{scratch}` stood for.
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// A URL on the gateway.
    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", Wire::of_run().scheme(), self.gateway())
    }

    /// The node's process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Lets the node open just `count` descriptors more than it has.
    ///
    /// # Panics
    /// When the system doesn't let its limit be set.
    #[track_caller]
    pub fn limit_descriptors_left(&self, count: u64) {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.id()))
            .expect("its descriptors are listed")
            .count();
        let limit = Some(open as u64 + count);
        let pid = i32::try_from(self.id()).ok().and_then(Pid::from_raw);
        let limits = Rlimit {
            current: limit,
            maximum: limit,
        };
        prlimit(pid, Resource::Nofile, limits).expect("its limit can be set");
    }

    /// Instructions of a node that is [counted](SteppeBuilder::counted), spent on `work` within functions whose name
    /// has `within`, such as `"steppe_http::"`; callees count under their own names.
    #[track_caller]
    pub fn instructions(&self, within: &str, work: impl FnOnce()) -> u64 {
        callgrind::count(self.id(), &self.scratch, within, work)
    }

    /// The node's log so far.
    pub fn said(&self) -> String {
        self.process.said()
    }

    /// True while the node runs.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Opens a connection to the gateway.
    #[track_caller]
    pub fn connect(&self) -> Peer {
        Wire::of_run().introduce(Peer::connect(self.gateway()))
    }

    /// As [`Peer::connect_from`], to the gateway.
    #[track_caller]
    pub fn connect_from(&self, from: IpAddr) -> Peer {
        Wire::of_run().introduce(Peer::connect_from(from, self.gateway()))
    }

    /// As [`Peer::connect_narrow`], to the gateway.
    #[track_caller]
    pub fn connect_narrow(&self, receive_bytes: usize) -> Peer {
        Wire::of_run().introduce(Peer::connect_narrow(self.gateway(), receive_bytes))
    }

    /// Sends one request over a connection of its own and reads the response to a GET.
    #[track_caller]
    pub fn exchange(&self, request: impl AsRef<[u8]>) -> Message {
        self.connect().send(request).response()
    }

    /// GETs a path of admin.
    #[track_caller]
    pub fn admin_get(&self, path: &str) -> Message {
        let host = self.admin();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        Peer::connect(self.admin()).send(request).response()
    }

    /// GETs JSON from a path of admin.
    ///
    /// # Panics
    /// When the answer isn't 200 with JSON.
    #[track_caller]
    pub fn admin_json(&self, path: &str) -> serde_json::Value {
        let answer = self.admin_get(path);
        assert_eq!(answer.status(), 200, "{path}: {}", answer.text());
        serde_json::from_slice(&answer.body)
            .unwrap_or_else(|error| panic!("{path}: {error}: {}", answer.text()))
    }

    /// Scrapes `/metrics`.
    ///
    /// # Panics
    /// When the answer isn't 200.
    #[track_caller]
    pub fn metrics(&self) -> Metrics {
        let answer = self.admin_get("/metrics");
        assert_eq!(answer.status(), 200, "/metrics: {}", answer.text());
        Metrics::parse(&answer.text())
    }

    /// POSTs to a path of admin.
    #[track_caller]
    pub fn admin_post(&self, path: &str) -> Message {
        let host = self.admin();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        Peer::connect(self.admin()).send(request).response()
    }

    /// The text of the node's configuration, as the file has it now.
    ///
    /// # Panics
    /// When the file can't be read.
    #[track_caller]
    pub fn config(&self) -> String {
        std::fs::read_to_string(self.scratch.join(CONFIG)).expect("it is there")
    }

    /// Replaces the configuration's file as a whole. `{name}`s stand for the same as at the node's start.
    ///
    /// # Panics
    /// When the file can't be written.
    #[track_caller]
    pub fn set_config(&self, config: impl Display) {
        self.placeholders.write(config, &self.scratch);
    }

    /// Asks the node to read its configuration again (SIGHUP), and doesn't wait.
    pub fn hang_up(&self) {
        self.process.signal(Signal::HUP);
    }

    /// Asks the node to open its log files again (SIGUSR1), and doesn't wait.
    pub fn reopen_logs(&self) {
        self.process.signal(Signal::USR1);
    }

    /// Asks the node to stop (SIGTERM) and doesn't wait.
    pub fn terminate(&self) {
        self.process.signal(Signal::TERM);
    }

    /// Waits for the node's end.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait(PATIENCE)
    }

    /// Stops the node with SIGTERM and returns its exit status.
    #[track_caller]
    pub fn stop(mut self) -> ExitStatus {
        self.terminate();
        self.wait()
    }

    #[track_caller]
    fn await_ready(&mut self, patience: Duration) {
        let end = Instant::now() + patience;
        while !self.is_ready() {
            if !self.is_running() {
                let status = self.wait();
                panic!("steppe ended at once ({status}): {}", self.said());
            }
            assert!(Instant::now() < end, "steppe isn't ready: {}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn is_ready(&self) -> bool {
        use std::io::{Read as _, Write as _};
        let Ok(mut stream) = std::net::TcpStream::connect(self.admin()) else {
            return false;
        };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
        let sent = stream
            .write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        sent.is_ok() && read.is_ok() && answer.get(8..12) == Some(b" 200")
    }
}

fn find_program() -> String {
    // `target/debug/deps/gateway-…` has `target/debug/steppe` beside its folder.
    let test = env::current_exe().expect("a test program has a path");
    let program = (test.ancestors().nth(2)).map(|folder| folder.join("steppe"));
    let program = program.expect("a test program lies in `deps`");
    assert!(program.is_file(), "no node at {}", program.display());
    program.into_os_string().into_string().expect("UTF-8")
}
