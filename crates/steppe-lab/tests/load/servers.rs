//! Servers for tests: nginx in a folder of its own, and a scripted server.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use steppe_testkit::Port;

use crate::PATIENCE;

/// A folder that is removed on drop.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("steppe-lab-load-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that is killed on drop.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A real nginx.
pub struct Nginx {
    _process: Process,
    pub addr: SocketAddr,
    pub scratch: Scratch,
}

impl Nginx {
    /// Starts nginx with the body of one `server` block; `listen` has options after the port.
    pub fn start(listen: &str, server: &str) -> Self {
        Self::start_in(Scratch::new(), listen, server)
    }

    pub fn start_in(scratch: Scratch, listen: &str, server: &str) -> Self {
        let addr = free_addr();
        let text = format!(
            "daemon off; master_process off; worker_processes 1; pid nginx.pid; \
             error_log stderr warn;\nevents {{ worker_connections 4096; }}\n\
             http {{ access_log off; client_body_temp_path b; proxy_temp_path p; \
             fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;\n\
             server {{ listen {addr} {listen}; {server} }} }}\n"
        );
        scratch.write("nginx.conf", text);
        let prefix = format!("{}/", scratch.path().display());
        let child = Command::new("nginx")
            .args(["-p", &prefix, "-c", "nginx.conf", "-e", "stderr"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let nginx = Self {
            _process: Process(child),
            addr,
            scratch,
        };
        await_tcp(addr);
        nginx
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }
}

/// A loopback address that nothing listens on.
pub fn free_addr() -> SocketAddr {
    Port::free().keep()
}

pub fn await_tcp(addr: SocketAddr) {
    let end = Instant::now() + PATIENCE;
    while TcpStream::connect(addr).is_err() {
        assert!(Instant::now() < end, "nobody listens at {addr}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A server that hands each connection to a function, on a thread of its own.
pub struct Scripted {
    pub addr: SocketAddr,
    pub connections: Arc<AtomicUsize>,
}

impl Scripted {
    pub fn start(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (serve, count) = (Arc::new(serve), Arc::clone(&connections));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::Relaxed);
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || serve(stream));
            }
        });
        Self { addr, connections }
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.addr)
    }
}

pub const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Reads a request without a body; false at the end of the connection.
pub fn read_request(stream: &mut TcpStream) -> bool {
    let mut buf = [0; 4096];
    let mut len = 0;
    while !buf[..len].ends_with(b"\r\n\r\n") {
        match stream.read(&mut buf[len..]) {
            Ok(read) if read > 0 => len += read,
            _ => return false,
        }
    }
    true
}

/// Answers every request with the same bytes, after a wait.
pub fn answer(mut stream: TcpStream, response: &[u8], wait: Duration) {
    while read_request(&mut stream) {
        std::thread::sleep(wait);
        if stream.write_all(response).is_err() {
            return;
        }
    }
}
