//! A gateway before a server that answers every request alike, over Unix sockets: as many
//! connections as there are inputs would use up ports.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use steppe_http::config::{self, Listener, Route, Servers, Target, Upstream, UpstreamKind};
use steppe_mem::{AccountReport, Budget};
use steppe_net::{ListenAddress, ServerAddress, bind};

use super::in_process::{InProcess, Setup};

/// Prefix of the folder with the sockets of a process, whose number follows.
const FOLDER_PREFIX: &str = "steppe-fuzz-";

pub struct Running {
    socket: PathBuf,
    budget: Budget,
    _gateway: InProcess,
}

impl Running {
    pub fn start() -> Self {
        remove_folders_of_ended_processes();
        let folder = std::env::temp_dir().join(format!("{FOLDER_PREFIX}{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let socket = folder.join("gateway");
        let address = ListenAddress::Unix(socket.clone());
        let budget = Budget::new(64 << 20);
        let bound = bind(&address, 1).expect("binds");
        let setup = Setup::of(&budget, configuration(address, origin(&folder)), bound);
        let gateway = InProcess::start(setup, || ());
        Self {
            socket,
            budget,
            _gateway: gateway,
        }
    }

    pub fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.socket).expect("it listens")
    }

    /// Bytes held by connections, streams and exchanges; buffers and exchanges that are kept for the
    /// next client don't count.
    pub fn held_bytes(&self) -> u64 {
        let report = self.budget.report();
        let is_kept = |account: &&AccountReport| ["pool", "exchanges"].contains(&&*account.name);
        let kept = report.children.iter().filter(is_kept);
        report.reserved_bytes - kept.map(|account| account.reserved_bytes).sum::<u64>()
    }
}

/// A static is never dropped, so a process leaves its folder to the next.
fn remove_folders_of_ended_processes() {
    let entries = std::fs::read_dir(std::env::temp_dir()).expect("a folder for temporary files");
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix(FOLDER_PREFIX));
        let process = number.and_then(|number| number.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            // Another process may have removed it.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn configuration(address: ListenAddress, origin: ServerAddress) -> config::Gateway {
    let path = "/{rest*}".parse().expect("valid");
    config::Gateway {
        listeners: vec![Listener::of(address, vec![config::H2C])],
        upstreams: vec![Upstream {
            name: "origin".into(),
            // A connection that is kept is charged.
            kind: UpstreamKind::Servers(Servers {
                keepalive: 0,
                ..Servers::of([origin])
            }),
        }],
        routes: vec![Route {
            total: Some(Duration::from_secs(60)),
            ..Route::of("all", path, Target::Upstream(0))
        }],
        ..config::Gateway::default()
    }
}

fn origin(folder: &Path) -> ServerAddress {
    let socket = folder.join("origin");
    let listener = UnixListener::bind(&socket).expect("binds");
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            std::thread::spawn(move || answer(connection));
        }
    });
    ServerAddress::Unix(socket)
}

/// Answers when a head has come, and reads on until the gateway leaves.
fn answer(mut connection: UnixStream) {
    let mut request = vec![0; 64 << 10];
    let mut filled = 0;
    while let Ok(count @ 1..) = connection.read(&mut request[filled..]) {
        let had_head = ends_head(&request[..filled]);
        filled += count;
        if !had_head && ends_head(&request[..filled]) {
            let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        }
        if filled > request.len() / 2 {
            filled = request.len() / 2;
        }
    }
}

fn ends_head(bytes: &[u8]) -> bool {
    bytes.windows(4).any(|four| four == b"\r\n\r\n")
}
